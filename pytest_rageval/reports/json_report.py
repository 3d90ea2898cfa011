"""The JSON report, schema 1."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_rageval.llm.usage import Usage

__all__ = ["SCHEMA", "json_report", "llm_entry"]

SCHEMA: Final = 1


def json_report(  # noqa: PLR0913 - what a report is made of
    tests: Sequence[Mapping[str, Any]],
    *,
    matrix: Sequence[Mapping[str, Any]] = (),
    ratings: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any],
    llm: Mapping[str, Any],
    package: str,
    started: str,
    duration_s: float,
) -> str:
    """All results of a run as a JSON document.

    Args:
        tests: a test's node id, eval set and score entries each.
        matrix: systems × scores, one for each test whose retriever, generator or judge is parametrized.
        ratings: of the systems of parametrized tests, by their battles against the references in the arena.
        settings: what generates and compares where a test says nothing else.
        llm: what was asked of models.
        package: version of this package.
        started: date and time in ISO 8601, with the offset.
        duration_s: of the whole test run, in seconds.
    """
    document = {
        "schema": SCHEMA,
        "package": package,
        "started": started,
        "duration_s": round(duration_s, 3),
        "settings": dict(settings),
        "llm": dict(llm),
        "tests": [dict(test) for test in tests],
        "matrix": [dict(each) for each in matrix],
        "ratings": [dict(table) for table in ratings],
    }
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def llm_entry(usage: Usage) -> dict[str, Any]:
    """What was asked of models; the cost is null where a price is not known: it is not guessed."""
    numbers = {**usage.plain(), "cost_usd": None if usage.unpriced else round(usage.cost_usd, 6)}
    order = ("requests", "cached", "live", "failed", "tokens_in", "tokens_out", "cost_usd")
    return {name: numbers[name] for name in (*order, "unpriced", "cut", "remarks")}
