"""Coverage of the intervals of ratings: `python tests/benchmarks/ratings_coverage.py [RUNS]`.

Battles are drawn from the Bradley-Terry model. Ties do not change the expected score. Each row has the pairs of systems
that meet, the number of battles per pair, and the share of ties. The script prints the share of intervals that contain
the true rating, over all systems, which should be 95%; the lowest share of a system; the mean width; and the number of
runs without finite ratings.
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


def draw_battles(
    pairs: list[tuple[str, str]], per_pair: int, ties: float, rng: np.random.Generator
) -> list[Battle]:
    """Return random battles.

    Args:
        pairs: the pairs of systems that meet.
        per_pair: the number of battles of each pair.
        ties: the share of the weaker system's wins that become ties. The same number of the stronger system's wins
            become ties, so that the expected score does not change.
        rng: the random generator.
    """
    battles = []
    for first, second in pairs:
        expected = 1 / (1 + 10 ** ((TRUE[second] - TRUE[first]) / 400))
        half_tied = ties * min(expected, 1 - expected)
        probabilities = [expected - half_tied, 2 * half_tied, 1 - expected - half_tied]
        scores = rng.choice([1.0, 0.5, 0.0], size=per_pair, p=probabilities)
        battles += [Battle(first, second, score) for score in scores.tolist()]
    return battles


def main(runs: int) -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    for meeting, pairs in MEETINGS.items():
        for per_pair in (50, 100, 400):
            for ties in (0.0, 0.3):
                covered: dict[str, list[bool]] = {name: [] for name in TRUE}
                widths, unratable = [], 0
                for _ in range(runs):
                    try:
                        ratings = bradley_terry(draw_battles(pairs, per_pair, ties, rng))
                    except UnratableError:
                        unratable += 1
                        continue
                    for name, rating in ratings.items():
                        covered[name].append(rating.low <= TRUE[name] <= rating.high)
                        widths.append(rating.high - rating.low)
                shares = [fmean(row) for row in covered.values()]
                print(  # noqa: T201
                    f"{meeting:13} {per_pair:4} a pair, ties {ties:.1f}: "
                    f"{fmean(shares):6.1%} (lowest {min(shares):6.1%}), width {fmean(widths):5.0f}, "
                    f"unratable {unratable} of {runs}",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
