"""Reports the agreement of the judge with human labels, and of labels of passages with scores of answers.

A test's entry has the first as its key `calibration`, and the second as its key `agreement`. This module builds the
entry of a calibration, and writes both as lines of text.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_rageval.extensions.calibration.calibration import (
    Calibration,
    CalibrationResult,
    Correction,
    LabelledVerdict,
)
from pytest_rageval.extensions.calibration.human_labels import LabelledAnswer, LabelledPair, Scale
from pytest_rageval.lib.plural import counted
from pytest_rageval.reports.layout import align_columns, field_lines, wrap_text
from pytest_rageval.reports.notes import format_rho

LABELS: Final[dict[Scale, dict[float, str]]] = {
    "yes/no": {1.0: "yes", 0.0: "no"},
    "graded": {},
    "pairwise": {1.0: "the first", -1.0: "the second", 0.0: "neither"},
}
"""The words for the labels of each scale. A grade is shown as a number."""


def agreement_lines(entry: Mapping[str, Any]) -> list[str]:
    """Return the table of a test's entry `agreement`: correlations of labels of passages with scores of answers.

    The table has a row for each annotator and measure, and a column for each k. Lines with the reasons for missing rows
    follow.
    """
    rows = {(row["annotator"], row["measure"], row["k"]): row for row in entry["rows"]}
    ks = sorted({k for _, _, k in rows})
    by = f", answers scored by {entry['label']}" if entry["label"] else ""
    lines = [f"agreement with {entry['downstream']}, Kendall's tau and Spearman's rho{by}"]
    cells = [("", *(f"{f'k = {k}':>11}" for k in ks))]
    for annotator, measure in dict.fromkeys((annotator, measure) for annotator, measure, _ in rows):
        pairs = (_tau_and_rho(rows.get((annotator, measure, k))) for k in ks)
        cells.append((f"{annotator} {measure}", *pairs))
    lines += align_columns(cells, right=range(1, len(ks) + 1)) if rows else []
    missing_by_reason: dict[str, set[str]] = {}
    for row in entry["missing"]:
        first_line = row["reason"].partition("\n")[0]
        missing_by_reason.setdefault(first_line, set()).add(f"{row['annotator']} {row['measure']}")
    return lines + [
        f"no {', '.join(sorted(missing))}: {reason}" for reason, missing in missing_by_reason.items()
    ]


def _tau_and_rho(row: Mapping[str, Any] | None) -> str:
    """Return the text of a cell, such as ".58 .71"; empty if the row has no such cell."""
    if row is None:
        return ""
    return " ".join("-" if row[name] is None else format_rho(row[name]) for name in ("tau", "rho"))


def calibration_entry(result: CalibrationResult) -> dict[str, Any]:
    """Return the entry of a calibration: the agreement of the judge with human labels, and the verdict on bounds."""
    calibration, bounds = result.calibration, result.bounds
    return {
        **agreement_with_people(calibration),
        "threshold": {f"min_{name}": bound for name, bound in bounds.given.items()} or None,
        "verdict": result.status,
        "reason": None if result.status is None else result.reason,
    }


def agreement_with_people(calibration: Calibration) -> dict[str, Any]:
    """Return the entry of a calibration without a verdict.

    It has the agreement of the judge with human labels, the agreement of human annotators with each other, and each
    item on which the judge disagrees.
    """
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


def calibration_lines(entry: Mapping[str, Any]) -> list[str]:
    """Return the lines of a calibration: the agreement with its bounds, and the agreement of the annotators."""
    by = f", compared by {entry['comparator']}" if "comparator" in entry else ""
    left_out = "".join(f", {entry[key]} {key}" for key in ("unscored", "undecided") if entry[key])
    unusable = entry.get("unusable", [])
    left_out += f", {len(unusable)} unusable" if unusable else ""
    bounds = entry.get("threshold") or {}
    measures = []
    for name, estimate in entry["agreement"].items():
        bound = bounds.get(f"min_{name}")
        measures.append(f"{name} {_with_interval(estimate)}{'' if bound is None else f' (≥ {bound:g})'}")
    verdict = f": {entry['verdict']}" if entry.get("verdict") else ""
    labels = f"{entry['labels']}, n = {entry['n']}{left_out}{by}"
    lines = [f"judge against people ({labels}): {', '.join(measures)}{verdict}"]
    people = entry["people"]
    if people is not None:
        measure = next(iter(entry["agreement"]))
        lines.append(
            f"people among themselves: {measure} {_number(people['among'])}, the judge with each of them "
            f"{_number(people['judge'])} ({people['annotators']} annotators, n = {people['n']})"
        )
    if unusable:
        more = f"; and {len(unusable) - 1} more" if len(unusable) > 1 else ""
        lines.append(f"left out: {unusable[0].rstrip('.')}{more}")
    return lines


def calibration_failure_lines(result: CalibrationResult, *, limit: int | None) -> list[str]:
    """Return the failure message of a calibration: the reason, the agreement, and the items that disagree.

    At most `limit` items are shown, all for None.
    """
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


def corrected_entry(correction: Correction | None) -> dict[str, Any]:
    """Return the key `corrected` of a score: its mean corrected for the judge's errors; empty if it is unknown."""
    if correction is None or (correction.estimate is None and correction.incomplete is None):
        return {}
    estimate = correction.estimate
    return {
        "corrected": {
            "mean": estimate and estimate.value,
            "ci95": estimate and [estimate.low, estimate.high],
            "labels": correction.labels,
            **({} if correction.incomplete is None else {"incomplete": correction.incomplete}),
        }
    }


def _disagreement_lines(verdict: LabelledVerdict, scale: Scale) -> Iterator[str]:
    """Yield the lines of an item: the human label, the judge's verdict, the question, and the judged texts."""
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


def _with_interval(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None:
        return "undefined"
    low, high = estimate["ci95"]
    return f"{estimate['value']:.3f} [{low:.3f}, {high:.3f}]"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
