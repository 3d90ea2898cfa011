"""Lines and runs of a history, for tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pytest_rageval.extensions.history.history import Run

NODEID = "test_r.py::test_found"


def score(mean: float | None, verdict: str | None = "pass", **more: Any) -> dict[str, Any]:
    interval = {} if mean is None else {"ci95": [mean - 0.05, mean + 0.05]}
    return {"mean": mean, **interval, "n": 91, "unscored": 4, "verdict": verdict, **more}


def line(number: int, scores: dict[str, dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    tests = {NODEID: {"outcome": "passed", "evalset": "e1", "scores": scores or {"recall@3": score(0.9)}}}
    return {
        "schema": 1,
        "time": (datetime(2026, 11, 1, 9, tzinfo=UTC) + timedelta(hours=number)).isoformat(),
        "commit": f"{number:040x}"[::-1],
        "branch": "main",
        "title": f"change {number}",
        "tests": tests,
        **more,
    }


def run(number: int, scores: dict[str, dict[str, Any]] | None = None, **more: Any) -> Run:
    return Run.from_line(line(number, scores, **more))
