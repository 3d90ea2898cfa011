"""Rank-biased overlap: how alike are two rankings, most of all at the top?"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from math import fsum
from typing import Final

PERSISTENCE: Final = 0.9
"""The share of readers who, at any rank, go on to the next: the first ten ranks have 86% of the weight."""


def rank_biased_overlap(
    first: Iterable[Collection[Hashable]], second: Iterable[Collection[Hashable]], p: float = PERSISTENCE
) -> float:
    """Return the extrapolated RBO of two rankings: 1 for equal ones, 0 for rankings without a common item.

    It is (1 - p) Σ p^(d-1) A_d over all depths d, where A_d is the agreement of what is at ranks up to d: twice the
    number of common items, divided by the number of items in both. Tied items all have the first of their ranks. Below
    the end of the shorter ranking, its agreement there is assumed for what is not seen of it; below the end of both,
    the last agreement. Two empty rankings are equal.

    Webber, Moffat and Zobel (2010), equations 28 and 32; with ties the variant "w" of Corsi and Urbano (2024).

    Args:
        first: the groups of tied items, best first; items without ties are groups of one. No item occurs twice.
        second: the other ranking.
        p: the persistence, in (0, 1).
    """
    shorter, longer = sorted((_entering(first), _entering(second)), key=len)
    if not shorter:
        return float(not longer)
    end, agreement, agreement_at_end = len(shorter), 0.0, 0.0
    seen: set[Hashable] = set()
    also_seen: set[Hashable] = set()
    terms = []
    for depth, items in enumerate(longer, 1):
        also_seen.update(items)
        if depth <= end:
            seen.update(shorter[depth - 1])
            agreement_at_end = agreement = 2 * len(seen & also_seen) / (len(seen) + len(also_seen))
        else:
            common = len(seen & also_seen) + agreement_at_end * (depth - end)
            agreement = 2 * common / (depth + len(also_seen))
        terms.append(p ** (depth - 1) * (1 - p) * agreement)
    return min(1.0, fsum([*terms, p ** len(longer) * agreement]))


def _entering(ranking: Iterable[Collection[Hashable]]) -> Sequence[Collection[Hashable]]:
    """Return the items that enter at each rank: a group at its first rank, and nothing at its others."""
    entering: list[Collection[Hashable]] = []
    for group in ranking:
        entering += [group, *[()] * (len(group) - 1)]
    return entering
