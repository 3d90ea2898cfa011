"""`CalibrationGate`: evaluates the bounds on a judge's agreement with human labels, and corrects scores by them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.calibration.calibration import (
    SAMPLE_REMEDY,
    Bounds,
    Calibration,
    CalibrationResult,
    Correction,
    LabelJudge,
    LabelledVerdict,
    check_bounds,
)
from pytest_rageval.extensions.calibration.human_labels import (
    HumanLabels,
    Kind,
    LabelledAnswer,
    LabelledPair,
    Scale,
)
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.document import ScoreEntry
from pytest_rageval.reports.layout import field_lines, wrap_text
from pytest_rageval.reports.notes import calibration_lines
from pytest_rageval.run.judged import JudgedTest
from pytest_rageval.run.test import TestRun

if TYPE_CHECKING:
    from pytest_rageval.extensions.calibration.corrections import RoganGladen

# A shard stores what was measured, and a merge reads it.
restore: Final = Lazy("extensions.shards.plain", "restore")
to_plain: Final = Lazy("extensions.shards.plain", "to_plain")

NAME: Final = "calibration"  # of this extension, in the record of a test
MARKER: Final = "rageval_calibration"

LABELS: Final[dict[Scale, dict[float, str]]] = {
    "yes/no": {1.0: "yes", 0.0: "no"},
    "graded": {},
    "pairwise": {1.0: "the first", -1.0: "the second", 0.0: "neither"},
}
"""The words for the labels of each scale. A grade is shown as a number."""


Key = TypeVar("Key")
Found = TypeVar("Found")


@dataclass
class Measured:
    """What the judge said of the labels of a test. The record of the test has it, for `rageval merge`."""

    bounds: list[Bounds] = field(default_factory=list)
    labels: dict[str, HumanLabels | RagevalError] = field(default_factory=dict)  # by their source
    outcomes: dict[tuple[str, str | None], list[Outcome] | RagevalError] = field(default_factory=dict)
    comparisons: dict[str | None, str] = field(default_factory=dict)  # as text, by comparator


class CalibrationGate:
    """The judge's calibrations for one test, by the markers `rageval_calibration` and the option."""

    def __init__(self, test: JudgedTest, option: Path | None) -> None:
        self._option = option
        self._session = test.session
        self._test = test
        self._run = test if isinstance(test, TestRun) else None
        recorded = test.record.added.get(NAME)
        self._known: Measured = Measured() if recorded is None else restore(recorded, Measured)
        self._results: list[CalibrationResult] = []
        self._warnings: dict[str, None] = {}

    def evaluate(self) -> list[str]:
        problems = []
        for marker in reversed(self._test.marked.markers(MARKER)):
            try:
                self._known.bounds.append(Bounds.parse(marker.args, marker.kwargs))
            except RagevalError as error:
                problems.append(str(error))
        for bounds in self._known.bounds:
            try:
                calibration = self._calibration(bounds.labels, bounds.comparator)
                if not self._session.settings.effects.isdisjoint({"lacks replies", "is merged"}):
                    continue
                result = check_bounds(calibration, bounds)
            except RagevalError as error:
                problems.append(str(error))
                continue
            self._results.append(result)
            problems += [result.reason] if result.status == "error" else []
            for measure, estimate in calibration.agreement.items():
                if estimate is not None:
                    name = f"rageval {measure} {calibration.labels.name}"
                    self._test.marked.record_property(name, estimate.value)
        return problems

    def ask(self, thresholds: Sequence[Threshold]) -> list[str]:
        problems = []
        for threshold in thresholds:
            try:
                self.by_option(threshold)
            except RagevalError as error:
                problems.append(str(error))
        return problems

    def failures(self, *, limit: int | None) -> list[str]:
        failed = (result for result in self._results if result.status == "fail")
        return ["\n".join(calibration_failure_lines(result, limit=limit)) for result in failed]

    def results(self) -> dict[str, object]:
        results = {"calibration": list(map(calibration_entry, self._results))} if self._results else {}
        for result in self._results:
            self._test.uses.add("comparator" if result.calibration.labels.kind == "answers" else "judge")
        return results | ({"warnings": [*self._warnings]} if self._warnings else {})

    def corrected_mean(self, score: Score | None, threshold: Threshold) -> dict[str, object]:
        """Return the mean corrected for the judge's errors, for the score's entry in the report.

        The labels are those of the first marker that apply: labels of passages, or labels of answers if the marker's
        comparison is that of the score. If no marker applies, they are the labels of the option. If there are none
        either, the result is empty.
        """
        kind = self._corrected_by(threshold)
        if score is None or kind is None:
            return {}
        score_comparison = self._test.record.dependencies_of(threshold.request).comparison
        for calibration in (result.calibration for result in self._results):
            comparison = self._comparison(calibration.comparator)
            if calibration.labels.kind == kind and (kind == "passages" or comparison == score_comparison):
                return self._corrected_entry(calibration, score)
        calibration_by_option = self.by_option(threshold)
        return self._corrected_entry(calibration_by_option, score) if calibration_by_option else {}

    def _corrected_entry(self, calibration: Calibration, score: Score) -> dict[str, object]:
        labels = calibration.labels
        entry = corrected_entry(calibration.corrected(score), sampled=labels.sampled)
        if entry and not labels.sampled:
            text = (
                f"{labels.name} does not say how its labels were chosen, and only a random sample corrects a score: "
                f"{SAMPLE_REMEDY}"
            )
            self._warnings[text] = None
        return entry

    def by_option(self, threshold: Threshold) -> Calibration | None:
        kind = self._corrected_by(threshold)
        if self._option is None or kind is None:
            return None
        labels = self._labels(self._option)
        if labels.kind != kind:
            return None
        # The judge has judged the retrieved passages for the score itself, so it is not asked about labelled ones.
        if kind == "passages":
            return Calibration(labels, ())
        return self._calibration(self._option, threshold.comparator)

    def _corrected_by(self, threshold: Threshold) -> Kind | None:
        """Return the kind of human labels that can correct a score; None if none can, as for a slice."""
        if threshold.where or threshold.by is not None:
            return None
        return self._session.definition(ScoreRequest(threshold.spec)).corrected_by

    def _calibration(self, source: str | Path, comparator: str | None) -> Calibration:
        labels = self._labels(source)

        def judge(run: TestRun) -> list[Outcome]:
            return run.session.resource(LabelJudge).judge(run.components, labels, comparator)

        key, what = (str(source), comparator), f"verdicts on the labels {source}"
        outcomes = self._of_run(self._known.outcomes, key, what, judge)
        return Calibration(labels, outcomes, comparator)

    def _labels(self, source: str | Path) -> HumanLabels:
        def read(run: TestRun) -> HumanLabels:
            return run.session.resource(LabelJudge).labels(source, bases=run.marked.bases)

        return self._of_run(self._known.labels, str(source), f"labels {source}", read)

    def _of_run(
        self, known: dict[Key, Found | RagevalError], key: Key, what: str, find: Callable[[TestRun], Found]
    ) -> Found:
        """Return what is known under a key, or what this run finds, which is recorded; raise a recorded error."""
        if key not in known:
            if self._run is None:
                raise InputError(f"shard 1 has no {what}")
            try:
                known[key] = find(self._run)
            except RagevalError as error:
                known[key] = error
            self._record()
        found = known[key]
        if isinstance(found, RagevalError):
            raise found
        return found

    def _comparison(self, comparator: str | None) -> str:
        run, known = self._run, self._known.comparisons
        if run is not None:
            known[comparator] = run.session.pipelines.get(run.components).comparison(comparator).text
        # If no calibration uses the comparator, its name differs from all comparisons.
        return known.get(comparator, str(comparator))

    def _record(self) -> None:
        if "is merged" in self._session.settings.effects:
            for _, comparator in self._known.outcomes:
                self._comparison(comparator)
            self._test.record.added[NAME] = to_plain(self._known, Measured)


