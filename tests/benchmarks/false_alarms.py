"""How often the gate is wrong, and how often it notices: `python tests/benchmarks/false_alarms.py [RUNS] [TABLE…]`.

Each figure is a share of RUNS (2,000) simulated comparisons, in percent, of one-sided tests at 5%. A 95% interval of
a share of 5% is 1 wide each way at 2,000 runs. The same differences are given to a paired t-test, a percentile
bootstrap and Wilcoxon's signed-rank test.

*Real* differences are those of pairs of BM25 variants (`tests/benchmarks/variants.py`) on which at least a twentieth
of the questions differ: n of them are drawn, with weights `exp(θ·d)` that give the mean drop wanted. They are left
out where the data is missing. *Synthetic* ones are of two retrievers that share 80% of the scores; the other scores
are drawn again, and a true drop sets some to 0.
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pytest_rageval.stats import paired_tests as under_test
from pytest_rageval.stats.intervals import SCORE_TOLERANCE, mean_interval
from pytest_rageval.stats.mcnemar import mid_p
from pytest_rageval.stats.noninferiority import noninferiority_p_value
from pytest_rageval.stats.paired_tests import PairedDrops, drop_interval, joint_drop_test
from pytest_rageval.stats.power import detectable_drop
from pytest_rageval.stats.sequential import SequentialDropTest, anchor_alpha
from tests.benchmarks import variants

ALPHA = 0.05
SIZES = (30, 60, 100)
LARGE = (60, 200, 1000)
BINARY = ("hit@1", "hit@3", "hit@5")
REAL = ("ndcg@5", "mrr@5", "map@5")
FAMILY = ("hit@1", "hit@3", "hit@5", "mrr@5", "ndcg@3", "ndcg@5")
SETS = ("MS MARCO", "XQuAD", "NQ")
PAIRS = 60
"""Pairs of variants of each set and measure."""
A_PAIR = 20
"""Runs of a pair, before the next is drawn."""
CHANGED = 0.05
"""Least share of questions on which the variants of a pair differ."""
STEPS = 60
RESAMPLES = 999
POINTS = 1 << 17
"""Points of the distribution of a sum; fewer than the gate's, for speed."""
SHARES = 200
"""Shares of changed questions at which the size is computed."""
SLOW = 500
"""Most runs of what takes long."""

Array = NDArray[np.float64]
Verdicts = NDArray[np.bool_]
Random = np.random.Generator
Row = tuple[str, int, Sequence[float]]


class Table(NamedTuple):
    """A table to print: its rows are computed from the number of runs, and perhaps sizes of sets."""

    title: str
    columns: Sequence[str]
    rows: Callable[..., Iterator[Row]]


TABLES: dict[str, Table] = {}


def table(title: str, columns: Sequence[str]) -> Callable[[Callable[..., Iterator[Row]]], None]:
    """Make a function that yields rows one of the tables."""

    def add(rows: Callable[..., Iterator[Row]]) -> None:
        TABLES[rows.__name__] = Table(title, columns, rows)

    return add


def show(name: str, runs: int, **sizes: Sequence[int]) -> None:
    """Print a table, each row as soon as it is there."""
    title, columns, rows = TABLES[name]
    widths = [max(8, len(column) + 2) for column in columns]
    names = "".join(f"{column:>{width}}" for column, width in zip(columns, widths, strict=True))
    say(f"\n{name}, {runs} runs: {title}\n{'differences':20}{'n':>5}{names}")
    for kind, n, shares in rows(runs, **sizes):
        figures = (f"{share:{width}.1%}" for share, width in zip(shares, widths, strict=False))
        say(f"{kind:20}{n:5}{''.join(figures)}")


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)  # noqa: T201


def means(outcomes: Sequence[Verdicts]) -> list[float]:
    """The share of runs of each outcome."""
    return [float(outcome.mean()) for outcome in outcomes]


# Differences of scores


def right_or_wrong(rng: Random, shape: tuple[int, ...]) -> Array:
    """0/1 scores, three quarters of them 1."""
    return (rng.random(shape) < 0.75).astype(float)


def graded(rng: Random, shape: tuple[int, ...]) -> Array:
    """Graded scores, skewed as token F1 is: half are 1, a twentieth 0, the rest beta-distributed around 0.8."""
    u = rng.random(shape)
    return np.where(u < 0.5, 1.0, np.where(u < 0.55, 0.0, rng.beta(2, 0.5, shape)))


