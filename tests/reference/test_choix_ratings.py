"""Ratings equal those of the package choix."""

from itertools import combinations
from math import log

import numpy as np
import pytest

from pytest_rageval.stats.systems import Battle, bradley_terry

pytestmark = pytest.mark.slow

choix = pytest.importorskip("choix", reason="the package choix is not installed (extra test)")

STRENGTHS = {
    "four systems": [0.8, 0.1, -0.2, -0.7],
    "eleven systems": np.linspace(-1, 1, 11).tolist(),
    "two far apart": [2.0, -2.0],
}


def _fought(strengths: list[float], per_pair: int, with_first: int) -> list[tuple[int, int, float]]:
    """Return battles drawn from the model, a fifth of them tied; `with_first` for each pair with the first system."""
    rng = np.random.default_rng(0)
    fought = []
    for one, other in combinations(range(len(strengths)), 2):
        n = per_pair if one else with_first
        wins = rng.random(n) < 1 / (1 + np.exp(strengths[other] - strengths[one]))
        scores = np.where(rng.random(n) < 0.2, 0.5, wins)
        fought += [(one, other, score) for score in scores.tolist()]
    return fought


@pytest.mark.parametrize("name", STRENGTHS)
@pytest.mark.parametrize(("per_pair", "with_first"), [(20, 20), (100, 100), (7, 300)])
def test_ratings_equal_choix(name: str, per_pair: int, with_first: int) -> None:
    """Ratings equal choix to 1e-6 points; choix gets two wins for a win, and one for each side for a tie."""
    fought = _fought(STRENGTHS[name], per_pair, with_first)
    wins = []
    for first, second, score in fought:
        wins += [(first, second)] * int(2 * score) + [(second, first)] * int(2 - 2 * score)
    theirs = choix.ilsr_pairwise(len(STRENGTHS[name]), wins, max_iter=1000, tol=1e-12)
    theirs = 1000 + 400 / log(10) * (theirs - theirs.mean())
    ours = bradley_terry(Battle(f"{first:02}", f"{second:02}", score) for first, second, score in fought)
    assert [ours[key].value for key in sorted(ours)] == pytest.approx(theirs, abs=1e-6, rel=0)
