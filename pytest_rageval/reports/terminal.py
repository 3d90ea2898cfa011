"""The table of scores, the plan and the summary line on the terminal."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pytest_rageval.lazy import Lazy
from pytest_rageval.llm.usage import Usage
from pytest_rageval.plural import counted, plural, singular
from pytest_rageval.reports.document import ScoreEntry
from pytest_rageval.reports.layout import aligned
from pytest_rageval.reports.notes import TEXTS, anomalies_text, moved_text, slice_warnings, why_all_zero
from pytest_rageval.reports.results import evalset_text, sliced_name

__all__ = [
    "BROKEN",
    "MARKS",
    "NUMERIC",
    "VERDICTS",
    "WIDE_HEAD",
    "by_urgency",
    "headline",
    "marked",
    "notes",
    "number_text",
    "plan_lines",
    "table_lines",
    "test_name",
    "threshold_text",
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

BROKEN: Final = frozenset({"fail", "error"})  # verdicts that fail a test, unless it is expected to fail

VERDICTS: Final = {
    "fail": "failed",
    "error": "in error",
    "inconclusive": "inconclusive",
    "expected": "failed as expected",
    "pass": "passed",
}
"""The words for verdicts, the worst first."""

HEAD: Final = ("score", "mean", "95% interval", "n", "unscored", "threshold", "verdict")
BASELINE: Final = HEAD.index("threshold")
WIDE_HEAD: Final = (*HEAD[:BASELINE], "vs baseline", *HEAD[BASELINE:])
"""The columns of reports that may have long lines: with the change from the baseline."""

NUMERIC: Final = frozenset({"mean", "n", "unscored"})  # the columns that are aligned to the right

SIGNS: Final = {
    "min": "≥",
    "max": "≤",
    "max_drop": "↓",
    "max_total_drop": "total ↓",
    "max_lost": "lost ≤",
    "max_ratio": "ratio ≤",
}
"""The signs of bounds, in the threshold's cell."""

PLAN_HEAD: Final = ("requests", "cached", "live", "tokens in", "tokens out", "USD")

# Few runs have any.
calibration_lines: Final = Lazy("reports.judge_calibration", "calibration_lines")
agreement_lines: Final = Lazy("reports.judge_calibration", "agreement_lines")


def headline(document: Mapping[str, Any]) -> str:
    """Thresholds by verdict, then tests that failed otherwise: "rageval: 1 of 4 thresholds failed"."""
    tests = document["tests"]
    stopped = "; the run was stopped early" if document.get("stopped") else ""
    counts = [*_thresholds(tests), *_others(tests)] or ["nothing was scored"]
    return f"rageval: {', '.join(counts)}{stopped}"


