"""A score's row, and what is told of it below the rows: the same in every report that people read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.reports.agreement import agreement_lines
from pytest_rageval.reports.arena import arena_text
from pytest_rageval.reports.baseline import baseline_text, moved_text
from pytest_rageval.reports.beside import beside_text
from pytest_rageval.reports.calibration import calibration_lines, corrected_text
from pytest_rageval.reports.entries import sliced_name
from pytest_rageval.reports.factors import factors_text
from pytest_rageval.reports.oddities import oddities_text
from pytest_rageval.reports.reasons import undefined_text, unscored_text
from pytest_rageval.reports.repeats import repeats_text
from pytest_rageval.reports.slices import slices_text
from pytest_rageval.reports.summary import MARKS
from pytest_rageval.reports.triage import triage_text
from pytest_rageval.reports.votes import votes_text

__all__ = ["HEAD", "NUMERIC", "WIDE_HEAD", "cells", "notes", "test_name", "wide_cells"]

HEAD: Final = ("score", "mean", "95% interval", "n", "unscored", "threshold", "verdict")
"""The columns."""

BASELINE: Final = HEAD.index("threshold")
WIDE_HEAD: Final = (*HEAD[:BASELINE], "vs baseline", *HEAD[BASELINE:])
"""The columns where lines may be long: with how far a score moved from its baseline."""

NUMERIC: Final = frozenset({"mean", "n", "unscored"})
"""Those that stand to the right."""

BESIDE: Final = (
    unscored_text,
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


def test_name(test: Mapping[str, Any]) -> str:
    """A test with its eval set: "test_a.py::test_support  (support.jsonl, 240)"."""
    evalset = test.get("evalset")
    return f"{test['nodeid']}  ({evalset['name']}, {evalset['size']})" if evalset else str(test["nodeid"])


def cells(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """A score's row: a text for each of `HEAD`."""
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


def wide_cells(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """A score's row: a text for each of `WIDE_HEAD`, the verdict with its mark."""
    *texts, verdict = cells(entry)
    mark = f"{MARKS[verdict]} " if verdict in MARKS else ""
    return (*texts[:BASELINE], moved_text(entry) or "-", *texts[BASELINE:], f"{mark}{verdict}")


def notes(test: Mapping[str, Any]) -> Iterator[str]:
    """What is told below the rows of a test, a line each, without indent."""
    yield from _odd(test["scores"])
    told = [(sliced_name(entry), text(entry)) for text in BESIDE for entry in test["scores"]]
    yield from (f"{name}: {text}" for name, text in told if text)
    for entry in test["scores"]:
        if any(entry.get("counts", {}).values()):
            yield f"{sliced_name(entry)}: {_counted(entry['counts'])}"
    for entry in test.get("calibration", ()):
        yield from calibration_lines(entry)
    for entry in test.get("agreement", ()):
        yield from agreement_lines(entry)


def _odd(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was odd about the rankings: once for the scores of which the same is to be said."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        names.setdefault(oddities_text(entry["oddities"]), []).append(sliced_name(entry))
    return [f"{', '.join(dict.fromkeys(named))}: {text}" for text, named in names.items() if text]


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def _threshold(bounds: Mapping[str, Any] | None) -> str:
    given = [
        (sign, (bounds or {}).get(word)) for word, sign in (("min", "≥"), ("max", "≤"), ("max_drop", "↓"))
    ]
    shown = [f"{sign} {value:g}" for sign, value in given if value is not None]
    return " ".join([*shown, *(["strict"] if (bounds or {}).get("strict") else [])]) or "-"
