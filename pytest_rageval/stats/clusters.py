"""Questions that go together: how many independent ones they are worth."""

import math
from collections.abc import Hashable, Sequence

from pytest_rageval.stats.drop_interval import sums_by

__all__ = ["design_effect", "intraclass_correlation"]


def design_effect(sizes: Sequence[int], correlation: float = 1.0) -> float:
    """By what factor questions in clusters vary more than independent ones: `1 + (Σm²/Σm - 1)·correlation`.

    n questions are worth `n / design_effect` independent ones. A test that takes them to be independent raises
    more false alarms.

    Args:
        sizes: m, the number of questions of each cluster, each at least 1; a question that shares nothing is
            a cluster of one.
        correlation: of two questions of a cluster (`intraclass_correlation`); 1, the default, is the worst there is.

    Returns:
        At least 1, and at most the size of the largest cluster; 1 where there is none. Below 1 where the
        correlation is negative.

    Source: Kish (1965), "Survey sampling", section 5.4; for clusters of different sizes Kish (1987), "Weighting in
    deft²".

    >>> design_effect([25] * 8, 0.1)
    3.4000000000000004
    """
    total = sum(sizes)
    return 1 + (sum(size * size for size in sizes) / total - 1) * correlation if total else 1.0


def intraclass_correlation(values: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """How much values of the same cluster go together, from analysis of variance.

    `(B - W) / (B + (m0 - 1)·W)`, with B and W the mean squares between and within clusters and
    `m0 = (n - Σm²/n) / (clusters - 1)`.

    Args:
        values: differences or scores, a question each; NaN is left out.
        clusters: the cluster of each.

    Returns:
        A number in [-1, 1]; about 0 where clusters do not matter, 1 where the values of each are equal. None where
        it cannot be told: fewer than two clusters, none with two values, or all values equal.

    Raises:
        ValueError: the two differ in length.

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
