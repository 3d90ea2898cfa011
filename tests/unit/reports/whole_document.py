"""A document with every key that reports show, and the same document with a text planted in each of its fields."""

from typing import Any

from pytest_rageval.reports.build import report_document

SETTINGS = {"generator": None, "judge": "canonical", "comparator": "judge"}
LLM = {"requests": 0, "cached": 0, "live": 0, "failed": 0, "cut": 0, "remarks": {}}


def whole_document(**keys: Any) -> dict[str, Any]:
    questions = [
        {
            "id": f"q{n}",
            "question": f"How many days {n}?",
            "tags": {"topic": "returns" if n else "plans", "lang": ["en", "de"]},
            "history": ["User: Hello"],
            "filters": {"year": 2026},
            "references": [["five", "5"], ["six"]],
            "reference": "Five days, and six.",
            "gold": ["kb-1", "kb-9"],
            "gold_ranks": {"kb-1": 2, "kb-9": None},
            "gold_texts": {"kb-9": "Gold text nine."},
            "retrieved": [
                {"document": "kb-7", "text": "It takes thirteen weeks."},
                {"document": "kb-1", "text": "Returns take five days.", "gold": True},
                {"document": "kb-8", "text": "It takes thirteen weeks too."},
            ],
            "steps": [{"query": "days of returns", "retrieved": ["kb-1"]}],
            "seconds": 0.25,
            "context_tokens": 77,
        }
        for n in range(3)
    ]
    answer_keys = {
        "k": 2,
        "answer": "thirteen weeks",
        "expected": {"as": "reference", "texts": ["five days"]},
        "explanation": "It says weeks.",
        "remark": "cited nothing",
        "labels": [0.0, 1.0, 0.0],
        "alone": ["weeks", "five", ""],
        "case": "C",
        "lost_by": "retriever",
        "before_retrieved": ["kb-1", "kb-3"],
        "before_answer": "five days",
    }
    examples = [
        {"id": "q0", "score": 1.0, "unscored": None, "before": 0.0, "answer": "five days", "k": 2},
        {"id": "q1", "score": 0.0, "unscored": None, "before": 1.0, **answer_keys},
        {"id": "q2", "score": None, "unscored": "the judge was silent"},
    ]
    baseline = {
        "mean": 0.5,
        "drop": 0.0,
        "n": 2,
        "left_out": 0,
        "removed": 0,
        "new": 0,
        "edited": 0,
        "unscored": 1,
        "worse": ["q1"],
        "better": ["q0"],
        "interval": [-0.1, 0.1],
        "p_value": 0.4,
        "alpha": 0.05,
    }
    entry = {
        "spec": "answer.correct@2",
        "where": {},
        "mean": 0.5,
        "ci95": [0.1, 0.9],
        "n": 2,
        "unscored": 1,
        "undefined": 0,
        "oddities": {},
        "baseline": baseline,
        "verdict": "fail",
        "reason": "it dropped",
        "threshold": {"min": 0.6, "max": None, "max_drop": 0.02, "alpha": 0.05},
        "examples": examples,
    }
    entry_without_threshold = {
        **entry,
        "spec": "recall@2",
        "baseline": None,
        "threshold": None,
        "verdict": None,
        "reason": None,
        "examples": [{"id": f"q{n}", "score": 1.0, "unscored": None} for n in range(3)],
    }
    test = {
        "nodeid": "test_a.py::test_gate",
        "outcome": "failed",
        "message": "as pytest said it",
        "evalset": {"name": "s.jsonl", "size": 3, "digest": "d", "warnings": ["a key is not read"]},
        "scores": [entry, entry_without_threshold],
        "questions": questions,
        "prompts": {"generate": "Answer {question} from {passages}."},
        "fingerprint": {"generator": "m1", "match_share": 0.5},
        "warnings": ["few questions"],
        "calibration": [_calibration()],
    }
    document = report_document(
        [test],
        matrix=[_matrix()],
        ratings=[_ratings()],
        settings=SETTINGS,
        llm=LLM,
        package="0.1.0",
        started="2026-01-01T10:00:00+00:00",
        duration_s=1.0,
    )
    run = {
        "commit": "0123456789abcdef",
        "branch": "main",
        "dirty": True,
        "url": "https://ci.example/1",
        "baseline": {"path": "baseline.json", "commit": "fedcba9876543210", "date": "2026-01-01"},
    }
    return {**document, "run": run, **keys}


def _calibration() -> dict[str, Any]:
    return {
        "labels": "people.csv",
        "scale": "yes/no",
        "n": 9,
        "unscored": 0,
        "undecided": 0,
        "unusable": ['labels.jsonl line 3: "human" is 7.'],
        "people": None,
        "agreement": {"kappa": {"value": 0.7, "ci95": [0.5, 0.9]}},
        "disagreements": [{"id": "item-3", "human": 1.0, "judge": 0.0}],
        "threshold": {"min_kappa": 0.6},
        "verdict": "pass",
        "reason": "within bounds",
    }


def _matrix() -> dict[str, Any]:
    cell = {"mean": 0.9, "n": 3, "best": True, "shared": 3, "p_value": None}
    lower = {"mean": 0.3, "n": 3, "best": False, "shared": 2, "p_value": 0.0, "common": [0.35, 0.85]}
    return {
        "test": "test_a.py::test_gate",
        "parameters": {"k": "5"},
        "evalset": None,
        "alpha": 0.05,
        "scores": ["recall@2"],
        "rows": [
            {"system": {"rageval_retriever": "bm25"}, "cells": [cell]},
            {"system": {"rageval_retriever": "dense"}, "cells": [lower]},
            {"system": {"rageval_retriever": "none"}, "cells": [None]},
        ],
    }


def _ratings() -> dict[str, Any]:
    rows = [
        {"system": "bm25@5", "rating": 1100.0, "ci95": [1050.0, 1150.0], "battles": 20},
        {"system": "reference", "rating": 900.0, "ci95": [850.0, 950.0], "battles": 20},
    ]
    fought = {"battles": 10, "wins": 6, "ties": 2, "losses": 2, "score": 0.7, "ci95": [0.5, 0.8]}
    missing = {"battles": 0, "wins": 0, "ties": 0, "losses": 0, "score": None, "ci95": None}
    pairs = [
        {"system": "bm25@5", "opponent": "reference", **fought, "unscored": {}, "reason": None},
        {
            "system": "bm25@5",
            "opponent": "dense@5",
            **missing,
            "unscored": {},
            "reason": "no process had both",
        },
        {"system": "bm25@5", "opponent": "llm@5", **fought, "unscored": {"no rating": 2}, "reason": None},
    ]
    return {
        "test": "test_a.py::test_arena",
        "evalset": "s.jsonl",
        "systems": rows,
        "reason": None,
        "pairs": pairs,
    }


def planted(value: Any, text: str, key: str = "") -> Any:
    """Return the document with a text appended to each text of the user, of a model, or of a file."""
    if key in {"outcome", "verdict", "why", "scale", "threshold", "oddities", "llm", "settings", "started"}:
        return value
    if isinstance(value, dict):
        free = key in {"tags", "filters", "fingerprint", "prompts", "system", "parameters", "unscored"}
        of_label = key in {"gold_ranks", "gold_texts"}
        return {
            f"{name} {text}" if free or of_label else name: planted(item, text, name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [planted(item, text, key) for item in value]
    return f"{value} {text}" if isinstance(value, str) else value
