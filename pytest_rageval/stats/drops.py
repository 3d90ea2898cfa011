"""Joint test of whether several scores of the same questions dropped, and the interval of each drop."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from pytest_rageval.stats.intervals import ROUNDING
from pytest_rageval.stats.mcnemar import mid_p, tango

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "DropResult",
    "DropTests",
    "Drops",
    "drop_interval",
    "joint_drop_test",
    "sums_by",
    "unseen_gain",
]

ENOUGH: Final = 60  # with fewer questions the reweighted test has too little power to be required as well
USUAL_ALPHA: Final = 0.05  # the same holds at a smaller alpha
IN_DOUBT: Final = 2
"""Where the reweighted test is not required, a p-value above so many times alpha sets `needs_symmetry`."""
FEW: Final = 8  # with fewer gains than this, larger ones are allowed for
MANY: Final = 20_000
"""With more questions, unseen changes would move a bound by less than 0.0002: they are left out."""
NEAR: Final = 1e-5  # error of a bound that is searched for, as a share of the largest difference
NOTHING: Final = 1e-15  # the p-value assumed at the far end of the search
MOST: Final = 0.7  # higher p-values are cut off in the search: no level is higher
PROBES: Final = 40  # most evaluations of a search; about eight are usual

NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class Drops:
    """The paired differences of one score, and its null hypothesis: that the true mean drop is at most `beyond`.

    Attributes:
        values: score of the baseline less the new score, a question each; NaN where one of them has no score.
        beyond: 0 asks for any drop.
        largest: the largest possible difference, either way; 1 for scores in [0, 1].
        tolerance: differences up to this count as 0; 1e-6 suits scores from embeddings.
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
        p_value: adjusted for all scores that are tested together.
        low: lower bound of the true drop: at least `beyond` where the p-value is at most alpha, else at most that.
        high: upper bound.
        needs_symmetry: whether the result is significant only if differences are symmetric under the null hypothesis.
            Rare large gains could then make up for these losses.
    """

    drop: float | None
    p_value: float
    low: float
    high: float
    needs_symmetry: bool


@dataclass(frozen=True, slots=True)
class DropTests:
    """Results of a joint test, in the order given.

    `level` is that of a test of one score to which the joint test amounts, between alpha divided by the number of
    scores and alpha: each bound of the intervals has it, and the power is computed from it. `settled` is whether
    another seed would give the same decisions, except with a probability of 1e-4; otherwise a p-value is too close to
    alpha for 1,000,000 draws, and is set above it.
    """

    scores: tuple[DropResult, ...]
    level: float
    settled: bool


def joint_drop_test(
    scores: Sequence[Drops], *, alpha: float, clusters: Sequence[Hashable] | None = None, seed: int = 0
) -> DropTests:
    """Test whether the means of several scores of the same questions dropped.

    The sign of a question, or of a cluster of questions, is flipped in all scores at once. The p-values are those of
    the step-down max-T procedure, in which ties count half (`pytest_rageval.stats.sign_flips`); for a single 0/1
    score that is the mid-p McNemar test (`pytest_rageval.stats.mcnemar.mid_p`). `beyond` is first subtracted from
    each difference.

    Sign flips assume that differences are symmetric under the null hypothesis. A few large gains against many small
    losses are not. `reweighted_drop` (`pytest_rageval.stats.noninferiority`) does not assume it, and allows for gains
    that were not seen (`unseen_gain`). With at least 60 differences and alpha at least 0.05, the p-value is the
    larger one of both tests. Otherwise the second test has too little power, and `needs_symmetry` reports where its
    p-value is above 2·alpha. It is not used with clusters, nor where all differences other than 0 have one size:
    these are symmetric if their mean is 0.

    Args:
        scores: at least one, with a value for each of the same questions in the same order; NaN for those that are not
            in its slice.
        alpha: the probability of calling any score worse if none is, in (0, 0.5].
        clusters: the cluster of each question, such as its gold document; None where questions are independent.
            Fewer than 20 clusters have little power.
        seed: of the draws, where sign patterns are not enumerated.

    Returns:
        A score without any difference has the p-value 1 and the interval ±`largest`.

    Raises:
        ValueError: there is no score, the scores or clusters differ in length, a difference is beyond `largest`, or
            `beyond` is not in [0, largest).

    In simulations with 30 to 100 questions (`tests/benchmarks/false_alarms.py`), any score is wrongly called worse
    in at most 5.5% of runs at alpha 0.05. Skewed differences are the exception: 21 to 50% of runs with 30 questions,
    5.5% with 60.

    >>> test = joint_drop_test([Drops([1, 1, 1, 1, 1, 0, 0, -1])], alpha=0.05)
    >>> test.scores[0].p_value  # (1 + 6/2) / 2^6
    0.0625
    """
    _check(scores, clusters)
    found = [[0.0 if abs(d) <= score.tolerance else d for d in score.values] for score in scores]
    p_values, doubts, settled = _p_values(found, scores, alpha, clusters, seed)
    level = alpha
    if len(scores) > 1:
        # Imported late: a single score of 0 or 1 needs no numpy.
        from pytest_rageval.stats.sign_flips import joint_level  # noqa: PLC0415

        level = joint_level(_columns(found, scores, clusters), alpha, seed=seed)
    tested = []
    for score, drops, p_value, doubt in zip(scores, found, p_values, doubts, strict=True):
        kept = _numbers(drops)
        guard = alpha if clusters is None and _needs_second_test(kept, score, alpha) else None
        low, high = drop_interval(drops, alpha=level, largest=score.largest, clusters=clusters, guard=guard)
        low = max(low, score.beyond) if p_value <= alpha else min(low, score.beyond)
        tested.append(DropResult(math.fsum(kept) / len(kept) if kept else None, p_value, low, high, doubt))
    return DropTests(tuple(tested), level, settled)


def drop_interval(
    drops: Sequence[float],
    *,
    alpha: float,
    largest: float = 1.0,
    clusters: Sequence[Hashable] | None = None,
    guard: float | None = None,
) -> tuple[float, float]:
    """Interval of the true mean drop: the drops that the tests at level alpha do not reject, in either direction.

    - Where all differences are 0 or ±`largest`, as those of 0/1 scores: Tango's score interval, whose lower bound
      agrees with the McNemar test (`pytest_rageval.stats.mcnemar.tango`).
    - Otherwise the lower bound inverts the sign-flip test: the δ at which `Σ(d - δ) = z·sqrt(Σ(d - δ)²)`, with z the
      `1 - alpha` quantile of the normal distribution. The upper bound inverts the test of `strict` thresholds
      (`pytest_rageval.stats.noninferiority`), which allows for losses that were not seen.
    - With clusters both bounds invert the sign-flip test, of the sums of `d - δ` of each cluster.

    Args:
        drops: as `Drops.values`.
        alpha: of each bound, in (0, 0.5]; the interval covers the true drop with probability 1 - 2·alpha.
        largest: the largest possible difference, either way.
        clusters: the cluster of each question; None where questions are independent.
        guard: level of a second lower bound, which allows for gains that were not seen; the lower of the two counts.

    Returns:
        `(low, high)` within ±largest: `(-largest, largest)` where there is no difference, or where there are no more
        than `z²` clusters of one size.

    >>> [round(bound, 3) for bound in drop_interval([0.5, 0, 0, 0.25, 0, -0.25, 0, 0] * 10, alpha=0.05)]
    [0.024, 0.105]
    """
    units = [
        (drop, 0 if clusters is None else clusters[i]) for i, drop in enumerate(drops) if not math.isnan(drop)
    ]
    kept = [drop for drop, _ in units]
    if not kept:
        return -largest, largest
    if clusters is None:
        if all(abs(drop) in (0, largest) for drop in kept) or max(map(abs, kept)) <= ROUNDING:
            return _whole(kept, len(kept), alpha, largest)
        sums = [(drop, 1) for drop in kept]
    else:
        sums = sums_by(units)
        if all(abs(total) <= ROUNDING for total, _ in sums):
            return _whole(kept, len(sums), alpha, largest)
    low, high = _flipped(sums, alpha, largest)
    if clusters is None and len(kept) <= MANY:
        high = -_reweighted([-drop for drop in kept], alpha, largest, -high)
        if guard is not None:
            low = min(low, _reweighted(kept, guard, largest, low))
    return low, high


def sums_by(units: Iterable[tuple[float, Hashable]]) -> list[tuple[float, int]]:
    """The sum of the numbers of each cluster, and how many they are, in the order of first occurrence."""
    found: defaultdict[Hashable, list[float]] = defaultdict(list)
    for number, cluster in units:
        found[cluster].append(number)
    return [(math.fsum(numbers), len(numbers)) for numbers in found.values()]


def unseen_gain(drops: Sequence[float], largest: float, *, whole_scale: bool = False) -> float:
    """The largest gain that is allowed for although none of that size was seen.

    Twice the largest change of the differences, at least one; four times where fewer than eight gains were seen, or
    `largest` with `whole_scale`. At most `largest`, and `largest` where nothing changed. To allow for gains of the
    whole scale always would leave no power for scores whose differences are all small, such as similarities.
    """
    change = max(map(abs, drops))
    if sum(drop < 0 for drop in drops) >= FEW:
        return min(largest, 2 * change)
    return largest if whole_scale else min(largest, 4 * change) or largest


def _check(scores: Sequence[Drops], clusters: Sequence[Hashable] | None) -> None:
    if not scores:
        raise ValueError("a joint test needs at least one score")
    lengths = {len(score.values) for score in scores}
    if clusters is not None:
        lengths.add(len(clusters))
    if len(lengths) > 1:
        raise ValueError(
            f"the scores and clusters are of the same questions, found {sorted(lengths)} of them"
        )
    for score in scores:
        if not 0 <= score.beyond < score.largest:
            raise ValueError(
                f"a drop to be beyond is at least 0 and below {score.largest}, found {score.beyond}"
            )
        if any(abs(drop) > score.largest for drop in score.values):
            raise ValueError(
                f"a difference of scores must be a number from {-score.largest} to {score.largest}, or NaN"
            )


def _numbers(drops: Sequence[float]) -> list[float]:
    """The differences that are not NaN."""
    return [drop for drop in drops if not math.isnan(drop)]


def _symmetric(kept: Sequence[float], score: Drops) -> bool:
    """Whether the differences are symmetric if their mean is 0: all that are not 0 have one size."""
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
) -> tuple[list[float], list[bool], bool]:
    """p-value and `needs_symmetry` of each score; whether decisions are settled."""
    if len(scores) == 1 and clusters is None and _symmetric(kept := _numbers(found[0]), scores[0]):
        return [mid_p(sum(d > 0 for d in kept), sum(d < 0 for d in kept))], [False], True
    from pytest_rageval.stats.noninferiority import reweighted_drop  # noqa: PLC0415 - as above
    from pytest_rageval.stats.sign_flips import sign_flips  # noqa: PLC0415

    flips = sign_flips(_columns(found, scores, clusters), alpha=alpha, seed=seed)
    p_values, doubts = list(flips.p_values), [False] * len(scores)
    for i, (drops, score) in enumerate(zip(found, scores, strict=True)):
        kept = _numbers(drops)
        if clusters is not None or p_values[i] > alpha or _symmetric(kept, score):
            continue
        second_test = _needs_second_test(kept, score, alpha)
        gain = unseen_gain(kept, score.largest, whole_scale=not second_test)
        gain = min(max(gain, 2 * score.beyond), score.largest)
        p_reweighted = reweighted_drop(kept, score.beyond, largest=gain)
        if second_test:
            p_values[i] = max(p_values[i], p_reweighted)
        else:
            doubts[i] = p_reweighted > IN_DOUBT * alpha
    return p_values, doubts, flips.settled


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


def _whole(drops: Sequence[float], n: int, alpha: float, largest: float) -> tuple[float, float]:
    """Tango's interval of n questions or clusters."""
    lost, gained = (sum(sign * drop > ROUNDING for drop in drops) for sign in (1, -1))
    low, high = tango(lost, gained, n, alpha=alpha)
    return low * largest, high * largest


