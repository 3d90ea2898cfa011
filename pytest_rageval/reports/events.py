"""The results of a run as OpenTelemetry events, still as plain data: `otlp` sends them.

Names of attributes are those of OpenTelemetry's semantic conventions (GenAI 1.41, in development) where these have
one, else they begin with `rageval.`. Texts of questions, passages and answers are no part of an event.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from pytest_rageval.digests import digest
from pytest_rageval.reports.results import entry_name

__all__ = ["RESULT", "SUMMARY", "Event", "events_of", "resource_of"]

RESULT: Final = "gen_ai.evaluation.result"
"""The event of one question and one score."""

SUMMARY: Final = "rageval.score"
"""The event of one score of a test. The conventions have none, and means among the results would be counted twice."""

SHORT: Final = 16
"""Hex digits of a digest in an attribute."""

OUTCOMES: Final = {"passed": "pass", "failed": "fail", "error": "fail"}
"""Values of `test.case.result.status`; the conventions have no others. Thresholds fail in the setup of some tests."""


class Event(NamedTuple):
    """An event; attributes are texts, numbers and Booleans."""

    name: str
    attributes: Mapping[str, str | float | bool]


def resource_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of what the events come from: the run, its commit and its models."""
    run, settings = document.get("run", {}), document["settings"]
    baseline = run.get("baseline", {})
    return _known(
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


def ended_ns(document: Mapping[str, Any]) -> int:
    """When the run ended, in nanoseconds since 1970."""
    return int((datetime.fromisoformat(document["started"]).timestamp() + document["duration_s"]) * 1e9)


def events_of(document: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of each test: one for each score, then one for each question and score."""
    for test in document["tests"]:
        # Several thresholds may be on one score; what either compared counts.
        results: dict[tuple[str, str, str], dict[str, Any]] = {}
        for entry in test["scores"]:
            shared = _shared(test, entry)
            yield Event(SUMMARY, _known(shared | _of_score(entry)))
            baseline = entry.get("baseline") or {}
            change = dict.fromkeys(baseline.get("worse", ()), "worse")
            change |= dict.fromkeys(baseline.get("better", ()), "better")
            for example in entry["examples"]:
                key = shared["gen_ai.evaluation.name"], shared["rageval.where"], example["id"]
                found = _known(shared | _of_example(example, change.get(example["id"])))
                results[key] = found | results.get(key, {})
        yield from (Event(RESULT, attributes) for attributes in results.values())


def _shared(test: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that all events of a score share: score, test, eval set and baseline."""
    evalset = test.get("evalset") or {}
    fingerprint = entry.get("fingerprint") or test.get("fingerprint")
    return {
        "gen_ai.evaluation.name": entry_name(entry),
        "test.case.name": test["nodeid"],
        "test.case.result.status": OUTCOMES.get(test["outcome"]),
        "rageval.where": ", ".join(f"{tag}={value}" for tag, value in entry["where"].items()),
        "rageval.evalset.name": evalset.get("name"),
        "rageval.evalset.digest": evalset.get("digest", "")[:SHORT],
        # Of all that the score depends on besides the retriever: only under the same one scores are compared.
        "rageval.fingerprint": digest(fingerprint)[:SHORT] if fingerprint else None,
    }


def _of_score(entry: Mapping[str, Any]) -> dict[str, Any]:
    baseline = entry.get("baseline") or {}
    low, high = entry.get("ci95") or (None, None)
    return {
        "gen_ai.evaluation.score.value": _double(entry["mean"]),
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


def _of_example(example: Mapping[str, Any], change: str | None) -> dict[str, Any]:
    unscored, undefined = example["unscored"], example.get("undefined")
    same = "same" if example["score"] is not None and example.get("before") is not None else None
    return {
        "gen_ai.evaluation.score.value": _double(example["score"]),
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


def _double(value: float | None) -> float | None:
    """The value as the conventions have it, also where it is a whole number."""
    return None if value is None else float(value)


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that have a value."""
    return {name: value for name, value in attributes.items() if value not in {None, ""}}
