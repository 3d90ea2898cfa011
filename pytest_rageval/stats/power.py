"""Power of the paired test: the smallest drop that it detects, how many examples it needs, and what clusters cost.

By the normal approximation. With q the mean square of the differences, the test fails a mean drop above
`max(max_drop, z_alpha·sqrt(q/n))`. A true drop that is larger by `z_80·sqrt(q/n)` is observed above that in 80%
of runs.
"""

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist, fmean, pvariance
from typing import Final

from pytest_rageval.stats.drops import sums_by

__all__ = [
    "POWER",
    "design_effect",
    "detectable_drop",
    "detectable_drop_unpaired",
    "examples_needed",
    "intraclass_correlation",
]

POWER: Final = 0.8  # the share of runs in which a drop is to be detected


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

    A drop of d is assumed to be losses of one size in addition to the noise, with no fewer gains. The mean square of
    the differences is then `q(d) = noise + loss·d`. The noise is that of the differences at hand without the losses
    that make up their mean, and with two more changes than were seen, since few examples show too little of it. d is
    the larger solution of `d - beyond = (z_alpha + z_80)·sqrt((q(d) - 2·beyond·d + beyond²)·D/n)` and
    `d - max_drop = z_80·sqrt(q(d)·D/n)`.

    Args:
        drops: score of the baseline less the new score, a question each; of this run, or of two runs of the same
            retriever, which differ by noise alone.
        alpha: the level of the test of this one score, in (0, 0.5): `DropTests.level`.
        max_drop: the drop that is allowed.
        beyond: 0, or `max_drop` where a drop of more than that is to be shown.
        loss: the size of the losses; None for that of the largest change at hand, or 1 where there is none. Where
            questions lose their whole score b, it is `Σ b² / Σ b`.
        design_effect: D, of clusters (the function of this name).

    Returns:
        A number above `max_drop`; larger than any possible drop where there are too few questions. None without
        questions. In simulations with 60 and more, the power at this drop is 0.75 to 0.95
        (`tests/unit/stats/test_power.py`).
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
    """The number of questions, at least 1, with which such a drop fails in 80% of runs.

    `D·max((z_alpha + z_80)²·Σ(d - beyond)² / (n·(mean - beyond)²), z_80²·Σd² / (n·(mean - max_drop)²))`, with the words
    of `detectable_drop`; the mean of the drops is taken for the true drop. None where it is not above `max_drop` and
    `beyond`, so that no number would be enough.
    """
    if not drops or (drop := fmean(drops)) <= max(max_drop, beyond, 0.0):
        return None
    significant, noticed = _quantiles(alpha)
    shown = fmean((d - beyond) ** 2 for d in drops) * ((significant + noticed) / (drop - beyond)) ** 2
    above = fmean(d * d for d in drops) * (noticed / (drop - max_drop)) ** 2
    return math.ceil(design_effect * max(shown, above))


def detectable_drop_unpaired(scores: Sequence[float], *, alpha: float) -> float | None:
    """An upper bound of `detectable_drop` from the scores alone, where there is no baseline yet.

    The scores of the other system are taken to vary as much, and independently. Those of similar systems are
    correlated and differ less, so that the test detects a smaller drop. A loss is taken to go from the highest score to
    the lowest, or to be 1 where all are equal.
    """
    if not scores:
        return None
    size = max(scores) - min(scores) or 1.0
    scale = sum(_quantiles(alpha)) ** 2 / len(scores)
    return _crossing(0.0, scale, 2 * pvariance(scores), size)


def design_effect(sizes: Sequence[int], correlation: float = 1.0) -> float:
    """The factor by which clusters increase the variance of a mean: `1 + (Σm²/Σm - 1)·correlation`.

    n questions are worth `n / design_effect` independent ones. A test that assumes independence raises more false
    alarms. m ≥ 1 are the sizes of the clusters; the correlation is that of two questions of a cluster
    (`intraclass_correlation`), at worst 1. A number from 1 to the size of the largest cluster, 1 where there is none;
    below 1 where the correlation is negative.

    Source: Kish (1965), "Survey sampling", section 5.4; for clusters of different sizes Kish (1987), "Weighting in
    deft²".

    >>> design_effect([25] * 8, 0.1)
    3.4000000000000004
    """
    total = sum(sizes)
    return 1 + (sum(size * size for size in sizes) / total - 1) * correlation if total else 1.0


def intraclass_correlation(values: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """Correlation of values (NaN is left out) of the same cluster, from the analysis of variance.

    `(B - W) / (B + (m0 - 1)·W)`, with B and W the mean squares between and within clusters and
    `m0 = (n - Σm²/n) / (clusters - 1)`.

    Returns:
        A number in [-1, 1]; about 0 where clusters do not matter, 1 where the values of each are equal. None where
        it is undefined: fewer than two clusters, none with two values, or all values equal.

    Source: Fisher (1925), "Statistical methods for research workers", chapter 7; Donner (1986), "A review of inference
    procedures for the intraclass correlation coefficient in the one-way random effects model".

    >>> intraclass_correlation([1, 1, 0, 0, 1, 1], "aabbcc")
    1.0
    """
    pairs = [(v, c) for v, c in zip(values, clusters, strict=True) if not math.isnan(v)]
    groups = sums_by(pairs)
    n = len(pairs)
    if len(groups) < 2 or len(groups) == n:  # noqa: PLR2004 - nothing to compare
        return None
    whole = math.fsum(v for v, _ in pairs)
    between = math.fsum(total * total / size for total, size in groups) - whole * whole / n
    within = math.fsum(v * v for v, _ in pairs) - math.fsum(total * total / size for total, size in groups)
    b, w = between / (len(groups) - 1), max(0.0, within) / (n - len(groups))
    usual = (n - sum(size * size for _, size in groups) / n) / (len(groups) - 1)
    spread = b + (usual - 1) * w
    return (b - w) / spread if spread > 1e-15 else None  # noqa: PLR2004 - rounding


def _quantiles(alpha: float) -> tuple[float, float]:
    """The normal quantiles of the level and of the power."""
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha), normal.inv_cdf(POWER)


def _crossing(start: float, scale: float, noise: float, size: float) -> float:
    """The d above start with `(d - start)² = scale·(noise + size·d)`."""
    half = start + scale * size / 2
    return half + math.sqrt(max(0.0, half * half - start * start + scale * noise))
