"""Writes the report on the terminal: the table of scores, its notes and warnings, and what to run next.

Other reports use the same texts.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted, plural, singular
from pytest_rageval.reports.anomalies import all_zero_reason, anomalies_text
from pytest_rageval.reports.build import evalset_text, sliced_name
from pytest_rageval.reports.layout import WIDTH, align_columns
from pytest_rageval.reports.notes import (
    NOTE_TEXTS,
    calibration_lines,
    change_text,
    significant_gain,
    slice_warnings,
)

if TYPE_CHECKING:
    from pytest_rageval.reports.document import ScoreEntry, TestEntry

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
"""The mark for each verdict of a threshold, and for each outcome of a test."""

FAILING_OUTCOMES: Final = frozenset({"failed", "error"})  # of tests that fail a run
FAILING_VERDICTS: Final = frozenset({"fail", "error"})  # unless the test is expected to fail

VERDICTS: Final = {
    "fail": "failed",
    "error": "in error",
    "inconclusive": "inconclusive",
    "expected": "failed as expected",
    "pass": "passed",
}
"""The text for each verdict in a sentence, the worst verdict first."""

HEAD: Final = ("verdict", "score", "value", "bound", "n", "95% interval")
"""The columns of the table. In a narrow terminal those after the bound are left out."""

NOTES_OF_A_SET: Final = frozenset({"oddities", "unscored", "undefined"})  # that tests may share

NEEDED_COLUMNS: Final = HEAD.index("bound") + 1

SIGNS: Final = {
    "min": "≥",
    "max": "≤",
    "max_drop": "↓",
    "max_total_drop": "total ↓",
    "max_lost": "lost ≤",
    "max_ratio": "ratio ≤",
}
"""The sign of each bound in the cell of a threshold."""

agreement_lines: Final = Lazy("reports.systems", "agreement_lines")  # few runs have an agreement
missing_text: Final = Lazy("reports.gated_tests", "missing_text")  # few runs have a baseline
triage_rows: Final = Lazy("scores.llm_reteval", "triage_rows")


def headline(document: Mapping[str, Any]) -> str:
    """Return the summary line: thresholds by verdict, then other tests: "rageval: 1 of 4 thresholds failed"."""
    tests = document["tests"]
    stopped = "; the run was stopped early" if document.get("stopped") else ""
    counts = [*_threshold_counts(tests), *_test_counts(tests)] or ["nothing was scored"]
    if "gate" in document:
        counts += filter(None, [missing_text(document["gate"])])
    if document.get("suite", {}).get("verdict") == "fail":
        counts.insert(0, "the suite got worse")
    return f"rageval: {', '.join(counts)}{stopped}"


def _threshold_counts(tests: Sequence["TestEntry"]) -> Iterator[str]:
    verdicts = Counter(verdict for test in tests for verdict in _verdicts(test))
    total = verdicts.total()
    noun = f" of {counted(total, 'threshold')}"
    for verdict, word in VERDICTS.items():
        if verdicts[verdict]:
            # The first count has the noun.
            yield f"{verdicts[verdict]}{noun} {word}"
            noun = ""


def _test_counts(tests: Sequence["TestEntry"]) -> Iterator[str]:
    """Yield the counts of tests by outcome, without the tests that have a failed threshold.

    Such a test failed by an assertion of its own, for example.
    """
    has_thresholds = any(map(_verdicts, tests))
    outcomes = Counter(
        "failed" if test["outcome"] in FAILING_OUTCOMES else test["outcome"]
        for test in tests
        if not FAILING_VERDICTS & set(_verdicts(test))
    )
    # Passed tests are counted only in a run without thresholds. Else the counts of thresholds include them.
    for outcome in ("failed", "skipped") if has_thresholds else ("failed", "xfailed", "passed", "skipped"):
        count = outcomes[outcome]
        if count:
            yield f"{count} {'other ' if has_thresholds else ''}{plural(count, 'test')} {outcome}"


def _verdicts(test: "TestEntry") -> list[str]:
    """Return the verdicts of a test's thresholds; "expected" for a failure in a test that was expected to fail."""
    verdicts = (entry["verdict"] for entry in (*test["scores"], *test.get("calibration", ())))
    is_expected = test["outcome"] == "xfailed"
    return [
        "expected" if is_expected and verdict in FAILING_VERDICTS else verdict
        for verdict in verdicts
        if verdict is not None
    ]


def by_urgency(tests: Sequence["TestEntry"]) -> list["TestEntry"]:
    """Return the tests sorted: failed thresholds first, then other failures, inconclusive, passed and skipped tests."""
    return sorted(tests, key=_urgency)


def _urgency(test: "TestEntry") -> int:
    verdicts = set(_verdicts(test))
    if test["outcome"] in FAILING_OUTCOMES:
        return 0 if FAILING_VERDICTS & verdicts else 1
    if test["outcome"] == "skipped":
        return 4
    return 2 if "inconclusive" in verdicts else 3


