"""Writes the entries `calibration` and `agreement` of a test as lines of text.

The first is the agreement of the judge with people, the second that of labels of passages with scores of answers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_rageval.reports.layout import align_columns
from pytest_rageval.stats.agreement import format_rho


def agreement_lines(entry: Mapping[str, Any]) -> list[str]:
    """Return the table of a test's entry `agreement`: correlations of labels of passages with scores of answers."""
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


def agreement_by_system_lines(tests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the tables of a parametrized test side by side: for each k a column for each system."""
    groups: dict[tuple[Any, ...], list[tuple[Mapping[str, str], Mapping[str, Any]]]] = {}
    for test in tests:
        for entry in test.get("agreement", ()) if test.get("system") else ():
            key = (test["function"], (test["evalset"] or {}).get("digest"), entry["label"])
            groups.setdefault(key, []).append((test["system"], entry))
    lines = []
    for (function, _, label), group in groups.items():
        names = [" × ".join(system.values()) for system, _ in group]
        if len(set(names)) < 2 or len(set(names)) < len(names):  # noqa: PLR2004 - two systems are compared
            continue
        rows = [
            {(row["annotator"], row["measure"], row["k"]): row for row in entry["rows"]} for _, entry in group
        ]
        by = f", answers scored by {label}" if label else ""
        for k in sorted({k for each in rows for _, _, k in each}):
            lines.append(f"{function}: agreement with {group[0][1]['downstream']} at k = {k} by system{by}")
            cells = [("", *(f"{name:>11}" for name in names))]
            for annotator, measure in dict.fromkeys((a, m) for each in rows for a, m, at in each if at == k):
                pairs = (_tau_and_rho(each.get((annotator, measure, k))) for each in rows)
                cells.append((f"{annotator} {measure}", *pairs))
            lines += [f"  {line}" for line in align_columns(cells, right=range(1, len(names) + 1))]
    return lines


def _tau_and_rho(row: Mapping[str, Any] | None) -> str:
    """Return the text of a cell, such as ".58 .71"; empty if the row has no such cell."""
    if row is None:
        return ""
    return " ".join("-" if row[name] is None else format_rho(row[name]) for name in ("tau", "rho"))


def calibration_lines(entry: Mapping[str, Any]) -> list[str]:
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


def _with_interval(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None:
        return "undefined"
    low, high = estimate["ci95"]
    return f"{estimate['value']:.3f} [{low:.3f}, {high:.3f}]"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
