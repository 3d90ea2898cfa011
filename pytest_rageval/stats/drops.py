"""Joint test of whether several scores of the same questions dropped, with an interval of each drop."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_rageval.stats.drop_interval import ROUNDING, drop_interval, unseen_reach
from pytest_rageval.stats.mcnemar import mid_p

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DropResult", "DropTests", "Drops", "count_lost", "joint_drop_test"]

ENOUGH: Final = 60
"""With fewer questions the reweighted test has too little power to be required as well."""
USUAL_ALPHA: Final = 0.05
"""The same holds at a smaller alpha."""
IN_DOUBT: Final = 2
"""Where it is not required, its p-value is reported as a doubt if it is above so many times alpha."""


@dataclass(frozen=True, slots=True)
class Drops:
    """The paired differences of one score, and its null hypothesis.

    Attributes:
        values: score of the baseline less the new score, a question each; NaN where one of them has no score.
        beyond: the null hypothesis is that the true mean drop is at most this: 0 where a drop is to be shown at all.
        largest: the largest difference there can be, either way; 1 for scores in [0, 1].
        tolerance: differences up to this are 0; 1e-6 for scores that come from embeddings.
    """

    values: Sequence[float]
    beyond: float = 0.0
    largest: float = 1.0
    tolerance: float = ROUNDING


@dataclass(frozen=True, slots=True)
class DropResult:
    """Result of the test for one score.

    Attributes:
        drop: the mean difference; None where no question has one.
        p_value: of "the true mean drop is at most `beyond`", adjusted for all scores that are tested together.
        low: lower bound of the true drop: at least `beyond` where the p-value is at most alpha, else at most that.
        high: upper bound.
        needs_symmetry: whether the result is significant only under the assumption that differences are symmetric if
            nothing got worse; rare large gains, seen or not, could make up for these losses.
    """

    drop: float | None
    p_value: float
    low: float
    high: float
    needs_symmetry: bool


@dataclass(frozen=True, slots=True)
class DropTests:
    """Results of a joint test.

    Attributes:
        scores: in the order given.
        level: the level of a single test that the joint one amounts to, from alpha divided by the number of scores to
            alpha: that of either bound of the intervals, and the one to compute the power of one score with.
        settled: whether another seed would give the same decisions, but for a probability of 1e-4; otherwise a p-value
            is too close to alpha for 1,000,000 draws, and is set above it.
    """

    scores: tuple[DropResult, ...]
    level: float
    settled: bool


def joint_drop_test(
    scores: Sequence[Drops], *, alpha: float, clusters: Sequence[Hashable] | None = None, seed: int = 0
) -> DropTests:
    """Test whether the means of several scores of the same questions dropped.

    The signs of whole questions, or of whole clusters of them, are flipped in all scores at once: where nothing got
    worse, each question is as likely to have gained as to have lost. The p-values are those of the step-down max-T
    procedure, in which ties count half (`pytest_rageval.stats.sign_flips`). For a single score of 0 or 1 that is the
    mid-p McNemar test (`pytest_rageval.stats.mcnemar.mid_p`). Where `beyond` is not 0 it is taken off each
    difference before.

    Sign-flip tests assume that differences are symmetric if nothing got worse. A few large gains against many small
    losses are not. With at least 60 differences and an alpha of at least 0.05, the p-value of a score is therefore the
    larger one of the sign flips and of `reweighted_drop` (`pytest_rageval.stats.noninferiority`), which needs no
    symmetry and allows for gains that were not seen (`pytest_rageval.stats.drop_interval.unseen_reach`). With fewer
    differences, or a smaller alpha, that test has too little power to be required; `needs_symmetry` then reports that
    its p-value is above 2·alpha. In simulations with 30 questions that is so for 36 to 100% of the false alarms that
    lopsided differences raise, and for 1 to 12% of true ones. Neither applies to clusters, nor where all differences
    other than 0 have one size, which are symmetric if their mean is 0.

    Args:
        scores: at least one; all have a value for each of the same questions in the same order. The scores of
            slices have NaN for the questions of the others.
        alpha: the level, in (0, 0.5]: the probability that any score is called worse, if none is.
        clusters: of each question, what it moves together with, such as its gold document; None where questions
            are independent. Fewer than 20 clusters say little.
        seed: of the draws, where sign patterns are not enumerated.

    Returns:
        Results in the same order. A score without any difference has the p-value 1 and the interval ±`largest`.

    Raises:
        ValueError: there is no score, the scores or clusters differ in length, a difference is beyond `largest`, or
            `beyond` is not in [0, largest).

    In simulations on 31 variants of BM25 and on synthetic scores, 30 to 1,000 questions, any score is wrongly
    called worse in at most 5.8% of runs at alpha 0.05 (`tests/benchmarks/drop_tests.py`).

    >>> test = joint_drop_test([Drops([1, 1, 1, 1, 1, 0, 0, -1])], alpha=0.05)
    >>> test.scores[0].p_value  # (1 + 6/2) / 2^6
    0.0625
    """
    _check(scores, clusters)
    found = [[0.0 if abs(d) <= score.tolerance else d for d in score.values] for score in scores]
    p_values, doubts, level, settled = _p_values(found, scores, alpha, clusters, seed)
    tested = []
    for score, drops, p_value, doubt in zip(scores, found, p_values, doubts, strict=True):
        kept = _numbers(drops)
        guard = alpha if clusters is None and _needs_second_test(kept, score, alpha) else None
        low, high = drop_interval(drops, alpha=level, largest=score.largest, clusters=clusters, guard=guard)
        low = max(low, score.beyond) if p_value <= alpha else min(low, score.beyond)
        tested.append(DropResult(math.fsum(kept) / len(kept) if kept else None, p_value, low, high, doubt))
    return DropTests(tuple(tested), level, settled)


def count_lost(drops: Sequence[float], tolerance: float = ROUNDING) -> int:
    """How many questions score lower than before, by more than the tolerance; NaN is none of them.

    >>> count_lost([1.0, 1e-15, -1.0, math.nan])
    1
    """
    return sum(drop > tolerance for drop in drops)


def _check(scores: Sequence[Drops], clusters: Sequence[Hashable] | None) -> None:
    if not scores:
        raise ValueError("a joint test is of at least one score")
    lengths = {len(score.values) for score in scores}
    if clusters is not None:
        lengths.add(len(clusters))
    if len(lengths) > 1:
        message = f"the scores and clusters are of the same questions, found {sorted(lengths)} of them"
        raise ValueError(message)
    for score in scores:
        if not 0 <= score.beyond < score.largest:
            message = f"a drop to be beyond is at least 0 and below {score.largest}, found {score.beyond}"
            raise ValueError(message)
        if any(abs(drop) > score.largest for drop in score.values):
            message = f"a difference of scores is a number from {-score.largest} to {score.largest}, or NaN"
            raise ValueError(message)


def _numbers(drops: Sequence[float]) -> list[float]:
    """The differences that are not NaN."""
    return [drop for drop in drops if not math.isnan(drop)]


def _symmetric(kept: Sequence[float], score: Drops) -> bool:
    """Whether the differences are symmetric if their mean is 0: all that are not 0 are equally large."""
    sizes = [abs(drop) for drop in kept if drop]
    return not score.beyond and (not sizes or max(sizes) - min(sizes) <= ROUNDING)


def _needs_second_test(kept: Sequence[float], score: Drops, alpha: float) -> bool:
    """Whether the reweighted test must be significant too."""
    return alpha >= USUAL_ALPHA and len(kept) >= ENOUGH and not _symmetric(kept, score)


def _p_values(
    found: Sequence[Sequence[float]],
    scores: Sequence[Drops],
    alpha: float,
    clusters: Sequence[Hashable] | None,
    seed: int,
) -> tuple[list[float], list[bool], float, bool]:
    """p-value and `needs_symmetry` of each score; the level of a single test; whether decisions are settled."""
    if len(scores) == 1 and clusters is None and _symmetric(kept := _numbers(found[0]), scores[0]):
        return [mid_p(sum(d > 0 for d in kept), sum(d < 0 for d in kept))], [False], alpha, True
    # Imported late: a single score of 0 or 1 needs no numpy.
    from pytest_rageval.stats.noninferiority import reweighted_drop  # noqa: PLC0415
    from pytest_rageval.stats.sign_flips import joint_level, sign_flips  # noqa: PLC0415

    columns = _columns(found, scores, clusters)
    flips = sign_flips(columns, alpha=alpha, seed=seed)
    p_values, doubts = list(flips.p_values), [False] * len(scores)
    for i, (drops, score) in enumerate(zip(found, scores, strict=True)):
        kept = _numbers(drops)
        if clusters is not None or p_values[i] > alpha or _symmetric(kept, score):
            continue
        second_test = _needs_second_test(kept, score, alpha)
        reach = unseen_reach(kept, score.largest, whole_scale=not second_test)
        reach = min(max(reach, 2 * score.beyond), score.largest)
        p_reweighted = reweighted_drop(kept, score.beyond, largest=reach)
        if second_test:
            p_values[i] = max(p_values[i], p_reweighted)
        else:
            doubts[i] = p_reweighted > IN_DOUBT * alpha
    return p_values, doubts, joint_level(columns, alpha, seed=seed), flips.settled


def _columns(
    found: Sequence[Sequence[float]], scores: Sequence[Drops], clusters: Sequence[Hashable] | None
) -> "NDArray[np.float64]":
    """Questions or clusters × scores: the numbers whose signs are flipped, 0 where there is no difference."""
    import numpy as np  # noqa: PLC0415 - as above

    beyond = np.array([score.beyond for score in scores])
    columns: NDArray[np.float64] = np.nan_to_num(np.array(found, dtype=float).T - beyond, nan=0.0)
    if clusters is None:
        return columns
    at: dict[Hashable, int] = {}
    places = [at.setdefault(cluster, len(at)) for cluster in clusters]
    sums = np.zeros((len(at), len(scores)))
    np.add.at(sums, places, columns)
    return sums
