"""Joint one-sided test of whether several scores of the same questions dropped, with an interval of each drop."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_rageval.stats.intervals import SCORE_TOLERANCE
from pytest_rageval.stats.mcnemar import mcnemar_p_value, tango_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_N_INFERIORITY: Final = 60  # with fewer questions the inferiority test has too little power to be required
MIN_ALPHA_INFERIORITY: Final = 0.05  # at a smaller alpha its power is too low as well
SYMMETRY_ALPHA_FACTOR: Final = 2
"""If the inferiority test is not required, a p-value above this multiple of alpha sets `needs_symmetry`."""
MIN_GAINS: Final = 8  # with fewer observed gains, larger unseen gains are assumed possible
MAX_N_INFERIORITY: Final = 20_000
"""With more questions, unseen changes would move a bound by less than 0.0002, so they are ignored."""
ROOT_TOL: Final = 1e-5  # tolerance of a root search for a bound, as a share of the largest difference
FAR_P_VALUE: Final = 1e-15  # the p-value assumed at the far end of the root search
MAX_P_VALUE: Final = 0.7  # larger p-values are clipped in the root search; every level is smaller
MAX_ITER: Final = 40  # maximum number of steps of the root search; about eight are usual

NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class PairedDrops:
    """The paired differences of one score, and its null hypothesis: the true mean drop is at most `beyond`."""

    values: Sequence[
        float
    ]  # of each question the score in the baseline minus the new one; NaN if one is missing
    beyond: float = 0.0
    largest: float = 1.0  # the largest possible difference in either direction
    tolerance: float = SCORE_TOLERANCE  # differences up to this count as 0; 1e-6 suits scores by embeddings


@dataclass(frozen=True, slots=True)
class PairedTestResult:
    """Result of the test of one score, with a confidence interval of the true drop.

    The interval agrees with the test: `low` is at least `beyond` if the p-value is at most alpha, otherwise at most
    `beyond`. If `needs_symmetry`, the result is significant only under the assumption that the differences are
    symmetric under the null hypothesis. Without it, rare large gains could make up for the observed losses.
    """

    drop: float | None  # the mean difference; None if no question has a difference
    p_value: float  # adjusted for all scores that are tested jointly
    low: float
    high: float
    needs_symmetry: bool


@dataclass(frozen=True, slots=True)
class JointTestResult:
    """Results of a joint test, in the order of the scores.

    `level` is the level of a test of a single score that corresponds to the joint test, between alpha divided by the
    number of scores and alpha; it is that of the bounds of the intervals and of the power. If `settled`, another seed
    would lead to the same decisions, except with a probability of 1e-4. Otherwise a p-value is too close to alpha for
    1,000,000 draws, and is set above alpha.
    """

    scores: tuple[PairedTestResult, ...]
    level: float
    settled: bool


class DropPValues(NamedTuple):
    """The p-value and `PairedTestResult.needs_symmetry` of each score, and `JointTestResult.settled`."""

    p_values: list[float]
    needs_symmetry: list[bool]
    settled: bool


def joint_drop_test(
    scores: Sequence[PairedDrops], *, alpha: float, clusters: Sequence[Hashable] | None = None, seed: int = 0
) -> JointTestResult:
    """Test as `drop_p_values`, with an interval of each drop, which is ±`largest` without any difference.

    >>> test = joint_drop_test([PairedDrops([1, 1, 1, 1, 1, 0, 0, -1])], alpha=0.05)
    >>> round(test.scores[0].p_value, 3)
    0.069
    """
    p_values, needs_symmetry, settled = drop_p_values(scores, alpha=alpha, clusters=clusters, seed=seed)
    rows = _rows(scores, clusters)
    level = alpha
    if len(scores) > 1:
        # Imported late: a single score of 0 or 1 needs no numpy.
        from pytest_rageval.stats.sign_flips import marginal_level  # noqa: PLC0415

        level = marginal_level(_columns(rows, scores, clusters), alpha, seed=seed)
    results = []
    for score, drops, p_value, symmetry in zip(scores, rows, p_values, needs_symmetry, strict=True):
        known = _without_nan(drops)
        is_required = clusters is None and _requires_inferiority(known, score, alpha)
        low, high = drop_interval(
            drops,
            alpha=level,
            largest=score.largest,
            clusters=clusters,
            inferiority_alpha=alpha if is_required else None,
        )
        low = max(low, score.beyond) if p_value <= alpha else min(low, score.beyond)
        mean = math.fsum(known) / len(known) if known else None
        results.append(PairedTestResult(mean, p_value, low, high, symmetry))
    return JointTestResult(tuple(results), level, settled)


def drop_p_values(
    scores: Sequence[PairedDrops], *, alpha: float, clusters: Sequence[Hashable] | None = None, seed: int = 0
) -> DropPValues:
    """Test whether the means of several scores of the same questions dropped.

    Questions, or clusters of questions, are resampled, and the sign of each is flipped in all scores at once. The
    p-values are those of the step-down max-T procedure (`pytest_rageval.stats.sign_flips`). For a single 0/1 score they
    need no random draws (`pytest_rageval.stats.mcnemar.mcnemar_p_value`). `beyond` is first subtracted from each
    difference. Each score is resampled from the questions that have a difference in it.

    Sign flips assume that the differences are symmetric under the null hypothesis. A few large gains together with many
    small losses are not. The inferiority test (`pytest_rageval.stats.noninferiority.inferiority_p_value`) does not
    assume symmetry, and allows for gains that were not observed (`unseen_gain`). With at least 60 differences and alpha
    at least 0.05, the p-value is the maximum of both tests. Otherwise the power of the second test is too low, and
    `needs_symmetry` reports whether its p-value is above 2·alpha. The second test is not used with clusters, and not if
    all differences other than 0 have the same size: these are symmetric if their mean is 0.

    All scores have a value for each of the same questions in the same order, NaN for questions outside the slice of the
    score. `alpha` is the family-wise error rate: the probability of calling any score worse if none is. `clusters` has
    the cluster of each question, such as its gold document; None if questions are independent. With fewer than 20
    clusters the test has little power. The p-values are adjusted for all scores; a score without any difference has 1.
    ValueError for scores that do not fit together, or a number that is out of range.

    In simulations with 30 to 100 questions (`tests/benchmarks/false_alarms.py`), any score is wrongly called worse
    in at most 5.5% of runs at alpha 0.05. Skewed differences are the exception: 21 to 50% of runs with 30 questions,
    5.5% with 60.
    """
    rows = _rows(scores, clusters)
    if len(scores) == 1 and clusters is None and _is_symmetric(known := _without_nan(rows[0]), scores[0]):
        p_value = mcnemar_p_value(sum(d > 0 for d in known), sum(d < 0 for d in known), len(known))
        return DropPValues([p_value], [False], settled=True)
    # Imported late, as above.
    from pytest_rageval.stats.noninferiority import inferiority_p_value  # noqa: PLC0415
    from pytest_rageval.stats.sign_flips import sign_flip_test  # noqa: PLC0415

    flips = sign_flip_test(_columns(rows, scores, clusters), alpha=alpha, seed=seed)
    p_values, needs_symmetry = list(flips.p_values), [False] * len(scores)
    for i, (drops, score) in enumerate(zip(rows, scores, strict=True)):
        known = _without_nan(drops)
        if clusters is not None or p_values[i] > alpha or _is_symmetric(known, score):
            continue
        is_required = _requires_inferiority(known, score, alpha)
        gain = unseen_gain(known, score.largest, whole_scale=not is_required)
        gain = min(max(gain, 2 * score.beyond), score.largest)
        second_p_value = inferiority_p_value(known, score.beyond, largest=gain)
        if is_required:
            p_values[i] = max(p_values[i], second_p_value)
        else:
            needs_symmetry[i] = second_p_value > SYMMETRY_ALPHA_FACTOR * alpha
    return DropPValues(p_values, needs_symmetry, flips.settled)


def drop_interval(
    drops: Sequence[float],
    *,
    alpha: float,
    largest: float = 1.0,
    clusters: Sequence[Hashable] | None = None,
    inferiority_alpha: float | None = None,
) -> tuple[float, float]:
    """Confidence interval of the true mean drop: the drops that one-sided tests at level alpha do not reject.

    - If all differences are 0 or ±`largest`, like those of 0/1 scores: Tango's score interval, whose lower bound
      agrees with the McNemar test (`pytest_rageval.stats.mcnemar.tango_interval`).
    - Otherwise the lower bound inverts the sign-flip test: the δ with `Σ(d - δ) = z·sqrt(Σ(d - δ)²)`, where z is the
      `1 - alpha` quantile of the normal distribution. The upper bound inverts the test of `strict` thresholds
      (`pytest_rageval.stats.noninferiority`), which allows for losses that were not observed.
    - With clusters both bounds invert the sign-flip test of the cluster sums of `d - δ`.

    The interval covers the true drop with probability 1 - 2·alpha. `inferiority_alpha` is the level of a second lower
    bound, which inverts the inferiority test and so allows for gains that were not observed; the smaller one is used.

    It lies within ±largest, and is all of that if there is no difference, or if all clusters have the same size and
    there are at most `z²` of them.

    >>> [round(bound, 3) for bound in drop_interval([0.5, 0, 0, 0.25, 0, -0.25, 0, 0] * 10, alpha=0.05)]
    [0.024, 0.105]
    """
    known = _without_nan(drops)
    if not known:
        return -largest, largest
    if clusters is None:
        if all(abs(drop) in (0, largest) for drop in known) or max(map(abs, known)) <= SCORE_TOLERANCE:
            return _tango_drop_interval(known, len(known), alpha, largest)
        totals, counts = known, [1] * len(known)
    else:
        pairs = zip(drops, clusters, strict=True)
        sums = cluster_sums((drop, cluster) for drop, cluster in pairs if not math.isnan(drop))
        totals, counts = [total for total, _ in sums], [count for _, count in sums]
        if all(abs(total) <= SCORE_TOLERANCE for total in totals):
            return _tango_drop_interval(known, len(sums), alpha, largest)
    low, high = _sign_flip_interval(totals, counts, alpha, largest)
    if clusters is None and len(known) <= MAX_N_INFERIORITY:
        high = -_inferiority_bound([-drop for drop in known], alpha, largest, -high)
        if inferiority_alpha is not None:
            low = min(low, _inferiority_bound(known, inferiority_alpha, largest, low))
    return low, high


def cluster_sums(clustered: Iterable[tuple[float, Hashable]]) -> list[tuple[float, int]]:
    """Return the sum and the count of the numbers of each cluster, in the order of first occurrence."""
    by_cluster: defaultdict[Hashable, list[float]] = defaultdict(list)
    for number, cluster in clustered:
        by_cluster[cluster].append(number)
    return [(math.fsum(numbers), len(numbers)) for numbers in by_cluster.values()]


def unseen_gain(drops: Sequence[float], largest: float, *, whole_scale: bool = False) -> float:
    """The largest gain that is assumed possible although it was not observed.

    With at least eight observed gains: twice the largest absolute difference. With fewer: four times the largest
    absolute difference, or `largest` with `whole_scale`. At most `largest`, and `largest` if nothing changed. Assuming
    gains of the whole scale in every case would leave no power for scores whose differences are all small, such as
    similarities.
    """
    change = max(map(abs, drops))
    if sum(drop < 0 for drop in drops) >= MIN_GAINS:
        return min(largest, 2 * change)
    return largest if whole_scale else min(largest, 4 * change) or largest


def _rows(scores: Sequence[PairedDrops], clusters: Sequence[Hashable] | None) -> list[list[float]]:
    if not scores:
        raise ValueError("a joint test needs at least one score")
    lengths = {len(score.values) for score in scores}
    if clusters is not None:
        lengths.add(len(clusters))
    if len(lengths) > 1:
        raise ValueError(
            f"the scores and clusters must be of the same questions; their lengths are {sorted(lengths)}"
        )
    for score in scores:
        if not 0 <= score.beyond < score.largest:
            raise ValueError(f"`beyond` must be at least 0 and below {score.largest}, found {score.beyond}")
        if any(abs(drop) > score.largest for drop in score.values):
            raise ValueError(
                f"a difference of scores must be a number from {-score.largest} to {score.largest}, or NaN"
            )
    return [[0.0 if abs(d) <= score.tolerance else d for d in score.values] for score in scores]


def _without_nan(drops: Sequence[float]) -> list[float]:
    return [drop for drop in drops if not math.isnan(drop)]


def _is_symmetric(known: Sequence[float], score: PairedDrops) -> bool:
    """Whether the differences are symmetric if their mean is 0: all that are not 0 have the same size."""
    sizes = [abs(drop) for drop in known if drop]
    return not score.beyond and (not sizes or max(sizes) - min(sizes) <= SCORE_TOLERANCE)


def _requires_inferiority(known: Sequence[float], score: PairedDrops, alpha: float) -> bool:
    is_powerful = alpha >= MIN_ALPHA_INFERIORITY and len(known) >= MIN_N_INFERIORITY
    return is_powerful and not _is_symmetric(known, score)


def _columns(
    rows: Sequence[Sequence[float]], scores: Sequence[PairedDrops], clusters: Sequence[Hashable] | None
) -> "NDArray[np.float64]":
    """The array of questions, or clusters, × scores whose signs are flipped; NaN for a missing difference."""
    import numpy as np  # noqa: PLC0415 - as above

    beyond = np.array([score.beyond for score in scores])
    columns: NDArray[np.float64] = np.array(rows, dtype=float).T - beyond
    if clusters is None:
        return columns
    index_of: dict[Hashable, int] = {}
    indices = [index_of.setdefault(cluster, len(index_of)) for cluster in clusters]
    sums, counts = np.zeros((2, len(index_of), len(scores)))
    np.add.at(sums, indices, np.nan_to_num(columns))
    np.add.at(counts, indices, ~np.isnan(columns))
    return np.where(counts > 0, sums, np.nan)


def _tango_drop_interval(drops: Sequence[float], n: int, alpha: float, largest: float) -> tuple[float, float]:
    lost, gained = (sum(sign * drop > SCORE_TOLERANCE for drop in drops) for sign in (1, -1))
    low, high = tango_interval(lost, gained, n, alpha=alpha)
    return low * largest, high * largest


def _sign_flip_interval(
    sums: Sequence[float], counts: Sequence[int], alpha: float, largest: float
) -> tuple[float, float]:
    """Invert the sign-flip test: the two solutions δ of `(S - δ·N)² = z²·Σ(s - δ·n)²`.

    s and n are the sum and the count of a question or cluster, S and N those of all.
    """
    z2 = NORMAL.inv_cdf(1 - alpha) ** 2
    total, number = math.fsum(sums), sum(counts)
    square = number**2 - z2 * sum(n * n for n in counts)
    if square <= 0:
        return -largest, largest
    middle = total * number - z2 * math.fsum(map(mul, sums, counts))
    constant = total**2 - z2 * math.fsum(s * s for s in sums)
    half = math.sqrt(max(0.0, middle**2 - square * constant))
    return max(-largest, (middle - half) / square), min(largest, (middle + half) / square)


def _inferiority_bound(drops: Sequence[float], alpha: float, largest: float, guess: float) -> float:
    """Invert the inferiority test: the lower bound δ at which its p-value is alpha, by root search from a guess."""
    # Imported late: 0/1 scores need no numpy.
    from pytest_rageval.stats.noninferiority import inferiority_p_value  # noqa: PLC0415

    gain = unseen_gain(drops, largest)
    target = NORMAL.inv_cdf(alpha)

    def excess(bound: float) -> float:
        p_value = inferiority_p_value(drops, bound, largest=gain)
        return NORMAL.inv_cdf(min(p_value, MAX_P_VALUE)) - target

    # The normal quantile of the p-value is nearly linear in δ, so false position (regula falsi) converges fast. The
    # Illinois rule halves the weight of an end that stays.
    low, below = -gain, NORMAL.inv_cdf(FAR_P_VALUE) - target
    high, above = math.fsum(drops) / len(drops), NORMAL.inv_cdf(MAX_P_VALUE) - target
    last, bound, last_side = math.inf, guess, 0
    for _ in range(MAX_ITER):
        bound = min(max(bound, low + ROOT_TOL * gain), high - ROOT_TOL * gain)
        if high - low <= 2 * ROOT_TOL * gain or abs(bound - last) <= ROOT_TOL * gain:
            break
        height = excess(bound)
        if height > 0:
            high, above, below = bound, height, below / 2 if last_side > 0 else below
        else:
            low, below, above = bound, height, above / 2 if last_side < 0 else above
        last, last_side = bound, 1 if height > 0 else -1
        bound = (low * above - high * below) / (above - below)
    return bound
