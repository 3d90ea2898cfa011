"""Errors of ours as pytest shows them: down to the line of the user's that called us, and no further."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import pytest

from pytest_rageval.errors import RagevalError, Unscored

__all__ = ["tell"]

PACKAGE: Final = Path(__file__).parents[1]


def tell(excinfo: pytest.ExceptionInfo[BaseException] | None) -> None:
    """Cut the frames from the first of ours on, and what was raised before: the error's text says it all.

    Also where the user's own exception came of ours, or is a group of several: pytest shows these too,
    and with `--showlocals` the variables of each frame.

    Args:
        excinfo: what ended a phase of a test, where anything did.
    """
    if excinfo is None:
        return
    for error in _shown(excinfo.value):
        if isinstance(error, RagevalError | Unscored):
            error.__cause__, error.__suppress_context__ = None, True
            _cut(error)
    # Who printed it before, as `--debug` does, has made it keep the frames.
    excinfo.traceback = type(excinfo.traceback)(excinfo.tb)


def _shown(error: BaseException) -> Iterator[BaseException]:
    """An exception and all that it came of or consists of."""
    found, seen = [error], set[int]()
    while found:
        each = found.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        found += [one for one in (each.__cause__, each.__context__) if one is not None]
        found += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        yield each


def _cut(error: BaseException) -> None:
    here = error.__traceback__
    if here is not None and _is_ours(here):
        error.__traceback__ = None
        return
    while here is not None and here.tb_next is not None:
        if _is_ours(here.tb_next):
            here.tb_next = None
            return
        here = here.tb_next


def _is_ours(here: TracebackType) -> bool:
    return Path(here.tb_frame.f_code.co_filename).is_relative_to(PACKAGE)
