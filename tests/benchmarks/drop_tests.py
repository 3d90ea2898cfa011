"""How often the tests of drops are wrong, and how often they notice: `python tests/benchmarks/drop_tests.py [RUNS]`.

Shares of RUNS (2,000) in percent, beside a paired t-test, a percentile bootstrap and Wilcoxon's signed ranks on the
same differences; all one-sided at 5%. A 95% interval of a share of 5% is 1 wide each way at 2,000 runs.

*Real* differences are those of pairs of BM25 variants (`tests/benchmarks/variants.py`) on which at least a twentieth
of the questions differ: n of them are drawn, with weights `exp(θ·d)` that give the mean drop wanted. *Synthetic* ones
are of two retrievers that share 80% of the scores and draw the others anew; a true drop sets some to 0.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pytest_rageval.stats import drops as under_test
from pytest_rageval.stats.drop_interval import ROUNDING, drop_interval
from pytest_rageval.stats.drops import Drops, joint_drop_test
from pytest_rageval.stats.early_stop import EarlyStop
from pytest_rageval.stats.mcnemar import mid_p
from pytest_rageval.stats.power import shown_drop
from pytest_rageval.stats.spending import anchor_alpha
from tests.benchmarks import variants
from tests.benchmarks.false_alarms import _binary_p, bootstrap_fails, fails, lopsided, say
from tests.benchmarks.false_alarms import drops as synthetic

ALPHA = 0.05
SETS = ("MS MARCO", "XQuAD", "NQ")
BINARY = ("hit@1", "hit@3", "hit@5")
REAL = ("ndcg@5", "mrr@5", "map@5")
FAMILY = ("hit@1", "hit@3", "hit@5", "mrr@5", "ndcg@3", "ndcg@5")
PAIRS = 60
"""Pairs of variants of each set and measure."""
A_PAIR = 20
"""Runs of a pair, before the next is drawn."""
CHANGED = 0.05
STEPS = 60

Array = NDArray[np.float64]
Verdicts = NDArray[np.bool_]
Random = np.random.Generator


@cache
def pairs(name: str, measures: tuple[str, ...]) -> list[Array]:
    """The differences of pairs of variants of a set: questions × measures."""
    table = np.stack([variants.scores(name)[measure] for measure in measures], axis=2)
    rng = np.random.default_rng([len(name), len(measures)])
    found = []
    for _ in range(50 * PAIRS):
        one, other = rng.choice(table.shape[1], 2, replace=False)
        differences = table[:, one] - table[:, other]
        both = [(column > 0).sum() > 4 and (column < 0).sum() > 4 for column in differences.T]
        if all(both) and (differences != 0).mean(axis=0).min() >= CHANGED:
            found.append(differences)
        if len(found) == PAIRS:
            break
    return found


def weights(differences: Array, drop: float) -> Array | None:
    """Weights `exp(θ·d)` under which every column has the mean drop; None where they cannot."""
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
    drawn = []
    several = populations(measures, drop)
    for _ in range(-(-runs // A_PAIR)):
        differences, weight = several[rng.integers(len(several))]
        drawn.append(differences[rng.choice(len(differences), (A_PAIR, n), p=weight)])
    return np.concatenate(drawn)[:runs]


def one_measure(rng: Random, names: Sequence[str], n: int, drop: float, runs: int) -> Array:
    """Runs × questions, of each of the measures a part."""
    some = -(-runs // len(names))
    return np.concatenate([real(rng, (name,), n, drop, some)[:, :, 0] for name in names])[:runs]


def gate(
    differences: Array, *, alpha: float = ALPHA, beyond: float = 0.0, clusters: Sequence[int] | None = None
) -> Verdicts:
    """Whether each score of each run is called worse: runs × questions (× scores) → runs (× scores).

    Where no sum is larger than the root of the sum of squares, no p-value is below 3.5/64 (Hollom and Portier 2023),
    and no test is made.
    """
    whole = differences if differences.ndim == 3 else differences[:, :, None]
    shifted = whole - beyond
    if clusters is not None:
        shifted = np.stack(
            [shifted[:, np.equal(clusters, each)].sum(axis=1) for each in set(clusters)], axis=1
        )
    clear = (shifted.sum(axis=1) <= np.sqrt((shifted**2).sum(axis=1))).all(axis=1)
    called = np.zeros((len(whole), whole.shape[2]), dtype=bool)
    for run in np.flatnonzero(~clear):
        scores = [Drops(column.tolist(), beyond=beyond) for column in whole[run].T]
        found = [[0.0 if abs(d) <= ROUNDING else d for d in score.values] for score in scores]
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


def signed_ranks(differences: Array, alpha: float = ALPHA) -> Verdicts:
    """Wilcoxon's test, with the normal approximation for ties, and without the differences that are 0."""
    found = np.zeros(len(differences), dtype=bool)
    for i, run in enumerate(differences):
        kept = run[run != 0]
        if len(kept):
            ranks = stats.rankdata(np.abs(kept))
            spread = np.sqrt((ranks**2).sum())
            found[i] = stats.norm.sf((ranks * np.sign(kept)).sum() / spread) <= alpha
    return found


