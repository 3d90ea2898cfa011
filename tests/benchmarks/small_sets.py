"""How large a drop is red on a small set, though unsure: `python tests/benchmarks/small_sets.py [RUNS]`.

Pairs of the 31 variants of BM25 (`tests/benchmarks/variants.py`) that differ on at least 5% of the questions stand for
a retriever before and after a change. They are *equally good* if their means over the whole data set differ by at most
a point. In each of RUNS runs n questions are drawn, without replacement, and one variant is compared with the other.
The table has the share of the runs in which the drop is at least the stated size, and in which the test of the gate
(one test, alpha 5%) is significant; then, of pairs that lose 5 to 15 points, the share that either of both finds.
"""

import sys
from collections.abc import Iterator
from itertools import permutations

import numpy as np

from pytest_rageval.stats.mcnemar import mcnemar_p_value
from tests.benchmarks import variants

ALPHA = 0.05
SIZES = (20, 30, 60, 99)
DROPS = (0.06, 0.08, 0.1, 0.12, 0.15)
MEASURES = ("hit@1", "hit@3", "hit@5")
EQUAL = 0.01
WORSE = (0.05, 0.15)
MIN_CHANGED_SHARE = 0.05
DEFAULT_RUNS = 4000


def pairs(lowest: float, highest: float) -> list[variants.Array]:
    found = []
    for name in variants.SETS:
        for measure in MEASURES:
            columns = variants.scores(name)[measure].T
            for before, after in permutations(columns, 2):
                drops = before - after
                changed = np.count_nonzero(drops) / len(drops)
                if lowest <= drops.mean() <= highest and changed >= MIN_CHANGED_SHARE:
                    found.append(drops)
    return found


def samples(population: list[variants.Array], n: int, runs: int) -> Iterator[tuple[float, float]]:
    rng = np.random.default_rng(n)
    for _ in range(runs):
        drops = rng.choice(population[rng.integers(len(population))], n, replace=False)
        lost, gained = int((drops > 0).sum()), int((drops < 0).sum())
        yield float(drops.mean()), mcnemar_p_value(lost, gained, n)


def shares(population: list[variants.Array], n: int, runs: int) -> list[float]:
    results = np.array(list(samples(population, n, runs)))
    return [
        *(float((results[:, 0] >= drop - 1e-9).mean()) for drop in DROPS),
        float((results[:, 1] <= ALPHA).mean()),
    ]


def main(runs: int) -> None:
    for title, limits in (("equally good", (-EQUAL, EQUAL)), ("5 to 15 points worse", WORSE)):
        population = pairs(*limits)
        print(f"{title}: {len(population)} pairs, {runs} runs")  # noqa: T201
        print(f"{'n':>5}{''.join(f'{drop:>9.0%}' for drop in DROPS)}{'test':>9}")  # noqa: T201
        for n in SIZES:
            print(f"{n:5}{''.join(f'{share:9.1%}' for share in shares(population, n, runs))}")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_RUNS)
