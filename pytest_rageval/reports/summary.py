"""How a run ended, in a line and in marks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["BROKEN", "MARKS", "headline", "marked", "told_tests"]

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


def told_tests(tests: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
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
