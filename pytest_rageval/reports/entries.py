"""Results as plain data: the entries of the JSON report, which also travel between workers."""

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_rageval.gate.ruling import Ruling
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import Verdict, uncounted
from pytest_rageval.reports.arena import arena_entry, example_places
from pytest_rageval.reports.baseline import baseline_entry
from pytest_rageval.reports.beside import beside_entry, example_beside
from pytest_rageval.reports.factors import factors_entry
from pytest_rageval.reports.oddities import oddities_entry
from pytest_rageval.reports.questions import questions_entry
from pytest_rageval.reports.repeats import repeats_entry
from pytest_rageval.reports.slices import slices_entry
from pytest_rageval.reports.triage import case_entry, is_triaged, triage_entry
from pytest_rageval.reports.votes import example_votes, votes_entry
from pytest_rageval.scores import Outcome, Score

__all__ = ["entry_name", "error_entry", "ruling_entry", "score_entry", "sliced_name"]


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
        "oddities": oddities_entry(score.outcomes),
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