def _flipped(sums: Sequence[tuple[float, int]], alpha: float, largest: float) -> tuple[float, float]:
    """The δ with `(S - δ·N)² = z²·Σ(s - δ·n)²`, of the sum s and the number n of each unit, and of all."""
    z2 = NORMAL.inv_cdf(1 - alpha) ** 2
    total, number = math.fsum(s for s, _ in sums), sum(n for _, n in sums)
    square = number**2 - z2 * sum(n * n for _, n in sums)
    if square <= 0:
        return -largest, largest
    middle = total * number - z2 * math.fsum(s * n for s, n in sums)
    constant = total**2 - z2 * math.fsum(s * s for s, _ in sums)
    half = math.sqrt(max(0.0, middle**2 - square * constant))
    return max(-largest, (middle - half) / square), min(largest, (middle + half) / square)


def _reweighted(drops: Sequence[float], alpha: float, largest: float, guess: float) -> float:
    """The lower bound of the reweighted test: the δ at which its p-value is alpha."""
    # Imported late: 0/1 scores need no numpy.
    from pytest_rageval.stats.noninferiority import reweighted_drop  # noqa: PLC0415

    gain = unseen_gain(drops, largest)
    goal = NORMAL.inv_cdf(alpha)

    def excess(bound: float) -> float:
        p_value = reweighted_drop(drops, bound, largest=gain)
        return NORMAL.inv_cdf(min(p_value, MOST)) - goal

    # The normal quantile of the p-value is nearly linear in δ: false position, with the Illinois rule for an end that
    # stays.
    low, below = -gain, NORMAL.inv_cdf(NOTHING) - goal
    high, above = math.fsum(drops) / len(drops), NORMAL.inv_cdf(MOST) - goal
    last, probe, moved = math.inf, guess, 0
    for _ in range(PROBES):
        probe = min(max(probe, low + NEAR * gain), high - NEAR * gain)
        if high - low <= 2 * NEAR * gain or abs(probe - last) <= NEAR * gain:
            break
        height = excess(probe)
        if height > 0:
            high, above, below = probe, height, below / 2 if moved > 0 else below
        else:
            low, below, above = probe, height, above / 2 if moved < 0 else above
        last, moved = probe, 1 if height > 0 else -1
        probe = (low * above - high * below) / (above - below)
    return probe
