"""Power of the paired test: the smallest drop that it detects, and how many examples it needs.

By the normal approximation. With q the mean square of the differences, the test fails a mean drop above
`max(max_drop, z_alpha·sqrt(q/n))`. In 80% of runs it observes one above that where the true drop is larger by
`z_80·sqrt(q/n)`.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, pvariance
from typing import Final

__all__ = ["POWER", "detectable_drop", "detectable_drop_unpaired", "examples_needed"]

POWER: Final = 0.8
"""The share of runs in which a drop is to be detected."""


def detectable_drop(  # noqa: PLR0913 - what the test is made of
    drops: Sequence[float],
    *,
    alpha: float,
    max_drop: float = 0.0,
    beyond: float = 0.0,
    loss: float | None = None,
    design_effect: float = 1.0,
) -> float | None:
    """The true drop that fails in at least 80% of runs with as many questions and as much noise as these.

    A drop of d is taken to consist of losses of one size on top of what changes anyway, which leaves gains as they
    are: the least favourable of the usual ways to drop. The mean square of the differences is then
    `q(d) = noise + loss·d`, where noise is that of the differences at hand without the losses that make up their
    mean, and with two more changes than were seen: few examples show too little of it. d is the larger solution of
    `d - beyond = (z_alpha + z_80)·sqrt((q(d) - 2·beyond·d + beyond²)·D/n)` and `d - max_drop = z_80·sqrt(q(d)·D/n)`.

    Args:
        drops: score of the baseline less the new score, a question each; of this run, or of two runs of the same
            retriever, which differ by noise alone.
        alpha: the level of the test of this one score, in (0, 0.5): `DropTests.level`.
        max_drop: the drop that is allowed.
        beyond: 0, or `max_drop` where a drop of more than that is to be shown.
        loss: the size of the losses; None for that of the largest change at hand, or 1 where there is none. Where
            a question that loses its passage loses its whole score, it is about the mean of the baseline's scores
            weighted by themselves, `Σ b² / Σ b`.
        design_effect: D, of clusters (`pytest_rageval.stats.clusters`).

    Returns:
        A number above `max_drop`; larger than any drop there can be where there are too few questions. None where
        there is none.

    In simulations the power at this drop is 0.75 to 0.97 from 60 questions on, whether a drop is made of losses of
    that size, of smaller ones, or of all differences reweighted (`tests/unit/stats/test_power.py`).
    """
    n = len(drops)
    if not n:
        return None
    total = math.fsum(map(abs, drops))
    usual = math.fsum(drop * drop for drop in drops) / total if total else 0.0
    size = loss or max(map(abs, drops)) or 1.0
    noise = usual * (total - abs(math.fsum(drops))) / n + 2 * size * size / n
    effective = n / design_effect
    significant, noticed = _quantiles(alpha)
    return max(
        _crossing(beyond, (significant + noticed) ** 2 / effective, noise + beyond**2, size - 2 * beyond),
        _crossing(max_drop, noticed**2 / effective, noise, size),
    )


def examples_needed(
    drops: Sequence[float],
    *,
    alpha: float,
    max_drop: float = 0.0,
    beyond: float = 0.0,
    design_effect: float = 1.0,
) -> int | None:
    """With how many questions in all such a drop fails in 80% of runs.

    `D·max((z_alpha + z_80)²·Σ(d - beyond)² / (n·(mean - beyond)²), z_80²·Σd² / (n·(mean - max_drop)²))`.

    Args:
        drops: score of the baseline less the new score, a question each; what they show is taken to be true.
        alpha: as above.
        max_drop: as above.
        beyond: as above.
        design_effect: as above.

    Returns:
        At least 1. None where the mean is not above `max_drop` and `beyond`: no number of questions would make it fail.
    """
    if not drops or (drop := fmean(drops)) <= max(max_drop, beyond, 0.0):
        return None
    significant, noticed = _quantiles(alpha)
    shown = fmean((d - beyond) ** 2 for d in drops) * ((significant + noticed) / (drop - beyond)) ** 2
    above = fmean(d * d for d in drops) * (noticed / (drop - max_drop)) ** 2
    return math.ceil(design_effect * max(shown, above))


def detectable_drop_unpaired(scores: Sequence[float], *, alpha: float) -> float | None:
    """An upper bound of `detectable_drop` where there is no baseline yet.

    The scores of the other system are taken to vary as much, and independently. Those of similar systems are
    correlated and differ less, so that the test detects a smaller drop.

    Args:
        scores: one an example.
        alpha: as for `detectable_drop`.

    Returns:
        As `detectable_drop`; a loss is taken to go from the highest score to the lowest, or to be 1 where all are
        equal.
    """
    if not scores:
        return None
    size = max(scores) - min(scores) or 1.0
    return _detected(2 * pvariance(scores), size, len(scores), alpha, max_drop=0.0)


def _quantiles(alpha: float) -> tuple[float, float]:
    """Standard deviations above 0 of what is significant, and below the true drop of what 80% of runs observe."""
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha), normal.inv_cdf(POWER)


def _detected(noise: float, size: float, n: int, alpha: float, max_drop: float) -> float:
    """The smallest drop above both bounds, where a drop d makes the mean square `noise + size·d`."""
    significant, detected = _quantiles(alpha)
    return max(
        _crossing(0.0, (significant + detected) ** 2 / n, noise, size),
        _crossing(max_drop, detected**2 / n, noise, size),
    )


def _crossing(start: float, scale: float, noise: float, size: float) -> float:
    """The d above start with `(d - start)² = scale·(noise + size·d)`."""
    half = start + scale * size / 2
    return half + math.sqrt(max(0.0, half * half - start * start + scale * noise))