def others(rng: Random, differences: Array) -> list[Verdicts]:
    """The three tests that the gate is held against."""
    return [student(differences), bootstrap_fails(rng, differences), signed_ranks(differences)]


KINDS: dict[str, Callable[[Random, int, float, int], Array]] = {
    "real 0/1": lambda rng, n, drop, runs: one_measure(rng, BINARY, n, drop, runs),
    "real graded": lambda rng, n, drop, runs: one_measure(rng, REAL, n, drop, runs),
    "synthetic 0/1": lambda rng, n, drop, runs: synthetic(rng, "0/1", (runs, n), drop),
    "synthetic graded": lambda rng, n, drop, runs: synthetic(rng, "real", (runs, n), drop),
}
"""Kinds of differences: how those of so many runs of n questions are drawn."""


def cells(
    seed: int, sizes: Sequence[int]
) -> Iterator[tuple[str, int, Callable[[float, int], Array], Random]]:
    """Each kind and size: what draws runs with a true drop, and the generator it draws from."""
    for k, (kind, draw) in enumerate(KINDS.items()):
        for n in sizes:
            rng = np.random.default_rng([seed, k, n])
            yield kind, n, partial(draw, rng, n), rng


def single(runs: int, sizes: Sequence[int] = (30, 60, 100, 200, 1000)) -> None:
    """One score."""
    tests = ("gate", "today", "t", "boot", "Wilc")
    header(
        f"One score, {runs} runs: called worse at a true drop of 0 (false alarms), of 5 and of 10 points (power)",
        [f"{test} {drop}" for drop in (0, 5, 10) for test in tests],
    )
    for kind, n, draw, rng in cells(1, sizes):
        found = []
        for drop in (0.0, 0.05, 0.1):
            differences = draw(drop, runs)
            found += [gate(differences), fails(differences, 0.0), *others(rng, differences)]
        row(kind, n, found)


def family(runs: int, sizes: Sequence[int] = (30, 60, 100, 200)) -> None:
    """Six ranking measures of the same questions."""
    header(
        f"Six ranking measures, {runs} runs: any is called worse at a true drop of 0, 5 and 10 points of each; by the\n"
        "joint test, and each by itself at 5%/6 as today",
        [f"{how} {drop}" for drop in (0, 5, 10) for how in ("joint", "each", "t each")],
    )
    for n in sizes:
        rng = np.random.default_rng([2, n])
        found = []
        for drop in (0.0, 0.05, 0.1):
            differences = real(rng, FAMILY, n, drop, runs)
            columns = np.moveaxis(differences, 2, 0)
            found.append(gate(differences).any(axis=1))
            found.append(np.any([fails(column, 0.0, ALPHA / len(FAMILY)) for column in columns], axis=0))
            found.append(np.any([student(column, ALPHA / len(FAMILY)) for column in columns], axis=0))
        row("real", n, found)
    rng = np.random.default_rng(22)
    mixed = np.concatenate(
        [real(rng, FAMILY[:3], 100, 0.0, runs), real(rng, FAMILY[3:], 100, 0.1, runs)], axis=2
    )
    say("Three of them did not drop, three others did by 10 points: any of the former is called worse")
    row("real", 100, [gate(mixed)[:, :3].any(axis=1)])


