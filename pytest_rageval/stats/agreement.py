"""Agreement between raters, agreement between votes, and correlation between two scores of the same items.

Arguments `a` and `b` are sequences of n labels or numbers, one per item, in the same order. Sequences of different
lengths raise ValueError.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import accumulate
from math import comb, fsum, sqrt
from operator import mul
from typing import Final, TypeVar

from pytest_rageval.stats.intervals import Estimate, proportion

Label = TypeVar("Label", bound=Hashable)


def accuracy(a: Sequence[Hashable], b: Sequence[Hashable]) -> Estimate | None:
    """Share of items that both raters label the same, in [0, 1], with Wilson's 95% interval; None without items."""
    _require_equal_lengths(a, b)
    return proportion(sum(x == y for x, y in zip(a, b, strict=True)), len(a)) if a else None


def cohen_kappa(a: Sequence[Hashable], b: Sequence[Hashable]) -> Estimate | None:
    """Cohen's kappa: chance-corrected agreement of nominal labels, from -1 to 1 for full agreement; 0 for chance.

    `(p - e) / (1 - e)`, where p is the observed share of items with the same label from both raters, and e is the
    share that is expected if both raters keep their label frequencies but label independently of each other. The 95%
    interval is Wilson's interval of p with e held fixed; it has positive width even if all items agree, and is cut at
    -1. None if kappa is undefined: no items, or a single label for all items.

    Source: Cohen (1960), "A coefficient of agreement for nominal scales", whose standard error also holds e fixed.
    Wilson's interval in place of the normal one is our choice.

    >>> cohen_kappa([1, 1, 0, 0], [1, 1, 1, 0]).value
    0.5
    """
    agreement = accuracy(a, b)
    if agreement is None:
        return None
    counts_a, counts_b = Counter(a), Counter(b)
    chance = sum(count * counts_b[label] for label, count in counts_a.items()) / len(a) ** 2
    if chance == 1:
        return None
    # In the form 1 - (1 - p) / (1 - e), full agreement gives exactly 1.
    shares = (agreement.value, agreement.low, agreement.high)
    return Estimate(*(max(-1.0, 1 - (1 - share) / (1 - chance)) for share in shares))


def pearson(a: Sequence[float], b: Sequence[float], *, seed: int = 0) -> Estimate | None:
    """Pearson's correlation of two raters' grades, in [-1, 1], with the 95% BCa bootstrap interval over items.

    Covariance divided by the product of the standard deviations. It measures whether grades rise together, not whether
    they are equal: a judge that is always one grade too mild has correlation 1. The interval has zero width if the
    grades lie on one line. A resample in which a rater gives a single grade has no correlation and counts as 0. None if
    the correlation is undefined: fewer than two items, or all grades of a or of b equal.

    Source: Pearson (1896); the interval: Efron (1987), "Better bootstrap confidence intervals".

    >>> round(pearson([1, 2, 3, 4], [1, 3, 2, 5]).value, 4)
    0.8315
    """
    if not _both_vary(a, b):
        return None
    # numpy takes 0.2 s to import, and kappa does not need it.
    from pytest_rageval.stats.bootstrap import bca_correlation  # noqa: PLC0415

    return Estimate(*bca_correlation(a, b, seed=seed))


def majority(labels: Sequence[Label], *, tie: Label) -> Label:
    """Return the label that more than half of the annotators chose, or `tie` if there is none.

    >>> majority([1, -1, 1], tie=0), majority([1, -1, 0], tie=0), majority([1, -1], tie=0)
    (1, 0, 0)
    """
    if not labels:
        raise ValueError("a majority needs at least one label")
    label, count = Counter(labels).most_common(1)[0]
    return label if 2 * count > len(labels) else tie


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Kendall's tau-b: concordant minus discordant pairs, corrected for ties; 1 for the same order, else down to -1.

    `(C - D) / sqrt((P - T_a) (P - T_b))`. P is the number of pairs of items, C of concordant pairs (a and b order the
    two items the same way), D of discordant pairs, T_a of pairs tied in a, and T_b of pairs tied in b. None if tau is
    undefined: fewer than two items, or all values of a or of b equal.

    Source: Kendall (1945), "The treatment of ties in ranking problems".

    >>> round(kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.6667
    """
    if not _both_vary(a, b):
        return None
    # In the order of a, and within ties in a in that of b: a pair is discordant if the later b is the smaller one.
    pairs = sorted(zip(a, b, strict=True))
    discordant, before = 0, list[float]()
    for _, value in pairs:
        discordant += len(before) - bisect_right(before, value)
        insort(before, value)
    apart_a, apart_b, apart = (comb(len(a), 2) - _tied_pairs(values) for values in (a, b, pairs))
    # Pairs tied in a or in b are neither concordant nor discordant.
    concordant = apart_a + apart_b - apart - discordant
    return _rounded_into_range((concordant - discordant) / sqrt(apart_a * apart_b))


def spearman_rho(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's rho: Pearson's correlation of the ranks; tied items share their mean rank. None as `kendall_tau`.

    Source: Spearman (1904), "The proof and measurement of association between two things".

    >>> round(spearman_rho([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.8
    """
    if not _both_vary(a, b):
        return None
    ranks_a, ranks_b = _doubled_ranks(a), _doubled_ranks(b)
    # In integers, so that only the last division rounds. The mean of the doubled ranks is n + 1.
    middle = len(a) * (len(a) + 1) ** 2
    covariance, variance_a, variance_b = (
        sum(map(mul, *ranks)) - middle
        for ranks in ((ranks_a, ranks_b), (ranks_a, ranks_a), (ranks_b, ranks_b))
    )
    return _rounded_into_range(covariance / sqrt(variance_a * variance_b))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value; tied values share their mean rank."""
    counts = Counter(values)
    order = sorted(counts)
    ends = accumulate(counts[value] for value in order)
    doubled = {value: 2 * end - counts[value] + 1 for value, end in zip(order, ends, strict=True)}
    return [doubled[value] for value in values]


def _tied_pairs(values: Sequence[Hashable]) -> int:
    return sum(comb(count, 2) for count in Counter(values).values())


def _rounded_into_range(correlation: float) -> float:
    # Floating-point rounding may move a perfect correlation beyond 1.
    return min(1.0, max(-1.0, correlation))


def _require_equal_lengths(a: Sequence[object], b: Sequence[object]) -> None:
    if len(a) != len(b):
        raise ValueError(
            f"sequences over the same items must have the same length, not {len(a)} and {len(b)}"
        )


def _both_vary(a: Sequence[float], b: Sequence[float]) -> bool:
    _require_equal_lengths(a, b)
    return len(set(a)) > 1 and len(set(b)) > 1


def format_rho(rho: float) -> str:
    """Format a correlation with two decimals and without the leading zero; 1 and -1 keep their digit.

    >>> format_rho(0.583), format_rho(-0.2), format_rho(1.0)
    ('.58', '-.20', '1.00')
    """
    text = f"{rho:.2f}"
    return text if text.endswith("1.00") else text.replace("0.", ".", 1)


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

    A ranking has the groups of tied items, best first; items without ties are groups of one. No item occurs twice.

    Webber, Moffat and Zobel (2010), equations 28 and 32; with ties the variant "w" of Corsi and Urbano (2024).
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
