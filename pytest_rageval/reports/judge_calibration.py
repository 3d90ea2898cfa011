"""The report of judge calibration and label agreement: as data, as lines below the table, and as failures."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_rageval.calibration import Calibration, CalibrationResult, Correction, LabelledVerdict
from pytest_rageval.evalsets.human_labels import LabelledAnswer, LabelledPair, Scale
from pytest_rageval.plural import counted
from pytest_rageval.reports.layout import aligned, field_lines, wrapped
from pytest_rageval.reports.notes import short

__all__ = [
    "agreement_lines",
    "agreement_with_people",
    "calibration_entry",
    "calibration_failure",
    "calibration_lines",
    "corrected_entry",
]

LABELS: Final[dict[Scale, dict[float, str]]] = {
    "yes/no": {1.0: "yes", 0.0: "no"},
    "graded": {},
    "pairwise": {1.0: "the first", -1.0: "the second", 0.0: "neither"},
}
"""The words for labels; a grade is its number."""


def agreement_lines(entry: Mapping[str, Any]) -> list[str]:
    """A row for each annotator × measure, a column for each k; then why rows are missing."""
    rows = {(row["annotator"], row["measure"], row["k"]): row for row in entry["rows"]}
    ks = sorted({k for _, _, k in rows})
    by = f", answers scored by {entry['label']}" if entry["label"] else ""
    lines = [f"agreement with {entry['downstream']}, Kendall's tau and Spearman's rho{by}"]
    cells = [("", *(f"{f'k = {k}':>11}" for k in ks))]
    for annotator, measure in dict.fromkeys((annotator, measure) for annotator, measure, _ in rows):
        pairs = (_pair(rows.get((annotator, measure, k))) for k in ks)
        cells.append((f"{annotator} {measure}", *pairs))
    lines += aligned(cells, right=range(1, len(ks) + 1)) if rows else []
    reasons: dict[str, set[str]] = {}
    for row in entry["missing"]:
        first = row["reason"].partition("\n")[0]
        reasons.setdefault(first, set()).add(f"{row['annotator']} {row['measure']}")
    return lines + [f"no {', '.join(sorted(missing))}: {reason}" for reason, missing in reasons.items()]


def _pair(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    return " ".join("-" if row[name] is None else short(row[name]) for name in ("tau", "rho"))


def calibration_entry(ruling: CalibrationResult) -> dict[str, Any]:
    """The agreement of the judge with people, and the verdict on its bounds."""
    calibration, bounds = ruling.calibration, ruling.bounds
    return {
        **agreement_with_people(calibration),
        "threshold": {f"min_{name}": bound for name, bound in bounds.given.items()} or None,
        "verdict": ruling.status,
        "reason": None if ruling.status is None else ruling.reason,
    }


def agreement_with_people(calibration: Calibration) -> dict[str, Any]:
    """The agreement of the judge with people, that of people among themselves, and each disagreement."""
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
            {"id": one.item.example.id, "human": one.human, "judge": one.judge}
            for one in calibration.disagreements
        ],
    }


def calibration_lines(entry: Mapping[str, Any]) -> list[str]:
    """The agreement with its bounds, and that of people among themselves."""
    by = f", compared by {entry['comparator']}" if "comparator" in entry else ""
    without = "".join(f", {entry[word]} {word}" for word in ("unscored", "undecided") if entry[word])
    unusable = entry.get("unusable", [])
    without += f", {len(unusable)} unusable" if unusable else ""
    bounds = entry.get("threshold") or {}
    measured = []
    for name, found in entry["agreement"].items():
        bound = bounds.get(f"min_{name}")
        measured.append(f"{name} {_with_interval(found)}{'' if bound is None else f' (≥ {bound:g})'}")
    verdict = f": {entry['verdict']}" if entry.get("verdict") else ""
    labels = f"{entry['labels']}, n = {entry['n']}{without}{by}"
    lines = [f"judge against people ({labels}): {', '.join(measured)}{verdict}"]
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


def calibration_failure(ruling: CalibrationResult, *, limit: int | None) -> list[str]:
    """The failure of a bound: the agreement, and at most `limit` items on which the judge differs from people."""
    calibration = ruling.calibration
    lines = wrapped(f"judge against people: {ruling.reason}", 2)
    for line in calibration_lines(agreement_with_people(calibration)):
        lines.extend(wrapped(line, 2))
    differing = calibration.disagreements
    lines.append(
        f"{len(differing)} of {counted(len(calibration.labelled_verdicts), 'verdict')} are not the people's:"
    )
    shown = differing if limit is None else differing[:limit]
    for one in shown:
        lines.extend(_item(one, calibration.labels.scale))
    if len(differing) > len(shown):
        lines.append(f"  and {len(differing) - len(shown)} more (-vv shows them)")
    return lines


def corrected_entry(correction: Correction | None) -> dict[str, Any]:
    """The mean of a score corrected for the judge's errors; empty where it is not known."""
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


def _item(one: LabelledVerdict, scale: Scale) -> Iterator[str]:
    item = one.item
    human, judge = (LABELS[scale].get(label, f"{label:.2f}") for label in (one.human, one.judge))
    yield from wrapped(f"  {item.example.id}  human: {human}, judge: {judge}  {item.example.question}", 6)
    if isinstance(item, LabelledPair):
        yield from field_lines("first", [item.first])
        yield from field_lines("second", [item.second])
    elif isinstance(item, LabelledAnswer):
        yield from field_lines("reference", item.references, separator=" | ")
        yield from field_lines("prediction", [item.prediction])
    else:
        yield from field_lines("passage", [item.passage])


def _with_interval(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "undefined"
    low, high = found["ci95"]
    return f"{found['value']:.3f} [{low:.3f}, {high:.3f}]"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
