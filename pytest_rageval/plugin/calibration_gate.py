"""Thresholds on a judge's agreement with human labels, and corrected scores."""

from pathlib import Path
from typing import Any, Final

import pytest

from pytest_rageval.calibration.bounds import Bounds
from pytest_rageval.calibration.findings import Calibration, CalibrationRuling, rule_on
from pytest_rageval.errors import RagevalError
from pytest_rageval.evaluations.context import ScoreRequest
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.reports.judge_calibration import calibration_entry, calibration_failure, corrected_entry
from pytest_rageval.scores import Score
from pytest_rageval.session import Components, Session

__all__ = ["CalibrationGate"]

MARKER: Final = "rageval_calibration"


class CalibrationGate:
    """The labels that a test's markers name, or the option, and what came of them."""

    def __init__(self, session: Session, parts: Components, item: pytest.Item) -> None:
        self._session = session
        self._parts = parts
        self._item = item
        self._rulings: list[CalibrationRuling] = []

    def measure(self) -> list[str]:
        """Hold the judge against the bounds of the markers; return what kept it from being done."""
        problems = []
        # The closest marker comes first; read from top to bottom they were written the other way.
        for marker in reversed(list(self._item.iter_markers(MARKER))):
            try:
                bounds = Bounds.parse(marker.args, marker.kwargs)
                calibration = self._calibration(bounds.labels, bounds.comparator)
                if self._session.settings.plan:
                    continue
                ruling = rule_on(calibration, bounds)
            except RagevalError as error:
                problems.append(str(error))
                continue
            self._rulings.append(ruling)
            self._record(ruling)
            problems += [ruling.reason] if ruling.status == "error" else []
        return problems

    def failures(self, *, limit: int | None) -> list[str]:
        """Why the judge is not good enough, by each marker that says so."""
        return [
            "\n".join(calibration_failure(ruling, limit=limit))
            for ruling in self._rulings
            if ruling.status == "fail"
        ]

    def results(self) -> dict[str, Any]:
        """The part of the JSON report; nothing where no marker asked."""
        return {"calibration": list(map(calibration_entry, self._rulings))} if self._rulings else {}

    def corrected(self, score: Score | None, threshold: Threshold) -> dict[str, Any]:
        """What goes into a score's entry: its mean corrected for the judge's errors, where that can be had.

        By the first marker whose labels were judged in the way in which the score compares, else by
        the labels of the option.
        """
        if score is None or not self._is_corrected(threshold):
            return {}
        run = self._session.runs.of(self._parts)
        way = run.comparison(threshold.comparator).text
        for ruling in self._rulings:
            calibration = ruling.calibration
            if run.comparison(calibration.comparator).text == way:
                return corrected_entry(calibration.corrected(score), len(calibration.compared))
        option = self._session.settings.calibration
        if option is None:
            return {}
        calibration = self._calibration(option, threshold.comparator)
        return corrected_entry(calibration.corrected(score), len(calibration.compared))

    def plan(self, threshold: Threshold) -> None:
        """Count what the correction of a score asks, where no marker has the labels for it."""
        option = self._session.settings.calibration
        if option is not None and self._is_corrected(threshold):
            self._calibration(option, threshold.comparator)

    def _is_corrected(self, threshold: Threshold) -> bool:
        """Whether the score is a mean of verdicts on answers, as the labels are, over the whole set."""
        score = self._session.definition(ScoreRequest(threshold.spec))
        return score.verdicts and not threshold.where and threshold.by is None

    def _calibration(self, source: str | Path, comparator: str | None) -> Calibration:
        bases = (self._item.config.rootpath, Path(self._item.path).parent)
        labels = self._session.sources.labels(source, bases=bases)
        return self._session.calibrate(self._parts, labels, comparator)

    def _record(self, ruling: CalibrationRuling) -> None:
        """Hand the numbers to JUnit reports."""
        name = ruling.calibration.labels.name
        for measure, estimate in ruling.calibration.measured.items():
            if estimate is not None:
                self._item.user_properties.append((f"rageval {measure} {name}", estimate.value))
