"""Prediction-powered inference: the mean that people would give, from few of their labels and many of a judge's."""

from collections.abc import Sequence
from math import sqrt
from typing import Final

import numpy as np
import numpy.typing as npt

from pytest_rageval.stats.intervals import Z95, Estimate

__all__ = ["prediction_powered_mean"]

Array = npt.NDArray[np.float64]

ENOUGH: Final = 50
"""Labelled items from which on values between the ends of the scale show their own spread."""

ALIKE: Final = 1e-9  # scores that differ by less are equal but for rounding


def prediction_powered_mean(
    human: Sequence[float],
    judge: Sequence[float],
    unlabelled: Sequence[float],
    *,
    scale: tuple[float, float] = (0.0, 1.0),
) -> Estimate | None:
    """Mean human score of a population, by prediction-powered inference with power tuning.

    `mean(human) + λ (mean(unlabelled) - mean(judge))`: the mean of the labels, moved by how much the judge's scores
    of the other items differ from those of the labelled ones. The judge may err, even to one side: its errors cancel
    in the difference. λ = `s N / (n + N)` with `s` the slope of human over judge among the labelled items, from 0 to
    1, which minimises the variance `var(human - λ judge) / n + λ² var(unlabelled) / N`. A useless judge gets λ = 0,
    and the labels alone count; of a judge who never errs, the result is the mean of all verdicts, labelled or not.
    Where the judge gives all labelled items one score, s = 1 if people do too, else 0.

    Args:
        human: n scores by people, on the scale.
        judge: the judge's scores of the same items, in the same order.
        unlabelled: the judge's scores of N other items, drawn from the same population as the labelled ones. An item
            must not be in both.
        scale: lowest and highest possible score.

    Returns:
        The mean with its 95% interval, both within the scale. None without labelled items, or with fewer than two
        unlabelled ones.

        The interval counts four more labelled items, one for each pair of the scale's ends, as Agresti and Coull's
        does for a proportion, and is extended to the mean where that is beyond it. Without them, few labels on which
        people and judge agree by chance give an interval of no width; with them it is rather too wide for few items.
        The mean does not count them. From 50 labelled items on, of which some have values between the ends and people
        and judge do not agree on all, none is added, since four items at the ends would outweigh the spread of the
        others; the interval is then Student's with n - 2 degrees of freedom.

    Raises:
        ValueError: human and judge are not of one length, or a score is outside the scale.

    Source: Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023), "Prediction-powered inference"; the tuning of λ:
    Angelopoulos, Duchi and Zrnic (2023), "PPI++", with the judge's variance taken from the labelled items; the added
    items: Agresti and Coull (1998), "Approximate is better than 'exact' …".

    >>> human, judge = [1, 0, 1, 0, 0, 1, 0, 1] * 5, [1, 1, 1, 0, 0, 1, 0, 1] * 5
    >>> corrected = prediction_powered_mean(human, judge, [1] * 700 + [0] * 300)
    >>> [round(number, 3) for number in (corrected.value, corrected.low, corrected.high)]
    [0.558, 0.451, 0.668]
    """
    y, f, rest = (np.asarray(scores, dtype=float) for scores in (human, judge, unlabelled))
    low, high = scale
    if len(y) != len(f):
        raise ValueError(f"people and judge must score the same items, not {len(y)} and {len(f)}")
    if not all(((low <= scores) & (scores <= high)).all() for scores in (y, f, rest)):
        raise ValueError(f"a score is outside the scale {low:g} … {high:g}")
    if not len(y) or len(rest) < 2:  # noqa: PLR2004 - a variance needs two
        return None
    value, _ = _corrected(y, f, rest)
    if len(y) < ENOUGH or np.isin([y, f], scale).all() or np.abs(y - f).max() < ALIKE:
        more_y, more_f = np.append(y, [low, low, high, high]), np.append(f, [low, high, low, high])
        centre, margin = _corrected(more_y, more_f, rest)
    else:
        # Less to import than scipy.stats.
        from scipy.special import stdtrit  # noqa: PLC0415

        freedom = len(y) - 2
        centre, margin = _corrected(y, f, rest)
        margin *= float(stdtrit(freedom, 0.975)) / Z95 * sqrt((len(y) - 1) / freedom)
    ends = min(value, centre - margin), max(value, centre + margin)
    return Estimate(*(float(np.clip(x, low, high)) for x in (value, *ends)))


def _corrected(y: Array, f: Array, rest: Array) -> tuple[float, float]:
    """The corrected mean, and the margin of its normal interval."""
    tuning = _slope(y, f) * len(rest) / (len(y) + len(rest))
    value = y.mean() + tuning * (rest.mean() - f.mean())
    # One label has no spread of its own; with the added ones it has.
    parts = [part for part in (y - tuning * f, tuning * rest) if len(part) > 1]
    return float(value), Z95 * sqrt(sum(part.var(ddof=1) / len(part) for part in parts))


def _slope(y: Array, f: Array) -> float:
    """Slope of y over f, by least squares, clipped to [0, 1]; where f has one value: 1 if y has too, else 0."""
    if np.ptp(f) < ALIKE:
        return float(np.ptp(y) < ALIKE)
    from_mean = f - f.mean()
    return float(np.clip(from_mean @ (y - y.mean()) / (from_mean @ from_mean), 0, 1))