def calibration_entry(result: CalibrationResult) -> dict[str, object]:
    calibration, bounds = result.calibration, result.bounds
    return {
        **agreement_with_people(calibration),
        "threshold": {f"min_{name}": bound for name, bound in bounds.given.items()} or None,
        "verdict": result.status,
        "reason": None if result.status is None else result.reason,
    }


def agreement_with_people(calibration: Calibration) -> dict[str, object]:
    people = calibration.people
    comparator = {} if calibration.comparator is None else {"comparator": calibration.comparator}
    unusable = calibration.labels.unusable
    return {
        "labels": calibration.labels.name,
        "scale": calibration.labels.scale,
        **comparator,
        "n": len(calibration.labelled_verdicts),
        "unscored": calibration.unscored,
        "undecided": calibration.undecided,
        **({"unusable": list(unusable)} if unusable else {}),
        "agreement": {
            name: estimate and {"value": estimate.value, "ci95": [estimate.low, estimate.high]}
            for name, estimate in calibration.agreement.items()
        },
        "people": people and people._asdict(),
        "disagreements": [
            {"id": verdict.item.example.id, "human": verdict.human, "judge": verdict.judge}
            for verdict in calibration.disagreements
        ],
    }


def distribution(calibration: Calibration) -> dict[str, dict[str, int]] | None:
    """Return how many items people, and the judge, gave each label; None for grades.

    Of pairs these are the wins and ties of the first answer.
    """
    words = LABELS[calibration.labels.scale]
    verdicts = calibration.labelled_verdicts
    given = {"people": [each.human for each in verdicts], "judge": [each.judge for each in verdicts]}
    counts = {
        rater: {words[label]: labels.count(label) for label in sorted(words, reverse=True)}
        for rater, labels in given.items()
    }
    return counts if words else None


