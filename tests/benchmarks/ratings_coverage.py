"""How often the interval of a rating holds the truth: `python tests/benchmarks/ratings_coverage.py [RUNS]`.

Battles are drawn from the model, with ties that leave the expected score as it is; a row is a way to
meet, a number of battles a pair and a share of ties. Each run's intervals hold the true ratings
or not; printed are the share over all systems, to be 95%, the lowest share of a system, and the mean
width. Runs without finite ratings are counted apart.
"""

import sys
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.stats.systems import Battle, UnratableError, bradley_terry

TRUE = {"a": 1200.0, "b": 1050.0, "c": 950.0, "d": 800.0}
MEETINGS = {
    "all pairs": list(combinations(TRUE, 2)),
    "with b alone": [("b", other) for other in TRUE if other != "b"],
}


def fought(
    pairs: list[tuple[str, str]], per_pair: int, ties: float, rng: np.random.Generator
) -> list[Battle]:
    """So many battles of each pair; of those that the weaker would win, `ties` end in one, and as many others."""
    battles = []
    for first, second in pairs:
        expected = 1 / (1 + 10 ** ((TRUE[second] - TRUE[first]) / 400))
        tied = ties * min(expected, 1 - expected)
        odds = [expected - tied, 2 * tied, 1 - expected - tied]
        scores = rng.choice([1.0, 0.5, 0.0], size=per_pair, p=odds)
        battles += [Battle(first, second, score) for score in scores.tolist()]
    return battles


def main(runs: int) -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    for meeting, pairs in MEETINGS.items():
        for per_pair in (50, 100, 400):
            for ties in (0.0, 0.3):
                held: dict[str, list[bool]] = {name: [] for name in TRUE}
                widths, unratable = [], 0
                for _ in range(runs):
                    try:
                        ratings = bradley_terry(fought(pairs, per_pair, ties, rng))
                    except UnratableError:
                        unratable += 1
                        continue
                    for name, rating in ratings.items():
                        held[name].append(rating.low <= TRUE[name] <= rating.high)
                        widths.append(rating.high - rating.low)
                shares = [fmean(row) for row in held.values()]
                print(  # noqa: T201
                    f"{meeting:13} {per_pair:4} a pair, ties {ties:.1f}: "
                    f"{fmean(shares):6.1%} (lowest {min(shares):6.1%}), width {fmean(widths):5.0f}, "
                    f"unratable {unratable} of {runs}",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