def test_name(test: "TestEntry") -> str:
    """Return the node id of a test with its eval set: "test_a.py::test_support  (support.jsonl, 240)"."""
    evalset = test.get("evalset")
    return f"{test['nodeid']}  ({evalset_text(evalset)})" if evalset else str(test["nodeid"])


class Cells(NamedTuple):
    verdict: str
    score: str
    value: str
    bound: str
    n: str
    interval: str


class Row(str):
    """A line of a row, with the texts that have the colour of the row's verdict, in their order."""

    __slots__ = ("coloured", "verdict")

    verdict: str
    coloured: tuple[str, ...]

    def __new__(cls, text: str, verdict: str, coloured: tuple[str, ...]) -> Self:
        row = super().__new__(cls, text)
        row.verdict, row.coloured = verdict, coloured
        return row


def table_lines(tests: Sequence["TestEntry"], columns: int = WIDTH) -> list[str]:
    """Return the table of scores in lines: for each test its name, a row for each score, and notes."""
    cells = [_cells(entry) for test in tests for entry in test["scores"]]
    head, *rows = _fit([Cells(*HEAD), *cells], columns)
    lines, each, told = [*head], zip(cells, rows, strict=True), set[str]()
    for test in tests:
        lines.append(test_name(test))
        for row, texts in islice(each, len(test["scores"])):
            lines += [Row(text, row.verdict, (row.verdict, row.value)) for text in texts]
        lines += [f"    {note}" for note in note_lines(test, told)]
    return lines


def _fit(rows: Sequence[Cells], columns: int) -> list[list[str]]:
    """Return each row in lines of at most these columns: one, without the last cells if need be; else two."""
    for length in range(len(HEAD), NEEDED_COLUMNS - 1, -1):
        right = {HEAD.index("n")} if length > HEAD.index("n") else set()
        lines = [f"  {line}" for line in align_columns([row[:length] for row in rows], right)]
        if max(map(len, lines)) <= columns:
            return [[line] for line in lines]
    indent = max(len(row.verdict) for row in rows)
    pairs = align_columns([(row.value, row.bound) for row in rows])
    # The value and the bound have a line each if they do not fit in one.
    fits = max(map(len, pairs)) + indent + 4 <= columns
    below = [[pair] for pair in pairs] if fits else [[row.value, row.bound] for row in rows]
    return [
        [f"  {row.verdict:<{indent}}  {row.score}", *(f"  {'':<{indent}}  {text}" for text in texts)]
        for row, texts in zip(rows, below, strict=True)
    ]


def _cells(entry: "ScoreEntry") -> Cells:
    mean, unscored, change = entry["mean"], entry["unscored"], change_text(entry)
    if mean is None:
        value, n = "stopped early" if "early_stop" in entry else "-", "-"
    else:
        value = f"{number_text(mean)} ({change})" if change else number_text(mean)
        n = f"{entry['n']} of {entry['n'] + unscored}" if unscored else str(entry["n"])
    bound, interval = threshold_text(entry), interval_text(entry)
    return Cells(entry["verdict"] or "-", sliced_name(entry), value, bound, n, interval)


def interval_text(entry: "ScoreEntry") -> str:
    """Return the 95% interval of a mean, "0.489 to 0.687"; "-" without one."""
    return " to ".join(map(number_text, entry["ci95"])) if entry["ci95"] else "-"


def number_text(value: float) -> str:
    """Format a number with three decimals, or with two digits if these would be 0, as for a time or a cost."""
    return f"{value:.3f}" if abs(value) >= 0.0005 or not value else f"{value:.2g}"  # noqa: PLR2004 - rounds to 0.001


def threshold_text(entry: "ScoreEntry") -> str:
    """Return the bounds of a threshold with their signs: "≥ 0.85 ↓ 0.02"; "-" without bounds."""
    threshold = entry["threshold"] or {}
    bounds = ((sign, threshold.get(keyword)) for keyword, sign in SIGNS.items())
    texts = [f"{sign} {value:g}" for sign, value in bounds if value is not None]
    return " ".join([*texts, *(["strict"] if threshold.get("strict") else [])]) or "-"


def note_lines(test: "TestEntry", told: set[str] | None = None) -> Iterator[str]:
    """Yield the notes below the rows of a test, each as a line without indentation.

    `told` is what was said of the eval set below other tests, and by failures, and is not repeated; None to repeat it.
    """
    texts = {
        "oddities": lambda entry: anomalies_text(entry["oddities"]),
        **NOTE_TEXTS,
        "counts": _counts_text,
    }
    for key, note_text in texts.items():
        # Scores of the same rankings, or of the same questions, share notes.
        names: dict[str, list[str]] = {}
        for entry in test["scores"]:
            is_told = told is not None and key == "baseline" and entry["verdict"] == "fail"
            if entry.get(key) is not None and not is_told:
                names.setdefault(note_text(entry), []).append(sliced_name(entry))
        for text, each in names.items():
            if text and not (
                told is not None and key in NOTES_OF_A_SET and f"{test['evalset']} {text}" in told
            ):
                yield f"{', '.join(dict.fromkeys(each))}: {text}"
        if told is not None:
            told |= {f"{test['evalset']} {text}" for text in names}
    if triaged := {sliced_name(entry): entry for entry in test["scores"] if "cases" in entry}:
        rows: list[list[str]] = triage_rows(triaged)
        yield from align_columns(rows, right=range(1, len(triaged) + 1)) if rows else ()
    yield from test.get("notes", ())
    yield from chain.from_iterable(map(calibration_lines, test.get("calibration", ())))
    yield from chain.from_iterable(map(agreement_lines, test.get("agreement", ())))


