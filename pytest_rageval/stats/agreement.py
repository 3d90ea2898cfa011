"""Agreement between raters, and rank correlation of two scores of the same queries."""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations
from statistics import fmean
from typing import TypeVar

from pytest_rageval.stats.estimate import Estimate
from pytest_rageval.stats.intervals import wilson

__all__ = [
    "accuracy",
    "cohen_kappa",
    "fleiss_kappa",
    "kendall_tau",
    "majority",
    "pairwise_kappa",
    "pearson",
    "spearman_rho",
]


def accuracy(a: Sequence[Hashable], b: Sequence[Hashable]) -> Estimate | None:
    """Share of items that both label alike.

    Args:
        a: n labels, one an item.
        b: the other rater's labels of the same items, in the same order.

    Returns:
        A share in [0, 1] with Wilson's 95% interval; None without items.

    Raises:
        ValueError: a and b are not of one length.

    >>> accuracy(["yes", "no", "yes", "no"], ["yes", "no", "no", "no"]).value
    0.75
    """
    _require_one_length(a, b)
    if not a:
        return None
    alike = sum(x == y for x, y in zip(a, b, strict=True))
    return Estimate(alike / len(a), *wilson(alike, len(a)))


def cohen_kappa(a: Sequence[Hashable], b: Sequence[Hashable]) -> Estimate | None:
    """Cohen's kappa: agreement beyond chance, of labels that have no order.

    `(p - e) / (1 - e)` with p the share of items labelled alike and e the share expected to be, were
    each rater to give labels as often as now but independently of the other.

    Args:
        a: n labels, one an item: yes and no; -1, 0 and 1; any that compare equal.
        b: the other rater's labels of the same items, in the same order.

    Returns:
        A number in [-1, 1]: 1 for full agreement, 0 for as much as by chance. The 95% interval is
        that of p, by Wilson, carried over with e held fixed; it keeps a width where all items agree,
        and is cut at -1. None where kappa is undefined: no items, or one and the same label for all.

    Raises:
        ValueError: a and b are not of one length.

    Source: Cohen (1960), "A coefficient of agreement for nominal scales", whose standard error
    holds e fixed too; Wilson's interval instead of the normal one is ours.

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

    Covariance over the product of the standard deviations. It says whether grades rise together, not
    whether they are the same: a judge who is one grade too mild throughout correlates fully.

    Args:
        a: n real numbers, one an item: grades 1 … 5; -1, 0 and 1.
        b: the other rater's grades of the same items, in the same order.
        seed: of the bootstrap.

    Returns:
        A number in [-1, 1], with the 95% BCa bootstrap interval over items, which has no width where
        the grades lie on one line. A resample in which a rater gives one grade only shows no
        correlation and counts as 0. None where the
        correlation is undefined: fewer than two items, or one grade for all by a or by b.

    Raises:
        ValueError: a and b are not of one length.

    Source: Pearson (1896); the interval: Efron (1987), "Better bootstrap confidence intervals".

    >>> round(pearson([1, 2, 3, 4], [1, 3, 2, 5]).value, 4)
    0.8315
    """
    _require_one_length(a, b)
    if len(set(a)) < 2 or len(set(b)) < 2:  # noqa: PLR2004 - variation needs two
        return None
    # numpy costs a fifth of a second, which those who ask for kappa need not pay.
    from pytest_rageval.stats.bootstrap import correlation_estimate  # noqa: PLC0415

    return correlation_estimate(a, b, seed=seed)


def _require_one_length(a: Sequence[object], b: Sequence[object]) -> None:
    if len(a) != len(b):
        raise ValueError(f"two raters label the same items, not {len(a)} and {len(b)}")


Label = TypeVar("Label", bound=Hashable)


def pairwise_kappa(annotators: Sequence[Sequence[Hashable]]) -> float | None:
    """Mean of Cohen's kappa over all pairs of annotators (Light's kappa).

    What people reach among themselves, and so the most that can be asked of a judge: to be compared
    with the judge's mean kappa with each of them.

    Args:
        annotators: for each of at least two people, the labels of the same items in the same order.
            Each must be one person throughout; where they are not told apart, see `fleiss_kappa`.

    Returns:
        A number in [-1, 1]; pairs whose kappa is undefined are left out, None where all are.

    Raises:
        ValueError: the annotators did not label equally many items.

    Source: Light (1971), "Measures of response agreement for qualitative data".

    >>> pairwise_kappa([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 0, 0]])
    0.6666666666666666
    """
    kappas = [cohen_kappa(a, b) for a, b in combinations(annotators, 2)]
    defined = [kappa.value for kappa in kappas if kappa is not None]
    return fmean(defined) if defined else None


