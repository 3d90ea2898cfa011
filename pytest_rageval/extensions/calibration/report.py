"""Builds the entry of a calibration, and its failure message: the agreement of the judge with human labels."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from pytest_rageval.extensions.calibration.calibration import (
    Calibration,
    CalibrationResult,
    Correction,
    LabelledVerdict,
)
from pytest_rageval.extensions.calibration.human_labels import LabelledAnswer, LabelledPair, Scale
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.agreement import calibration_lines
from pytest_rageval.reports.layout import field_lines, wrap_text

LABELS: Final[dict[Scale, dict[float, str]]] = {
    "yes/no": {1.0: "yes", 0.0: "no"},
    "graded": {},
    "pairwise": {1.0: "the first", -1.0: "the second", 0.0: "neither"},
}
"""The words for the labels of each scale. A grade is shown as a number."""


def calibration_entry(result: CalibrationResult) -> dict[str, Any]:
    calibration, bounds = result.calibration, result.bounds
    return {
        **agreement_with_people(calibration),
        "threshold": {f"min_{name}": bound for name, bound in bounds.given.items()} or None,
        "verdict": result.status,
        "reason": None if result.status is None else result.reason,
    }


def agreement_with_people(calibration: Calibration) -> dict[str, Any]:
    """Return the entry of a calibration without a verdict."""
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
        "people": people
        and {
            "annotators": people.annotators,
            "n": people.items,
            "among": people.among,
            "judge": people.judge,
        },
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
    counts = {rater: Counter(labels) for rater, labels in given.items()}
    return (
        {
            rater: {words[label]: counts[rater][label] for label in sorted(words, reverse=True)}
            for rater in counts
        }
        if words
        else None
    )


def calibration_failure_lines(result: CalibrationResult, *, limit: int | None) -> list[str]:
    """Return the failure message of a calibration: the reason, the agreement, and the items that disagree."""
    calibration = result.calibration
    lines = wrap_text(f"judge against people: {result.reason}", 2)
    for line in calibration_lines(agreement_with_people(calibration)):
        lines.extend(wrap_text(line, 2))
    disagreements = calibration.disagreements
    lines.append(
        f"{len(disagreements)} of {counted(len(calibration.labelled_verdicts), 'verdict')} are not the people's:"
    )
    shown = disagreements if limit is None else disagreements[:limit]
    for verdict in shown:
        lines.extend(_disagreement_lines(verdict, calibration.labels.scale))
    if len(disagreements) > len(shown):
        lines.append(f"  and {len(disagreements) - len(shown)} more (-vv shows them)")
    return lines


def corrected_entry(correction: Correction | None, *, sampled: bool) -> dict[str, Any]:
    """Return the key `corrected` of a score: its mean corrected for the judge's errors; empty if it is unknown."""
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