def _thresholds(tests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    verdicts = Counter(verdict for test in tests for verdict in _verdicts(test))
    total = verdicts.total()
    noun = f" of {counted(total, 'threshold')}"
    for verdict, word in VERDICTS.items():
        if verdicts[verdict]:
            # The first one names what is counted.
            yield f"{verdicts[verdict]}{noun} {word}"
            noun = ""


def _others(tests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Tests that failed without a failed threshold, such as by an assertion of their own, and skipped ones."""
    judged = any(map(_verdicts, tests))
    outcomes = Counter(
        "failed" if test["outcome"] in {"failed", "error"} else test["outcome"]
        for test in tests
        if not BROKEN & set(_verdicts(test))
    )
    # Where there are thresholds, their counts include those that passed.
    for outcome in ("failed", "skipped") if judged else ("failed", "xfailed", "passed", "skipped"):
        count = outcomes[outcome]
        if count:
            yield f"{count} {'other ' if judged else ''}{plural(count, 'test')} {outcome}"


def _verdicts(test: Mapping[str, Any]) -> list[str]:
    """The verdicts of a test's thresholds; a failure of a test that was expected to fail is "expected"."""
    verdicts = (each["verdict"] for each in (*test["scores"], *test.get("calibration", ())))
    expected = test["outcome"] == "xfailed"
    return [
        "expected" if expected and verdict in BROKEN else verdict
        for verdict in verdicts
        if verdict is not None
    ]


def by_urgency(tests: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The tests with failed thresholds first, then other failures, doubts, passes and skips."""
    return sorted(tests, key=_urgency)


def _urgency(test: Mapping[str, Any]) -> int:
    verdicts = set(_verdicts(test))
    if test["outcome"] in {"failed", "error"}:
        return 0 if BROKEN & verdicts else 1
    if test["outcome"] == "skipped":
        return 4
    return 2 if "inconclusive" in verdicts else 3


def marked(entry: ScoreEntry) -> str:
    """The mark of an entry's verdict; empty without a verdict."""
    return MARKS.get(entry["verdict"] or "", "")


def test_name(test: Mapping[str, Any]) -> str:
    """A test with its eval set: "test_a.py::test_support  (support.jsonl, 240)"."""
    evalset = test.get("evalset")
    return f"{test['nodeid']}  ({evalset_text(evalset)})" if evalset else str(test["nodeid"])


def table_lines(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of scores: a block per test, as in the JSON report, with its name, a row per score, and notes."""
    cells = [HEAD, *(_cells(entry) for test in tests for entry in test["scores"])]
    right = {column for column, name in enumerate(HEAD) if name in NUMERIC}
    rows = (f"  {row}" for row in aligned(cells, right))
    lines = [next(rows)]
    for test in tests:
        lines += [test_name(test), *islice(rows, len(test["scores"]))]
        lines += [f"    {note}" for note in notes(test)]
    return lines


def _cells(entry: ScoreEntry) -> tuple[str, ...]:
    """A score's row: a text for each of `HEAD`."""
    mean, interval = entry["mean"], entry["ci95"]
    no_interval = "stopped early" if mean is None and "early_stop" in entry else "-"
    return (
        sliced_name(entry),
        "-" if mean is None else number_text(mean),
        no_interval if interval is None else " to ".join(map(number_text, interval)),
        "-" if mean is None else str(entry["n"]),
        "-" if mean is None else str(entry["unscored"]),
        threshold_text(entry["threshold"] or {}),
        entry["verdict"] or "-",
    )


def number_text(value: float) -> str:
    """Format a number with three decimals, or with two digits if these would be 0, as for a time or a cost."""
    return f"{value:.3f}" if abs(value) >= 0.0005 or not value else f"{value:.2g}"  # noqa: PLR2004 - rounds to 0.001


def wide_cells(entry: ScoreEntry) -> tuple[str, ...]:
    """A score's row: a text for each of `WIDE_HEAD`, the verdict with its mark."""
    *texts, verdict = _cells(entry)
    mark = f"{MARKS[verdict]} " if verdict in MARKS else ""
    return (*texts[:BASELINE], moved_text(entry) or "-", *texts[BASELINE:], f"{mark}{verdict}")


def threshold_text(threshold: Mapping[str, Any]) -> str:
    """The bounds of a threshold with their signs: "≥ 0.85 ↓ 0.02"."""
    bounds = ((sign, threshold.get(word)) for word, sign in SIGNS.items())
    shown = [f"{sign} {value:g}" for sign, value in bounds if value is not None]
    return " ".join([*shown, *(["strict"] if threshold.get("strict") else [])]) or "-"


def notes(test: Mapping[str, Any]) -> Iterator[str]:
    """The notes below the rows of a test, a line each, without indent."""
    # Scores at one cut-off share the anomalies of their rankings.
    names: dict[str, list[str]] = {}
    for entry in test["scores"]:
        names.setdefault(anomalies_text(entry["oddities"]), []).append(sliced_name(entry))
    yield from (f"{', '.join(dict.fromkeys(named))}: {text}" for text, named in names.items() if text)
    for key, text in TEXTS.items():
        for entry in test["scores"]:
            if entry.get(key) is not None and (note := text(entry)):
                yield f"{sliced_name(entry)}: {note}"
    for entry in test["scores"]:
        counts = entry.get("counts", {})
        if any(counts.values()):
            named = ((count, name.replace("_", " ")) for name, count in counts.items())
            texts = (f"{count} {singular(name) if count == 1 else name}" for count, name in named)
            yield f"{sliced_name(entry)}: {', '.join(texts)}"
    for entry in test.get("calibration", ()):
        yield from calibration_lines(entry)
    for entry in test.get("agreement", ()):
        yield from agreement_lines(entry)


def warning_lines(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the warnings of a run, one line each; they are shown even if the run passed."""
    evalsets = [test["evalset"] for test in tests if test.get("evalset")]
    lines = [f"{each['name']}: {warning}" for each in evalsets for warning in each.get("warnings", ())]
    # Several tests may have one eval set.
    lines = list(dict.fromkeys(lines))
    lines += [f"{test['nodeid']}: {warning}" for test in tests for warning in test.get("warnings", ())]
    for test in tests:
        for entry in test["scores"]:
            of_entry = ((entry["where"], warning) for warning in entry.get("warnings", ()))
            for where, warning in (*of_entry, *slice_warnings(entry), *_all_zero(entry)):
                lines.append(f"{test['nodeid']}: {sliced_name({**entry, 'where': where})}: {warning}")
    return [f"warning: {line}" for line in lines]


def _all_zero(entry: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """A warning where a threshold passes though every question scores 0, as with ids of another kind."""
    threshold = entry["threshold"] or {}
    wants_more = any(threshold.get(word) is not None for word in ("min", "max_drop", "max_lost"))
    if wants_more and entry["verdict"] != "fail" and entry["mean"] == 0 and entry["n"]:
        found = why_all_zero(entry["oddities"])
        yield entry["where"], f"every question scores 0{f': {found}' if found else ''}"


def plan_lines(
    planned: Sequence[tuple[str, Usage]], tiers: Sequence[str] = (), *, failed: Collection[str] = ()
) -> list[str]:
    """Return the lines of a plan: a row of numbers for each test that uses models, and the total.

    Args:
        planned: for each test, its node id and its requests that no earlier test sends.
        tiers: cheaper tiers; the table has a column with the cost in each.
        failed: node ids of tests that ended as an error.
    """
    total = sum((usage for _, usage in planned), Usage())
    asking = [(nodeid, usage) for nodeid, usage in planned if usage.requests or usage.remarks]
    titles = (*PLAN_HEAD, *(f"USD {tier}" for tier in tiers))
    cells = [titles, *(_plan_cells(usage, tiers) for _, usage in asking), _plan_cells(total, tiers)]
    head, *rows = (f"    {row}" for row in aligned(cells, right=range(len(titles))))
    lines = [head]
    for (nodeid, _), row in zip([*asking, ("in total", total)], rows, strict=True):
        lines += [nodeid, row]
    shown = {nodeid for nodeid, _ in asking}
    if others := sum(nodeid not in shown and nodeid not in failed for nodeid, _ in planned):
        lines.append(f"{counted(others, 'other test')} {'sends' if others == 1 else 'send'} no requests.")
    if failed:
        lines.append(f"The plan may lack requests of {counted(len(failed), 'test')} that ended as an error.")
    if len(total.servers) > 1:
        lines += [_planned_of(name, usage) for name, usage in sorted(total.servers.items())]
    return lines + _plan_notes(total, tiers)


def _plan_cells(usage: Usage, tiers: Sequence[str] = ()) -> tuple[str, ...]:
    most = "≤ " if usage.dependent else ""
    out = "unbounded" if usage.unbounded else f"≤ {usage.tokens_out:,}" if usage.live else "0"
    costs = [
        (usage.cost_usd, usage.unpriced),
        *((usage.cost_at[tier], usage.unpriced_at[tier]) for tier in tiers),
    ]
    return (
        f"{most}{usage.requests:,}",
        f"{usage.cached:,}",
        f"{most}{usage.live:,}",
        f"{most}{usage.tokens_in:,}",
        out,
        *("unknown" if unpriced else f"≤ {usd:.4f}" if usd else "0" for usd, unpriced in costs),
    )


def _planned_of(server: str, usage: Usage) -> str:
    _, _, live, tokens_in, out, cost = _plan_cells(usage)
    paid = "price not known" if usage.unpriced else f"{cost} USD"
    return f"{server}: {live} live, {tokens_in} tokens in, {out} out, {paid}"


def _plan_notes(total: Usage, tiers: Sequence[str]) -> list[str]:
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
            f"Nothing bounds the length of {counted(total.unbounded, 'reply')}: --rageval-max-tokens, or max_output in "
            "the file of --rageval-prices, does."
        )
    if total.unpriced:
        notes.append(
            f"The cost of {counted(total.unpriced, 'reply')} is not known: --rageval-prices names prices."
        )
    for tier in tiers:
        if unpriced := total.unpriced_at[tier] - total.unpriced:
            price = f"{tier}_input and {tier}_output in the file of --rageval-prices"
            notes.append(
                f"The cost of {counted(unpriced, 'reply')} in the {tier} tier is not known: {price}."
            )
    return notes + [f"{count} × {remark}" for remark, count in total.sorted_remarks.items()]