SCORES: dict[str, tuple[Callable[[Random, tuple[int, ...]], Array], float]] = {
    "0/1": (right_or_wrong, 0.75),
    "graded": (graded, 0.5 + 0.45 * 0.8),
}
"""Each kind of score, and its mean."""


def synthetic(rng: Random, kind: str, shape: tuple[int, ...], drop: float, changed: float = 0.2) -> Array:
    """Baseline less new scores of runs (first) and questions (last), with the true drop given."""
    draw, mean = SCORES[kind]
    baseline = draw(rng, shape)
    new = np.where(rng.random(shape) < changed, draw(rng, shape), baseline)
    return baseline - np.where(rng.random(shape) < drop / mean, 0.0, new)


def rare_gains(rng: Random, runs: int, n: int) -> Array:
    """No true drop, skewness -3.7: two in five questions lose about an eighth, and one in twenty gains 1."""
    u = rng.random((runs, n))
    losses = rng.uniform(0.0625, 0.1875, (runs, n))
    return np.where(u < 0.4, losses, np.where(u >= 0.95, -1.0, 0.0))


def rarer_gains(rng: Random, runs: int, n: int) -> Array:
    """No true drop: half of the scores lose 30%, and so few become 1 that a quarter of samples of 60 have no gain.

    The scores are one less graded ones, so that the mean is 0.14.
    """
    baseline = 1 - graded(rng, (runs, n))
    mean = 1 - SCORES["graded"][1]
    gains = 0.5 * 0.3 * mean / (1 - mean + 0.5 * 0.3 * mean)
    new = np.where(rng.random((runs, n)) < 0.5, 0.7 * baseline, baseline)
    return baseline - np.where(rng.random((runs, n)) < gains, 1.0, new)


@cache
def pairs(name: str, measures: tuple[str, ...]) -> list[Array]:
    """The differences of pairs of variants of a set: questions × measures."""
    scores = np.stack([variants.scores(name)[measure] for measure in measures], axis=2)
    rng = np.random.default_rng([len(name), len(measures)])
    found: list[Array] = []
    for _ in range(50 * PAIRS):
        one, other = rng.choice(scores.shape[1], 2, replace=False)
        differences = scores[:, one] - scores[:, other]
        both = [(column > 0).sum() > 4 and (column < 0).sum() > 4 for column in differences.T]
        if all(both) and (differences != 0).mean(axis=0).min() >= CHANGED:
            found.append(differences)
        if len(found) == PAIRS:
            break
    return found


def weights(differences: Array, drop: float) -> Array | None:
    """Weights `exp(θ·d)` under which every column has the mean drop; None where there are none."""
    theta = np.zeros(differences.shape[1])
    for _ in range(STEPS):
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
    """Differences and weights, of every pair that can have the drop."""
    found = []
    for name in SETS:
        for differences in pairs(name, measures):
            weight = weights(differences, drop)
            if weight is not None and weight.max() < 0.05:
                found.append((differences, weight))
    return found


