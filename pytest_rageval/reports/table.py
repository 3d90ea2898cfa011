"""The table of scores at the end of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rageval.reports.entries import sliced_name
from pytest_rageval.reports.rows import HEAD, NUMERIC, cells, notes, test_name
from pytest_rageval.reports.slices import slice_warnings

__all__ = ["table_lines", "warning_lines"]


def table_lines(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """A block a test: its name, then a row a score; no trailing spaces.

    Args:
        tests: as in the JSON report.
    """
    blocks = [(test, [cells(entry) for entry in test["scores"]]) for test in tests]
    rows = [HEAD, *(row for _, rows in blocks for row in rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_line(HEAD, widths)]
    for test, rows in blocks:
        lines.append(test_name(test))
        lines.extend(_line(row, widths) for row in rows)
        lines.extend(f"    {note}" for note in notes(test))
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
        *(f"warning: {test['nodeid']}: {text}" for test in tests for text in test.get("warnings", ())),
        *(
            f"warning: {test['nodeid']}: {sliced_name({**entry, 'where': where})}: {warning}"
            for test in tests
            for entry in test["scores"]
            for where, warning in (
                *((entry["where"], warning) for warning in entry.get("warnings", ())),
                *slice_warnings(entry),
            )
        ),
    ]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    # Numbers to the right, words to the left.
    padded = [
        cell.rjust(width) if name in NUMERIC else cell.ljust(width)
        for name, cell, width in zip(HEAD, row, widths, strict=True)
    ]
    return f"  {'  '.join(padded)}".rstrip()