def calibration_failure_lines(result: CalibrationResult, *, limit: int | None) -> list[str]:
    calibration = result.calibration
    lines = wrap_text(f"judge against people: {result.reason}", 2)
    for line in calibration_lines(agreement_with_people(calibration)):
        lines.extend(wrap_text(line, 2))
    disagreements = calibration.disagreements
    verdicts = counted(len(calibration.labelled_verdicts), "verdict")
    lines.append(f"{len(disagreements)} of {verdicts} are not the people's:")
    shown = disagreements if limit is None else disagreements[:limit]
    for verdict in shown:
        lines.extend(_disagreement_lines(verdict, calibration.labels.scale))
    if len(disagreements) > len(shown):
        lines.append(f"  and {len(disagreements) - len(shown)} more (-vv shows them)")
    return lines


def corrected_entry(correction: Correction | None, *, sampled: bool) -> dict[str, object]:
    if correction is None or not (
        correction.estimate or correction.incomplete is not None or correction.refused
    ):
        return {}
    estimate = correction.estimate
    return {
        "corrected": {
            "mean": estimate and estimate.value,
            "ci95": estimate and [estimate.low, estimate.high],
            "labels": correction.labels,
            **({} if correction.incomplete is None else {"incomplete": correction.incomplete}),
            **({"refused": correction.refused} if correction.refused else {}),
            **({"sampled": True} if sampled else {}),
            **_rogan_gladen_entry(correction.rogan_gladen),
        }
    }


def _rogan_gladen_entry(found: "RoganGladen | str | None") -> dict[str, object]:
    if found is None:
        return {}
    if isinstance(found, str):
        return {"rogan_gladen": {"mean": None, "ci95": None, "refused": found}}
    estimate = found.estimate
    return {
        "rogan_gladen": {
            "mean": estimate.value,
            "ci95": [estimate.low, estimate.high],
            **({} if isclose(found.raw, estimate.value, abs_tol=1e-9) else {"clipped": found.raw}),
            "sensitivity": found.sensitivity,
            "specificity": found.specificity,
            "right": found.right,
            "wrong": found.wrong,
        }
    }


def _disagreement_lines(verdict: LabelledVerdict, scale: Scale) -> Iterator[str]:
    item = verdict.item
    human, judge = (LABELS[scale].get(label, f"{label:.2f}") for label in (verdict.human, verdict.judge))
    yield from wrap_text(f"  {item.example.id}  human: {human}, judge: {judge}  {item.example.question}", 6)
    if isinstance(item, LabelledPair):
        yield from field_lines("first", [item.first])
        yield from field_lines("second", [item.second])
    elif isinstance(item, LabelledAnswer):
        yield from field_lines("reference", item.references, separator=" | ")
        yield from field_lines("prediction", [item.prediction])
    else:
        yield from field_lines("passage", [item.passage])


def corrected_text(entry: ScoreEntry) -> str:
    corrected = entry["corrected"]
    incomplete, labels = corrected.get("incomplete"), corrected["labels"]
    more = f"; {counted(incomplete, 'more question')} with unlabelled passages" if incomplete else ""
    beside = _rogan_gladen_text(corrected.get("rogan_gladen"))
    if refused := corrected.get("refused"):
        return f"not corrected for the judge's errors: {refused}{beside}"
    if corrected["mean"] is None:
        return f"not corrected for the judge's errors: {counted(labels, 'question')} with labels of all passages{more}"
    low, high = corrected["ci95"]
    sample = "labels are a random sample of such answers"
    if incomplete is not None:
        sample = f"labelled questions are a random sample of the set's{more}"
    mean = f"{corrected['mean']:.3f} [{low:.3f}, {high:.3f}]"
    if corrected.get("sampled"):
        return (
            f"corrected for the judge's errors: {mean}, by {counted(labels, 'label')} drawn at random{more}"
            f"{beside}"
        )
    return f"corrected for the judge's errors: {mean}, if the {labels} {sample}{beside}"


def _rogan_gladen_text(entry: Mapping[str, Any] | None) -> str:
    """Return "; Rogan-Gladen 0.571 [0.396, 0.743]", or why there is none; "" without such an entry."""
    if entry is None:
        return ""
    if entry["mean"] is None:
        return f"; no Rogan-Gladen: {entry['refused']}"
    clipped = f", clipped from {entry['clipped']:.3f}" if "clipped" in entry else ""
    low, high = entry["ci95"]
    return f"; Rogan-Gladen {entry['mean']:.3f} [{low:.3f}, {high:.3f}]{clipped}"
