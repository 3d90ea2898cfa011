"""Thresholds on a judge's agreement with human labels, and scores corrected for the judge's errors."""

from pathlib import Path
from typing import Any, Final

from pytest_rageval.calibration import Bounds, Calibration, CalibrationResult, rule_on
from pytest_rageval.errors import RagevalError
from pytest_rageval.evalsets.human_labels import HumanLabels, Kind
from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.reports.judge_calibration import (
    calibration_entry,
    calibration_failure_lines,
    corrected_entry,
)
from pytest_rageval.scores import Score
from pytest_rageval.session.pipelines import Components, MarkedTest
from pytest_rageval.session.session import Session

__all__ = ["CalibrationGate", "corrected_by"]

MARKER: Final = "rageval_calibration"


class CalibrationGate:
    """The human labels that a test's markers or the option name, and the rulings on the judge."""

    def __init__(self, session: Session, components: Components, test: MarkedTest) -> None:
        self._session = session
        self._components = components
        self._test = test
        self._rulings: list[CalibrationResult] = []

    def evaluate(self) -> list[str]:
        """Rule on the bounds of the markers; return the errors."""
        problems = []
        for marker in reversed(self._test.markers(MARKER)):
            try:
                bounds = Bounds.parse(marker.args, marker.kwargs)
                calibration = self._calibrated(bounds.labels, bounds.comparator)
                if self._session.settings.plan:
                    continue
                ruling = rule_on(calibration, bounds)
            except RagevalError as error:
                problems.append(str(error))
                continue
            self._rulings.append(ruling)
            problems += [ruling.reason] if ruling.status == "error" else []
            for measure, estimate in calibration.measured.items():
                if estimate is not None:
                    self._test.record_property(f"rageval {measure} {calibration.labels.name}", estimate.value)
        return problems

    def failures(self, *, limit: int | None) -> list[str]:
        """The failed bounds as text, each with at most `limit` disagreements; None for all."""
        failed = (ruling for ruling in self._rulings if ruling.status == "fail")
        return ["\n".join(calibration_failure_lines(ruling, limit=limit)) for ruling in failed]

    def results(self) -> dict[str, Any]:
        """The part of the test's entry for the report; empty without markers."""
        return {"calibration": list(map(calibration_entry, self._rulings))} if self._rulings else {}

    def corrected(self, score: Score | None, threshold: Threshold) -> dict[str, Any]:
        """The part of a score's entry with its mean corrected for the judge's errors; may be empty.

        From the labels of the first marker that fit: of passages, or of answers that were compared as the score
        compares; else those of the option.
        """
        kind = corrected_by(self._session, threshold)
        if score is None or kind is None:
            return {}
        pipeline = self._session.pipelines.of(self._components)
        comparison = pipeline.comparison(threshold.comparator).text
        for calibration in (ruling.calibration for ruling in self._rulings):
            compared = pipeline.comparison(calibration.comparator).text
            if calibration.labels.kind == kind and (kind == "passages" or compared == comparison):
                return corrected_entry(calibration.corrected(score))
        by_option = self.by_option(threshold)
        return corrected_entry(by_option.corrected(score)) if by_option else {}

    def by_option(self, threshold: Threshold) -> Calibration | None:
        """The judge on the labels of the option; None where there are none, or they do not correct the score."""
        option = self._session.settings.calibration
        kind = corrected_by(self._session, threshold)
        if option is None or kind is None:
            return None
        labels = self._session.sources.labels(option, bases=self._test.bases)
        if isinstance(labels, HumanLabels) and labels.kind != kind:
            return None
        # Retrieved passages have been judged for the score.
        if kind == "passages" and isinstance(labels, HumanLabels):
            return Calibration(labels, ())
        return self._session.calibrate(self._components, labels, threshold.comparator)

    def _calibrated(self, source: str | Path, comparator: str | None) -> Calibration:
        labels = self._session.sources.labels(source, bases=self._test.bases)
        return self._session.calibrate(self._components, labels, comparator)


def corrected_by(session: Session, threshold: Threshold) -> Kind | None:
    """Return the kind of labels that corrects a score; None if labels cannot, as for a slice."""
    if threshold.where or threshold.by is not None:
        return None
    return session.definition(ScoreRequest(threshold.spec)).corrected_by