def shifted(runs: int, sizes: Sequence[int] = (60, 200, 1000)) -> None:
    """A drop that is allowed."""
    header(
        f"max_drop 2, {runs} runs: fails at a true drop of 1.5, 2, 5 and 8 points, where a drop is to be shown, and\n"
        "where one beyond 2 points is",
        [f"{how} {drop:g}" for how in ("shown", "beyond") for drop in (1.5, 2, 5, 8)],
    )
    for kind, n, draw, _ in cells(3, sizes):
        drawn = [draw(drop, runs) for drop in (0.015, 0.02, 0.05, 0.08)]
        found = [gate(differences) & (differences.mean(axis=1) > 0.02 + 1e-12) for differences in drawn]
        row(kind, n, found + [gate(differences, beyond=0.02) for differences in drawn])


def rarely_gained(rng: Random, runs: int, n: int) -> Array:
    """No true drop: two in five questions lose an eighth, give or take half of that, and one in twenty gains all."""
    u = rng.random((runs, n))
    losses = rng.uniform(0.0625, 0.1875, (runs, n))
    return np.where(u < 0.4, losses, np.where(u >= 0.95, -1.0, 0.0))


def skewed(runs: int, sizes: Sequence[int] = (30, 60, 100, 200, 1000)) -> None:
    """Many questions lose a little, and a few gain all."""
    header(
        f"No drop, but lopsided, {runs} runs: called worse; and called worse with a note that this needs symmetry.\n"
        "Skewness -3.7; and a stronger one, of which a quarter of the samples of 60 have no gain",
        ["gate", "signs", "t", "boot", "Wilc", "noted"],
    )
    for kind, draw in (("skewness -3.7", rarely_gained), ("lopsided", lopsided)):
        for n in sizes:
            rng = np.random.default_rng([4, n])
            differences = draw(rng, runs, n)
            called = gate(differences)
            noted = called.copy()
            noted[called] = [
                joint_drop_test([Drops(run.tolist())], alpha=ALPHA).scores[0].needs_symmetry
                for run in differences[called]
            ]
            row(kind, n, [called, fails(differences, 0.0), *others(rng, differences), noted])


def small_scale(runs: int) -> None:
    """Similarities, whose differences are a hundredth of the scale."""
    header(
        f"Differences of a standard deviation of 0.01, {runs} runs: called worse at a true drop of 0, .002 and .005",
        [f"{test} {drop}" for drop in (0, 0.002, 0.005) for test in ("gate", "t")],
    )
    for n in (60, 200):
        rng = np.random.default_rng([5, n])
        found = []
        for drop in (0.0, 0.002, 0.005):
            differences = rng.normal(drop, 0.01, (runs, n))
            found += [gate(differences), student(differences)]
        row("similarity", n, found)


