"""All results of a run as plain data, schema 1: what every report is made of."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["SCHEMA", "report_document"]

SCHEMA: Final = 1


def report_document(  # noqa: PLR0913 - what a report is made of
    tests: Sequence[Mapping[str, Any]],
    *,
    matrix: Sequence[Mapping[str, Any]] = (),
    ratings: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any],
    llm: Mapping[str, Any],
    package: str,
    started: str,
    duration_s: float,
    stopped: bool = False,
) -> dict[str, Any]:
    """All results of a run, as JSON has them.

    Args:
        tests: a test's node id, outcome, eval set and score entries each.
        matrix: systems × scores, one for each test whose retriever, generator or judge is parametrized.
        ratings: of the systems of parametrized tests, by their battles against the references in the arena.
        settings: what generates and compares where a test says nothing else.
        llm: what was asked of models.
        package: version of this package.
        started: date and time in ISO 8601, with the offset.
        duration_s: of the whole test run, in seconds.
        stopped: whether it was stopped before its end, so that tests may be missing.
    """
    return {
        "schema": SCHEMA,
        "package": package,
        "started": started,
        "duration_s": round(duration_s, 3),
        "stopped": stopped,
        "settings": dict(settings),
        "llm": dict(llm),
        "tests": [dict(test) for test in tests],
        "matrix": [dict(each) for each in matrix],
        "ratings": [dict(table) for table in ratings],
    }
