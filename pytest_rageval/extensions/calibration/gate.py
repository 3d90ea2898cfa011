"""`CalibrationGate`: evaluates the bounds on a judge's agreement with human labels, and corrects scores by them."""

from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.calibration.calibration import (
    Bounds,
    Calibration,
    CalibrationResult,
    LabelJudge,
    check_bounds,
)
from pytest_rageval.extensions.calibration.human_labels import HumanLabels, Kind
from pytest_rageval.extensions.calibration.report import (
    calibration_entry,
    calibration_failure_lines,
    corrected_entry,
)
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.run.base import BaseSession
from pytest_rageval.run.test import TestRun

MARKER: Final = "rageval_calibration"


class CalibrationGate:
    """The judge's calibrations for one test, by the markers `rageval_calibration` and the option.

    Args:
        test: the run of the test.
        option: the file that the option names; None without it.
    """

    def __init__(self, test: TestRun, option: Path | None) -> None:
        self._option = option
        self._session = test.session
        self._components = test.components
        self._test = test.marked
        self._judge = test.session.resource(LabelJudge)
        self._results: list[CalibrationResult] = []

    def evaluate(self) -> list[str]:
        """Measure the agreement for each marker, and compare it with the marker's bounds; return the errors."""
        problems = []
        for marker in reversed(self._test.markers(MARKER)):
            try:
                bounds = Bounds.parse(marker.args, marker.kwargs)
                calibration = self._calibrate(bounds.labels, bounds.comparator)
                if self._session.counts_only:
                    continue
                result = check_bounds(calibration, bounds)
            except RagevalError as error:
                problems.append(str(error))
                continue
            self._results.append(result)
            problems += [result.reason] if result.status == "error" else []
            for measure, estimate in calibration.agreement.items():
                if estimate is not None:
                    self._test.record_property(f"rageval {measure} {calibration.labels.name}", estimate.value)
        return problems

    def failures(self, *, limit: int | None) -> list[str]:
        """Return the failed bounds as text, each with at most `limit` disagreements; None for all disagreements."""
        failed = (result for result in self._results if result.status == "fail")
        return ["\n".join(calibration_failure_lines(result, limit=limit)) for result in failed]

    def results(self) -> dict[str, Any]:
        """Return the calibrations for the test's entry in the report; empty without markers."""
        return {"calibration": list(map(calibration_entry, self._results))} if self._results else {}

    def corrected_mean(self, score: Score | None, threshold: Threshold) -> dict[str, Any]:
        """Return the mean corrected for the judge's errors, for the score's entry in the report.

        The labels are those of the first marker that apply: labels of passages, or labels of answers if the marker's
        comparison is that of the score. If no marker applies, they are the labels of the option. If there are none
        either, the result is empty.
        """
        kind = corrected_by(self._session, threshold)
        if score is None or kind is None:
            return {}
        pipeline = self._session.pipelines.get(self._components)
        score_comparison = pipeline.comparison(threshold.comparator).text
        for calibration in (result.calibration for result in self._results):
            comparison = pipeline.comparison(calibration.comparator).text
            if calibration.labels.kind == kind and (kind == "passages" or comparison == score_comparison):
                return corrected_entry(calibration.corrected(score))
        calibration_by_option = self.by_option(threshold)
        return corrected_entry(calibration_by_option.corrected(score)) if calibration_by_option else {}

    def by_option(self, threshold: Threshold) -> Calibration | None:
        """Return the judge's calibration on the labels of the option.

        None without the option, and if its labels cannot correct the score of this threshold.
        """
        kind = corrected_by(self._session, threshold)
        if self._option is None or kind is None:
            return None
        labels = self._judge.labels(self._option, bases=self._test.bases)
        if isinstance(labels, HumanLabels) and labels.kind != kind:
            return None
        # The judge has judged the retrieved passages for the score itself, so it is not asked about labelled ones.
        if kind == "passages" and isinstance(labels, HumanLabels):
            return Calibration(labels, ())
        return self._judge.calibrate(self._components, labels, threshold.comparator)

    def _calibrate(self, source: str | Path, comparator: str | None) -> Calibration:
        labels = self._judge.labels(source, bases=self._test.bases)
        return self._judge.calibrate(self._components, labels, comparator)


def corrected_by(session: BaseSession, threshold: Threshold) -> Kind | None:
    """Return the kind of human labels that can correct a score; None if none can, as for a slice."""
    if threshold.where or threshold.by is not None:
        return None
    return session.definition(ScoreRequest(threshold.spec)).corrected_by
