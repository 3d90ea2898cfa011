"""How often the gate is wrong, and how often it notices: `python tests/benchmarks/false_alarms.py [RUNS]`.

Simulated pairs of a baseline and a new retriever, RUNS (2,000) of each kind. The two share most scores; the
others are drawn anew, and a true drop sets some to 0. Shares of runs in percent, with "fail" as the gate
has it: the observed drop is above `max_drop`, and the p-value of the paired test is at most alpha = 5%,
divided by the number of thresholds. In all tables a 95% interval of a share of 5% is about 1 wide each way
at 2,000 runs, and 2 at 500.

Monte Carlo tests draw 999 sign patterns here instead of 20,000, and sums of real differences have fewer
points, for speed; both are arguments of the functions under test.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from pytest_rageval.stats.paired import paired_test

from pytest_rageval.stats.intervals import mean_interval
from pytest_rageval.stats.noninferiority import noninferiority

SIZES = (20, 60, 200, 1000)
ALPHA = 0.05
FAMILY = 10
CHANGED = 0.2
"""The share of examples that two equivalent retrievers score independently."""
RESAMPLES = 999
POINTS = 1 << 17
SLOW = 500
"""Most runs of what takes long: BCa intervals, and strict thresholds on real scores."""

Array = NDArray[np.float64]
Verdicts = NDArray[np.bool_]
Random = np.random.Generator


def right_or_wrong(rng: Random, shape: tuple[int, ...]) -> Array:
    """0/1 scores, three quarters of them 1."""
    return (rng.random(shape) < 0.75).astype(float)


def graded(rng: Random, shape: tuple[int, ...]) -> Array:
    """Real scores, skewed as token F1 is: half are 1, a twentieth 0, the rest beta-distributed around 0.8."""
    u = rng.random(shape)
    return np.where(u < 0.5, 1.0, np.where(u < 0.55, 0.0, rng.beta(2, 0.5, shape)))


SCORES: dict[str, tuple[Callable[[Random, tuple[int, ...]], Array], float]] = {
    "0/1": (right_or_wrong, 0.75),
    "real": (graded, 0.5 + 0.45 * 0.8),
}
"""Each kind of score, and its mean."""


def drops(rng: Random, kind: str, shape: tuple[int, ...], drop: float, changed: float = CHANGED) -> Array:
    """Baseline less new scores of runs (first) and examples (last), the true drop given."""
    draw, mean = SCORES[kind]
    baseline = draw(rng, shape)
    new = np.where(rng.random(shape) < changed, draw(rng, shape), baseline)
    return baseline - np.where(rng.random(shape) < drop / mean, 0.0, new)


def families(rng: Random, kind: str, runs: int, n: int, alike: float) -> Iterator[Array]:
    """Drops of ten scores of the same examples, which share that many of their differences; none is true."""
    shared = drops(rng, kind, (runs, n), 0.0)
    for _ in range(FAMILY):
        yield np.where(rng.random((runs, n)) < alike, shared, drops(rng, kind, (runs, n), 0.0))


def lopsided(rng: Random, runs: int, n: int) -> Array:
    """No true drop, but no symmetry: half of the scores lose 30%, and rarely one becomes 1.

    The scores are one less graded ones, so that the mean is 0.14.
    """
    baseline = 1 - graded(rng, (runs, n))
    mean = 1 - SCORES["real"][1]
    gains = 0.5 * 0.3 * mean / (1 - mean + 0.5 * 0.3 * mean)
    new = np.where(rng.random((runs, n)) < 0.5, 0.7 * baseline, baseline)
    return baseline - np.where(rng.random((runs, n)) < gains, 1.0, new)


@cache
def _binary_p(lost: int, gained: int) -> float:
    return paired_test([1.0] * lost + [-1.0] * gained).p_value


def fails(differences: Array, max_drop: float, alpha: float = ALPHA) -> Verdicts:
    """Whether each run fails by the gate's rule.

    Most runs need no test: where the sum is no larger than the root of the sum of squares, at least 7 of
    64 sign patterns reach it (Hollom and Portier 2023, "Tight lower bound on Rademacher sums"). Each run has
    a seed of its own: with 999 draws, the error of one set of coins would show in all.
    """

    def significant(seed: int) -> bool:
        run = differences[seed]
        changes = run[run != 0]
        if np.all(np.abs(changes) == 1):
            return _binary_p(int(np.sum(changes > 0)), int(np.sum(changes < 0))) <= alpha
        return paired_test(changes.tolist(), seed=seed, resamples=RESAMPLES).p_value <= alpha

    failed = differences.mean(axis=1) > max_drop + 1e-12
    failed &= differences.sum(axis=1) > np.linalg.norm(differences, axis=1)
    failed[failed] = [significant(int(seed)) for seed in np.flatnonzero(failed)]
    return failed


def bootstrap_fails(rng: Random, differences: Array, block: int = 100) -> Verdicts:
    """Whether the lower bound of each run's one-sided 95% percentile bootstrap interval is above 0.

    Runs of a block share their draws of examples, which leaves the rate of each as it is.
    """
    n = differences.shape[1]
    failed = []
    for start in range(0, len(differences), block):
        picked = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
        means = picked.astype(float) @ differences[start : start + block].T / n
        failed.append(np.quantile(means, ALPHA, axis=0) > 1e-12)
    return np.concatenate(failed)


def strict_passes(differences: Array, margin: float) -> Verdicts:
    """Whether each run excludes a drop of the margin."""

    @cache
    def binary(lost: int, gained: int) -> bool:
        zeros = [0.0] * (differences.shape[1] - lost - gained)
        return noninferiority([1.0] * lost + [-1.0] * gained + zeros, margin) <= ALPHA

    def passed(run: Array) -> bool:
        if np.all(np.isin(run, (-1.0, 0.0, 1.0))):
            return binary(int(np.sum(run > 0)), int(np.sum(run < 0)))
        return noninferiority(run.tolist(), margin, points=POINTS) <= ALPHA

    return np.array([passed(run) for run in differences])


def reweighted_fails(differences: Array) -> Verdicts:
    """Whether the test of strict thresholds, turned round, excludes that the mean did not drop."""
    return np.array([noninferiority((-run).tolist(), 0.0, points=POINTS) <= ALPHA for run in differences])


def covered(scores: Array, mean: float) -> Verdicts:
    """Whether each run's 95% interval of the mean holds the true one."""
    intervals = (mean_interval(run.tolist(), seed=seed) for seed, run in enumerate(scores))
    return np.array([low <= mean <= high for low, high in filter(None, intervals)])


