"""Errors of ours as pytest shows them: down to the line of the user's that called us, and no further."""

from pathlib import Path
from typing import Final

import pytest

from pytest_rageval.errors import RagevalError

__all__ = ["tell"]

PACKAGE: Final = Path(__file__).parents[1]


def tell(excinfo: pytest.ExceptionInfo[BaseException] | None) -> None:
    """Cut the frames from the first of ours on, and what was raised before: the error's text says it all.

    Args:
        excinfo: what ended a phase of a test, where anything did; pytest has not looked at it yet.
    """
    if excinfo is None or not isinstance(excinfo.value, RagevalError):
        return
    excinfo.value.__cause__, excinfo.value.__suppress_context__ = None, True
    here = excinfo.tb
    while here.tb_next is not None:
        if Path(here.tb_next.tb_frame.f_code.co_filename).is_relative_to(PACKAGE):
            here.tb_next = None
            return
        here = here.tb_next
