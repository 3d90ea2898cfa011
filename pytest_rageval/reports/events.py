"""Builds OpenTelemetry events from the results of a run, as plain data; `otlp` encodes and sends them.

The attributes have the names of OpenTelemetry's semantic conventions (GenAI 1.41, in development). An attribute that
the conventions do not define has a name that begins with `rageval.`. Events contain no texts of questions, passages or
answers.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from pytest_rageval.digests import digest
from pytest_rageval.reports.results import entry_name

__all__ = ["QUESTION_EVENT", "SCORE_EVENT", "Event", "end_ns", "generate_events", "resource_attributes"]

QUESTION_EVENT: Final = "gen_ai.evaluation.result"
"""The name of the event of one question in one score."""

SCORE_EVENT: Final = "rageval.score"
"""The name of the event of one score of a test.

The conventions define no such event. A mean that was sent as `gen_ai.evaluation.result` would be counted in addition to
the results of its questions.
"""

DIGEST_DIGITS: Final = 16
"""The number of hex digits of a digest in an attribute."""

STATUSES: Final = {"passed": "pass", "failed": "fail", "error": "fail"}
"""The value of `test.case.result.status` for each outcome of a test. The conventions define only "pass" and "fail".

"error" is the outcome of a test whose setup fails, for instance because a score cannot be computed.
"""


class Event(NamedTuple):
    """An event: its name, and attributes whose values are texts, numbers and Booleans."""

    name: str
    attributes: Mapping[str, str | float | bool]


def resource_attributes(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the resource that emits the events: the run, its commit and its models."""
    run, settings = document.get("run", {}), document["settings"]
    baseline = run.get("baseline", {})
    return _drop_missing(
        {
            "service.name": "pytest-rageval",
            "vcs.ref.head.revision": run.get("commit"),
            "vcs.ref.head.name": run.get("branch"),
            "cicd.pipeline.run.url.full": run.get("url"),
            "rageval.run.started": document["started"],
            "rageval.run.dirty": run.get("dirty"),
            "rageval.run.stopped": document["stopped"],
            "rageval.generator": settings.get("generator"),
            "rageval.judge": settings.get("judge"),
            "rageval.baseline.path": baseline.get("path"),
            "rageval.baseline.commit": baseline.get("commit"),
        }
    )


def end_ns(document: Mapping[str, Any]) -> int:
    """Return the time at which the run ended, in nanoseconds since 1970."""
    return int((datetime.fromisoformat(document["started"]).timestamp() + document["duration_s"]) * 1e9)


def generate_events(document: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of each test: one for each score, then one for each question in each score."""
    for test in document["tests"]:
        # Two thresholds on one score have two entries, and maybe only one of them has a baseline. Their questions have
        # one event, with the attributes of both entries; the first entry has precedence.
        results: dict[tuple[str, str, str], dict[str, Any]] = {}
        for entry in test["scores"]:
            shared = _shared_attributes(test, entry)
            yield Event(SCORE_EVENT, _drop_missing(shared | _score_attributes(entry)))
            baseline = entry.get("baseline") or {}
            change = dict.fromkeys(baseline.get("worse", ()), "worse")
            change |= dict.fromkeys(baseline.get("better", ()), "better")
            for example in entry["examples"]:
                key = shared["gen_ai.evaluation.name"], shared["rageval.where"], example["id"]
                attributes = _drop_missing(shared | _example_attributes(example, change.get(example["id"])))
                results[key] = attributes | results.get(key, {})
        yield from (Event(QUESTION_EVENT, attributes) for attributes in results.values())


def _shared_attributes(test: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that all events of a score share: score, test, eval set and fingerprint."""
    evalset = test.get("evalset") or {}
    fingerprint = entry.get("fingerprint") or test.get("fingerprint")
    return {
        "gen_ai.evaluation.name": entry_name(entry),
        "test.case.name": test["nodeid"],
        "test.case.result.status": STATUSES.get(test["outcome"]),
        "rageval.where": ", ".join(f"{tag}={value}" for tag, value in entry["where"].items()),
        "rageval.evalset.name": evalset.get("name"),
        "rageval.evalset.digest": evalset.get("digest", "")[:DIGEST_DIGITS],
        # Scores can be compared only if their fingerprints are equal.
        "rageval.fingerprint": digest(fingerprint)[:DIGEST_DIGITS] if fingerprint else None,
    }


def _score_attributes(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the event of a score, besides the shared ones."""
    baseline = entry.get("baseline") or {}
    low, high = entry.get("ci95") or (None, None)
    return {
        "gen_ai.evaluation.score.value": _to_float(entry["mean"]),
        "gen_ai.evaluation.score.label": entry.get("verdict"),
        "gen_ai.evaluation.explanation": entry.get("reason"),
        "error.type": "not_computed" if entry.get("verdict") == "error" else None,
        "rageval.statistic": entry.get("statistic", "mean"),
        "rageval.ci95.low": low,
        "rageval.ci95.high": high,
        "rageval.scored": entry["n"],
        "rageval.unscored": entry["unscored"],
        "rageval.undefined": entry.get("undefined"),
        "rageval.baseline.mean": baseline.get("mean"),
        "rageval.baseline.drop": baseline.get("drop"),
        "rageval.baseline.p_value": baseline.get("p_value"),
    }


def _example_attributes(example: Mapping[str, Any], change: str | None) -> dict[str, Any]:
    """Return the attributes of the event of a question, besides the shared ones.

    `change` is "worse" or "better" than in the baseline; None if the score is the same or has no baseline.
    """
    unscored, undefined = example["unscored"], example.get("undefined")
    same = "same" if example["score"] is not None and example.get("before") is not None else None
    return {
        "gen_ai.evaluation.score.value": _to_float(example["score"]),
        "gen_ai.evaluation.score.label": (
            change or same or example.get("early_stop") or ("undefined" if undefined else None)
        ),
        "gen_ai.evaluation.explanation": unscored or undefined or example.get("explanation"),
        "error.type": "unscored" if unscored else None,
        "rageval.question.id": example["id"],
        "rageval.before": example.get("before"),
        "rageval.lost_by": example.get("lost_by"),
        "rageval.case": example.get("case"),
    }


def _to_float(value: float | None) -> float | None:
    """Return the value as a float, because the conventions define the attribute as a double."""
    return None if value is None else float(value)


def _drop_missing(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes whose value is neither None nor empty."""
    return {name: value for name, value in attributes.items() if value not in {None, ""}}