def _counts_text(entry: "ScoreEntry") -> str:
    counts = entry.get("counts", {})
    if not any(counts.values()):
        return ""
    nouns = ((count, name.replace("_", " ")) for name, count in counts.items())
    return ", ".join(f"{count} {singular(noun) if count == 1 else noun}" for count, noun in nouns)


def warning_lines(tests: Sequence["TestEntry"]) -> list[str]:
    evalsets = [evalset for test in tests if (evalset := test.get("evalset"))]
    lines = [f"{entry['name']}: {warning}" for entry in evalsets for warning in entry.get("warnings", ())]
    # Several tests may have the same eval set: its warnings are shown once.
    lines = list(dict.fromkeys(lines))
    lines += [f"{test['nodeid']}: {warning}" for test in tests for warning in test.get("warnings", ())]
    for test in tests:
        for entry in test["scores"]:
            entry_warnings = ((entry["where"], warning) for warning in entry.get("warnings", ()))
            for where, warning in (*entry_warnings, *slice_warnings(entry), *_all_zero_warning(entry)):
                lines.append(f"{test['nodeid']}: {sliced_name({**entry, 'where': where})}: {warning}")
    return [f"warning: {line}" for line in lines]


def _all_zero_warning(entry: "ScoreEntry") -> Iterator[tuple[dict[str, object], str]]:
    """Yield the slice and a warning if a threshold does not fail although every question scores 0.

    The reason may be that the ids of retrieved passages are not of the same kind as the ids of gold passages.
    """
    threshold = entry["threshold"] or {}
    has_lower_bound = any(threshold.get(keyword) is not None for keyword in ("min", "max_drop", "max_lost"))
    if has_lower_bound and entry["verdict"] != "fail" and entry["mean"] == 0 and entry["n"]:
        reason = all_zero_reason(entry["oddities"])
        yield entry["where"], f"every question scores 0{f': {reason}' if reason else ''}"


def update_command(arguments: Iterable[str], merge: str = "") -> str:
    """Return the command that makes the present scores of the tests of these arguments their baseline.

    `merge` is the command that merged the shards of the run; empty if the run had none. The returned command then
    repeats the merge, and updates the baseline of all tests.
    """
    return (
        f"{merge} --update-baseline" if merge else " ".join(["pytest --rageval-update-baseline", *arguments])
    )


def accept_entry(broken: Iterable[Collection[str]]) -> dict[str, str]:
    """Return the key `accept` of a test: how its drops can be accepted; empty if no score dropped.

    `broken` has the violated bounds of each failed threshold: "baseline" or "bounds". The value is "update" if an
    update of the baseline accepts the drops. It is "bounds" if `min` or `max` of a score must be changed first: an
    update writes no score of a test of which one is out of its bounds, and the test would fail again.
    """
    violated = set[str]().union(*broken)
    return {"accept": "bounds" if "bounds" in violated else "update"} if "baseline" in violated else {}


def accept_lines(accept: str, argument: str, merge: str = "") -> list[str]:
    """Return how to accept the drops of a test by its value of the key `accept`; see `update_command` for `merge`."""
    command = update_command([argument], merge)
    if accept == "bounds":
        # `rageval merge` reads the bounds from the reports of the shards.
        again = ", run the tests again" if merge else ""
        return [f"accept this drop: change min or max in the test{again}, then", f"  {command}"]
    return [f"accept this drop{' and all other changes' if merge else ''}: {command}"]


def gains_text(test: "TestEntry") -> str:
    """Return the significant gains of a test: "recall@3 gained 0.030, which is significant"; empty without a gain."""
    gains = [
        f"{sliced_name(entry)} gained {gain:.3f}"
        for entry in test["scores"]
        if (gain := significant_gain(entry)) is not None
    ]
    return f"{', '.join(gains)}, which {'is' if len(gains) == 1 else 'are'} significant" if gains else ""


def gain_lines(
    tests: Iterable["TestEntry"], argument: Callable[[str], str], merge: str = ""
) -> Iterator[str]:
    for test in tests:
        if gains := gains_text(test):
            command = update_command([argument(test["nodeid"])], merge)
            yield f"{test['nodeid']}: {gains}; lock it in: {command}"
