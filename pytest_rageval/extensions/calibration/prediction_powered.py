"""Prediction-powered inference: the mean human score of a population, from few human labels and many of a judge."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from pytest_rageval.stats.intervals import Z95, Estimate

Array = npt.NDArray[np.float64]

FLOAT_TOL: Final = 1e-9  # scores that differ by less are equal up to floating-point rounding


def prediction_powered_mean(
    human: Sequence[float],
    judge: Sequence[float],
    unlabelled: Sequence[float],
    *,
    scale: tuple[float, float] = (0.0, 1.0),
) -> Estimate | None:
    """Mean human score of a population, by prediction-powered inference with power tuning (PPI++).

    `mean(human) + λ (mean(unlabelled) - mean(judge))`: the mean of the human labels, corrected by the difference
    between the judge's mean on unlabelled items and on labelled items. A systematic error of the judge cancels in this
    difference. `λ = s N / (n + N)`, where s is the least-squares slope of human on judge over the labelled items,
    clipped to [0, 1]; this λ minimises the variance `var(human - λ judge) / n + λ² var(unlabelled) / N`. With a judge
    that is unrelated to the human labels λ is 0, and the result is the mean of the labels. With a judge without errors
    the result is the mean of the judge's scores of all items. If the judge gives all labelled items the same score, s
    is 1 if the human labels are all equal too, else 0.

    Args:
        human: human scores of n labelled items, on the scale.
        judge: the judge's scores of the labelled items, in the same order.
        unlabelled: the judge's scores of N other items from the same population. No item may be both labelled and
            unlabelled.
        scale: the lowest and the highest possible score.

    Returns:
        The mean with its 95% interval, both within the scale. None without labelled items, or with fewer than two
        unlabelled items.

        For the interval, not for the mean, items are added, as in Agresti and Coull's interval of a proportion; the
        interval is extended to include the mean. Without them the interval has zero width if few labels happen to agree
        with the judge, and is too narrow if scores are near an end of the scale. It is conservative for few items.

        - If all scores are ends of the scale: four labelled items, one for each combination of the ends.
        - Otherwise two, one at each end of the scale, with the judge's mean score of the labelled items; and the
          interval is Student's with n degrees of freedom.

        In simulations of graded scores with 20 to 200 labels it contains the true mean in at least 95% of runs
        (`tests/unit/extensions/calibration/test_prediction_powered.py`).

    Raises:
        ValueError: human and judge differ in length, or a score is outside the scale.

    Source: Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023), "Prediction-powered inference"; the tuning of λ:
    Angelopoulos, Duchi and Zrnic (2023), "PPI++", with the judge's variance from the labelled items; the added
    items: Agresti and Coull (1998), "Approximate is better than 'exact' …".

    >>> human, judge = [1, 0, 1, 0, 0, 1, 0, 1] * 5, [1, 1, 1, 0, 0, 1, 0, 1] * 5
    >>> corrected = prediction_powered_mean(human, judge, [1] * 700 + [0] * 300)
    >>> [round(number, 3) for number in (corrected.value, corrected.low, corrected.high)]
    [0.558, 0.451, 0.668]
    """
    y, f, rest = (np.asarray(scores, dtype=float) for scores in (human, judge, unlabelled))
    low, high = scale
    if len(y) != len(f):
        raise ValueError(f"human and judge must score the same items, not {len(y)} and {len(f)}")
    if not all(((low <= scores) & (scores <= high)).all() for scores in (y, f, rest)):
        raise ValueError(f"a score is outside the scale {low:g} … {high:g}")
    if not len(y) or len(rest) < 2:  # noqa: PLR2004 - a variance needs two items
        return None
    value, _ = _corrected_mean(y, f, rest)
    if np.isin([y, f], scale).all():
        centre, margin = _corrected_mean(
            np.append(y, [low, low, high, high]), np.append(f, [low, high] * 2), rest
        )
    else:
        # scipy.special imports less than scipy.stats.
        from scipy.special import stdtrit  # noqa: PLC0415

        n = len(y)
        centre, margin = _corrected_mean(np.append(y, [low, high]), np.append(f, [f.mean()] * 2), rest)
        margin *= float(stdtrit(n, 0.975)) / Z95 * sqrt((n + 1) / n)
    bounds = min(value, centre - margin), max(value, centre + margin)
    return Estimate(*(float(np.clip(x, low, high)) for x in (value, *bounds)))


def difference_p_value(some: Sequence[float], others: Sequence[float]) -> float:
    """Two-sided p-value that two samples have the same mean, by the normal approximation with a common variance."""
    x, y = np.asarray(some, dtype=float), np.asarray(others, dtype=float)
    spread = float(np.concatenate([x, y]).std()) * sqrt(1 / len(x) + 1 / len(y))
    return 2 * NormalDist().cdf(-abs(float(x.mean() - y.mean())) / spread) if spread else 1.0


def _corrected_mean(y: Array, f: Array, rest: Array) -> tuple[float, float]:
    lambda_ = _slope(y, f) * len(rest) / (len(y) + len(rest))
    value = y.mean() + lambda_ * (rest.mean() - f.mean())
    # A single labelled item has no variance; for the interval, items are added to it.
    parts = [part for part in (y - lambda_ * f, lambda_ * rest) if len(part) > 1]
    return float(value), Z95 * sqrt(sum(part.var(ddof=1) / len(part) for part in parts))


def _slope(y: Array, f: Array) -> float:
    """Least-squares slope of y on f, clipped to [0, 1]; for a constant f, 1 if y is constant too, else 0."""
    if np.ptp(f) < FLOAT_TOL:
        return float(np.ptp(y) < FLOAT_TOL)
    centred = f - f.mean()
    return float(np.clip(centred @ (y - y.mean()) / (centred @ centred), 0, 1))