def real(rng: Random, measures: tuple[str, ...], n: int, drop: float, runs: int) -> Array:
    """Runs × questions × measures."""
    several = populations(measures, drop)
    drawn = []
    for _ in range(-(-runs // A_PAIR)):
        differences, weight = several[rng.integers(len(several))]
        drawn.append(differences[rng.choice(len(differences), (A_PAIR, n), p=weight)])
    return np.concatenate(drawn)[:runs]


def each_measure(names: Sequence[str], rng: Random, n: int, drop: float, runs: int) -> Array:
    """Runs × questions, of each of the measures a part."""
    some = -(-runs // len(names))
    return np.concatenate([real(rng, (name,), n, drop, some)[:, :, 0] for name in names])[:runs]


def kinds() -> Mapping[str, Callable[[Random, int, float, int], Array]]:
    """Kinds of differences: how runs of n questions are drawn."""
    found: dict[str, Callable[[Random, int, float, int], Array]] = {
        f"synthetic {kind}": partial(
            lambda kind, rng, n, drop, runs: synthetic(rng, kind, (runs, n), drop), kind
        )
        for kind in SCORES
    }
    if variants.at_hand(SETS):
        found |= {"real 0/1": partial(each_measure, BINARY), "real graded": partial(each_measure, REAL)}
    return found


def cells(
    seed: int, sizes: Sequence[int]
) -> Iterator[tuple[str, int, Callable[[float, int], Array], Random]]:
    """Each kind and size: what draws runs with a true drop, and the generator it draws from."""
    for k, (kind, draw) in enumerate(kinds().items()):
        for n in sizes:
            rng = np.random.default_rng([seed, k, n])
            yield kind, n, partial(draw, rng, n), rng


# Tests


def gate(
    differences: Array, *, alpha: float = ALPHA, beyond: float = 0.0, clusters: Sequence[int] | None = None
) -> Verdicts:
    """Whether each score of each run is called worse: runs × questions (× scores) → runs (× scores).

    Where no sum is larger than the root of the sum of squares, no p-value is below 3.5/64 (Hollom and Portier 2023,
    "Tight lower bound on Rademacher sums"), and no test is made.
    """
    whole = differences if differences.ndim == 3 else differences[:, :, None]
    units = whole - beyond
    if clusters is not None:
        units = np.stack(
            [units[:, np.equal(clusters, cluster)].sum(axis=1) for cluster in set(clusters)], axis=1
        )
    clear = (units.sum(axis=1) <= np.sqrt((units**2).sum(axis=1))).all(axis=1)
    called = np.zeros((len(whole), whole.shape[2]), dtype=bool)
    for run in np.flatnonzero(~clear):
        scores = [PairedDrops(column.tolist(), beyond=beyond) for column in whole[run].T]
        found = [[0.0 if abs(d) <= SCORE_TOLERANCE else d for d in score.values] for score in scores]
        # The intervals that come with a test take longer than it.
        p_values, *_ = under_test._p_values(found, scores, alpha, clusters, int(run))
        called[run] = np.array(p_values) <= alpha
    called &= whole.mean(axis=1) > beyond + 1e-12
    return called if differences.ndim == 3 else called[:, 0]


def student(differences: Array, alpha: float = ALPHA) -> Verdicts:
    """The paired t-test."""
    n = differences.shape[1]
    spread = differences.std(axis=1, ddof=1)
    statistic = np.sqrt(n) * differences.mean(axis=1) / np.where(spread > 0, spread, 1)
    return np.asarray((stats.t.sf(statistic, n - 1) <= alpha) & (spread > 0))


def bootstrap(rng: Random, differences: Array, block: int = 100) -> Verdicts:
    """Whether the lower bound of a one-sided 95% percentile bootstrap interval is above 0.

    Runs of a block share their draws of questions, which leaves the rate of each as it is.
    """
    n = differences.shape[1]
    called = []
    for start in range(0, len(differences), block):
        picked = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
        resampled = picked.astype(float) @ differences[start : start + block].T / n
        called.append(np.quantile(resampled, ALPHA, axis=0) > 1e-12)
    return np.concatenate(called)


def signed_ranks(differences: Array, alpha: float = ALPHA) -> Verdicts:
    """Wilcoxon's test, with the normal approximation for ties, and without the differences that are 0."""
    called = np.zeros(len(differences), dtype=bool)
    for i, run in enumerate(differences):
        kept = run[run != 0]
        if len(kept):
            ranks = stats.rankdata(np.abs(kept))
            spread = np.sqrt((ranks**2).sum())
            called[i] = stats.norm.sf((ranks * np.sign(kept)).sum() / spread) <= alpha
    return called


TESTS = ("gate", "t", "boot", "Wilc")


def tests(rng: Random, differences: Array) -> list[float]:
    """How often the gate, and the tests it is compared with, call a drop."""
    return means(
        [gate(differences), student(differences), bootstrap(rng, differences), signed_ranks(differences)]
    )


def mid_p_size(n: int, alpha: float = ALPHA, *, most_changed: float = 1.0) -> float:
    """True size of the mid-p McNemar test with n questions: the largest, over the share π of questions that change.

    `max_π Σ_k Binomial(k; n, π) · P(mid_p(X, k - X) ≤ alpha)` with X binomial of k fair coins, to about 0.0001;
    π is at most `most_changed`.
    """
    rejected = [_rejected(changed, alpha) for changed in range(n + 1)]
    log_ways = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]

    def size(share: float) -> float:
        if share == 1:
            return rejected[n]
        log_odds, log_none = math.log(share) - math.log1p(-share), n * math.log1p(-share)
        return math.fsum(
            chance * math.exp(ways + k * log_odds + log_none)
            for k, (ways, chance) in enumerate(zip(log_ways, rejected, strict=True))
        )

    return max(size(most_changed * step / SHARES) for step in range(1, SHARES + 1))


def _rejected(changed: int, alpha: float) -> float:
    """Probability that so many fair coins are significant: a tail of the binomial distribution."""
    if not changed:
        return 0.0
    total, tail, term = 1 << changed, 0, 1
    # From all heads downward; `tail` counts the patterns with more heads, `term` those with so many.
    for heads in range(changed, -1, -1):
        if (2 * tail + term) / (2 * total) > alpha:
            break
        tail += term
        term = term * heads // (changed - heads + 1)
    return tail / total


def strict_passes(differences: Array, margin: float) -> Verdicts:
    """Whether each run excludes a drop of the margin."""
    p_value = cache(lambda drops: noninferiority_p_value(drops, margin, points=POINTS))
    return np.array([p_value(tuple(np.sort(run))) <= ALPHA for run in differences])


# Tables


@table(
    "computed: the largest probability of a false alarm of the mid-p McNemar test, over any share of\n"
    "questions that change, and over at most half",
    ["any", "half"],
)
def size(_: int, sizes: Sequence[int] = (12, 17, *SIZES, 200)) -> Iterator[Row]:
    """The true size of the test of 0/1 scores."""
    for n in sizes:
        yield "0/1", n, [mid_p_size(n), mid_p_size(n, most_changed=0.5)]


@table(
    "called worse at a true drop of 0 (false alarms), of 5 and of 10 points (power)",
    [f"{test} {drop}" for drop in (0, 5, 10) for test in TESTS],
)
def single(runs: int, sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    """One score."""
    for kind, n, draw, rng in cells(1, sizes):
        yield (
            kind,
            n,
            [share for drop in (0.0, 0.05, 0.1) for share in tests(rng, draw(drop, runs))],
        )


@table(
    "any of six ranking measures is called worse at a true drop of 0, 5 and 10 points of each: by the\n"
    "joint test, by tests of each at 5%/6, and by t-tests of each at 5%/6. Last line: three of the six dropped by\n"
    "10 points; any of the other three is called worse",
    [f"{how} {drop}" for drop in (0, 5, 10) for how in ("joint", "each", "t each")],
)
def family(runs: int, sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    """Several scores of the same questions."""
    if not variants.at_hand(SETS):
        return
    each = ALPHA / len(FAMILY)
    for n in sizes:
        rng = np.random.default_rng([2, n])
        found: list[Verdicts] = []
        for drop in (0.0, 0.05, 0.1):
            differences = real(rng, FAMILY, n, drop, runs)
            columns = np.moveaxis(differences, 2, 0)
            found.append(gate(differences).any(axis=1))
            found += [
                np.any([test(column, alpha=each) for column in columns], axis=0) for test in (gate, student)
            ]
        yield "real", n, means(found)
    rng = np.random.default_rng(22)
    unchanged, dropped = (
        real(rng, some, 100, drop, runs) for some, drop in ((FAMILY[:3], 0.0), (FAMILY[3:], 0.1))
    )
    called = gate(np.concatenate([unchanged, dropped], axis=2))[:, :3].any(axis=1)
    yield "real, three of six", 100, means([called])


@table(
    f"at most {SLOW} runs: max_drop 0.02, fails at a true drop of 1.5, 2, 5 and 8 points, where a drop is to\n"
    'be shown, and where one beyond 2 points is (burden="beyond")',
    [f"{how} {drop:g}" for how in ("shown", "beyond") for drop in (1.5, 2, 5, 8)],
)
def allowed(runs: int, sizes: Sequence[int] = LARGE) -> Iterator[Row]:
    """A drop that is allowed."""
    few = min(runs, SLOW)
    for kind, n, draw, _ in cells(3, sizes):
        drawn = [draw(drop, few) for drop in (0.015, 0.02, 0.05, 0.08)]
        found = [gate(differences) & (differences.mean(axis=1) > 0.02 + 1e-12) for differences in drawn]
        yield kind, n, means(found + [gate(differences, beyond=0.02) for differences in drawn])


@table(
    "no drop, but many small losses and few large gains: called worse; and called worse with the note\n"
    "that this needs symmetry",
    [*TESTS, "noted"],
)
def skewed(runs: int, sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    """Differences that are not symmetric."""
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
    """Differences that are small on the scale."""
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
    """Questions that change together."""
    for n in sizes:
        rng = np.random.default_rng([6, n])
        clusters = np.repeat(np.arange(n // 25), 25).tolist()
        found: list[Verdicts] = []
        for drop in (0.0, 0.1):
            way = np.where(rng.random((runs, n // 25, 1)) < 0.5 + drop / 0.36, 1.0, -1.0)
            own = np.where(rng.random((runs, n // 25, 25)) < 0.8, way, -way)
            differences = (own * (rng.random(own.shape) < 0.3)).reshape(runs, -1)
            found += [gate(differences), gate(differences, clusters=clusters)]
        yield f"{n // 25} documents", n, means(found)


@table(
    "a generator that turns 20% of verdicts: called worse at a true drop of 0 and 10 points, from one\n"
    "run and from the means of three, on both sides",
    [f"{k} a side, {drop}" for drop in (0, 10) for k in (1, 3)],
)
def repeats(runs: int, sizes: Sequence[int] = (100,)) -> Iterator[Row]:
    """Scores that are noisy."""
    for n in sizes:
        rng = np.random.default_rng([7, n])
        found = []
        for drop in (0.0, 0.1):
            right = rng.random((runs, n)) < 0.75
            # Noise hides two fifths of a drop: the score falls by 10 points where the retriever loses 16.7.
            kept = right & (rng.random((runs, n)) >= drop / 0.6 / 0.75)
            for k in (1, 3):
                before, after = (
                    np.mean((rng.random((k, runs, n)) < 0.2) != side, axis=0) for side in (right, kept)
                )
                found.append(gate(before - after))
        yield "0/1", n, means(found)


@table(
    "20 updates of the baseline with a drop of 1 point each, and with none: called worse at least once,\n"
    "against the last update at 5%, and against the anchor at 5%/20 and at the level that is spent",
    [f"{how} {drop}" for drop in (1, 0) for how in ("rolling", "alpha/20", "anchor")],
)
def anchored(runs: int, sizes: Sequence[int] = (100, 200)) -> Iterator[Row]:
    """Many small drops, one after the other."""

    def p_value(before: Verdicts, after: Verdicts) -> float:
        return mid_p(int(np.sum(before & ~after)), int(np.sum(after & ~before)))

    for n in sizes:
        rng = np.random.default_rng([8, n])
        found: list[Verdicts] = []
        for drop in (0.01, 0.0):
            caught = np.zeros((3, runs), dtype=bool)
            for run in range(runs):
                right = rng.random(n) < 0.85
                # Every version turns 2% of the verdicts for better or worse, and loses what those before it lost.
                last = anchor = right ^ (rng.random(n) < 0.02)
                for update in range(1, 21):
                    right &= rng.random(n) >= drop / 0.85
                    new = right ^ (rng.random(n) < 0.02)
                    whole = p_value(anchor, new)
                    caught[:, run] |= [
                        p_value(last, new) <= ALPHA,
                        whole <= ALPHA / 20,
                        whole <= anchor_alpha(ALPHA, update),
                    ]
                    last = new
            found += list(caught)
        yield "0/1", n, means(found)


@table(
    "30% of the questions changed, max_drop 0.02: share of all questions that are asked; stopped for red\n"
    "and for green; red in all, with the final test; red if all are asked and tested once",
    ["asked", "red", "green", "red in all", "red of full"],
)
def stopped_early(runs: int, sizes: Sequence[int] = (300, 2000)) -> Iterator[Row]:
    """How many questions are asked, and how it ends."""
    for n in sizes:
        for drop in (0.0, 0.015, 0.02, 0.05, 0.1):
            rng = np.random.default_rng([9, n, int(1000 * drop)])
            changed = int(0.3 * n)
            share = max(0.3, drop / 0.3)
            losses = (share + drop / 0.3) / 2
            found = np.zeros((runs, 5))
            for run in range(runs):
                u = rng.random(changed)
                differences = np.where(u < losses, 1.0, np.where(u < share, -1.0, 0.0))
                stop = SequentialDropTest(questions=n, changed=changed, max_drop=0.02, alpha=ALPHA)
                for difference in differences:
                    if stop.verdict is not None:
                        break
                    stop.add(float(difference))
                p_value = mid_p(int((differences > 0).sum()), int((differences < 0).sum()))
                above = differences.sum() > 0.02 * n + 1e-9
                red, green = stop.verdict == "fail", stop.verdict == "pass"
                in_all = red or (not green and above and p_value <= ALPHA / 2)
                found[run] = stop.evaluated / n, red, green, in_all, above and p_value <= ALPHA
            yield f"drop {drop:.1%}", n, found.mean(axis=0).tolist()


@table(
    "power at the drop that is reported as detected in 80% of runs, computed from runs without a drop",
    ["max_drop 0", "max_drop 2"],
)
def detectable(runs: int, sizes: Sequence[int] = LARGE) -> Iterator[Row]:
    """Whether the detectable drop is detected: whole losses; 200 runs for each run that it is computed from."""
    for kind in SCORES:
        for n in sizes:
            rng = np.random.default_rng([10, n])
            found = []
            for max_drop in (0.0, 0.02):
                called: list[Verdicts] = []
                for _ in range(max(1, runs // 200)):
                    before = synthetic(rng, kind, (1, n), 0.0)[0].tolist()
                    drop = detectable_drop(before, alpha=ALPHA, max_drop=max_drop, loss=1.0)
                    if drop is not None and drop < 0.7:
                        after = synthetic(rng, kind, (min(runs, 200), n), drop)
                        called.append(gate(after) & (after.mean(axis=1) > max_drop + 1e-12))
                found.append(np.concatenate(called))
            yield f"synthetic {kind}", n, means(found)


@table(
    f"strict, at most {SLOW} runs of graded scores: passes at a true drop of max_drop (false) and of 0 (right), where\n"
    "2% and 20% of the scores are drawn anew",
    [f"{what} {margin}, {share}%" for margin in (2, 5) for share in (2, 20) for what in ("false", "right")],
)
def strict(runs: int, sizes: Sequence[int] = LARGE) -> Iterator[Row]:
    """Thresholds at which a drop is to be excluded."""
    for k, kind in enumerate(SCORES):
        for n in sizes:
            rng = np.random.default_rng([11, k, n])
            shape = (runs if kind == "0/1" else min(runs, SLOW), n)
            found = [
                strict_passes(synthetic(rng, kind, shape, drop, changed), margin)
                for margin in (0.02, 0.05)
                for changed in (0.02, 0.2)
                for drop in (margin, 0.0)
            ]
            yield f"synthetic {kind}", n, means(found)


@table(
    f"at most {SLOW} runs: 90% intervals of a true drop of 0 and 5 points lie above it, and below\n"
    "it; 95% intervals of the mean score do not hold it (synthetic scores)",
    [*(f"{side} {drop}" for drop in (0, 5) for side in ("above", "below")), "mean"],
)
def intervals(runs: int, sizes: Sequence[int] = LARGE) -> Iterator[Row]:
    """How often an interval does not hold the true value."""
    few = min(runs, SLOW)
    for kind, n, draw, rng in cells(12, sizes):
        found = []
        for drop in (0.0, 0.05):
            bounds = np.array([drop_interval(run.tolist(), alpha=ALPHA) for run in draw(drop, few)])
            found += [bounds[:, 0] > drop + 1e-9, bounds[:, 1] < drop - 1e-9]
        missed = []
        if (scores := SCORES.get(kind.removeprefix("synthetic "))) is not None:
            draw_scores, mean = scores
            drawn = draw_scores(rng, (few, n))
            held = [mean_interval(run.tolist(), seed=seed) for seed, run in enumerate(drawn)]
            missed = [np.array([not low <= mean <= high for low, high in filter(None, held)])]
        yield kind, n, means(found + missed)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    if not variants.at_hand(SETS):
        say(
            f"Synthetic differences alone: {variants.DATA} does not have the data of real ones (RAGEVAL_TEST_DATA)."
        )
    for each in sys.argv[2:] or TABLES:
        show(each, count)
