"""A level spent over comparisons with one anchor."""

__all__ = ["anchor_alpha"]

EVEN = 10
"""The first comparisons, which get equal shares and together half of alpha."""


def anchor_alpha(alpha: float, update: int) -> float:
    """The level of the comparison with the anchor after so many updates of the baseline.

    `alpha / 20` for each of the first ten updates, and `5·alpha / (k·(k - 1))` for the k-th from then on. All of them,
    however many come, sum to alpha: `10·alpha/20 + Σ_{k > 10} 5·alpha/(k·(k-1)) = alpha`. So the probability that any
    of them calls a retriever worse than the anchor, if none is, is at most alpha (Bonferroni); as they are of
    the same questions it is smaller.

    Args:
        alpha: the level of the threshold, in (0, 0.5].
        update: 1 for the first comparison after the anchor was pinned. Runs before the next update
            of the baseline have the same number: each of them is judged as the one that may be merged.

    Returns:
        A level: alpha/22 at the 11th, alpha/76 at the 20th, alpha/1,980 at the 100th.

    Raises:
        ValueError: `update` is below 1.

    >>> [round(anchor_alpha(0.05, update), 6) for update in (1, 10, 11, 20, 100)]
    [0.0025, 0.0025, 0.002273, 0.000658, 2.5e-05]
    """
    if update < 1:
        message = f"updates are counted from 1, found {update}"
        raise ValueError(message)
    return alpha / (2 * EVEN) if update <= EVEN else alpha * EVEN / (2 * update * (update - 1))
