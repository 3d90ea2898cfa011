"""The table of scores at the end of a run."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_rageval.llm.usage import Usage
from pytest_rageval.reports.agreement import agreement_lines
from pytest_rageval.reports.arena import arena_text
from pytest_rageval.reports.baseline import baseline_text
from pytest_rageval.reports.beside import beside_text
from pytest_rageval.reports.calibration import calibration_lines, corrected_text
from pytest_rageval.reports.entries import sliced_name
from pytest_rageval.reports.factors import factors_text
from pytest_rageval.reports.oddities import oddities_text
from pytest_rageval.reports.repeats import repeats_text
from pytest_rageval.reports.slices import slices_text
from pytest_rageval.reports.triage import triage_text
from pytest_rageval.reports.undefined import undefined_text
from pytest_rageval.reports.votes import votes_text

__all__ = ["table_lines", "usage_lines", "warning_lines"]

HEAD: Final = ("score", "mean", "95% interval", "n", "unscored", "threshold", "verdict")

BESIDE: Final = (
    undefined_text,
    baseline_text,
    slices_text,
    repeats_text,
    beside_text,
    factors_text,
    triage_text,
    votes_text,
    arena_text,
    corrected_text,
)
"""What is told of a score below the rows, a line each."""


def table_lines(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """A block a test: its name, then a row a score; no trailing spaces.

    Args:
        tests: as in the JSON report.
    """
    blocks = [(str(test["nodeid"]), [_cells(entry) for entry in test["scores"]]) for test in tests]
    rows = [HEAD, *(row for _, rows in blocks for row in rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_line(HEAD, widths)]
    for (nodeid, cells), test in zip(blocks, tests, strict=True):
        evalset = test.get("evalset")
        lines.append(f"{nodeid}  ({evalset['name']}, {evalset['size']})" if evalset else nodeid)
        lines.extend(_line(row, widths) for row in cells)
        lines.extend(_odd(test["scores"]))
        told = [(sliced_name(entry), text(entry)) for text in BESIDE for entry in test["scores"]]
        lines.extend(f"    {name}: {text}" for name, text in told if text)
        lines.extend(
            f"    {sliced_name(entry)}: {_counted(entry['counts'])}"
            for entry in test["scores"]
            if any(entry.get("counts", {}).values())
        )
        lines.extend(
            f"    {line}" for entry in test.get("calibration", ()) for line in calibration_lines(entry)
        )
        lines.extend(f"    {line}" for entry in test.get("agreement", ()) for line in agreement_lines(entry))
    return lines


def warning_lines(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a reader should know even of a run that passed, a line each.

    Args:
        tests: as in the JSON report.
    """
    evalsets = [test["evalset"] for test in tests if test.get("evalset")]
    # Once for all tests that have the set.
    of_sets = dict.fromkeys(
        f"warning: {each['name']}: {warning}" for each in evalsets for warning in each.get("warnings", ())
    )
    return [
        *of_sets,
        *(
            f"warning: {test['nodeid']}: {sliced_name(entry)}: {warning}"
            for test in tests
            for entry in test["scores"]
            for warning in entry.get("warnings", ())
        ),
    ]


def usage_lines(usage: Usage) -> list[str]:
    """What was asked of models, in a line, and what to know about it, a line each."""
    parts = [f"{usage.requests} replies: {usage.cached} cached, {usage.live} live"]
    if usage.failed:
        parts.append(f"{usage.failed} failed")
    if usage.live:
        parts.append(f"{usage.tokens_in} tokens in, {usage.tokens_out} out")
        parts.append(f"{usage.cost_usd:.4f} USD" if not usage.unpriced else "price not known")
    lines = [", ".join(parts)] if usage.requests else []
    if usage.cut:
        lines.append(f"{usage.cut} replies were cut by the token limit")
    return lines + [f"{count} × {remark}" for remark, count in usage.remarks.most_common()]


def _odd(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was odd about the rankings: once for the scores of which the same is to be said."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        names.setdefault(oddities_text(entry["oddities"]), []).append(sliced_name(entry))
    return [f"    {', '.join(dict.fromkeys(named))}: {text}" for text, named in names.items() if text]


def _cells(entry: Mapping[str, Any]) -> tuple[str, ...]:
    interval = entry["ci95"]
    return (
        sliced_name(entry),
        "-" if entry["mean"] is None else f"{entry['mean']:.3f}",
        "-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
        # What was found before an error is not kept.
        *("-" if entry["mean"] is None else str(entry[counted]) for counted in ("n", "unscored")),
        _threshold(entry["threshold"]),
        entry["verdict"] or "-",
    )


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def _threshold(bounds: Mapping[str, Any] | None) -> str:
    given = [
        (sign, (bounds or {}).get(word)) for word, sign in (("min", "≥"), ("max", "≤"), ("max_drop", "↓"))
    ]
    shown = [f"{sign} {value:g}" for sign, value in given if value is not None]
    return " ".join([*shown, *(["strict"] if (bounds or {}).get("strict") else [])]) or "-"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    # Numbers to the right, words to the left.
    numeric = {"mean", "n", "unscored"}
    padded = [
        cell.rjust(width) if name in numeric else cell.ljust(width)
        for name, cell, width in zip(HEAD, cells, widths, strict=True)
    ]
    return f"  {'  '.join(padded)}".rstrip()
