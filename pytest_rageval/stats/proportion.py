"""Interval of a proportion."""

import math

__all__ = ["wilson"]

Z95 = 1.959963984540054
"""The 97.5% quantile of the standard normal distribution."""


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's 95% score interval of a proportion, without continuity correction.

    `(p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)` with `p = successes/n`.

    Args:
        successes: 0 … n.
        n: at least 1.

    Returns:
        `(low, high)` within [0, 1]; never of zero width, unlike the normal interval at p = 0 or 1.

    Source: Wilson (1927), "Probable inference, the law of succession, and statistical inference".

    >>> [round(bound, 4) for bound in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    p = successes / n
    z2 = Z95**2
    centre = p + z2 / (2 * n)
    margin = Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    # At p = 0 and p = 1 the bound is exact; rounding must not put it beside.
    low = 0.0 if successes == 0 else (centre - margin) / scale
    high = 1.0 if successes == n else (centre + margin) / scale
    return low, high
