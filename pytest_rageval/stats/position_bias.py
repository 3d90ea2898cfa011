"""Position bias: whether a judge of two answers prefers a place rather than an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from pytest_rageval.stats.intervals import Estimate, share

__all__ = ["PositionBias", "first_place_share", "position_bias"]


@dataclass(frozen=True, slots=True)
class PositionBias:
    """The effect on verdicts of swapping the two answers.

    Attributes:
        flips: share of pairs whose verdict changed, in [0, 1], with Wilson's interval.
        first: share of the flips in which an answer did better in the first place than in the second, with Wilson's
            interval: 0.5 without bias. None without a flip.
        p_value: of the exact two-sided sign test that flips go either way equally often; 1 without a flip.
    """

    flips: Estimate
    first: Estimate | None
    p_value: float


def position_bias(verdicts: Sequence[tuple[float, float]]) -> PositionBias | None:
    """Compare the verdicts on pairs of answers that were judged in both orders.

    Args:
        verdicts: for each pair, the score of one of its answers when shown first and when shown second: 1 won, 0.5
            tied, 0 lost, or any numbers in that order.

    Returns:
        The bias; None without pairs. A judge without position bias may flip often, by chance; then flips go either
        way.

    Source: the sign test, Dixon and Mood (1946), "The statistical sign test".

    >>> bias = position_bias([(1, 0)] * 6 + [(1, 1)] * 4)
    >>> bias.flips.value, bias.first.value, bias.p_value
    (0.6, 1.0, 0.03125)
    """
    if not verdicts:
        return None
    first = sum(when_first > when_second for when_first, when_second in verdicts)
    flips = first + sum(when_first < when_second for when_first, when_second in verdicts)
    return PositionBias(
        flips=share(flips, len(verdicts)),
        first=share(first, flips) if flips else None,
        p_value=_sign_test(first, flips),
    )


def first_place_share(wins: int, losses: int) -> Estimate | None:
    """How often the answer in the first place won, where each pair was judged in one order only.

    Args:
        wins: verdicts for the answer that was shown first.
        losses: verdicts for the other. Ties are left out.

    Returns:
        The share of wins, with Wilson's interval; None where all were ties. Without bias it is 0.5, if the order was
        random. A bias that turns verdicts into ties is not seen here; judging in both orders shows it.

    >>> first_place_share(15, 5).value
    0.75
    """
    decided = wins + losses
    return share(wins, decided) if decided else None


def _sign_test(successes: int, n: int) -> float:
    """Probability of a split of n fair coins at least as uneven."""
    tail = sum(comb(n, k) for k in range(min(successes, n - successes) + 1))
    return min(1.0, 2 * tail / (1 << n))
