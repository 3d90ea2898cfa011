"""Report entries of scores with the notes of the score's definition, as the plugin creates them."""

from typing import Any

from pytest_rageval.core.outcome import Score
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import ThresholdResult, Verdict
from pytest_rageval.lib.spool import Spool
from pytest_rageval.reports import build as results
from pytest_rageval.reports.build import Notes
from pytest_rageval.run.registry import resolve


def _notes(spec: str) -> Notes:
    return resolve(ScoreRequest(spec))[1].notes


def score_entry(score: Score, threshold: Threshold | None, verdict: Verdict | None) -> dict[str, Any]:
    return results.score_entry(score, threshold, verdict, _notes(score.spec))


def threshold_result_entry(result: ThresholdResult) -> dict[str, Any]:
    return results.threshold_result_entry(result, _notes(result.threshold.spec), spool=Spool())


def error_entry(spec: str, threshold: Threshold | None, reason: str) -> dict[str, Any]:
    return results.error_entry(spec, threshold, reason, _notes(spec))