def clustered(runs: int) -> None:
    """25 questions a document, which move together."""
    header(
        f"25 questions a document, {runs} runs: called worse at a true drop of 0 and 10 points, by questions and by\n"
        "clusters",
        [f"{how} {drop}" for drop in (0, 10) for how in ("questions", "clusters")],
    )
    for documents in (20, 40, 80):
        rng = np.random.default_rng([6, documents])
        clusters = np.repeat(np.arange(documents), 25).tolist()
        found = []
        for drop in (0.0, 0.1):
            # Of 30% of the questions that change, four in five go the way of their document.
            way = np.where(rng.random((runs, documents, 1)) < 0.5 + drop / 0.36, 1.0, -1.0)
            own = np.where(rng.random((runs, documents, 25)) < 0.8, way, -way)
            moved = own * (rng.random((runs, documents, 25)) < 0.3)
            differences = moved.reshape(runs, -1)
            found += [gate(differences), gate(differences, clusters=clusters)]
        row("documents", documents * 25, found)


def repeats(runs: int) -> None:
    """A generator that gives the other verdict on one question in five."""
    header(
        f"Noise turns 20% of verdicts, {runs} runs, n = 100: called worse at a true drop of 0 and 10 points, from one\n"
        "run and from the means of three, on both sides",
        [f"{k} a side, {drop}" for drop in (0, 10) for k in (1, 3)],
    )
    rng = np.random.default_rng(7)
    found = []
    for drop in (0.0, 0.1):
        right = rng.random((runs, 100)) < 0.75
        # Noise hides two fifths of a drop: the score falls by 10 points where the retriever loses 16.7.
        kept = right & (rng.random((runs, 100)) >= drop / 0.6 / 0.75)
        for k in (1, 3):
            before, after = (
                np.mean((rng.random((k, runs, 100)) < 0.2) != side, axis=0) for side in (right, kept)
            )
            found.append(gate(before - after))
    row("0/1", 100, found)


def anchored(runs: int) -> None:
    """Twenty updates, each a little worse than the last."""
    header(
        f"20 updates of the baseline, {runs} runs: caught at least once; drops of 1 point each, and none.\n"
        "Against the last update at 5% (rolling, by the exact test of today), and against the anchor",
        [f"{how} {drop}" for drop in (1, 0) for how in ("rolling", "alpha/20", "spent")],
    )
    for n in (100, 200):
        rng = np.random.default_rng([8, n])
        found = []
        for drop in (0.01, 0.0):
            caught = np.zeros((3, runs), dtype=bool)
            for run in range(runs):
                right = rng.random(n) < 0.85
                # Every version turns 2% of the verdicts for better or worse, and loses what those before it lost.
                score = anchor = right ^ (rng.random(n) < 0.02)
                for update in range(1, 21):
                    right &= rng.random(n) >= drop / 0.85
                    new = right ^ (rng.random(n) < 0.02)
                    rolling, whole = _exact_p(score, new), _mid_p(anchor, new)
                    caught[:, run] |= [
                        rolling <= ALPHA,
                        whole <= ALPHA / 20,
                        whole <= anchor_alpha(ALPHA, update),
                    ]
                    score = new
            found += list(caught)
        row("0/1", n, found)


