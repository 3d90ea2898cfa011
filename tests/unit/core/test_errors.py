"""Errors of the user's code, reported with their origin; and the texts of errors."""

import traceback

import pytest

from pytest_rageval.core.errors import (
    MAX_FRAMES,
    CallableError,
    InputError,
    QueryError,
    RagevalError,
    Unscored,
)


def _deep(depth: int) -> None:
    if depth:
        _deep(depth - 1)
    else:
        raise ValueError("no index")


def _raised(depth: int) -> str:
    try:
        _deep(depth)
    except ValueError as error:
        return str(CallableError.from_exception("rageval_retriever raised for 'q'", error))
    return ""


def test_the_users_error_is_reported_with_its_type_and_text() -> None:
    assert _raised(0).startswith("rageval_retriever raised for 'q': ValueError: no index\n")


def test_the_users_own_frames_are_shown() -> None:
    assert _raised(0).splitlines()[-1].endswith(" in _deep")
    assert __file__ in _raised(0).splitlines()[-1]


def test_deep_stacks_are_cut_to_the_innermost_frames() -> None:
    assert len(_raised(50).splitlines()) == 1 + MAX_FRAMES


@pytest.mark.parametrize("kind", [RagevalError, InputError, Unscored, QueryError])
def test_the_text_of_an_error_may_be_printed(kind: type[Exception]) -> None:
    """It has no control characters or CI commands, however it is printed. Our own newlines stay."""
    error = kind("found \x1b[2J\n  ::error::x")
    for text in (str(error), f"{error}", "".join(traceback.format_exception_only(error)).rstrip()):
        assert text.endswith("found \\u001b[2J\n  \\u003a:error::x")
