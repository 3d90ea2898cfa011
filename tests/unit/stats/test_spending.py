"""The level spent over comparisons with an anchor."""

import itertools
import math

import pytest

from pytest_rageval.stats.spending import anchor_alpha


def test_all_of_it_is_never_spent() -> None:
    """Half by the tenth update, and the rest in all others: what is left after k is 5·alpha/k."""
    spent = 0.0
    for update in range(1, 3001):
        spent += anchor_alpha(0.05, update)
        if update >= 10:
            assert spent == pytest.approx(0.05 - 0.25 / update, abs=1e-12)
    assert spent < 0.05


def test_it_never_rises() -> None:
    """Nor falls at once where the even part ends."""
    levels = [anchor_alpha(0.05, update) for update in range(1, 200)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(levels))
    assert levels[10] > 0.9 * levels[9]


@pytest.mark.parametrize("update", [0, -3])
def test_updates_are_counted_from_one(update: int) -> None:
    """The run that pins the anchor compares with nothing."""
    with pytest.raises(ValueError, match=f"found {update}"):
        anchor_alpha(0.05, update)


def test_it_is_in_proportion_to_alpha() -> None:
    """A twentieth of it first."""
    assert anchor_alpha(0.2, 3) == math.fsum([0.2]) / 20
