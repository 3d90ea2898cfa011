"""Values of other packages' types: missing values, integers, and ids."""

from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PureWindowsPath
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from pytest_rageval.lib.foreign_values import (
    as_identifier,
    id_key,
    id_keys,
    is_missing,
    plain_number,
    whole_number,
)

NAType = type("NAType", (), {})


class Colour(str, Enum):  # noqa: UP042 - `str` of its members is not their value
    RED = "red"


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), np.float64("nan"), NAType()])
def test_missing_values(value: Any) -> None:
    assert is_missing(value)
    assert as_identifier(value) is None


@pytest.mark.parametrize(
    "value", [0, 0.0, "", "nan", False, [], np.array([1.0, 2.0]), 10**400, Fraction(1, 3)]
)
def test_values_that_are_there(value: Any) -> None:
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
    result = plain_number(value)
    assert (result, type(result)) == (number, type(number))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (np.str_("a"), "a"),
        (7, "7"),
        (7.0, "7"),
        (np.int64(7), "7"),
        (np.float32(7), "7"),
        (b"a", "a"),
        (b"\xff", "\\xff"),
        (Decimal(7), "7"),
        (Decimal("7.0"), "7"),
        (Decimal(2**64), str(2**64)),
        (Fraction(7, 1), "7"),
        (np.array(7.0), "7"),
        (np.str_(" a"), "a"),
        (" a\n", "a"),
        ("7.0", "7.0"),
        (Colour.RED, "red"),
        (PureWindowsPath("docs", "a.md"), "docs/a.md"),
        (date(2026, 1, 2), "2026-01-02"),
        (pd.Timestamp(2026, 1, 2), "2026-01-02T00:00:00"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_ids_of_any_type_are_texts(value: Any, text: str) -> None:
    identifier = as_identifier(value)
    assert (identifier, type(identifier)) == (text, str)


@pytest.mark.parametrize(
    "value", ["", " \n", "nan", "NaN", "<NA>", "NaT", "None", b"nan", pd.NA, pd.NaT, Decimal("nan")]
)
def test_what_a_missing_id_is_printed_as_is_missing(value: Any) -> None:
    """`str(None)`, and a missing value that a data frame turned into a text, are no ids."""
    assert as_identifier(value) is None


@pytest.mark.parametrize("text", ["Nan", "none", "NA", "null", "N/A", "0", "False"])
def test_words_that_are_not_printed_for_a_missing_value_are_ids(text: str) -> None:
    assert as_identifier(text) == text


@pytest.mark.parametrize(
    "value",
    [
        *(True, np.True_, 7.5, Decimal("7.5"), Fraction(1, 3), 1e300, float(2**53), float("inf"), 1j),
        *(["a"], ("a", "b"), {"a"}, {"$oid": "a"}, np.array(["a", "b"]), object(), NAType),
    ],
)
def test_what_is_no_id(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^an? "):
        as_identifier(value)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("caf\u00e9.md", "cafe\u0301.md"),
        ("101.0", "101"),
        ("-3.0", "-3"),
        ("0.0", "0"),
        ("\u1e9b\u0323", "\u017f\u0323\u0307"),
    ],
)
def test_ids_that_are_equal(first: str, second: str) -> None:
    assert id_key(first) == id_key(second)
    assert [*id_keys([first, "a"])] == [*id_keys([second, "a"])]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1.10", "1.1"),
        ("007.0", "007"),
        ("1.00", "1"),
        ("v1.0", "v1"),
        ("1.0.0", "1.0"),
        ("a", "A"),
        ("e", "\u00e9"),
    ],
)
def test_ids_that_differ(first: str, second: str) -> None:
    assert id_key(first) != id_key(second)
