"""Simulated false alarms and power of the gate: `python tests/benchmarks/false_alarms.py [RUNS] [TABLE…]`.

Each figure is the share, in percent, of RUNS simulated comparisons with the stated outcome, for one-sided tests at 5%.
The 95% interval of a share of 5% is ±3 percentage points at the default of 200 runs, and ±1 point at 2,000 runs.
Without a TABLE, those of `SHORT` are printed, in less than 3 minutes with 200 runs; `all` prints all. A paired t-test,
a percentile bootstrap (the rule of rag-ci), Wilcoxon's signed-rank test and sign flips without resampling (for 0/1
scores the mid-p McNemar test) are computed from the same differences.

*Real* differences are those of pairs of BM25 variants (`tests/benchmarks/variants.py`) whose scores differ on at least
5% of the questions. n differences are drawn with weights `exp(θ·d)`, which give the required mean drop. If the data is
missing, these rows are omitted. *Synthetic* differences are those of two retrievers with the same score on 80% of the
questions; the other scores are drawn again, and a true drop sets some of the new scores to 0.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from itertools import product
from typing import NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pytest_rageval.baseline.update import MAX_RUNS
from pytest_rageval.extensions.canary.canary import ALPHA as CANARY_ALPHA
from pytest_rageval.gate.threshold import level_shares
from pytest_rageval.stats import sign_flips
from pytest_rageval.stats.intervals import mean_interval
from pytest_rageval.stats.mcnemar import mcnemar_p_value
from pytest_rageval.stats.noninferiority import noninferiority_p_value
from pytest_rageval.stats.paired_tests import PairedDrops, drop_interval, drop_p_values, joint_drop_test
from pytest_rageval.stats.power import detectable_drop
from pytest_rageval.stats.sequential import CurtailedDropTest, anchor_alpha
from pytest_rageval.stats.suite import SuiteScore, suite_drop_test
from tests.benchmarks import variants

ALPHA = 0.05
SIZES = (30, 60, 100)
LARGE_SIZES = (60, 200, 1000)
BINARY = ("hit@1", "hit@3", "hit@5")
REAL = ("ndcg@5", "mrr@5", "map@5")
FAMILY = ("hit@1", "hit@3", "hit@5", "mrr@5", "ndcg@3", "ndcg@5")
SETS = ("MS MARCO", "XQuAD", "NQ")
PAIRS = 60
"""Number of pairs of variants of each data set and measure."""
RUNS_PER_PAIR = 20
"""Number of consecutive runs that are drawn from one pair."""
MIN_CHANGED_SHARE = 0.05
"""Minimum share of the questions on which the variants of a pair differ."""
NEWTON_STEPS = 60
"""Maximum number of steps of the search for weights."""
RESAMPLES = 999
"""Number of bootstrap resamples, and of sign patterns."""
DEFAULT_RUNS = 200
DRAWS, DRAWN_AT_ONCE, RUNS_AT_ONCE = 20_000, 500, 2000
"""Number of draws of `p_values`, and how many of them and of the runs are in memory at a time."""
POINTS = 1 << 17
"""Number of points of the distribution of a sum; smaller than in the gate, for speed."""
TINY, TIE_TOL = 1e-9, 1e-9
"""The size of rounding errors, of differences and of statistics whose standard deviation is 1."""
SHARES = 200
"""Number of shares of changed questions at which the size of the test is computed."""
FIXED = (3, 4, 5, 10)
"""Numbers of questions of a fixed set that change in every run."""
SHORT: dict[str, dict[str, Sequence[int]]] = {
    "size": {"sizes": (12, 30, 100)},
    "single": {"sizes": (30, 100)},
    "suite": {"sizes": (20, 50)},
    "year": {},
    "stopped_early": {},
    "canary": {},
    "anchored": {"sizes": (100,)},
}
"""The tables that are printed if none is named, with fewer numbers of questions where they take long."""
MERGES = 250
"""Number of pull requests, and of merges, in a simulated year."""
MAX_SLOW_RUNS = 500
"""Maximum number of runs of slow simulations."""

Array = NDArray[np.float64]
Verdicts = NDArray[np.bool_]
Random = np.random.Generator
Row = tuple[str, int, Sequence[float]]
"""The kind of the differences, the number of questions, and the shares of the runs."""


class Table(NamedTuple):
    """A table of simulations.

    Attributes:
        title: the text above the table.
        columns: the titles of the columns.
        rows: yields the rows; the arguments are the number of runs and, optionally, numbers of questions as `sizes`.
    """

    title: str
    columns: Sequence[str]
    rows: Callable[..., Iterator[Row]]


TABLES: dict[str, Table] = {}


def table(title: str, columns: Sequence[str]) -> Callable[[Callable[..., Iterator[Row]]], None]:
    def add(rows: Callable[..., Iterator[Row]]) -> None:
        TABLES[rows.__name__] = Table(title, columns, rows)

    return add


def show(name: str, runs: int, **sizes: Sequence[int]) -> None:
    title, columns, rows = TABLES[name]
    widths = [max(8, len(column) + 2) for column in columns]
    names = "".join(f"{column:>{width}}" for column, width in zip(columns, widths, strict=True))
    say(f"\n{name}, {runs} runs: {title}\n{'differences':20}{'n':>5}{names}")
    for kind, n, shares in rows(runs, **sizes):
        figures = (f"{share:{width}.1%}" for share, width in zip(shares, widths, strict=False))
        say(f"{kind:20}{n:5}{''.join(figures)}")


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def means(outcomes: Sequence[Verdicts]) -> list[float]:
    return [float(outcome.mean()) for outcome in outcomes]


# Differences of scores


def right_or_wrong(rng: Random, shape: tuple[int, ...]) -> Array:
    """Return random 0/1 scores, three quarters of them 1."""
    return (rng.random(shape) < 0.75).astype(float)


def graded(rng: Random, shape: tuple[int, ...]) -> Array:
    """Return random graded scores with the skew of token F1: half are 1, 5% are 0, the rest are beta-distributed.

    The mean of the beta distribution is 0.8.
    """
    u = rng.random(shape)
    return np.where(u < 0.5, 1.0, np.where(u < 0.55, 0.0, rng.beta(2, 0.5, shape)))


SCORES: dict[str, tuple[Callable[[Random, tuple[int, ...]], Array], float]] = {
    "0/1": (right_or_wrong, 0.75),
    "graded": (graded, 0.5 + 0.45 * 0.8),
}
"""The function that draws each kind of score, and the mean of the scores."""


def synthetic(rng: Random, kind: str, shape: tuple[int, ...], drop: float, changed: float = 0.2) -> Array:
    """Return synthetic differences, baseline minus new score, of runs (first axis) and questions (last axis).

    Args:
        rng: the random generator.
        kind: the kind of the scores, a key of `SCORES`.
        shape: the shape of the array.
        drop: the true mean drop.
        changed: the share of the scores that are drawn again.
    """
    draw, mean = SCORES[kind]
    baseline = draw(rng, shape)
    new = np.where(rng.random(shape) < changed, draw(rng, shape), baseline)
    return baseline - np.where(rng.random(shape) < drop / mean, 0.0, new)


def rare_gains(rng: Random, runs: int, n: int) -> Array:
    """Return differences without a true drop, of skewness -3.7: 40% lose about 1/8, and 5% gain 1."""
    u = rng.random((runs, n))
    losses = rng.uniform(0.0625, 0.1875, (runs, n))
    return np.where(u < 0.4, losses, np.where(u >= 0.95, -1.0, 0.0))


def rarer_gains(rng: Random, runs: int, n: int) -> Array:
    """Return differences without a true drop: half of the scores fall by 30%, and a few rise to 1.

    The gains are so rare that a quarter of the samples of 60 questions has none. The scores are `1 - graded`, so that
    their mean is 0.14.
    """
    baseline = 1 - graded(rng, (runs, n))
    mean = 1 - SCORES["graded"][1]
    gains = 0.5 * 0.3 * mean / (1 - mean + 0.5 * 0.3 * mean)
    new = np.where(rng.random((runs, n)) < 0.5, 0.7 * baseline, baseline)
    return baseline - np.where(rng.random((runs, n)) < gains, 1.0, new)


@cache
def pairs(name: str, measures: tuple[str, ...]) -> list[Array]:
    scores = np.stack([variants.scores(name)[measure] for measure in measures], axis=2)
    rng = np.random.default_rng([len(name), len(measures)])
    pair_differences: list[Array] = []
    for _ in range(50 * PAIRS):
        one, other = rng.choice(scores.shape[1], 2, replace=False)
        differences = scores[:, one] - scores[:, other]
        has_both_signs = [(column > 0).sum() > 4 and (column < 0).sum() > 4 for column in differences.T]
        if all(has_both_signs) and (differences != 0).mean(axis=0).min() >= MIN_CHANGED_SHARE:
            pair_differences.append(differences)
        if len(pair_differences) == PAIRS:
            break
    return pair_differences


def weights(differences: Array, drop: float) -> Array | None:
    """Return weights `exp(θ·d)` under which every column has the mean `drop`; None if the search does not converge."""
    theta = np.zeros(differences.shape[1])
    for _ in range(NEWTON_STEPS):
        power = differences @ theta
        weight = np.exp(power - power.max())
        weight /= weight.sum()
        gap = drop - weight @ differences
        if np.abs(gap).max() < 1e-9:
            return weight
        centred = differences - weight @ differences
        step = np.linalg.lstsq(centred.T @ (centred * weight[:, None]), gap, rcond=1e-9)[0]
        theta += step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-12))
    return None


@cache
def populations(measures: tuple[str, ...], drop: float) -> list[tuple[Array, Array]]:
    weighted = []
    for name in SETS:
        for differences in pairs(name, measures):
            weight = weights(differences, drop)
            if weight is not None and weight.max() < 0.05:
                weighted.append((differences, weight))
    return weighted


def real(rng: Random, measures: tuple[str, ...], n: int, drop: float, runs: int) -> Array:
    weighted = populations(measures, drop)
    drawn = []
    for _ in range(-(-runs // RUNS_PER_PAIR)):
        differences, weight = weighted[rng.integers(len(weighted))]
        drawn.append(differences[rng.choice(len(differences), (RUNS_PER_PAIR, n), p=weight)])
    return np.concatenate(drawn)[:runs]


def real_by_measure(names: Sequence[str], rng: Random, n: int, drop: float, runs: int) -> Array:
    """Return real differences: an array of runs × questions. Each measure has an equal share of the runs."""
    runs_per_measure = -(-runs // len(names))
    return np.concatenate([real(rng, (name,), n, drop, runs_per_measure)[:, :, 0] for name in names])[:runs]


def kinds() -> Mapping[str, Callable[[Random, int, float, int], Array]]:
    draw_functions: dict[str, Callable[[Random, int, float, int], Array]] = {
        f"synthetic {kind}": partial(
            lambda kind, rng, n, drop, runs: synthetic(rng, kind, (runs, n), drop), kind
        )
        for kind in SCORES
    }
    if variants.is_available(SETS):
        draw_functions |= {
            "real 0/1": partial(real_by_measure, BINARY),
            "real graded": partial(real_by_measure, REAL),
        }
    return draw_functions


def cells(
    seed: int, sizes: Sequence[int]
) -> Iterator[tuple[str, int, Callable[[float, int], Array], Random]]:
    """Yield each kind and size, with a function that draws runs with a true drop, and its random generator."""
    for k, (kind, draw) in enumerate(kinds().items()):
        for n in sizes:
            rng = np.random.default_rng([seed, k, n])
            yield kind, n, partial(draw, rng, n), rng


# Tests


def gate(
    differences: Array, *, alpha: float = ALPHA, beyond: float = 0.0, clusters: Sequence[int] | None = None
) -> Verdicts:
    """Return whether the gate calls each score of each run worse.

    A run of one score has the p-value of `p_values`; if that is significant, the gate's second test follows. Where no
    sum is larger than the root of the sum of squares, no p-value is near 5%, and there is no test.

    Args:
        differences: an array of runs × questions, or of runs × questions × scores.
        alpha: the level of the tests.
        beyond: the mean drop that is allowed.
        clusters: the cluster of each question; None if questions are independent.

    Returns:
        An array of runs, or of runs × scores.
    """
    if differences.ndim == 2 and clusters is None:
        flipped = p_values(differences - beyond)
        called = (flipped <= alpha) & (differences.mean(axis=1) > beyond + 1e-12)
        for run in np.flatnonzero(called):
            scores = [PairedDrops(differences[run].tolist(), beyond=beyond)]
            with drawn_before(flipped[run]):
                called[run] = drop_p_values(scores, alpha=alpha).p_values[0] <= alpha
        return called
    whole = differences if differences.ndim == 3 else differences[:, :, None]
    units = whole - beyond
    if clusters is not None:
        units = np.stack(
            [units[:, np.equal(clusters, cluster)].sum(axis=1) for cluster in set(clusters)], axis=1
        )
    not_worse = (units.sum(axis=1) <= np.sqrt((units**2).sum(axis=1))).all(axis=1)
    called = np.zeros((len(whole), whole.shape[2]), dtype=bool)
    for run in np.flatnonzero(~not_worse):
        scores = [PairedDrops(column.tolist(), beyond=beyond) for column in whole[run].T]
        tested = drop_p_values(scores, alpha=alpha, clusters=clusters, seed=int(run))
        called[run] = np.array(tested.p_values) <= alpha
    called &= whole.mean(axis=1) > beyond + 1e-12
    return called if differences.ndim == 3 else called[:, 0]


known_p_value = cache(mcnemar_p_value)


def p_values(differences: Array) -> Array:
    """Return the p-value of `sign_flip_test` for each run, from draws that all runs share; 1 where it is large.

    Scores of 0 and 1 need no draws.
    """
    n = differences.shape[1]
    found, sizes = np.ones(len(differences)), np.abs(differences)
    squares = (differences**2).sum(axis=1)
    worse = differences.sum(axis=1) > np.sqrt(squares)
    smallest = np.where(sizes > TINY, sizes, np.inf).min(axis=1)
    alike = sizes.max(axis=1) - smallest <= TINY
    lost, gained = (differences > TINY).sum(axis=1).tolist(), (differences < -TINY).sum(axis=1).tolist()
    for run in np.flatnonzero(worse & alike):
        found[run] = known_p_value(lost[run], gained[run], n)
    for some in np.split(
        drawn := np.flatnonzero(worse & ~alike), range(RUNS_AT_ONCE, len(drawn), RUNS_AT_ONCE)
    ):
        columns = (differences[some] / np.sqrt(squares[some])[:, None]).T
        observed, reached = columns.sum(axis=0) - TIE_TOL, np.zeros(len(some))
        rng = np.random.default_rng(0)
        for _ in range(DRAWS // DRAWN_AT_ONCE):
            # A cell for each draw, sign and question.
            cells = rng.integers(0, 2 * n, (DRAWN_AT_ONCE, n)) + 2 * n * np.arange(DRAWN_AT_ONCE)[:, None]
            counts = np.bincount(cells.ravel(), minlength=2 * n * DRAWN_AT_ONCE).astype(float)
            plus, minus = np.moveaxis(counts.reshape(DRAWN_AT_ONCE, 2, n), 1, 0)
            lengths = np.sqrt((plus + minus) @ columns**2)
            reached += ((plus - minus) @ columns >= observed * np.maximum(lengths, TINY)).sum(axis=0)
        found[some] = (reached + 0.5) / (DRAWS + 1)
    return found


def drawn_before(p_value: float) -> AbstractContextManager[object]:
    """Let the functions of the gate use a p-value of `p_values` in place of draws of their own."""
    result = sign_flips.SignFlipResult((float(p_value),), DRAWS, settled=True)
    return mock.patch.object(sign_flips, "sign_flip_test", return_value=result)


def student(differences: Array, alpha: float = ALPHA) -> Verdicts:
    """Return whether a paired t-test calls each run worse."""
    n = differences.shape[1]
    spread = differences.std(axis=1, ddof=1)
    statistic = np.sqrt(n) * differences.mean(axis=1) / np.where(spread > 0, spread, 1)
    return np.asarray((stats.t.sf(statistic, n - 1) <= alpha) & (spread > 0))


def bootstrap(rng: Random, differences: Array, block: int = 100) -> Verdicts:
    """Return whether the lower bound of a one-sided 95% percentile bootstrap interval is above 0.

    The runs of a block share their resamples, which does not change the rate of false alarms.
    """
    n = differences.shape[1]
    called = []
    for start in range(0, len(differences), block):
        picked = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
        resampled = picked.astype(float) @ differences[start : start + block].T / n
        called.append(np.quantile(resampled, ALPHA, axis=0) > 1e-12)
    return np.concatenate(called)


def signed_ranks(differences: Array, alpha: float = ALPHA) -> Verdicts:
    """Return whether Wilcoxon's test calls each run worse: with the normal approximation, and without zeros."""
    called = np.zeros(len(differences), dtype=bool)
    for i, run in enumerate(differences):
        nonzero = run[run != 0]
        if len(nonzero):
            ranks = stats.rankdata(np.abs(nonzero))
            spread = np.sqrt((ranks**2).sum())
            called[i] = stats.norm.sf((ranks * np.sign(nonzero)).sum() / spread) <= alpha
    return called


