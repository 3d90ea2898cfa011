"""Builds the document of a run as plain data (schema 1). Every report is written from this document.

The entries of tests are also sent from xdist's workers to its controller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import Any, Final

from pytest_rageval.core.document import ScoreEntry
from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.core.outcome import Outcome, Places, Score
from pytest_rageval.core.policy import DEFAULT
from pytest_rageval.core.spec import SCORE_KEYWORDS, score_name
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import ThresholdResult, Verdict, excluded_failures_warnings
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.spool import Spool, spooled_map
from pytest_rageval.lib.text import counted
from pytest_rageval.models.usage import Usage
from pytest_rageval.reports.anomalies import anomalies_entry
from pytest_rageval.reports.notes import (
    companion_entry,
    comparisons_entry,
    mean_entry,
    repeats_entry,
    slices_entry,
    votes_entry,
    warnings_entry,
)
from pytest_rageval.stats.intervals import UNIT

questions_entry: Final = Lazy("reports.questions", "questions_entry")  # only where a score dropped, or failed
near_misses: Final = Lazy("evalsets.field_map", "near_misses")  # few eval sets have unknown keys

SCHEMA: Final = 1

REPORTED_KEYS: Final = (
    "nodeid", "evalset", "function", "system", "parameters", "own", "uses", "served", "warnings", "notes", "shard",
    "scores", "cause", "accept", "retrieval", "agreement", "battles", "calibration", "fingerprint", "prompts",
    "questions",
)  # fmt: skip
"""The keys of a test's results that are written to reports."""

BASELINE_BOUNDS: Final = ("max_drop", "max_total_drop", "max_lost")
"""The bounds that compare a score with the baseline."""

Notes = Callable[[Score | None], Mapping[str, Any]]
"""Returns the keys that the definition of a score adds to its entry; the argument is None if there is no score."""


def report_document(  # noqa: PLR0913 - what a report is made of
    tests: Sequence[Mapping[str, Any]],
    *,
    matrix: Sequence[Mapping[str, Any]] = (),
    ratings: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any],
    llm: Mapping[str, Any],
    package: str,
    started: str,
    duration_s: float,
    stopped: bool = False,
    run: Mapping[str, Any] | None = None,
    gate: Mapping[str, Any] | None = None,
    suite: Mapping[str, Any] | None = None,
    merge: str = "",
) -> dict[str, Any]:
    optional = {"run": run, "gate": gate, "suite": suite}
    return {
        "schema": SCHEMA,
        "package": package,
        "started": started,
        "duration_s": round(duration_s, 3),
        "stopped": stopped,
        **{name: dict(entry) for name, entry in optional.items() if entry},
        **({"merge": merge} if merge else {}),
        "settings": dict(settings),
        "llm": dict(llm),
        "tests": [dict(test) for test in tests],
        "matrix": [dict(table) for table in matrix],
        "ratings": [dict(table) for table in ratings],
    }


def has_table(test: Mapping[str, Any]) -> bool:
    """Return True if the table on the terminal lists a test: it has scores, a calibration or an agreement."""
    return bool(test["scores"] or {"agreement", "calibration"} & test.keys())


def threshold_result_entry(
    result: ThresholdResult, notes: Notes | None = None, *, spool: Spool
) -> dict[str, Any]:
    threshold, verdict = result.threshold, result.verdict
    if result.score is None:
        entry = error_entry(threshold.spec, threshold, verdict.reason, notes)
    else:
        entry = score_entry(result.score, threshold, verdict, notes)
    entry = entry if result.early is None else result.early.complete_entry(entry)
    # Questions can explain the verdict that differ from the baseline, or lie beyond a bound.
    is_explained = result.comparison is not None or result.anchor is not None or verdict.status == "fail"
    return {
        **entry,
        **comparisons_entry(result),
        **({"new": True} if result.is_new else {}),
        **warnings_entry(verdict.warnings),
        **slices_entry(result),
        **(questions_entry(result, spool=spool) if is_explained else {}),
    }


