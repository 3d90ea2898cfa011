"""Converting values returned by foreign code to numbers."""

import numpy as np
import pytest

from pytest_rageval.lib.foreign_values import as_number, as_share


@pytest.mark.parametrize(
    ("given", "number"),
    [
        (True, 1.0),
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (-2.5, -2.5),
        ("1", None),
        (b"1", None),
        (None, None),
        ([1], None),
    ],
)
def test_a_number_of_any_kind_is_a_float(given: object, number: float | None) -> None:
    result = as_number(given)
    assert (result, type(result)) == (number, type(number))


@pytest.mark.parametrize(
    ("given", "share"),
    [(0, 0.0), (True, 1.0), (0.25, 0.25), (-0.01, None), (1.01, None), (float("nan"), None)],
)
def test_a_share_is_from_0_to_1(given: object, share: float | None) -> None:
    assert as_share(given) == share
