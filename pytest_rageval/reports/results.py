"""Results as plain data, schema 1: the document that every report is made of.

Entries also travel from xdist workers to the controller.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.evalsets.field_map import near_misses
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import Ruling, Verdict, uncounted
from pytest_rageval.llm.usage import Usage
from pytest_rageval.model import EvalSet
from pytest_rageval.reports.baseline import baseline_entry
from pytest_rageval.reports.notes import (
    anomalies_entry,
    arena_entry,
    beside_entry,
    case_entry,
    example_beside,
    example_places,
    example_votes,
    factors_entry,
    is_triaged,
    repeats_entry,
    slices_entry,
    triage_entry,
    votes_entry,
)
from pytest_rageval.reports.questions import questions_entry
from pytest_rageval.scores import Outcome, Score

__all__ = [
    "SCHEMA",
    "entry_name",
    "error_entry",
    "evalset_entry",
    "models_text",
    "report_document",
    "ruling_entry",
    "score_entry",
    "sliced_name",
    "usage_entry",
    "usage_lines",
]


def evalset_entry(evalset: EvalSet) -> dict[str, Any]:
    """Its part of a test's entry; with warnings where a key is not read that was probably meant to be."""
    warnings = [
        f'the key "{miss.key}" is not read (in {len(miss.ids)} of {len(evalset)} examples). Was "{miss.meant}" meant? '
        f'Rename it, or say fields={{"{miss.meant}": "{miss.key}"}}.'
        for miss in near_misses(evalset)
    ]
    return {
        "name": evalset.name,
        "size": len(evalset),
        "digest": evalset.digest,
        **({"warnings": warnings} if warnings else {}),
    }


def usage_entry(usage: Usage) -> dict[str, Any]:
    """What was asked of models; the cost is null where a price is not known: it is not guessed."""
    numbers = {**usage.plain(), "cost_usd": None if usage.unpriced else round(usage.cost_usd, 6)}
    order = ("requests", "cached", "live", "failed", "tokens_in", "tokens_out", "cost_usd")
    return {name: numbers[name] for name in (*order, "unpriced", "cut", "remarks")}


def usage_lines(entry: Mapping[str, Any]) -> list[str]:
    """What was asked of models, in a line, and what to know about it, a line each.

    Args:
        entry: as in the JSON report, under `llm`.
    """
    parts = [f"{entry['requests']} replies: {entry['cached']} cached, {entry['live']} live"]
    if entry["failed"]:
        parts.append(f"{entry['failed']} failed")
    if entry["live"]:
        parts.append(f"{entry['tokens_in']} tokens in, {entry['tokens_out']} out")
        parts.append("price not known" if entry["cost_usd"] is None else f"{entry['cost_usd']:.4f} USD")
    lines = [", ".join(parts)] if entry["requests"] else []
    if entry["cut"]:
        lines.append(f"{entry['cut']} replies were cut by the token limit")
    return lines + [f"{count} × {remark}" for remark, count in entry["remarks"].items()]


def models_text(document: Mapping[str, Any]) -> str:
    """What is in force by the options, and how many tests have parts of their own.

    Such as "generator m1, judge m2, compared by judge; own generator in 2 of 3 tests".
    """
    settings, tests = document["settings"], document["tests"]
    own = Counter(part for test in tests for part in test.get("own", ()))
    in_force = f"generator {settings['generator'] or 'none named'}, judge {settings['judge']}"
    others = [f"own {part} in {count} of {len(tests)} tests" for part, count in own.items()]
    return "; ".join([f"{in_force}, compared by {settings['comparator']}", *others])


def entry_name(entry: Mapping[str, Any]) -> str:
    """An entry's score, with the words that set it apart from others of its spec."""
    by = "".join(f" by {entry[word]}" for word in ("comparator", "label") if word in entry)
    return f"{entry['spec']}{by}{' in random order' if 'order' in entry else ''}"


def sliced_name(entry: Mapping[str, Any]) -> str:
    """The same, with the entry's slice."""
    where = "".join(f" [{name}={value}]" for name, value in entry["where"].items())
    return f"{entry_name(entry)}{where}"


def ruling_entry(ruling: Ruling) -> dict[str, Any]:
    """A threshold's end as data: of the whole set, of its slice, or with `by` of the worst slice and all others."""
    threshold, verdict = ruling.threshold, ruling.verdict
    if ruling.score is None:
        entry = error_entry(threshold.spec, threshold, verdict.reason)
    else:
        entry = score_entry(ruling.score, threshold, verdict)
    return {
        **entry,
        "baseline": baseline_entry(ruling.drop),
        **_warnings(verdict.warnings),
        **slices_entry(ruling),
        **questions_entry(ruling),
    }


