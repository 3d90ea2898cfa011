"""How a run ended, in a line and in marks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ["MARKS", "headline", "marked", "told_tests"]

MARKS: Final[Mapping[str, str]] = {
    "pass": "✅",
    "inconclusive": "⚠️",
    "fail": "❌",
    "error": "❗",
    "passed": "✅",
    "failed": "❌",
}
"""By the verdict of a threshold, and by the outcome of a test."""

WORDS: Final = {"fail": "failed", "error": "in error", "inconclusive": "inconclusive", "pass": "passed"}
"""By verdict, the worst first."""


def headline(document: Mapping[str, Any]) -> str:
    """Thresholds by verdict, and tests that failed by something else: "rageval: 1 of 4 thresholds failed"."""
    verdicts = Counter(
        judged["verdict"]
        for test in document["tests"]
        for judged in (*test["scores"], *test.get("calibration", ()))
        if judged["verdict"] is not None
    )
    total = verdicts.total()
    told = [f"{verdicts[verdict]} {word}" for verdict, word in WORDS.items() if verdicts[verdict]]
    if told:
        # The first of them names what is counted.
        count, word = told[0].split(" ", 1)
        told[0] = f"{count} of {total} threshold{'' if total == 1 else 's'} {word}"
    others = sum(_failed_otherwise(test) for test in document["tests"])
    if others:
        told.append(f"{others} test{'' if others == 1 else 's'} failed by something else")
    return f"rageval: {', '.join(told) or 'no thresholds'}"


def marked(entry: Mapping[str, Any]) -> str:
    """The mark of an entry's verdict; nothing where it has none."""
    return MARKS.get(entry["verdict"] or "", "")


def told_tests(tests: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The tests with what went wrong first; else in their order."""
    yield from sorted(tests, key=lambda test: test["outcome"] == "passed")


def _failed_otherwise(test: Mapping[str, Any]) -> bool:
    """Whether no threshold says why, as where an assertion of the test's own failed."""
    explained = any(
        each["verdict"] in {"fail", "error"} for each in (*test["scores"], *test.get("calibration", ()))
    )
    return test["outcome"] != "passed" and not explained
