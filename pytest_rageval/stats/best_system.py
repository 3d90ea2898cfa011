"""Which of several systems is best? Each is compared with the one of the highest mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_rageval.stats.drop_interval import ROUNDING
from pytest_rageval.stats.drops import Drops, joint_drop_test

__all__ = ["Standing", "against_best"]

ALPHA: Final = 0.05
"""Drawn p-values are on the right side of this level."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A system compared with the best one.

    Attributes:
        mean: of its scores.
        n: number of its scores.
        best: whether no mean is higher.
        shared: number of examples with a score of this system and of the best.
        p_value: of "its true mean is not below that of the best", corrected; None for the best.
    """

    mean: float
    n: int
    best: bool
    shared: int
    p_value: float | None


def against_best(systems: Sequence[Mapping[str, float]], *, seed: int = 0) -> list[Standing | None]:
    """Compare each system with the one of the highest mean, over the examples that both have.

    The same data choose the best system and test it, so any ordered pair could have been compared: the p-value of
    each one-sided paired test (`pytest_rageval.stats.drops`) is multiplied by the m (m - 1) pairs of m systems
    (Bonferroni). At level 0.05 the probability that any system is called worse than one that is no better is at most
    0.05. For two systems it is the two-sided test.

    Args:
        systems: the scores of each by example; examples without a score are left out. Of several highest means the
            first is the best.
        seed: of the draws, where sign patterns are drawn.

    Returns:
        One a system, in the same order; None for a system without a score.

    >>> one, other = against_best([{"a": 1, "b": 1, "c": 1, "d": 0}, {"a": 0, "b": 0, "c": 0, "d": 0}])
    >>> one.best, other.p_value  # 2 × mid-p 1/2^4
    (True, 0.125)
    """
    means = [sum(scores.values()) / len(scores) if scores else None for scores in systems]
    known = [mean for mean in means if mean is not None]
    if not known:
        return [None] * len(systems)
    highest = max(known)
    best = systems[means.index(highest)]
    pairs = len(known) * (len(known) - 1)
    standings: list[Standing | None] = []
    for scores, mean in zip(systems, means, strict=True):
        if mean is None:
            standings.append(None)
            continue
        drops = [best[example] - score for example, score in scores.items() if example in best]
        p_value = None
        if mean < highest - ROUNDING:
            largest = max(1.0, *map(abs, drops)) if drops else 1.0
            test = joint_drop_test([Drops(drops, largest=largest)], alpha=ALPHA / pairs, seed=seed)
            p_value = min(1.0, pairs * test.scores[0].p_value)
        standings.append(Standing(mean, len(scores), p_value is None, len(drops), p_value))
    return standings