def flips(rng: Random, differences: Array) -> Verdicts:
    """Return whether sign flips without resampling call each run worse; ties count half. Runs share the patterns."""
    signs = rng.choice([-1.0, 1.0], (RESAMPLES, differences.shape[1]))
    excess = signs @ differences.T - differences.sum(axis=1)
    reached = (excess > 1e-9).sum(axis=0) + (abs(excess) <= 1e-9).sum(axis=0) / 2
    return np.asarray((reached + 0.5) / (RESAMPLES + 1) <= ALPHA)


TESTS = ("gate", "t", "boot", "Wilc", "flips")


def tests(rng: Random, differences: Array) -> list[float]:
    """Return the share of the runs that the gate, and each test that it is compared with, calls worse."""
    return means(
        [
            gate(differences),
            student(differences),
            bootstrap(rng, differences),
            signed_ranks(differences),
            flips(rng, differences),
        ]
    )


def mid_p(lost: int, gained: int, _: int) -> float:
    """Return the p-value of the mid-p McNemar test: of the outcomes of fair coins, the observed one counts half."""
    coins = stats.binom(lost + gained, 0.5)
    return float(coins.sf(lost) + coins.pmf(lost) / 2)


def rejection_probabilities(
    n: int, p_value: Callable[[int, int, int], float], alpha: float = ALPHA
) -> list[float]:
    """Return, for each number of n questions that change by fair coins, the probability of a significant result."""
    probabilities, lost = [0.0], 1
    for changed in range(1, n + 1):
        while lost <= changed and p_value(lost, changed - lost, n) > alpha:
            lost += 1
        probabilities.append(float(stats.binom.sf(lost - 1, changed, 0.5)))
    return probabilities