def score_entry(
    score: Score,
    threshold: Threshold | None,
    verdict: Verdict | None,
    notes: Notes | None = None,
) -> dict[str, Any]:
    added = {} if notes is None else notes(score)
    triaged = "cases" in added
    entry = {
        "spec": score.spec,
        **_keyword_keys(threshold),
        **_ignored_keys(threshold),
        "where": _tags_to_json(score.slice),
        **mean_entry(score),
        **({"scale": list(score.scale)} if score.scale != UNIT and all(map(isfinite, score.scale)) else {}),
        **repeats_entry(score),
        "oddities": anomalies_entry(score.outcomes, of_slice=bool(score.slice)),
        **({"counts": dict(score.counts)} if score.counts else {}),
        **votes_entry(score),
        **companion_entry(score),
        **added,
        "threshold": None if threshold is None or not threshold.has_bound else _bounds_entry(threshold),
        "baseline": None,
        "verdict": None if verdict is None else verdict.status,
        "reason": None if verdict is None else verdict.reason,
        # If there is a verdict, its warnings include these warnings, and the caller adds them.
        **warnings_entry(list(excluded_failures_warnings(score)) if verdict is None else ()),
        "examples": spooled_map(partial(_example_entry, triaged=triaged), score.outcomes),
    }
    return order_keys(entry)


def error_entry(
    spec: str, threshold: Threshold | None, reason: str, notes: Notes | None = None
) -> dict[str, Any]:
    entry = {
        "spec": spec,
        **_keyword_keys(threshold),
        **_ignored_keys(threshold),
        "where": {} if threshold is None else _tags_to_json(threshold.where),
        **mean_entry(None),
        "oddities": {},
        "threshold": None if threshold is None else _bounds_entry(threshold),
        "baseline": None,
        "verdict": "error",
        "reason": reason,
        **({} if notes is None else notes(None)),
        "examples": [],
    }
    return order_keys(entry)


def order_keys(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in (*ScoreEntry.__annotations__, *entry) if name in entry}


def _example_entry(outcome: Outcome, *, triaged: bool) -> dict[str, Any]:
    """Return the entry of an example; with `triaged` it has its case and its cause even if they are None."""
    evidence = outcome.evidence
    optional = {
        "explanation": evidence.explanation,
        "labels": list(evidence.labels),
        "counts": dict(evidence.counts),
        "judge_votes": asdict(evidence.votes) if evidence.votes.verdicts else {},
        "beside": dict(evidence.beside),
        "places": {} if evidence.places == Places() else evidence.places._asdict(),
    }
    return {
        "id": outcome.example.id,
        "score": outcome.value,
        "unscored": outcome.unscored,
        **({} if outcome.undefined is None else {"undefined": outcome.undefined}),
        **({"case": outcome.case, "lost_by": outcome.lost_by} if triaged else {}),
        **({"lost_by": outcome.lost_by} if outcome.lost_by is not None else {}),
        **{name: value for name, value in optional.items() if value},
    }


def _keyword_keys(threshold: Threshold | None) -> dict[str, Any]:
    keywords = {keyword: getattr(threshold, keyword, None) for keyword in SCORE_KEYWORDS}
    return {keyword: value for keyword, value in keywords.items() if value not in {None, "rank", "gold"}}


def _ignored_keys(threshold: Threshold | None) -> dict[str, Any]:
    return {"ignored": dict(threshold.ignored)} if threshold is not None and threshold.ignored else {}


def _tags_to_json(tags: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: sorted(value, key=str) if isinstance(value, list | tuple | set | frozenset) else value
        for name, value in tags.items()
    }


def _bounds_entry(threshold: Threshold) -> dict[str, Any]:
    """Return the bounds of a threshold and its policy; keywords that later versions added are missing if not set."""
    policy, tested = threshold.policy, threshold.max_drop is not None
    later = {
        "max_total_drop": threshold.max_total_drop,
        "max_lost": threshold.max_lost,
        "max_ratio": threshold.max_ratio,
        "policy": None if policy.name == DEFAULT else policy.name,
        "tolerance": policy.tolerance or None,
        "burden": "beyond" if policy.burden == "beyond" and tested else None,
        "strict": (policy.strict and tested) or None,
        "inconclusive": "fail" if policy.inconclusive == "fail" and tested else None,
        "cluster": policy.fixed_cluster if tested else None,
    }
    return {
        "min": threshold.min,
        "max": threshold.max,
        "max_drop": threshold.max_drop,
        "alpha": policy.alpha if tested else None,
        **{name: value for name, value in later.items() if value is not None},
    }