def cells(seed: int) -> Iterator[tuple[str, int, Random]]:
    """Each kind and size, with a generator of its own."""
    for k, kind in enumerate(SCORES):
        for n in SIZES:
            yield kind, n, np.random.default_rng([seed, k, n])


def single(runs: int) -> None:
    """One threshold."""

    def row(kind: str, n: int, rng: Random) -> list[Verdicts]:
        none, five, ten = (drops(rng, kind, (runs, n), drop) for drop in (0.0, 0.05, 0.1))
        found = [fails(none, 0.0), fails(none, 0.02), bootstrap_fails(rng, none)]
        for some in (five, ten):
            found += [fails(some, 0.0), bootstrap_fails(rng, some)]
        return found

    table(
        f"One threshold, {runs} runs: fails at a true drop of 0 (false alarms), of 5 and of 10 points (power)",
        ("max_drop 0", "max_drop 2", "bootstrap", "power 5", "bootstrap", "power 10", "bootstrap"),
        ((kind, n, row(kind, n, rng)) for kind, n, rng in cells(1)),
    )


def several(runs: int) -> None:
    """Ten thresholds."""

    def row(kind: str, n: int, rng: Random) -> list[Verdicts]:
        return [
            np.any([fails(one, 0.0, ALPHA / FAMILY) for one in families(rng, kind, runs, n, alike)], axis=0)
            for alike in (0.0, 0.9)
        ]

    table(
        f"{FAMILY} thresholds, alpha/{FAMILY} each, {runs} runs, no true drop: at least one fails",
        ("unrelated", "90% alike"),
        ((kind, n, row(kind, n, rng)) for kind, n, rng in cells(2)),
    )


def borders(runs: int) -> None:
    """Where the assumptions of the rule end."""

    def row(kind: str, n: int, rng: Random) -> list[Verdicts]:
        at_border = fails(drops(rng, kind, (runs, n), 0.02), 0.02)
        if kind == "0/1":
            return [at_border]
        skewed = lopsided(rng, runs, n)
        others = bootstrap_fails(rng, skewed), reweighted_fails(skewed[:SLOW])
        return [at_border, fails(skewed, 0.0), *others]

    table(
        f"What the rule does not promise, {runs} runs, reweighted {min(runs, SLOW)}: fails",
        ("drop = max_drop = 2", "lopsided, no drop", "bootstrap", "reweighted"),
        ((kind, n, row(kind, n, rng)) for kind, n, rng in cells(3)),
    )


def strict(runs: int) -> None:
    """Thresholds that turn the burden of proof around."""
    few = min(runs, SLOW)
    for margin in (0.02, 0.05):

        def row(kind: str, n: int, rng: Random, margin: float = margin) -> list[Verdicts]:
            shape = (runs if kind == "0/1" else few, n)
            return [
                strict_passes(drops(rng, kind, shape, drop, changed), margin)
                for changed in (0.02, CHANGED)
                for drop in (margin, 0.0)
            ]

        table(
            f"strict, max_drop {margin:.0%}: passes at a true drop of {margin:.0%} (false) and of 0 (right),\n"
            f"where 2% and {CHANGED:.0%} of the scores are drawn anew; {runs} runs, real scores {few}",
            [f"{what}, {share:.0%}" for share in (0.02, CHANGED) for what in ("false", "right")],
            ((kind, n, row(kind, n, rng)) for kind, n, rng in cells(4)),
        )


def intervals(runs: int) -> None:
    """Wilson for 0/1 scores, BCa for real ones."""
    few = min(runs, SLOW)

    def row(kind: str, n: int, rng: Random) -> list[Verdicts]:
        draw, mean = SCORES[kind]
        return [covered(draw(rng, (runs if kind == "0/1" else few, n)), mean)]

    table(
        f"95% intervals of the mean, {runs} runs, real scores {few}: hold the true mean",
        ("coverage",),
        ((kind, n, row(kind, n, rng)) for kind, n, rng in cells(5)),
    )


def table(title: str, columns: Sequence[str], rows: Iterable[tuple[str, int, Sequence[Verdicts]]]) -> None:
    """Print shares in percent, a row as soon as it is there."""
    widths = [max(12, len(column) + 2) for column in columns]
    names = "".join(f"{column:>{width}}" for column, width in zip(columns, widths, strict=True))
    say(f"\n{title}\n{'scores':7}{'n':>5}{names}")
    for kind, n, outcomes in rows:
        figures = (f"{share.mean():{width}.1%}" for share, width in zip(outcomes, widths, strict=False))
        say(f"{kind:7}{n:5}{''.join(figures)}")


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for measure in (single, several, borders, strict, intervals):
        measure(count)
