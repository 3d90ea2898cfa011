"""How much of a change each factor explains: Shapley values of the runs' scores, with paired intervals.

Each quantity is a contrast: for each question a weighted sum of its scores in the runs, and then the mean over the
questions. So its interval is that of a mean, whatever the runs have in common.
"""

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations
from math import factorial, fsum
from typing import Final, NamedTuple

from pytest_rageval.stats.paired_tests import drop_interval

MAX_SUBSETS: Final = (
    4  # of more factors each is reverted alone, in two runs more than factors instead of 2 ** factors
)
ALPHA: Final = 0.025  # on each side
DIGITS: Final = 12  # of a contrast: the others are rounding

Run = frozenset[str]
"""A run, by the factors that have their value after the change."""

Contrast = Mapping[Run, Fraction]
"""The weights of runs."""


class Effect(NamedTuple):
    """The mean of a contrast over the questions, with its 95% interval."""

    mean: float
    low: float
    high: float

    @property
    def is_shown(self) -> bool:
        return not self.low <= 0 <= self.high


def runs_of(factors: Collection[str]) -> list[Run]:
    """Return the runs that explain a change; the first two are before and after."""
    n = len(factors)
    sizes = [0, n, *(range(n - 1, 0, -1) if n <= MAX_SUBSETS else [n - 1])]
    return [*map(frozenset, chain.from_iterable(combinations(factors, size) for size in sizes))]


def alone(factor: str, factors: Collection[str]) -> Contrast:
    """Return what is back if a factor alone is reverted."""
    whole = frozenset(factors)
    return {whole: Fraction(1), whole - {factor}: Fraction(-1)}


def shapley(factor: str, factors: Collection[str]) -> Contrast:
    """Return the mean change at a factor, over all orders in which the factors can be changed one after another.

    The Shapley values of all factors sum to the whole change.
    """
    n, weights = len(factors), dict[Run, Fraction]()
    others = [name for name in factors if name != factor]
    for size in range(n):
        weight = Fraction(factorial(size) * factorial(n - size - 1), factorial(n))
        for changed in map(frozenset, combinations(others, size)):
            weights[changed | {factor}], weights[changed] = weight, -weight
    return weights


def total(factors: Collection[str]) -> Contrast:
    return {frozenset(factors): Fraction(1), frozenset(): Fraction(-1)}


def interaction(factors: Collection[str]) -> Contrast:
    """Return the whole change less what is back if each of two factors or more is reverted alone."""
    whole = frozenset(factors)
    reverted = {whole - {factor}: Fraction(1) for factor in factors}
    return {whole: Fraction(1 - len(whole)), frozenset(): Fraction(-1), **reverted}


def contrast(weights: Contrast, scores: Mapping[Run, Sequence[float]]) -> list[float]:
    """Return the contrast of each question; the scores of all runs are in the same order of the questions."""
    columns = [[float(weight) * score for score in scores[run]] for run, weight in weights.items()]
    return [round(fsum(parts), DIGITS) for parts in zip(*columns, strict=True)]


def effect(weights: Contrast, scores: Mapping[Run, Sequence[float]], span: float = 1.0) -> Effect:
    """Return a contrast over at least one question; `span` is the largest possible difference of two scores.

    Both ends of the interval are upper bounds of `stats.paired_tests.drop_interval`, which allow for changes that no
    question of the sample shows. They cover in small samples with few changes too, where those of a t-test do not.
    """
    values = contrast(weights, scores)
    largest = max(span * float(sum(weight for weight in weights.values() if weight > 0)), *map(abs, values))
    _, high = drop_interval(values, alpha=ALPHA, largest=largest)
    _, minus_low = drop_interval([-value for value in values], alpha=ALPHA, largest=largest)
    return Effect(fsum(values) / len(values), -minus_low, high)
