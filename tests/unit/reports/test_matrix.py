"""The matrix of systems and scores for tests whose retriever, generator or judge is parametrized."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.reports.systems import matrix_entries, matrix_lines
from tests.unit.reports.entries import error_entry

Values = Sequence[float | None]
EVALSET = {"name": "s.jsonl", "size": 10, "digest": "d"}
LEGEND = [
    "  * highest of its column; ≈ not significantly lower; others significantly lower",
    "    (paired randomisation test, p ≤ 0.05, Bonferroni over all pairs of rows)",
]


def _entry(spec: str, values: Values, **more: Any) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    examples = [
        {"id": f"q{i}", "score": value, "unscored": None if value is not None else "no gold passages"}
        for i, value in enumerate(values)
    ]
    return {"spec": spec, "where": {}, "mean": sum(known) / len(known), "examples": examples} | more


def _test(parts: Mapping[str, str], *entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    system = {f"rageval_{name}": text for name, text in parts.items()}
    return {
        "nodeid": "test_a.py::test_gate[…]",
        "function": "test_a.py::test_gate",
        "evalset": EVALSET,
        "system": system,
        "parameters": {},
        "scores": list(entries),
    } | more


def test_the_best_of_each_column_and_who_may_be_as_good() -> None:
    """10 lost of 10 are p = 6 / 2^10, 1 of 10 is 6 / 2, at most 1; 7 of 10 are 6 / 2^7 = 0.047."""
    tests = [
        _test({"retriever": "bm25"}, _entry("recall@3", [0] * 10), _entry("mrr@3", [0.5] * 10)),
        _test({"retriever": "dense"}, _entry("recall@3", [1] * 10), _entry("mrr@3", [0.5] * 7 + [1] * 3)),
        _test({"retriever": "fusion"}, _entry("recall@3", [1] * 9 + [0]), _entry("mrr@3", [1] * 10)),
    ]
    (matrix,) = matrix_entries(tests)
    assert matrix_lines([matrix]) == [
        "test_a.py::test_gate  (s.jsonl, 10)",
        "  retriever  recall@3   mrr@3",
        "  bm25          0.000   0.500",
        "  dense         1.000*  0.650",
        "  fusion        0.900≈  1.000*",
        "    highest of 2 columns: bm25 0, dense 1, fusion 1",
        *LEGEND,
    ]
    assert matrix["rows"][2] == {
        "system": {"rageval_retriever": "fusion"},
        "cells": [
            {"mean": 0.9, "n": 10, "best": False, "shared": 10, "p_value": 1.0},
            {"mean": 1.0, "n": 10, "best": True, "shared": 10, "p_value": None},
        ],
    }
    p_values = [[cell["p_value"] for cell in row["cells"]] for row in matrix["rows"]]
    assert p_values == [[6 / 1024, 6 / 1024], [None, pytest.approx(0.0196, rel=0.01)], [1.0, None]]


def test_systems_without_scores_have_no_matrix() -> None:
    """Tests without scores, such as those that only compare the judge with people, have no matrix."""
    tests = [_test({"retriever": name}) for name in ("bm25", "dense")]
    assert matrix_entries(tests) == []


def test_rows_are_combinations_and_columns_have_words_and_slices() -> None:
    """A system without a score has a dash; a score on the worst value of a tag is left out."""
    words = {"comparator": "em", "where": {"topic": "billing"}}
    tests = [
        _test(
            {"retriever": retriever, "generator": generator},
            _entry("answer.correct@3", [1, 0], **words),
            _entry("recall@3", [1, 1], by={"tag": "topic", "slices": []}),
            error_entry("hit@3", Threshold("hit@3"), "no")
            if retriever == "bm25"
            else _entry("hit@3", [1, 0]),
        )
        for retriever in ("bm25", "dense")
        for generator in ("gpt", "own")
    ]
    assert matrix_lines(matrix_entries(tests))[1:-2] == [
        "  retriever  generator  answer.correct@3 by em [topic=billing]   hit@3",
        "  bm25       gpt                                         0.500*      -",
        "  bm25       own                                         0.500*      -",
        "  dense      gpt                                         0.500*  0.500*",
        "  dense      own                                         0.500*  0.500*",
        "    highest of 2 columns: bm25 × gpt 1, bm25 × own 1, dense × gpt 2, dense × own 2",
    ]


def test_unscored_examples_are_reported_and_not_paired() -> None:
    """Systems are compared over the questions that both scored; the line below has the numbers of questions."""
    tests = [
        _test({"retriever": "bm25", "judge": "j"}, _entry("recall@3", [None, 0, 0, 1])),
        _test({"retriever": "dense", "judge": "j"}, _entry("recall@3", [1, 1, 1, None])),
        _test({"retriever": "fusion", "judge": "j"}, _entry("recall@3", [1, 0, None, None])),
    ]
    (matrix,) = matrix_entries(tests)
    assert matrix_lines([matrix])[-3] == (
        "    recall@3: n = 3 in the best; bm25 × j 3, compared over 2: 0.000, the best 1.000; "
        "fusion × j 2, compared over 2: 0.500, the best 1.000"
    )
    common = [cell.get("common") for row in matrix["rows"] for cell in row["cells"]]
    assert common == [(0.0, 1.0), None, (0.5, 1.0)]


def test_a_column_of_fewer_questions_says_so() -> None:
    """A column over fewer questions has a line with its n, because its means are next to those over all questions."""
    tests = [
        _test({"retriever": name}, _entry("hit@3", [1, 1, 0]), _entry("rel.citation@3", [1, None, 0]))
        for name in ("bm25", "dense")
    ]
    assert matrix_lines(matrix_entries(tests))[-3:-2] == ["    rel.citation@3: n = 2"]


def test_a_score_that_a_parameter_does_not_change_is_one_column() -> None:
    tests = [
        _test(
            {"generator": name},
            _entry("rel.answer@1", [1, 0], **({"order": order} if order == "random" else {})),
            _entry("rel.coverage@1", [1, 0], **({"ignored": {"order": order}} if order == "random" else {})),
            parameters={"order": order},
        )
        for order in ("rank", "random")
        for name in ("gpt", "own")
    ]
    (matrix,) = matrix_entries(tests)
    assert matrix["scores"] == ["rel.answer@1", "rel.coverage@1", "rel.answer@1 in random order"]


def test_a_wide_matrix_is_continued_below() -> None:
    """A wide matrix is split into blocks with lines of at most 80 characters; five scores fit into one block."""
    specs = ["recall@3", "mrr@10", "ndcg@3", "answer.rougeL@3", "llm_reteval@3", "answer.bertscore@3", "f1@3"]
    tests = [_test({"retriever": name}, *(_entry(spec, [1, 0]) for spec in specs)) for name in ("a", "b")]
    lines = matrix_lines(matrix_entries(tests))
    assert lines[1:-3:3] == [
        "  retriever  recall@3   mrr@10   ndcg@3   answer.rougeL@3   llm_reteval@3",
        "  retriever  answer.bertscore@3    f1@3",
    ]
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("more", [{}, {"order": "random"}])
def test_other_parameters_are_columns_where_they_ask_for_other_scores(more: dict[str, str]) -> None:
    tests = [
        _test({"generator": name}, _entry(f"rel.answer@{k}", [1, 0], **more), parameters={"k": str(k)})
        for k in (1, 2)
        for name in ("gpt", "own")
    ]
    (matrix,) = matrix_entries(tests)
    suffix = " in random order" if more else ""
    assert matrix["scores"] == [f"rel.answer@1{suffix}", f"rel.answer@2{suffix}"]
    assert matrix["parameters"] == {}


def test_other_parameters_part_matrices_where_scores_are_the_same() -> None:
    tests = [
        _test({"retriever": name}, _entry("recall@3", [1, 0]), parameters={"heat": heat})
        for heat in ("0", "1")
        for name in ("a", "b")
    ]
    assert [matrix["parameters"] for matrix in matrix_entries(tests)] == [{"heat": "0"}, {"heat": "1"}]
    lines = matrix_lines(matrix_entries(tests))
    assert lines[0] == "test_a.py::test_gate, heat = 0  (s.jsonl, 10)"
    assert lines[-2:] == LEGEND
    assert len(lines) == 10


def test_eval_sets_are_not_mixed() -> None:
    others = [
        {},
        {"evalset": EVALSET | {"digest": "e"}},
        {"function": "test_b.py::test_gate"},
        {"system": {}},
    ]
    tests = [_test({"retriever": "a"}, _entry("recall@3", [1, 0]), **other) for other in others]
    assert matrix_entries(tests) == []
    assert matrix_lines([]) == []


def test_one_score_under_two_bounds_is_one_column() -> None:
    tests = [
        _test({"retriever": name}, _entry("recall@3", [1, 0]), _entry("recall@3", [1, 0]))
        for name in ("a", "b")
    ]
    assert matrix_entries(tests)[0]["scores"] == ["recall@3"]
