"""Values of foreign types, such as those of NumPy and pandas: missing values, whole numbers, ids, data frames.

The types are recognized by their names and methods, so that their packages need not be imported.
"""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, Final

__all__ = ["as_identifier", "data_frame_rows", "is_data_frame", "is_missing", "plain_number", "whole_number"]

MISSING_TYPES: Final = ("NAType", "NaTType")  # names of the types of missing values in pandas
MAX_EXACT_INTEGER: Final = 2**53  # above it, floats cannot represent every integer


def is_missing(value: Any) -> bool:
    """Whether a value is None, or a missing value of a data frame: NaN, NaT or NA.

    >>> is_missing(float("nan")), is_missing(0)
    (True, False)
    """
    if value is None or type(value).__name__ in MISSING_TYPES:
        return True
    return isinstance(value, Real) and bool(value != value)  # noqa: PLR0124 - true of NaN alone


def whole_number(value: Any) -> int | None:
    """Return an integer, or a whole float as an integer; None for any other value, also for a bool.

    Data frames have whole floats in integer columns with missing values.

    >>> whole_number(2.0), whole_number(2.5), whole_number(True)
    (2, None, None)
    """
    number = plain_number(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() and abs(number) < MAX_EXACT_INTEGER else None
    return number if type(number) is int else None


def plain_number(value: Any) -> Any:
    """Return a number of any type as an int or a float; any other value, also a bool, unchanged.

    >>> from fractions import Fraction
    >>> plain_number(Fraction(1, 4)), plain_number("3")
    (0.25, '3')
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def as_identifier(value: Any) -> str | None:
    """Return an id of any type as a text; None for a missing value.

    A whole float is written as an integer, and bytes are decoded as UTF-8.

    >>> as_identifier(2.0), as_identifier(b"doc-1"), as_identifier(float("nan"))
    ('2', 'doc-1', None)
    """
    if isinstance(value, str | int):
        return str(value)
    if is_missing(value):
        return None
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    number = whole_number(value)
    return str(value if number is None else number)


def is_data_frame(value: Any) -> bool:
    """Whether a value is a data frame, as of pandas or Polars."""
    return hasattr(value, "iter_rows") or hasattr(value, "itertuples")


def data_frame_rows(frame: Any) -> Iterable[dict[str, Any]]:
    """Return an iterator over the rows of a data frame, each as a dict of the values by column, without the index."""
    if hasattr(frame, "iter_rows"):
        rows: Iterable[dict[str, Any]] = frame.iter_rows(named=True)
        return rows
    names = [str(name) for name in frame.columns]
    return (dict(zip(names, row, strict=True)) for row in frame.itertuples(index=False, name=None))