def _exact_p(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> float:
    lost, gained = int(np.sum(before & ~after)), int(np.sum(after & ~before))
    return _binary_p(lost, gained)


def _mid_p(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> float:
    return mid_p(int(np.sum(before & ~after)), int(np.sum(after & ~before)))


def stopped_early(runs: int) -> None:
    """How many questions are asked, and how it ends."""
    say(
        f"\nEarly stop, 30% of the questions changed, max_drop 2, {runs} runs: share of all questions asked; stopped\n"
        "for red and for green; red in all, the final test included, and red had all been asked\n"
        f"{'n':>6}{'drop':>6}{'asked':>8}{'red':>8}{'green':>8}{'red in all':>12}{'red of full':>12}"
    )
    for n in (300, 2000):
        for drop in (0.0, 0.015, 0.02, 0.05, 0.1):
            rng = np.random.default_rng([9, n, int(1000 * drop)])
            changed = int(0.3 * n)
            share = max(0.3, drop / 0.3)
            asked, ends = 0, np.zeros((4, runs), dtype=bool)
            for run in range(runs):
                u = rng.random(changed)
                losses = (share + drop / 0.3) / 2
                differences = np.where(u < losses, 1.0, np.where(u < share, -1.0, 0.0))
                stop = EarlyStop(questions=n, changed=changed, max_drop=0.02, alpha=ALPHA)
                for difference in differences:
                    if stop.verdict is not None:
                        break
                    stop.add(float(difference))
                asked += stop.asked
                p_value = mid_p(int((differences > 0).sum()), int((differences < 0).sum()))
                above = differences.sum() > 0.02 * n + 1e-9
                ends[0, run], ends[1, run] = stop.verdict == "fail", stop.verdict == "pass"
                ends[2, run] = ends[0, run] or (stop.verdict is None and above and p_value <= ALPHA / 2)
                ends[3, run] = above and p_value <= ALPHA
            red, green, in_all, of_full = ends.mean(axis=1)
            say(f"{n:6}{drop:6.3f}{asked / runs / n:8.3f}{red:8.1%}{green:8.1%}{in_all:12.1%}{of_full:12.1%}")


def noticed(runs: int, sizes: Sequence[int] = (60, 200, 1000)) -> None:
    """Whether the drop that is said to show does."""
    header(
        "Power at the drop that is said to show in 80% of runs, computed from runs without a drop, each with 200 of\n"
        "its own; made of whole losses; synthetic scores",
        ["max_drop 0", "max_drop 2"],
    )
    for kind in ("0/1", "real"):
        for n in sizes:
            rng = np.random.default_rng([10, n])
            found = []
            for max_drop in (0.0, 0.02):
                reds: list[Verdicts] = []
                for _ in range(max(1, runs // 200)):
                    before = synthetic(rng, kind, (1, n), 0.0)[0].tolist()
                    drop = shown_drop(before, alpha=ALPHA, max_drop=max_drop, loss=1.0)
                    if drop is not None and drop < 0.7:
                        after = synthetic(rng, kind, (200, n), drop)
                        reds.append(gate(after) & (after.mean(axis=1) > max_drop + 1e-12))
                found.append(np.concatenate(reds))
            row(f"synthetic {kind}", n, found)


def intervals(runs: int, sizes: Sequence[int] = (30, 60, 200, 1000)) -> None:
    """Whether the interval of the drop holds the true one."""
    header(
        f"90% intervals, {runs} runs: the true drop of 0 or 5 points lies below (left), or above (right)",
        [f"{side} {drop}" for drop in (0, 5) for side in ("below", "above")],
    )
    for kind, n, draw, _ in cells(11, sizes):
        found = []
        for drop in (0.0, 0.05):
            bounds = np.array([drop_interval(run.tolist(), alpha=ALPHA) for run in draw(drop, runs)])
            found += [bounds[:, 0] > drop + 1e-9, bounds[:, 1] < drop - 1e-9]
        row(kind, n, found)


def header(title: str, columns: Sequence[str]) -> None:
    """Print what is in a table."""
    global _WIDTHS  # noqa: PLW0603 - the table that is being printed
    _WIDTHS = [max(8, len(column) + 2) for column in columns]
    names = "".join(f"{column:>{width}}" for column, width in zip(columns, _WIDTHS, strict=True))
    say(f"\n{title}\n{'differences':18}{'n':>5}{names}")


_WIDTHS: list[int] = []


def row(kind: str, n: int, outcomes: Sequence[Verdicts]) -> None:
    """Print shares in percent."""
    figures = (f"{share.mean():{width}.1%}" for share, width in zip(outcomes, _WIDTHS, strict=False))
    say(f"{kind:18}{n:5}{''.join(figures)}")


TABLES = {
    table.__name__: table
    for table in (
        single,
        family,
        shifted,
        skewed,
        small_scale,
        clustered,
        repeats,
        anchored,
        stopped_early,
        noticed,
        intervals,
    )
}

if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for name in sys.argv[2:] or TABLES:
        TABLES[name](count)
