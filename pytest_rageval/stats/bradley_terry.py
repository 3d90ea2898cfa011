"""Bradley-Terry ratings of systems from pairwise battles."""

from collections import Counter
from collections.abc import Iterable
from math import log
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_rageval.stats.bootstrap import RESAMPLES
from pytest_rageval.stats.intervals import Z95, Estimate

__all__ = ["Battle", "UnratableError", "bradley_terry"]

BASE: Final = 1000.0
"""The mean of all ratings."""
POINTS: Final = 400.0 / log(10)
"""Points for a unit of log odds: 400 points multiply the odds by 10."""
CONVERGED: Final = 1e-8
"""A Newton step this small leaves an error of its square."""
STEPS: Final = 200
"""Most Newton steps. A few suffice, and one more for each factor e between the odds of two systems."""

Array = npt.NDArray[np.float64]


class Battle(NamedTuple):
    """Two systems' answers to one question, compared.

    Attributes:
        first: name of a system.
        second: name of another.
        score: of `first`, in [0, 1]: 1 won, 0.5 tied, 0 lost.
    """

    first: str
    second: str
    score: float


class UnratableError(ValueError):
    """No finite ratings explain these battles."""


def bradley_terry(battles: Iterable[Battle], *, seed: int = 0) -> dict[str, Estimate]:
    """Bradley-Terry ratings on an Elo scale, by maximum likelihood over all battles at once.

    Under the model, a system rated r expects `1 / (1 + 10^((s - r) / 400))` of the score against one rated s. A tie
    is half a win for each.

    Args:
        battles: of at least two systems. They are taken to be independent, also on the same question. Where all are
            against one system, as those of the arena are against the reference, a rating measures its system against
            that one (400 log10 of the odds apart from it). The distance of two others is then what the model predicts
            for battles between them, not what was observed.
        seed: the same seed and battles, in any order, give the same intervals.

    Returns:
        System → rating in points, the best first. The mean of all ratings is 1000, so that only differences between
        systems of one call are meaningful. The interval is the rating ± 1.96 standard errors, from the spread of
        2,000 weighted (Bayesian) bootstrap samples of the battles. Weights are never zero, so each sample has ratings
        if the whole has. Where all battles were ties the interval has no width.

    Raises:
        UnratableError: no ratings have the highest likelihood, because some systems won every battle against the
            others, without a tie, or never met them. The distance between the two groups is then unbounded; no prior
            is assumed to bound it.
        ValueError: a score is outside [0, 1], or a system battles itself.

    Source: Bradley and Terry (1952), "Rank analysis of incomplete block designs: I"; when ratings exist: Ford (1957),
    "Solution of a ranking problem from binary comparisons"; the bootstrap: Rubin (1981), "The Bayesian bootstrap".
    Ties and the Elo scale as in RAG-QA Arena (Han et al. 2024).

    >>> nine = [Battle("a", "b", 1)] * 9 + [Battle("a", "b", 0)]
    >>> {name: round(rating.value, 2) for name, rating in bradley_terry(nine).items()}
    {'a': 1190.85, 'b': 809.15}
    """
    outcomes = sorted(Counter(map(_oriented, battles)).items())
    names = sorted({name for (first, second, _), _ in outcomes for name in (first, second)})
    place = {name: i for i, name in enumerate(names)}
    # A row for each kind of outcome: the share of the win that it gives to one system over another.
    shares = np.zeros((len(outcomes), len(names), len(names)))
    for row, ((first, second, score), _) in enumerate(outcomes):
        shares[row, place[first], place[second]] = score
        shares[row, place[second], place[first]] = 1 - score
    counts = np.array([count for _, count in outcomes], dtype=float)
    wins = np.tensordot(counts, shares, 1)
    _require_ratable(names, wins)
    # The sum of n exponential weights, one a battle, is a gamma variable of shape n.
    weights = np.random.default_rng(seed).gamma(counts, size=(RESAMPLES, len(counts)))
    margins = Z95 * POINTS * _strengths(np.tensordot(weights, shares, 1)).std(axis=0, ddof=1)
    ratings = BASE + POINTS * _strengths(wins[None])[0]
    rated = {
        name: Estimate(rating, rating - margin, rating + margin)
        for name, rating, margin in zip(names, ratings.tolist(), margins.tolist(), strict=True)
    }
    return dict(sorted(rated.items(), key=lambda item: -item[1].value))


def _oriented(battle: Battle) -> Battle:
    """The same battle from the side of the system whose name sorts first."""
    first, second, score = battle
    if first == second or not 0 <= score <= 1:
        raise ValueError(f"a battle is of two systems and its score is in [0, 1], not {battle}")
    return Battle(first, second, score) if first < second else Battle(second, first, 1 - score)


def _require_ratable(names: list[str], wins: Array) -> None:
    """Raise unless every system beats every other one, directly or through others (Ford's condition)."""
    if len(names) < 2:  # noqa: PLR2004 - a battle is of two
        raise UnratableError("there are no battles to rate systems by")
    beats = (wins > 0) | np.eye(len(names), dtype=bool)
    for via in range(len(names)):
        beats |= beats[:, via, None] & beats[via]
    # Only systems of this group beat the least beaten system.
    top = beats[:, beats.sum(axis=0).argmin()]
    if top.all():
        return
    met = (wins + wins.T)[top][:, ~top].any()
    above, below = (
        ", ".join(name for name, chosen in zip(names, group, strict=True) if chosen) for group in (top, ~top)
    )
    raise UnratableError(
        f"no finite ratings: {above} {'won every battle against' if met else 'never met'} {below}. "
        "Add battles, or rate the two groups apart"
    )


def _strengths(wins: Array) -> Array:
    """Log strengths of mean 0 that maximise the likelihood, samples × systems.

    `wins` are samples × systems × systems: in each sample the wins of row against column.
    """
    systems = wins.shape[-1]
    total = wins + wins.swapaxes(1, 2)
    strengths = np.zeros(wins.shape[:2])
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(strengths[:, None, :] - strengths[:, :, None]))
        missed = expected.swapaxes(1, 2)  # 1 - expected, to full precision also where it is tiny
        slope = (wins * missed - wins.swapaxes(1, 2) * expected).sum(axis=2)
        curvature = -total * expected * missed
        curvature[:, range(systems), range(systems)] -= curvature.sum(axis=2)
        # Equal strengths for all change nothing; a constant in that direction makes it regular.
        scale = np.trace(curvature, axis1=1, axis2=2)[:, None, None] / systems**2
        step = np.linalg.solve(curvature + scale, slope[:, :, None])[:, :, 0]
        # The likelihood of such a model always rises along a Newton step that moves no two systems apart by more than
        # 1 (Bach 2010, "Self-concordant analysis for logistic regression").
        moved = np.ptp(step, axis=1, keepdims=True)
        strengths += step / np.maximum(1, moved)
        if moved.max() < CONVERGED:
            break
    centred: Array = strengths - strengths.mean(axis=1, keepdims=True)
    return centred
