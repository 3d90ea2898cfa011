"""How far two raters of the same items agree, say a judge with people."""

from collections import Counter
from collections.abc import Hashable, Sequence

from pytest_rageval.stats.estimate import Estimate
from pytest_rageval.stats.proportion import wilson

__all__ = ["accuracy", "cohen_kappa", "pearson"]


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
    from pytest_rageval.stats.correlation import correlation_estimate  # noqa: PLC0415

    return correlation_estimate(a, b, seed=seed)


def _require_one_length(a: Sequence[object], b: Sequence[object]) -> None:
    if len(a) != len(b):
        raise ValueError(f"two raters label the same items, not {len(a)} and {len(b)}")