def binary_size(rejected: Sequence[float]) -> float:
    """Return the largest probability of a false alarm over any share of questions that change, to about 0.0001.

    Args:
        rejected: the probability for each number of changed questions.
    """
    n = len(rejected) - 1
    shares = np.arange(1, SHARES + 1) / SHARES
    return float(max(stats.binom.pmf(np.arange(n + 1), n, share) @ rejected for share in shares))


def strict_passes(differences: Array, margin: float) -> Verdicts:
    """Return whether each run excludes a drop of the margin or more."""
    p_value = cache(lambda drops: noninferiority_p_value(drops, margin, points=POINTS))
    return np.array([p_value(tuple(np.sort(run))) <= ALPHA for run in differences])


# Tables


@table(
    "computed: the largest probability of a false alarm of a 0/1 score, over any share of questions that change,\n"
    "over samples of questions, of the gate and of the mid-p McNemar test; and of the gate over runs of a fixed\n"
    "set of questions, of which 3, 4, 5 and 10 change in every run",
    ["gate", "mid-p", *(f"fixed {k}" for k in FIXED)],
)
def size(_: int, sizes: Sequence[int] = (12, 17, *SIZES, 200)) -> Iterator[Row]:
    for n in sizes:
        rejected = rejection_probabilities(n, mcnemar_p_value)
        yield (
            "0/1",
            n,
            [
                binary_size(rejected),
                binary_size(rejection_probabilities(n, mid_p)),
                *(rejected[changed] for changed in FIXED),
            ],
        )


