"""Entries of scores as the plugin makes them: with the notes of the score's definition."""

from typing import Any

from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.evaluations.registry import resolve
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.threshold_results import ThresholdResult
from pytest_rageval.gate.verdict import Verdict
from pytest_rageval.reports import results
from pytest_rageval.reports.results import Notes
from pytest_rageval.scores import Score


def _notes(spec: str) -> Notes:
    return resolve(ScoreRequest(spec))[1].notes


def score_entry(score: Score, threshold: Threshold | None, verdict: Verdict | None) -> dict[str, Any]:
    """As `results.score_entry`."""
    return results.score_entry(score, threshold, verdict, _notes(score.spec))


def ruling_entry(ruling: ThresholdResult) -> dict[str, Any]:
    """As `results.ruling_entry`."""
    return results.ruling_entry(ruling, _notes(ruling.threshold.spec))


def error_entry(spec: str, threshold: Threshold | None, reason: str) -> dict[str, Any]:
    """As `results.error_entry`."""
    return results.error_entry(spec, threshold, reason, _notes(spec))