def evalset_entry(evalset: EvalSet) -> dict[str, Any]:
    warnings = [
        f'the key "{miss.key}" is not read (in {len(miss.ids)} of {counted(len(evalset), "example")}). '
        f'Was "{miss.meant}" meant? Rename the key, or name it in the marker: '
        f'rageval_evalset("…", fields={{"{miss.meant}": "{miss.key}"}}).'
        for miss in (near_misses(evalset) if any(example.extra for example in evalset) else ())
    ]
    part = evalset.part
    optional = (
        {} if part is None else {"sample": part.sample if part.sample < 1 else None, "shard": part.shard}
    )
    return {
        "name": evalset.name,
        "size": len(evalset),
        **({} if part is None else {"of": part.total}),
        **{name: value for name, value in optional.items() if value},
        "digest": evalset.digest,
        **warnings_entry(warnings),
    }


def evalset_text(entry: Mapping[str, Any]) -> str:
    """Return an eval set with its size: "support.jsonl, 240", or "support.jsonl, 24 of 240, sample 0.1"."""
    templates = (("sample", "sample {:g}"), ("shard", "shard {}"))
    parts = "".join(f", {template.format(entry[name])}" for name, template in templates if name in entry)
    of = f" of {entry['of']}" if "of" in entry else ""
    return f"{entry['name']}, {entry['size']}{of}{parts}"


def entry_name(entry: Mapping[str, Any]) -> str:
    return score_name(entry["spec"], entry)


def compared_names(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    return {
        entry_name(entry)
        for entry in entries
        if any((entry["threshold"] or {}).get(keyword) is not None for keyword in BASELINE_BOUNDS)
    }


def sliced_name(entry: Mapping[str, Any]) -> str:
    """Return the name of an entry's score, followed by its slice: "recall@5 [topic=billing]"."""
    where = "".join(f" [{name}={value}]" for name, value in entry["where"].items())
    return f"{entry_name(entry)}{where}"


def usage_entry(usage: Usage) -> dict[str, Any]:
    """Return the model usage: in total, of each server with requests, and of batches."""
    numbers = {**usage.to_dict(), "cost_usd": _cost(usage)}
    order = ("requests", "cached", "live", "failed", "tokens_in", "tokens_out", "cost_usd")
    entry = {name: numbers[name] for name in (*order, "unpriced", "cut", "remarks")}
    servers = {
        name: {key: getattr(server, key) for key in ("live", "tokens_in", "tokens_out")}
        | {"cost_usd": _cost(server)}
        for name, server in sorted(usage.servers.items())
    }
    totals = usage.batches
    batches = {
        **{name: totals[name] for name in ("batches", "replies", "tokens_in", "tokens_out")},
        "cost_usd": None if totals["unpriced"] else round(totals["cost_usd"], 6),
    }
    return (
        entry
        | ({"servers": servers} if servers else {})
        | ({"batches": batches} if totals["batches"] else {})
    )


def _cost(usage: Usage) -> float | None:
    return None if usage.unpriced else round(usage.cost_usd, 6)


def usage_lines(entry: Mapping[str, Any]) -> list[str]:
    """Return the model usage in lines: the total, each server if there are several, and remarks."""
    parts = [f"{counted(entry['requests'], 'reply')}: {entry['cached']} cached, {entry['live']} live"]
    if entry["failed"]:
        parts.append(f"{entry['failed']} failed")
    if entry["live"]:
        parts += _token_and_cost_texts(entry)
    lines = [", ".join(parts)] if entry["requests"] else []
    if batches := entry.get("batches"):
        replies = f"{counted(batches['replies'], 'reply')} came in {counted(batches['batches'], 'batch')}"
        lines.append(", ".join([replies, *_token_and_cost_texts(batches)]))
    servers = entry.get("servers", {})
    if len(servers) > 1:
        lines += [
            ", ".join([f"{name}: {server['live']} live", *_token_and_cost_texts(server)])
            for name, server in servers.items()
        ]
    if entry["cut"]:
        lines.append(
            f"{entry['cut']} {'reply was' if entry['cut'] == 1 else 'replies were'} cut by the token limit"
        )
    return lines + [f"{count} × {remark}" for remark, count in entry["remarks"].items()]


def _token_and_cost_texts(entry: Mapping[str, Any]) -> list[str]:
    """Return the tokens and the cost of an entry, such as "120 tokens in, 8 out" and "0.0021 USD"."""
    cost = entry["cost_usd"]
    price = "price not known" if cost is None else f"{cost:.4f} USD"
    return [f"{entry['tokens_in']} tokens in, {entry['tokens_out']} out", price]
