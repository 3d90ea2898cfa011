"""How a test ended, for the reports."""

from collections.abc import Mapping
from typing import Final

import pytest

__all__ = ["PASSED", "ended"]

PASSED: Final[Mapping[str, str]] = {"outcome": "passed"}


def ended(report: pytest.TestReport) -> Mapping[str, str]:
    """A failure or an error, with what pytest says of it, without the traceback where there is one."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = report.longreprtext if crash is None else crash.message
    outcome = "failed" if report.when == "call" else "error"
    # The name that pytest gives to what `pytest.fail` raises tells nothing.
    return {"outcome": outcome, "message": message.removeprefix("Failed: ")}
