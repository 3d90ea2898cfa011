"""Values of other packages' types: missing values, integers, and ids."""

from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from pytest_rageval.foreign_values import as_identifier, is_missing, plain_number, whole_number

NAType = type("NAType", (), {})


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), np.float64("nan"), NAType()])
def test_missing_values(value: Any) -> None:
    """None, NaN and NA values are missing."""
    assert is_missing(value)
    assert as_identifier(value) is None


@pytest.mark.parametrize(
    "value", [0, 0.0, "", "nan", False, [], np.array([1.0, 2.0]), 10**400, Fraction(1, 3)]
)
def test_values_that_are_there(value: Any) -> None:
    """Zero, False, empty values and arrays are not missing."""
    assert not is_missing(value)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (-3.0, -3),
        (np.int64(3), 3),
        (np.float32(3), 3),
        (2.5, None),
        (1e300, None),
        (float("inf"), None),
        (float("nan"), None),
        (True, None),
        (np.True_, None),
        ("3", None),
        (None, None),
    ],
)
def test_whole_numbers(value: Any, number: int | None) -> None:
    """Numbers with an integral value become int, unless they are bools or floats too large to be exact."""
    result = whole_number(value)
    assert (result, type(result)) == (number, type(number))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (Fraction(1, 4), 0.25),
        (3, 3),
        (0.5, 0.5),
        (True, True),
        (np.True_, np.True_),
        ("3", "3"),
        (None, None),
    ],
)
def test_numbers_become_ints_and_floats(value: Any, number: Any) -> None:
    """Numbers become int or float; bools and other values are unchanged."""
    result = plain_number(value)
    assert (result, type(result)) == (number, type(number))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (np.str_("a"), "a"),
        (7, "7"),
        (7.0, "7"),
        (7.5, "7.5"),
        (np.int64(7), "7"),
        (np.float32(7), "7"),
        (b"a", "a"),
        (b"\xff", "\\xff"),
        (True, "True"),
        (Decimal(7), "7"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_ids_of_any_type_are_texts(value: Any, text: str) -> None:
    """An id of any type becomes a plain str."""
    identifier = as_identifier(value)
    assert (identifier, type(identifier)) == (text, str)