def score_entry(score: Score, threshold: Threshold | None, verdict: Verdict | None) -> dict[str, Any]:
    """One score as data; `threshold` and `verdict` are None where a test only asked for it."""
    interval = score.ci95
    return {
        "spec": score.spec,
        **_words(threshold),
        "where": _plain(score.slice),
        "mean": float(score),
        "ci95": None if interval is None else list(interval),
        "n": score.n,
        "unscored": score.unscored,
        "undefined": score.undefined,
        **repeats_entry(score),
        "oddities": anomalies_entry(score.outcomes),
        **_counts(score.counts),
        **votes_entry(score),
        **beside_entry(score),
        **factors_entry(score),
        **arena_entry(score),
        "threshold": None if threshold is None or not threshold.bounds else _bounds(threshold),
        "baseline": None,
        "verdict": None if verdict is None else verdict.status,
        "reason": None if verdict is None else verdict.reason,
        **triage_entry(score),
        # A threshold says so itself, where it matters to it.
        **_warnings(uncounted(score) if verdict is None else ()),
        "examples": [_example(score.spec, outcome) for outcome in score.outcomes],
    }


def error_entry(spec: str, threshold: Threshold | None, reason: str) -> dict[str, Any]:
    """A score that could not be had, in the same form."""
    return {
        "spec": spec,
        **_words(threshold),
        "where": {} if threshold is None else _plain(threshold.where),
        "mean": None,
        "ci95": None,
        "n": 0,
        "unscored": 0,
        "undefined": 0,
        "oddities": {},
        "threshold": None if threshold is None else _bounds(threshold),
        "baseline": None,
        "verdict": "error",
        "reason": reason,
        **({"cases": {}, "spearman": {"all": None, "refined": None}} if is_triaged(spec) else {}),
        "examples": [],
    }


def _warnings(told: Iterable[str]) -> dict[str, list[str]]:
    """What a reader should know even of a test that passes; nothing where there is nothing to know."""
    warnings = list(told)
    return {"warnings": warnings} if warnings else {}


def _words(threshold: Threshold | None) -> dict[str, str]:
    """How answers were compared and prompts ordered, where it is another way than that in force."""
    words = {} if threshold is None else {"comparator": threshold.comparator, "label": threshold.label}
    if threshold is not None and threshold.order == "random":
        words["order"] = threshold.order
    return {word: text for word, text in words.items() if text}


def _plain(tags: Mapping[str, Any]) -> dict[str, Any]:
    """Tags in JSON's kinds: a choice of values is a list, whatever it was given as."""
    return {
        name: sorted(value, key=str) if isinstance(value, list | tuple | set | frozenset) else value
        for name, value in tags.items()
    }


def _bounds(threshold: Threshold) -> dict[str, Any]:
    strict = {"strict": True} if threshold.strict else {}
    return {
        "min": threshold.min,
        "max": threshold.max,
        "max_drop": threshold.max_drop,
        "alpha": None if threshold.max_drop is None else threshold.alpha,
        **strict,
    }


def _example(spec: str, outcome: Outcome) -> dict[str, Any]:
    scored = {"id": outcome.example.id, "score": outcome.value, "unscored": outcome.unscored}
    undefined = {} if outcome.undefined is None else {"undefined": outcome.undefined}
    evidence = outcome.evidence
    labels = {"labels": list(evidence.labels)} if evidence.labels else {}
    explanation = {"explanation": evidence.explanation} if evidence.explanation else {}
    beside = {
        **explanation,
        **labels,
        **_counts(evidence.counts),
        **example_votes(outcome),
        **example_beside(outcome),
        **example_places(outcome),
    }
    return {**scored, **undefined, **case_entry(spec, outcome), **beside}


def _counts(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """What was counted beside a score; nothing for scores that count nothing."""
    return {"counts": dict(counts)} if counts else {}


SCHEMA: Final = 1


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
) -> dict[str, Any]:
    """All results of a run, as JSON has them.

    Args:
        tests: a test's node id, outcome, eval set and score entries each.
        matrix: systems × scores, one for each test whose retriever, generator or judge is parametrized.
        ratings: of the systems of parametrized tests, by their battles against the references in the arena.
        settings: what generates and compares where a test says nothing else.
        llm: what was asked of models.
        package: version of this package.
        started: date and time in ISO 8601, with the offset.
        duration_s: of the whole test run, in seconds.
        stopped: whether it was stopped before its end, so that tests may be missing.
    """
    return {
        "schema": SCHEMA,
        "package": package,
        "started": started,
        "duration_s": round(duration_s, 3),
        "stopped": stopped,
        "settings": dict(settings),
        "llm": dict(llm),
        "tests": [dict(test) for test in tests],
        "matrix": [dict(each) for each in matrix],
        "ratings": [dict(table) for table in ratings],
    }