@table(
    "called worse at a true drop of 0 (false alarms), of 5 and of 10 points (power)",
    [f"{test} {drop}" for drop in (0, 5, 10) for test in TESTS],
)
def single(runs: int, sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    for kind, n, draw, rng in cells(1, sizes):
        yield (kind, n, [share for drop in (0.0, 0.05, 0.1) for share in tests(rng, draw(drop, runs))])


@table(
    "any of six ranking measures is called worse at a true drop of 0, 5 and 10 points of each: by the\n"
    "joint test, by tests of each at 5%/6, and by t-tests of each at 5%/6. Last line: three of the six dropped by\n"
    "10 points; any of the other three is called worse",
    [f"{how} {drop}" for drop in (0, 5, 10) for how in ("joint", "each", "t each")],
)
def family(runs: int, sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    if not variants.is_available(SETS):
        return
    bonferroni_alpha = ALPHA / len(FAMILY)
    for n in sizes:
        rng = np.random.default_rng([2, n])
        outcomes: list[Verdicts] = []
        for drop in (0.0, 0.05, 0.1):
            differences = real(rng, FAMILY, n, drop, runs)
            columns = np.moveaxis(differences, 2, 0)
            outcomes.append(gate(differences).any(axis=1))
            outcomes += [
                np.any([test(column, alpha=bonferroni_alpha) for column in columns], axis=0)
                for test in (gate, student)
            ]
        yield "real", n, means(outcomes)
    rng = np.random.default_rng(22)
    unchanged, dropped = (
        real(rng, names, 100, drop, runs) for names, drop in ((FAMILY[:3], 0.0), (FAMILY[3:], 0.1))
    )
    called = gate(np.concatenate([unchanged, dropped], axis=2))[:, :3].any(axis=1)
    yield "real, three of six", 100, means([called])


def suite_verdicts(drawn: Array, alpha: float = ALPHA) -> tuple[Verdicts, Verdicts, Verdicts]:
    runs, tests, n = drawn.shape
    by_test = p_values(drawn.reshape(-1, n)).reshape(runs, tests)
    # In a suite of one score the differences of all questions have the same unit.
    pooled = p_values(drawn.reshape(runs, -1))
    line = np.zeros(runs, dtype=bool)
    for run in np.flatnonzero(pooled <= alpha / 2):
        scores = [
            SuiteScore(str(test), "score", {f"{test} {q}": drop for q, drop in enumerate(column.tolist())})
            for test, column in enumerate(drawn[run])
        ]
        with drawn_before(pooled[run]):
            tested = suite_drop_test(scores, gated=tests, alpha=alpha)
        line[run] = tested is not None and tested.fails
    beside, alone = ((by_test <= alpha / shares).any(axis=1) for shares in (level_shares(tests), tests))
    return line, beside, alone


@table(
    f"at most {MAX_SLOW_RUNS} runs, tests of 30 questions: red by the line of the suite, by it or any test, and by\n"
    "any test where there is no such line, by the gate and by a t-test; where no test dropped, all by 5 points,\n"
    "all by 10, and one by 20",
    [f"{how} {drop}" for drop in ("0", "5", "10", "one") for how in ("line", "red", "tests", "t")],
)
def suite(runs: int, sizes: Sequence[int] = (5, 20, 50)) -> Iterator[Row]:
    slow_runs = min(runs, MAX_SLOW_RUNS)
    for k, (kind, draw) in enumerate(kinds().items()):
        if not kind.startswith("real") and variants.is_available(SETS):
            continue
        for tests in sizes:
            rng = np.random.default_rng([13, k, tests])
            outcomes: list[Verdicts] = []
            for drop in (0.0, 0.05, 0.1, None):
                drawn = draw(rng, 30, drop or 0.0, slow_runs * tests).reshape(slow_runs, tests, 30)
                # Runs of a suite are of different pairs of variants, as its tests are.
                drawn = rng.permutation(drawn.reshape(-1, 30)).reshape(drawn.shape)
                if drop is None:
                    drawn[:, 0] = rng.permutation(draw(rng, 30, 0.2, slow_runs))
                line, beside, alone = suite_verdicts(drawn)
                by_t = [student(drawn[:, test], alpha=ALPHA / tests) for test in range(tests)]
                outcomes += [line, line | beside, alone, np.any(by_t, axis=0)]
            yield kind, tests, means(outcomes)


@table(
    f"at most {MAX_SLOW_RUNS} runs: max_drop 0.02, fails at a true drop of 1.5, 2, 5 and 8 points, where a drop is to\n"
    'be shown, and where one beyond 2 points is (burden="beyond")',
    [f"{how} {drop:g}" for how in ("shown", "beyond") for drop in (1.5, 2, 5, 8)],
)
def allowed(runs: int, sizes: Sequence[int] = LARGE_SIZES) -> Iterator[Row]:
    slow_runs = min(runs, MAX_SLOW_RUNS)
    for kind, n, draw, _ in cells(3, sizes):
        drawn = [draw(drop, slow_runs) for drop in (0.015, 0.02, 0.05, 0.08)]
        outcomes = [gate(differences) & (differences.mean(axis=1) > 0.02 + 1e-12) for differences in drawn]
        yield kind, n, means(outcomes + [gate(differences, beyond=0.02) for differences in drawn])


@table(
    "no drop, but many small losses and few large gains: called worse; and called worse with the note\n"
    "that this needs symmetry",
    [*TESTS, "noted"],
)
def skewed(runs: int, sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    for kind, draw in (("skewness -3.7", rare_gains), ("gains rarer still", rarer_gains)):
        for n in sizes:
            rng = np.random.default_rng([4, n])
            differences = draw(rng, runs, n)
            noted = gate(differences)
            noted[noted] = [
                joint_drop_test([PairedDrops(run.tolist())], alpha=ALPHA).scores[0].needs_symmetry
                for run in differences[noted]
            ]
            yield kind, n, [*tests(rng, differences), float(noted.mean())]


@table(
    "differences with a standard deviation of 0.01: called worse at a true drop of 0, .002 and .005",
    [f"{test} {drop}" for drop in (0, 0.002, 0.005) for test in ("gate", "t")],
)
def similarities(runs: int, sizes: Sequence[int] = (60, 200)) -> Iterator[Row]:
    for n in sizes:
        rng = np.random.default_rng([5, n])
        drawn = [rng.normal(drop, 0.01, (runs, n)) for drop in (0.0, 0.002, 0.005)]
        yield (
            "similarities",
            n,
            means([test(differences) for differences in drawn for test in (gate, student)]),
        )


@table(
    "25 questions a document, of which four in five change as their document does: called worse at a\n"
    "true drop of 0 and 10 points, by questions and by clusters",
    [f"{how} {drop}" for drop in (0, 10) for how in ("questions", "clusters")],
)
def clustered(runs: int, sizes: Sequence[int] = (500, 1000, 2000)) -> Iterator[Row]:
    for n in sizes:
        rng = np.random.default_rng([6, n])
        clusters = np.repeat(np.arange(n // 25), 25).tolist()
        outcomes: list[Verdicts] = []
        for drop in (0.0, 0.1):
            document_sign = np.where(rng.random((runs, n // 25, 1)) < 0.5 + drop / 0.36, 1.0, -1.0)
            sign = np.where(rng.random((runs, n // 25, 25)) < 0.8, document_sign, -document_sign)
            differences = (sign * (rng.random(sign.shape) < 0.3)).reshape(runs, -1)
            outcomes += [gate(differences), gate(differences, clusters=clusters)]
        yield f"{n // 25} documents", n, means(outcomes)


@table(
    "a generator that turns 20% of verdicts: called worse at a true drop of 0 and 10 points, from one\n"
    "run and from the means of three, on both sides",
    [f"{k} a side, {drop}" for drop in (0, 10) for k in (1, 3)],
)
def repeats(runs: int, sizes: Sequence[int] = (100,)) -> Iterator[Row]:
    for n in sizes:
        rng = np.random.default_rng([7, n])
        outcomes = []
        for drop in (0.0, 0.1):
            right_before = rng.random((runs, n)) < 0.75
            # Noise hides two fifths of a drop: the score falls by 10 points if the retriever loses 16.7.
            right_now = right_before & (rng.random((runs, n)) >= drop / 0.6 / 0.75)
            for k in (1, 3):
                before, now = (
                    np.mean((rng.random((k, runs, n)) < 0.2) != right, axis=0)
                    for right in (right_before, right_now)
                )
                outcomes.append(gate(before - now))
        yield "0/1", n, means(outcomes)


@table(
    "25 pull requests a run, of a retriever that does not change, with a judge of whose verdicts a share differs\n"
    "between two runs, or that turns each verdict with this probability; max_drop 0.02:\n"
    "red beside a baseline that is written at every merge as the mean of five runs, by the gate and other tests;\n"
    "by the gate beside the last run alone, and beside one that is only ever raised; then red at a drop of 10\n"
    "points, beside the first two",
    ["gate", "t", "boot", "last", "raised", "10, five", "10, last"],
)
def year(runs: int, sizes: Sequence[int] = (100,)) -> Iterator[Row]:
    """Yield the share of red pull requests over years of 250 pull requests and merges."""

    def red(test: Callable[[Array], Verdicts], before: Array, after: Array) -> Verdicts:
        differences = (before - after).reshape(-1, before.shape[-1])
        called = differences.mean(axis=1) > 0.02 + 1e-9
        called[called] = test(differences[called])
        return called

    for n in sizes:
        for how, share in product(("differ", "turned"), (0.06, 0.23)):
            turned = (1 - np.sqrt(1 - 2 * share)) / 2 if how == "differ" else share
            rng = np.random.default_rng([14, n, int(100 * share)])
            right = rng.random((max(1, 25 * runs // MERGES), 1, n)) < 0.8
            shape = (len(right), MERGES, n)
            merged, pulled = ((right ^ (rng.random(shape) < turned)).astype(float) for _ in range(2))
            # Noise hides a part of a drop: the score falls by 10 points if the retriever loses more.
            kept = right & (rng.random(shape) >= 0.1 / (1 - 2 * turned) / right.mean(axis=2, keepdims=True))
            worse = (kept ^ (rng.random(shape) < turned)).astype(float)
            five, best = merged.copy(), merged.copy()
            for merge in range(1, MERGES):
                weight, run = min(merge, MAX_RUNS - 1), merged[:, merge]
                five[:, merge] = (weight * five[:, merge - 1] + run) / (weight + 1)
                is_raised = run.mean(axis=1) > best[:, merge - 1].mean(axis=1)
                best[:, merge] = np.where(is_raised[:, None], run, best[:, merge - 1])
            verdicts = [
                red(gate, five, pulled),
                red(student, five, pulled),
                red(partial(bootstrap, rng), five, pulled),
                red(gate, merged, pulled),
                red(gate, best, pulled),
                red(gate, five[:, ::10], worse[:, ::10]),
                red(gate, merged[:, ::10], worse[:, ::10]),
            ]
            yield f"{how} {share:.0%}", n, means(verdicts)


@table(
    "20 updates of the baseline: called worse at least once, against the last update at 5%, and against the anchor at\n"
    "the stated level; with half a point lost in each update, or none, and where more than 5 points are called worse",
    ["rolling", "alpha/20", "anchor", "alpha/5", "beyond 5"],
)
def anchored(runs: int, sizes: Sequence[int] = (100, 200)) -> Iterator[Row]:
    """Yield the results for many small drops, and for questions that change by noise or for good."""

    @cache
    def p_value(lost: int, gained: int, n: int) -> float:
        return mcnemar_p_value(lost, gained, n) if lost > gained else 1.0

    def p_values(before: Verdicts, after: Verdicts) -> Array:
        lost, gained = (before & ~after).sum(axis=1), (after & ~before).sum(axis=1)
        return np.array(
            [p_value(*counts, before.shape[1]) for counts in zip(lost.tolist(), gained.tolist(), strict=True)]
        )

    for n in sizes:
        for drop, noise, churn in ((0.005, 0.02, 0.0), (0.0, 0.02, 0.0), (0.0, 0.06, 0.0), (0.0, 0.02, 0.03)):
            rng = np.random.default_rng([8, n, int(1000 * drop), int(100 * noise), int(100 * churn)])
            called = np.zeros((5, 5 * runs), dtype=bool)
            right = rng.random((5 * runs, n)) < 0.85
            last = anchor = right ^ (rng.random(right.shape) < noise)
            for update in range(1, 21):
                right = right & (rng.random(right.shape) >= drop / 0.85)
                right = np.where(rng.random(right.shape) < churn, rng.random(right.shape) < 0.85, right)
                new = right ^ (rng.random(right.shape) < noise)
                to_anchor, level = p_values(anchor, new), anchor_alpha(ALPHA, update)
                beyond = (anchor.mean(axis=1) - new.mean(axis=1)) > 0.05 + 1e-9
                called |= [
                    p_values(last, new) <= ALPHA,
                    to_anchor <= ALPHA / 20,
                    to_anchor <= level,
                    to_anchor <= ALPHA / 5,
                    (to_anchor <= level) & beyond,
                ]
                last = new
            kind = "-0.5 each" if drop else f"noise {noise:.0%}, churn {churn:.0%}"
            yield kind, n, means(list(called))


@table(
    "models that did not change, and whose scores changed by 5 and by 10 points, 3% of the verdicts flip both ways: a\n"
    "canary of n questions is significant at 1% (two-sided), in one test and in ten tests together; and by a t-test",
    [f"{how} {shift}" for shift in (0, 5, 10) for how in ("one", "ten", "t")],
)
def canary(runs: int, sizes: Sequence[int] = (20, 100)) -> Iterator[Row]:
    def shifted(differences: Array) -> Verdicts:
        p_values = cache(
            lambda lost, gained: min(1.0, 2 * mcnemar_p_value(lost, gained, differences.shape[1]))
        )
        lost, gained = (differences > 0).sum(axis=1), (differences < 0).sum(axis=1)
        counts = zip(lost.tolist(), gained.tolist(), strict=True)
        return np.array([p_values(max(pair), min(pair)) <= CANARY_ALPHA for pair in counts])

    for n in sizes:
        rng = np.random.default_rng([15, n])
        outcomes: list[Verdicts] = []
        for shift in (0.0, 0.05, 0.1):
            u = rng.random((runs, 10 * n))
            drawn = np.where(u < 0.03 + shift, 1.0, np.where(u > 0.97, -1.0, 0.0))
            one = drawn[:, :n]
            by_t = student(one, CANARY_ALPHA / 2) | student(-one, CANARY_ALPHA / 2)
            outcomes += [shifted(one), shifted(drawn), by_t]
        yield "0/1", n, means(outcomes)


@table(
    "30% of the questions changed, max_drop 0.02: share of the changed questions that are evaluated; stopped for red\n"
    "and for green; red in all; red if all are evaluated, by the gate, by mid-p, a t-test and a bootstrap",
    ["asked", "red", "green", "red in all", "red of full", "mid-p", "t", "boot"],
)
def stopped_early(runs: int, sizes: Sequence[int] = (200, 300, 2000)) -> Iterator[Row]:
    for n in sizes:
        for drop in (0.0, 0.02, 0.05, 0.1):
            rng = np.random.default_rng([9, n, int(1000 * drop)])
            changed = int(0.3 * n)
            nonzero_share = max(0.3, drop / 0.3)
            losses = (nonzero_share + drop / 0.3) / 2
            u = rng.random((runs, changed))
            drawn = np.where(u < losses, 1.0, np.where(u < nonzero_share, -1.0, 0.0))
            whole = np.concatenate([drawn, np.zeros((runs, n - changed))], axis=1)
            above = drawn.sum(axis=1) > 0.02 * n + 1e-9
            lost, gained = (drawn > 0).sum(axis=1), (drawn < 0).sum(axis=1)
            counts = list(zip(lost.tolist(), gained.tolist(), strict=True))
            full = above & np.array([mcnemar_p_value(*pair, n) <= ALPHA for pair in counts])
            by_mid_p = above & np.array([mid_p(*pair, n) <= ALPHA for pair in counts])
            asked, red, green = (np.zeros(runs) for _ in range(3))
            for run, differences in enumerate(drawn.tolist()):
                stop = CurtailedDropTest(questions=n, changed=changed, max_drop=0.02, alpha=ALPHA)
                for difference in differences:
                    if stop.verdict is not None:
                        break
                    stop.add(difference)
                asked[run] = stop.evaluated / changed
                red[run], green[run] = stop.verdict == "fail", stop.verdict == "pass"
            in_all = np.where(red > 0, 1.0, np.where(green > 0, 0.0, full))
            others = [by_mid_p, above & student(whole), above & bootstrap(rng, whole)]
            yield (
                f"drop {drop:.0%}",
                n,
                [float(share.mean()) for share in (asked, red, green, in_all, full, *others)],
            )


@table(
    "power at the drop that is reported as detected in 80% of runs, computed from runs without a drop",
    ["max_drop 0", "max_drop 2"],
)
def detectable(runs: int, sizes: Sequence[int] = LARGE_SIZES) -> Iterator[Row]:
    """Yield how often a drop of the reported detectable size is detected.

    The detectable drop is computed from one run, for losses of the whole score, and then 200 runs have this drop.
    """
    for kind in SCORES:
        for n in sizes:
            rng = np.random.default_rng([10, n])
            outcomes = []
            for max_drop in (0.0, 0.02):
                called: list[Verdicts] = []
                for _ in range(max(1, runs // 200)):
                    before = synthetic(rng, kind, (1, n), 0.0)[0].tolist()
                    drop = detectable_drop(before, alpha=ALPHA, max_drop=max_drop, loss=1.0)
                    if drop is not None and drop < 0.7:
                        after = synthetic(rng, kind, (min(runs, 200), n), drop)
                        called.append(gate(after) & (after.mean(axis=1) > max_drop + 1e-12))
                outcomes.append(np.concatenate(called))
            yield f"synthetic {kind}", n, means(outcomes)


@table(
    f"strict, at most {MAX_SLOW_RUNS} runs of graded scores: passes at a true drop of max_drop (false) and of 0 "
    "(right), where\n2% and 20% of the scores are drawn anew",
    [f"{what} {margin}, {share}%" for margin in (2, 5) for share in (2, 20) for what in ("false", "right")],
)
def strict(runs: int, sizes: Sequence[int] = LARGE_SIZES) -> Iterator[Row]:
    for k, kind in enumerate(SCORES):
        for n in sizes:
            rng = np.random.default_rng([11, k, n])
            shape = (runs if kind == "0/1" else min(runs, MAX_SLOW_RUNS), n)
            outcomes = [
                strict_passes(synthetic(rng, kind, shape, drop, changed), margin)
                for margin in (0.02, 0.05)
                for changed in (0.02, 0.2)
                for drop in (margin, 0.0)
            ]
            yield f"synthetic {kind}", n, means(outcomes)


@table(
    f"at most {MAX_SLOW_RUNS} runs: 90% intervals of a true drop of 0 and 5 points lie above it, and below\n"
    "it; 95% intervals of the mean score do not hold it (synthetic scores)",
    [*(f"{side} {drop}" for drop in (0, 5) for side in ("above", "below")), "mean"],
)
def intervals(runs: int, sizes: Sequence[int] = LARGE_SIZES) -> Iterator[Row]:
    slow_runs = min(runs, MAX_SLOW_RUNS)
    for kind, n, draw, rng in cells(12, sizes):
        outcomes = []
        for drop in (0.0, 0.05):
            bounds = np.array([drop_interval(run.tolist(), alpha=ALPHA) for run in draw(drop, slow_runs)])
            outcomes += [bounds[:, 0] > drop + 1e-9, bounds[:, 1] < drop - 1e-9]
        mean_missed = []
        if (scores := SCORES.get(kind.removeprefix("synthetic "))) is not None:
            draw_scores, mean = scores
            drawn = draw_scores(rng, (slow_runs, n))
            mean_intervals = [mean_interval(run.tolist(), seed=seed) for seed, run in enumerate(drawn)]
            mean_missed = [np.array([not low <= mean <= high for low, high in filter(None, mean_intervals)])]
        yield kind, n, means(outcomes + mean_missed)


if __name__ == "__main__":
    # Fewer draws than for the p-values of a report: another seed may lead to other verdicts in 5% of close cases.
    sign_flips.FIRST_BATCH_SIGNS, sign_flips.RESAMPLING_RISK = 0, 0.05
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_RUNS
    if not variants.is_available(SETS):
        say(
            f"Synthetic differences alone: {variants.DATA} does not have the data of real ones (RAGEVAL_TEST_DATA)."
        )
    names = sys.argv[2:]
    for table_name in TABLES if "all" in names else names or SHORT:
        show(table_name, count, **({} if names else SHORT[table_name]))