def fleiss_kappa(items: Sequence[Sequence[Hashable]]) -> float | None:
    """Fleiss' kappa: agreement beyond chance of annotators who are not told apart.

    `(p - e) / (1 - e)` with p the share of pairs of labels of an item that are equal, averaged over
    items, and e the sum of the squared shares of each label among all.

    Args:
        items: for each item its m ≥ 2 labels, in any order. Items that got a third label only because
            two disagreed are not a fair sample of three; give the first two.

    Returns:
        A number in [-1 / (m - 1), 1]. None where it is undefined: no items, or one and the same label
        for all.

    Raises:
        ValueError: the items have not one number of labels, or less than two.

    Source: Fleiss (1971), "Measuring nominal scale agreement among many raters".

    >>> round(fleiss_kappa([["yes", "yes"], ["no", "no"], ["yes", "no"]]), 4)
    0.3333
    """
    sizes = {len(labels) for labels in items}
    if len(sizes) > 1 or sizes & {0, 1}:
        raise ValueError(f"every item has the same number of labels, two at least, not {sorted(sizes)}")
    totals = Counter(label for labels in items for label in labels)
    if len(totals) < 2:  # noqa: PLR2004 - one label leaves nothing to disagree on
        return None
    chance = sum((count / totals.total()) ** 2 for count in totals.values())
    alike = fmean(fmean(x == y for x, y in combinations(labels, 2)) for labels in items)
    return 1 - (1 - alike) / (1 - chance)


def majority(labels: Sequence[Label], *, tie: Label) -> Label:
    """The label that more than half of the annotators gave, or `tie` where there is none.

    With three annotators two suffice; two against two, or three different labels, are a tie.

    Raises:
        ValueError: there are no labels.

    >>> majority([1, -1, 1], tie=0), majority([1, -1, 0], tie=0), majority([1, -1], tie=0)
    (1, 0, 0)
    """
    if not labels:
        raise ValueError("a majority of no labels")
    label, count = Counter(labels).most_common(1)[0]
    return label if 2 * count > len(labels) else tie


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Kendall's tau-b: concordant less discordant pairs, corrected for ties.

    `(C - D) / sqrt((P - T_a) (P - T_b))` with P pairs of queries in all, of which
    a orders C as b does and D the other way round; T_a pairs are tied in a, T_b in b.

    Args:
        a: n real numbers, one a query.
        b: the other score of the same queries, in the same order.

    Returns:
        A number in [-1, 1], 1 where both order all queries alike. None where it
        is undefined: fewer than two queries, or all equal in a or in b.

    Raises:
        ValueError: a and b are not of one length.

    Source: Kendall (1945), "The treatment of ties in ranking problems".

    >>> round(kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.6667
    """
    return _coefficient("kendalltau", a, b)


def spearman_rho(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's rho: Pearson's correlation of the ranks; tied queries share their mean rank.

    Args:
        a: n real numbers, one a query.
        b: the other score of the same queries, in the same order.

    Returns:
        A number in [-1, 1], 1 where both order all queries alike. None where it
        is undefined: fewer than two queries, or all equal in a or in b.

    Raises:
        ValueError: a and b are not of one length.

    Source: Spearman (1904), "The proof and measurement of association between two things".

    >>> round(spearman_rho([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.8
    """
    return _coefficient("spearmanr", a, b)


def _coefficient(name: str, a: Sequence[float], b: Sequence[float]) -> float | None:
    """Scipy's coefficient of that name, or None where it is undefined."""
    if len(a) != len(b):
        message = f"two scores of the same queries are of one length, not {len(a)} and {len(b)}"
        raise ValueError(message)
    if len(set(a)) < 2 or len(set(b)) < 2:  # noqa: PLR2004 - an order needs two
        return None
    # scipy.stats takes half a second to import, which only those who ask should pay.
    from scipy import stats  # noqa: PLC0415

    # Rounding may carry a perfect association beyond 1.
    return min(1.0, max(-1.0, float(getattr(stats, name)(a, b).statistic)))
