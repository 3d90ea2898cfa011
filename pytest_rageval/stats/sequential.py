"""Tests that look more than once: at each question until the verdict is clear, and at each update of a baseline."""

import math
from typing import Final, Literal

__all__ = ["EarlyStop", "anchor_alpha"]

FIRST: Final = 10  # so many comparisons with an anchor share half of alpha equally
STAKES: Final = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.95)
"""Shares of the largest bet that cannot lose all: small ones win where drops are small and noise is large."""
SLACK: Final = 1e-9  # sums closer than this are equal but for rounding


class EarlyStop:
    """Decides after each question, in random order, whether the verdict is clear.

    A capital starts at 1 and bets on each difference x. Where its null hypothesis is true, it ever reaches 1/a with a
    probability of at most a (Ville's inequality), so it may be checked after each question. There are two:

    - *red*: against "the true mean drop is at most `beyond`", `Π (1 + λ·(x - beyond) / (1 + beyond))`. At 2/alpha
      (2·shares/alpha), and where the questions so far project a drop of the full set above `max_drop`, the verdict is
      "fail".
    - *green*: against "the full set drops by `max_drop` or more", `Π (1 + λ·(m - x) / (1 - m))`. Questions are drawn
      without replacement: m is the mean of those still to come if the full set drops by `max_drop`,
      `(max_drop·questions - sum so far) / questions to come`. At 1/alpha the verdict is "pass". It is "pass" too where
      m is 1 or more: the full set can no longer drop by more than `max_drop`.

    x is in units of `largest`. Each capital is the mean over twelve stakes λ from 0.02 to 0.95. A question whose
    passages did not change has the difference 0 without being asked: it counts in the full set only.

    If all questions came without a verdict, run the usual test at alpha/2. The probability of "fail" is then at most
    alpha where nothing got worse: alpha/2 of stopping for red, and alpha/2 of the final test.

    Args:
        questions: number of questions in the full set that can be compared.
        changed: number of those to be asked, whose difference is not known to be 0.
        max_drop: the drop that is allowed, at least 0, in units of the score.
        alpha: the level of the threshold, in (0, 0.5].
        beyond: 0, or `max_drop` where a drop of more than that is to be shown.
        largest: the largest possible difference, either way.
        shares: so many tests share the probability of a wrong "fail"; that of a wrong "pass" is each one's own.

    Raises:
        ValueError: a number is not in its range.

    Share of calls in simulations: `tests/benchmarks/false_alarms.py`.

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
            raise ValueError(f"of {questions} questions {changed} cannot be asked")
        if not 0 < alpha <= 0.5 or max_drop < 0 or not 0 <= beyond < largest:  # noqa: PLR2004 - as documented
            raise ValueError(
                f"no test has alpha={alpha}, max_drop={max_drop}, beyond={beyond}, largest={largest}"
            )
        self._questions, self._to_come = questions, changed
        self._alpha, self._shares, self._largest = alpha, shares, largest
        self._max_drop, self._beyond = max_drop / largest, beyond / largest
        self._worse, self._harmless = [1.0] * len(STAKES), [1.0] * len(STAKES)
        self._sum = 0.0
        self.asked = 0
        self.verdict: Literal["pass", "fail"] | None = None
        """None until it is clear; then it stays the same."""
        self._look()

    def add(self, drop: float) -> None:
        """Add the difference of an evaluated question; ValueError unless it is a number from -largest to largest."""
        x = drop / self._largest
        if not -1 <= x <= 1:
            raise ValueError(
                f"a difference of scores must be a number from {-self._largest} to {self._largest}, found {drop}"
            )
        self._require_another()
        # The mean of those to come if the full set drops by `max_drop`.
        mean = (self._max_drop * self._questions - self._sum) / self._to_come
        if -1 < mean < 1:
            self._harmless = _bet(self._harmless, (mean - x) / (1 - mean))
        self._met(x)
        self._sum += x
        self._to_come -= 1
        self.asked += 1
        self._look()

    def add_unchanged(self) -> None:
        """Add a question that is known not to have changed.

        Needed only where `beyond` is not 0: these questions must then come in the random order of all.
        """
        self._met(0.0)

    def skip(self) -> None:
        """Take a question that was asked and has no score out of the full set."""
        self._require_another()
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

    def _require_another(self) -> None:
        if not self._to_come:
            raise ValueError("more questions were evaluated than had changed")

    def _look(self) -> None:
        if self.verdict is not None:
            return
        if self.certain or _mean(self._harmless) >= 1 / self._alpha:
            self.verdict = "pass"
        elif self.asked and _mean(self._worse) >= 2 * self._shares / self._alpha:
            estimate = self._sum * (self.asked + self._to_come) / self.asked
            if estimate > self._limit:
                self.verdict = "fail"


def anchor_alpha(alpha: float, update: int) -> float:
    """Level of one comparison with an anchor, of all that follow the updates of the baseline.

    `alpha / 20` for the first ten, then `5·alpha / (k·(k - 1))` for the k-th: alpha/22 at the 11th, alpha/1,980 at the
    100th. The levels of all comparisons, however many, sum to alpha: `10·alpha/20 + Σ_{k > 10} 5·alpha/(k·(k-1)) =
    alpha`. By Bonferroni, alpha bounds the probability that any of them calls a retriever worse than the anchor if none
    is.

    Args:
        alpha: the level of the threshold, in (0, 0.5].
        update: 1 for the first comparison after the anchor was pinned. All runs until the next update have
            the same number, since only one of them is merged.

    Raises:
        ValueError: `update` is below 1.

    >>> [round(anchor_alpha(0.05, update), 6) for update in (1, 10, 11, 20, 100)]
    [0.0025, 0.0025, 0.002273, 0.000658, 2.5e-05]
    """
    if update < 1:
        raise ValueError(f"updates are counted from 1, found {update}")
    return alpha / (2 * FIRST) if update <= FIRST else alpha * FIRST / (2 * update * (update - 1))


def _bet(capitals: list[float], win: float) -> list[float]:
    """The capital of each stake after a win, which is at least -1."""
    return [capital * (1 + stake * win) for capital, stake in zip(capitals, STAKES, strict=True)]


def _mean(capitals: list[float]) -> float:
    return math.fsum(capitals) / len(capitals)
