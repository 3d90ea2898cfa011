"""Agreement between raters and between votes, and correlation of two scores of the same items.

Two raters, and two scores, are sequences of n labels or numbers, one an item, in the same order. Sequences of
different lengths raise ValueError.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_rageval.stats.intervals import Estimate, share

__all__ = [
    "Tally",
    "accuracy",
    "cohen_kappa",
    "kendall_tau",
    "majority",
    "pearson",
    "spearman_rho",
]

Label = TypeVar("Label", bound=Hashable)


def accuracy(a: Sequence[Hashable], b: Sequence[Hashable]) -> Estimate | None:
    """Share of items that two raters label alike, in [0, 1], with Wilson's 95% interval; None without items.

    >>> accuracy(["yes", "no", "yes", "no"], ["yes", "no", "no", "no"]).value
    0.75
    """
    _require_one_length(a, b)
    return share(sum(x == y for x, y in zip(a, b, strict=True)), len(a)) if a else None


def cohen_kappa(a: Sequence[Hashable], b: Sequence[Hashable]) -> Estimate | None:
    """Cohen's kappa: agreement beyond chance, of labels that have no order.

    `(p - e) / (1 - e)` with p the share of items labelled alike and e the share expected of raters who give each
    label as often, but independently of each other.

    Returns:
        A number in [-1, 1]: 1 for full agreement, 0 for as much as by chance. The 95% interval is that of p, by
        Wilson, with e held fixed; it has a width even where all items agree, and is cut at -1. None where kappa is
        undefined: no items, or one and the same label for all.

    Source: Cohen (1960), "A coefficient of agreement for nominal scales", whose standard error holds e fixed too;
    Wilson's interval instead of the normal one is ours.

    >>> cohen_kappa([1, 1, 0, 0], [1, 1, 1, 0]).value
    0.5
    """
    agreement = accuracy(a, b)
    if agreement is None:
        return None
    of_a, of_b = Counter(a), Counter(b)
    chance = sum(count * of_b[label] for label, count in of_a.items()) / len(a) ** 2
    if chance == 1:
        return None
    # 1 - (1 - p) / (1 - e) rather than the usual form, so that 1 is exactly 1.
    shares = (agreement.value, agreement.low, agreement.high)
    return Estimate(*(max(-1.0, 1 - (1 - share) / (1 - chance)) for share in shares))


def pearson(a: Sequence[float], b: Sequence[float], *, seed: int = 0) -> Estimate | None:
    """Pearson's correlation of two raters' grades.

    Covariance over the product of the standard deviations. It shows whether grades rise together, not whether they
    are the same: a judge that is always one grade too mild has correlation 1. `seed` is that of the bootstrap.

    Returns:
        A number in [-1, 1], with the 95% BCa bootstrap interval over items, which has no width where the grades lie
        on one line. A resample in which a rater gives one grade only has no correlation and counts as 0. None where
        the correlation is undefined: fewer than two items, or one grade for all by a or by b.

    Source: Pearson (1896); the interval: Efron (1987), "Better bootstrap confidence intervals".

    >>> round(pearson([1, 2, 3, 4], [1, 3, 2, 5]).value, 4)
    0.8315
    """
    _require_one_length(a, b)
    if not _both_vary(a, b):
        return None
    # numpy takes 0.2 s to import, which kappa does not need.
    from pytest_rageval.stats.bootstrap import bca_correlation  # noqa: PLC0415

    return Estimate(*bca_correlation(a, b, seed=seed))


def majority(labels: Sequence[Label], *, tie: Label) -> Label:
    """Return the label of more than half of the annotators, or `tie` without one.

    Raises:
        ValueError: there are no labels.

    >>> majority([1, -1, 1], tie=0), majority([1, -1, 0], tie=0), majority([1, -1], tie=0)
    (1, 0, 0)
    """
    if not labels:
        raise ValueError("a majority needs at least one label")
    label, count = Counter(labels).most_common(1)[0]
    return label if 2 * count > len(labels) else tie


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Kendall's tau-b: concordant less discordant pairs, corrected for ties.

    `(C - D) / sqrt((P - T_a) (P - T_b))` with P pairs of queries in all, of which a orders C as b does and D the
    other way round; T_a pairs are tied in a, T_b in b.

    Returns:
        A number in [-1, 1], 1 where both order all queries alike. None where it is undefined: fewer than two queries,
        or all equal in a or in b.

    Source: Kendall (1945), "The treatment of ties in ranking problems".

    >>> round(kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.6667
    """
    return _coefficient("kendalltau", a, b)


def spearman_rho(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's rho: Pearson's correlation of the ranks; tied queries share their mean rank.

    Returns:
        As `kendall_tau`.

    Source: Spearman (1904), "The proof and measurement of association between two things".

    >>> round(spearman_rho([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.8
    """
    return _coefficient("spearmanr", a, b)


def _coefficient(name: str, a: Sequence[float], b: Sequence[float]) -> float | None:
    _require_one_length(a, b)
    if not _both_vary(a, b):
        return None
    # scipy.stats takes 0.5 s to import.
    from scipy import stats  # noqa: PLC0415

    # Rounding may carry a perfect association beyond 1.
    return min(1.0, max(-1.0, float(getattr(stats, name)(a, b).statistic)))


def _require_one_length(a: Sequence[object], b: Sequence[object]) -> None:
    if len(a) != len(b):
        raise ValueError(
            f"sequences over the same items must have the same length, not {len(a)} and {len(b)}"
        )


def _both_vary(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(set(a)) > 1 and len(set(b)) > 1


@dataclass(frozen=True, slots=True)
class Tally:
    """How far the votes on verdicts agree. Tallies add up.

    Of `verdicts`, each reached by several votes, the votes of `split` were not all the same. Of the `votes` that could
    be read, `minority` differ from their verdict; `unread` could not be read, and do not count.
    """

    verdicts: int = 0
    split: int = 0
    votes: int = 0
    minority: int = 0
    unread: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.verdicts + other.verdicts,
            self.split + other.split,
            self.votes + other.votes,
            self.minority + other.minority,
            self.unread + other.unread,
        )

    @property
    def flip_rate(self) -> float:
        """The share of split verdicts, in [0, 1]; 0 where there are no verdicts."""
        return self.split / self.verdicts if self.verdicts else 0.0

    @property
    def minority_rate(self) -> float:
        """The share of votes that differ from their verdict, in [0, 1]; 0 where there are no votes."""
        return self.minority / self.votes if self.votes else 0.0
