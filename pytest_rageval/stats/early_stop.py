"""Stop asking when the verdict on a drop is clear: betting martingales over questions in random order."""

import math
from typing import Final, Literal

__all__ = ["EarlyStop"]

STAKES: Final = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.95)
"""Shares of the largest bet that cannot ruin: small ones win where drops are small and noise large."""
SLACK: Final = 1e-9
"""Sums closer than this are equal but for rounding."""


class EarlyStop:
    """Watches the differences of questions in random order, and says when no more are needed.

    Two capitals start at 1 and bet on each difference x, divided by `largest`, that comes:

    - *red*: against "the true mean drop is at most `beyond`", `Π (1 + λ·(x - beyond) / (1 + beyond))`.
      Where that is true it reaches 2/alpha with a probability of at most alpha/2, however often it is looked at
      (2·shares/alpha where the level is shared).
      The verdict is then "fail", if the drop of the full set, estimated from the questions so far, is above `max_drop`.
    - *green*: against "the full set drops by `max_drop` or more", `Π (1 + λ·(m - x) / (1 - m))`. The differences of
      the set would then sum to at least T, `max_drop`·questions, and m is what the questions to come would have
      to lose on average: `(T - sum so far) / questions to come`, as draws are without replacement. It reaches
      1/alpha with a probability of at most alpha if the full set does drop by that; the verdict is then
      "pass". So it is where m is 1 or more: the full set can no longer reach T.

    Each capital is the mean over twelve stakes λ from 0.02 to 0.95 of what they win. A question whose passages did not
    change has a difference of 0 without being asked: it counts in the full set, and is not to come. If all have come
    the verdict is that of the usual test, at alpha/2: with both, the probability of "fail" is at most alpha where
    nothing got worse.

    Args:
        questions: in the full set, all that can be compared.
        changed: those to be asked, whose difference is not known to be 0.
        max_drop: the drop that is allowed, at least 0, in units of the score.
        alpha: the level of the threshold, in (0, 0.5].
        beyond: 0, or `max_drop` where a drop of more than that is to be shown.
        largest: the largest difference there can be, either way.
        shares: among so many the probability of a wrong "fail" is divided; that of a wrong "pass" is not.

    Raises:
        ValueError: the numbers contradict each other.

    Of 2,000 questions of which 600 changed and 30% of these differ, at alpha 0.05 and `max_drop=0.02`, the share that
    is asked is .14 where nothing got worse, .05 at a drop of 5 points and .014 at 10
    (`tests/benchmarks/drop_tests.py`).

    Source: Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting", sections 4 and 5;
    (2020), "Confidence sequences for sampling without replacement".

    >>> stop = EarlyStop(questions=100, changed=40, max_drop=0.02, alpha=0.05)
    >>> while stop.verdict is None:
    ...     stop.add(1.0)
    >>> stop.verdict, stop.asked
    ('fail', 9)
    """

    def __init__(  # noqa: PLR0913 - what the verdict depends on
        self,
        *,
        questions: int,
        changed: int,
        max_drop: float,
        alpha: float,
        beyond: float = 0.0,
        largest: float = 1.0,
        shares: int = 1,
    ) -> None:
        if not 0 <= changed <= questions:
            message = f"of {questions} questions {changed} cannot be asked"
            raise ValueError(message)
        if not 0 < alpha <= 0.5 or max_drop < 0 or not 0 <= beyond < largest:  # noqa: PLR2004 - as documented
            message = f"no test has alpha={alpha}, max_drop={max_drop}, beyond={beyond}, largest={largest}"
            raise ValueError(message)
        self._questions, self._to_come = questions, changed
        self._alpha, self._shares, self._largest = alpha, shares, largest
        self._max_drop, self._beyond = max_drop / largest, beyond / largest
        self._worse, self._harmless = [1.0] * len(STAKES), [1.0] * len(STAKES)
        self._sum = 0.0
        self.asked = 0
        self.verdict: Literal["pass", "fail"] | None = None
        """`fail` or `pass` once it is clear, and then for good; None while it is not, or where all came without."""
        self._look()

    def add(self, drop: float) -> None:
        """A question was asked: score of the baseline less the new score.

        Raises:
            ValueError: the difference is no number from -largest to largest, or more came than there are.
        """
        x = drop / self._largest
        if not -1 <= x <= 1:
            message = (
                f"a difference of scores is a number from {-self._largest} to {self._largest}, found {drop}"
            )
            raise ValueError(message)
        if not self._to_come:
            raise ValueError("more questions came than had changed")
        mean = self._mean_to_come()
        if -1 < mean < 1:
            self._harmless = _bet(self._harmless, (mean - x) / (1 - mean))
        self._met(x)
        self._sum += x
        self._to_come -= 1
        self.asked += 1
        self._look()

    def add_unchanged(self) -> None:
        """A question came that is known not to have changed.

        Where `beyond` is not 0 these come in the random order of all; otherwise they need not be told.
        """
        self._met(0.0)

    def skip(self) -> None:
        """A question that was asked has no score: it is not of the full set.

        Raises:
            ValueError: more came than there are.
        """
        if not self._to_come:
            raise ValueError("more questions came than had changed")
        self._to_come -= 1
        self._questions -= 1
        self._look()

    @property
    def drop(self) -> float:
        """The drop of the full set, estimated from the questions so far; 0 before the first."""
        if not self.asked:
            return 0.0
        return self._largest * self._sum * (self.asked + self._to_come) / self.asked / self._questions

    @property
    def certain(self) -> bool:
        """Whether the full set can no longer drop by more than `max_drop`, whatever comes."""
        return self._sum + self._to_come <= self._limit

    @property
    def _limit(self) -> float:
        return self._max_drop * self._questions + SLACK

    def _met(self, x: float) -> None:
        self._worse = _bet(self._worse, (x - self._beyond) / (1 + self._beyond))

    def _mean_to_come(self) -> float:
        """What the questions to come would lose on average, if the full set dropped by `max_drop`."""
        return (self._max_drop * self._questions - self._sum) / self._to_come

    def _look(self) -> None:
        if self.verdict is not None:
            return
        if self.certain or _mean(self._harmless) >= 1 / self._alpha:
            self.verdict = "pass"
        elif self.asked and _mean(self._worse) >= 2 * self._shares / self._alpha:
            estimate = self._sum * (self.asked + self._to_come) / self.asked
            if estimate > self._limit:
                self.verdict = "fail"


def _bet(capitals: list[float], win: float) -> list[float]:
    """What each stake has after a win, which is at least -1."""
    return [capital * (1 + stake * win) for capital, stake in zip(capitals, STAKES, strict=True)]


def _mean(capitals: list[float]) -> float:
    return math.fsum(capitals) / len(capitals)
