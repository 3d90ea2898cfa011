"""The table of scores, the plan and the summary line on the terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.llm.usage import Usage
from pytest_rageval.reports.baseline import baseline_text, moved_text
from pytest_rageval.reports.judge_calibration import agreement_lines, calibration_lines, corrected_text
from pytest_rageval.reports.notes import (
    anomalies_text,
    arena_text,
    beside_text,
    factors_text,
    repeats_text,
    slice_warnings,
    slices_text,
    triage_text,
    undefined_text,
    unscored_text,
    votes_text,
)
from pytest_rageval.reports.results import sliced_name

__all__ = [
    "BROKEN",
    "HEAD",
    "MARKS",
    "NUMERIC",
    "WIDE_HEAD",
    "by_urgency",
    "cells",
    "headline",
    "marked",
    "notes",
    "plan_lines",
    "table_lines",
    "test_name",
    "warning_lines",
    "wide_cells",
]

MARKS: Final[Mapping[str, str]] = {
    "pass": "✅",
    "inconclusive": "⚠️",
    "fail": "❌",
    "error": "❗",
    "passed": "✅",
    "failed": "❌",
    "skipped": "⏭️",
    "xfailed": "✖️",
}
"""By the verdict of a threshold, and by the outcome of a test."""

BROKEN: Final = frozenset({"fail", "error"})
"""Verdicts that end a test, unless it is expected to fail."""

WORDS: Final = {
    "fail": "failed",
    "error": "in error",
    "inconclusive": "inconclusive",
    "expected": "failed as expected",
    "pass": "passed",
}
"""By verdict, the worst first."""


def headline(document: Mapping[str, Any]) -> str:
    """Thresholds by verdict, then the tests of which these do not tell: "rageval: 1 of 4 thresholds failed"."""
    tests = document["tests"]
    stopped = "; the run was stopped early" if document.get("stopped") else ""
    told = [*_thresholds(tests), *_others(tests)] or ["nothing was scored"]
    return f"rageval: {', '.join(told)}{stopped}"


def marked(entry: Mapping[str, Any]) -> str:
    """The mark of an entry's verdict; nothing where it has none."""
    return MARKS.get(entry["verdict"] or "", "")


def by_urgency(tests: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The tests by urgency: thresholds that broke, other failures, doubts, passes, skips; else in their order."""
    yield from sorted(tests, key=_urgency)


def _thresholds(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    verdicts = Counter(verdict for test in tests for verdict in _verdicts(test))
    total = verdicts.total()
    told = [f"{verdicts[verdict]} {word}" for verdict, word in WORDS.items() if verdicts[verdict]]
    if told:
        # The first of them names what is counted.
        count, word = told[0].split(" ", 1)
        told[0] = f"{count} of {total} threshold{'' if total == 1 else 's'} {word}"
    return told


def _others(tests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Tests that failed though no threshold did, such as by an assertion of their own, and those that did not run."""
    judged = any(map(_verdicts, tests))
    outcomes = Counter(
        "failed" if test["outcome"] in {"failed", "error"} else test["outcome"]
        for test in tests
        if not BROKEN & set(_verdicts(test))
    )
    # Where there are thresholds, they tell of what passed.
    for outcome in ("failed", "skipped") if judged else ("failed", "xfailed", "passed", "skipped"):
        count = outcomes[outcome]
        if count:
            yield f"{count} {'other ' if judged else ''}test{'' if count == 1 else 's'} {outcome}"


def _verdicts(test: Mapping[str, Any]) -> list[str]:
    """Of a test's thresholds; what broke where that was expected is a kind of its own."""
    judged = (each["verdict"] for each in (*test["scores"], *test.get("calibration", ())))
    expected = test["outcome"] == "xfailed"
    return [
        "expected" if expected and verdict in BROKEN else verdict for verdict in judged if verdict is not None
    ]


def _urgency(test: Mapping[str, Any]) -> int:
    verdicts = set(_verdicts(test))
    if test["outcome"] in {"failed", "error"}:
        return 0 if BROKEN & verdicts else 1
    if test["outcome"] == "skipped":
        return 4
    return 2 if "inconclusive" in verdicts else 3


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
        names.setdefault(anomalies_text(entry["oddities"]), []).append(sliced_name(entry))
    return [f"{', '.join(dict.fromkeys(named))}: {text}" for text, named in names.items() if text]


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def _threshold(bounds: Mapping[str, Any] | None) -> str:
    given = [
        (sign, (bounds or {}).get(word)) for word, sign in (("min", "≥"), ("max", "≤"), ("max_drop", "↓"))
    ]
    shown = [f"{sign} {value:g}" for sign, value in given if value is not None]
    return " ".join([*shown, *(["strict"] if (bounds or {}).get("strict") else [])]) or "-"


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


PLAN_HEAD: Final = ("requests", "cached", "live", "tokens in", "tokens out", "USD")


def plan_lines(planned: Sequence[tuple[str, Usage]]) -> list[str]:
    """A block for each test that asks: its name, then a row of numbers; the total of all at the end.

    Args:
        planned: node ids, and what each test would ask that those before it did not.
    """
    total = sum((usage for _, usage in planned), Usage())
    asking = [(nodeid, usage) for nodeid, usage in planned if usage.requests or usage.remarks]
    rows = [PLAN_HEAD, *(_cells(usage) for _, usage in asking), _cells(total)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(PLAN_HEAD))]
    lines = [_plan_line(PLAN_HEAD, widths)]
    for nodeid, usage in asking:
        lines += [nodeid, _plan_line(_cells(usage), widths)]
    lines += ["in total", _plan_line(_cells(total), widths)]
    if len(asking) < len(planned):
        lines.append(f"{len(planned) - len(asking)} other tests ask nothing.")
    return lines + _notes(total)


def _cells(usage: Usage) -> tuple[str, ...]:
    most = "≤ " if usage.dependent else ""
    out = "unbounded" if usage.unbounded else f"≤ {usage.tokens_out:,}" if usage.live else "0"
    cost = "unknown" if usage.unpriced else f"≤ {usage.cost_usd:.4f}" if usage.cost_usd else "0"
    return (
        f"{most}{usage.requests:,}",
        f"{usage.cached:,}",
        f"{most}{usage.live:,}",
        f"{most}{usage.tokens_in:,}",
        out,
        cost,
    )


def _notes(total: Usage) -> list[str]:
    notes = []
    if total.dependent:
        notes.append(
            f"{total.dependent} of the live requests depend on replies that are not there yet (a judge's on "
            "an answer, the repair of a rating): an upper bound."
        )
    if total.live:
        notes.append("Tokens in are counted by an estimate; tokens out are bounded, and mostly far fewer.")
    if total.unbounded:
        notes.append(
            f"Nothing bounds the length of {total.unbounded} replies: --rageval-max-tokens, or max_output in "
            "the file of --rageval-prices, does."
        )
    if total.unpriced:
        notes.append(f"The cost of {total.unpriced} replies is not known: --rageval-prices names prices.")
    return notes + [f"{count} × {remark}" for remark, count in total.sorted_remarks.items()]


def _plan_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return f"    {'  '.join(padded)}".rstrip()
