"""Single questions that got worse, from repeats before and after: Fisher's exact test with Tarone's correction."""

from collections.abc import Mapping
from math import comb
from typing import Final, NamedTuple

MIN_RUNS: Final = 3
"""With fewer repeats on either side not even 2 of 2 against 0 of 2 is significant at 5%."""


class Counts(NamedTuple):
    """In how many repeats a question was right.

    Attributes:
        right_before: the number in the baseline.
        runs_before: the number of repeats in the baseline.
        right_now: the number in this run.
        runs_now: the number of repeats in this run.
    """

    right_before: int
    runs_before: int
    right_now: int
    runs_now: int

    def __str__(self) -> str:
        """Return the counts as text, such as "5 of 5 to 0 of 5"."""
        return f"{self.right_before} of {self.runs_before} to {self.right_now} of {self.runs_now}"

    @property
    def p_value(self) -> float:
        """The probability of so few right repeats now, or fewer, given how many are right in all repeats.

        >>> round(Counts(5, 5, 0, 5).p_value, 4)  # 1 / 252
        0.004
        """
        return self._tail(self.right_now)

    @property
    def smallest_p_value(self) -> float:
        """The p-value if as few of the right repeats as possible were now."""
        return self._tail(max(0, self.right_before + self.right_now - self.runs_before))

    def _tail(self, right_now: int) -> float:
        right = self.right_before + self.right_now
        least = max(0, right - self.runs_before)
        ways = sum(
            comb(self.runs_now, x) * comb(self.runs_before, right - x) for x in range(least, right_now + 1)
        )
        return ways / comb(self.runs_before + self.runs_now, right)


def surely_worse(counts: Mapping[str, Counts], alpha: float) -> dict[str, Counts]:
    """Return the questions that got worse by more than chance does to any of them, at the level alpha.

    The questions are tested one by one (Fisher's exact test, one-sided), and the level is divided among those that
    could be significant at all (Tarone): k is the smallest number for which at most k questions have a smallest
    p-value of alpha / k or less. A question that is right, or wrong, in every repeat of both runs costs nothing.

    Args:
        counts: for each question, in how many repeats it was right, whether that changed or not.
        alpha: the probability, at most, that any question is returned although none got worse.

    Source: Tarone (1990), "A modified Bonferroni method for discrete data".

    >>> stable = {f"q{n}": Counts(5, 5, 5, 5) for n in range(100)}
    >>> [*surely_worse(stable | {"q17": Counts(5, 5, 0, 5)}, 0.05)]
    ['q17']
    """
    tested = {
        name: count for name, count in counts.items() if min(count.runs_before, count.runs_now) >= MIN_RUNS
    }
    smallest = sorted(count.smallest_p_value for count in tested.values())
    divisor = next(k for k in range(1, len(smallest) + 2) if sum(p <= alpha / k for p in smallest) <= k)
    return {name: count for name, count in tested.items() if count.p_value <= alpha / divisor}
