"""Sequential tests: after each question until the verdict is clear, and after each update of the baseline."""

import math
from typing import Final, Literal

N_EQUAL_LEVELS: Final = 10  # the first comparisons with an anchor have the same level; together half of alpha
STAKES: Final = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.95)
"""Stakes λ as shares of the largest bet that cannot lose all. Small stakes suit small drops with much noise."""
SUM_TOLERANCE: Final = 1e-9  # sums of differences that differ by less are equal up to floating-point rounding


class SequentialDropTest:
    """Decides after each question, in random order, whether the verdict on a drop is clear.

    It is a test by betting. A capital starts at 1 and bets on each difference x. If its null hypothesis is true, the
    probability that the capital ever reaches 1/a is at most a (Ville's inequality), so it may be checked after each
    question. There are two capitals:

    - The *fail* capital bets against "the true mean drop is at most `beyond`": `Π (1 + λ·(x - beyond) / (1 + beyond))`.
      The verdict is "fail" if it reaches `2·alpha_shares/alpha` and the questions so far project a drop of the full set
      above `max_drop`.
    - The *pass* capital bets against "the full set drops by `max_drop` or more": `Π (1 + λ·(m - x) / (1 - m))`.
      Questions are drawn without replacement: m is the mean of the remaining questions if the full set drops by
      `max_drop`, `(max_drop·questions - sum so far) / remaining questions`. The verdict is "pass" if the capital
      reaches 1/alpha, or if m is 1 or more: the full set can then no longer drop by more than `max_drop`.

    x is in units of `largest`. Each capital is the mean over twelve stakes λ from 0.02 to 0.95. A question whose
    passages did not change has the difference 0 without being evaluated; it counts in the size of the full set only.

    If all questions were evaluated without a verdict, the caller runs the usual test at alpha/2. The probability of
    "fail" is then at most alpha if nothing got worse: alpha/2 for the fail capital, and alpha/2 for the final test.

    Args:
        questions: number of questions of the full set that can be compared.
        changed: number of these questions whose difference is not known to be 0, so that they must be evaluated.
        max_drop: the drop that is allowed, at least 0, in units of the score.
        alpha: the level of the threshold, in (0, 0.5].
        beyond: the mean drop under the null hypothesis: 0, or `max_drop` if a drop of more than that must be shown.
        largest: the largest possible difference in either direction.
        alpha_shares: number of tests that share the probability of a wrong "fail". The probability of a wrong "pass" is
            not shared.

    Attributes:
        evaluated: number of questions that were evaluated and have a score.
        verdict: None until it is clear; then it does not change any more.

    Raises:
        ValueError: a number is not in its range.

    Share of evaluated questions in simulations: `tests/benchmarks/false_alarms.py`.

    Source: Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting", sections 4 and 5;
    (2020), "Confidence sequences for sampling without replacement".

    >>> test = SequentialDropTest(questions=100, changed=40, max_drop=0.02, alpha=0.05)
    >>> while test.verdict is None:
    ...     test.add(1.0)
    >>> test.verdict, test.evaluated
    ('fail', 9)
    """

    def __init__(  # noqa: PLR0913 - the parameters of the test
        self,
        *,
        questions: int,
        changed: int,
        max_drop: float,
        alpha: float,
        beyond: float = 0.0,
        largest: float = 1.0,
        alpha_shares: int = 1,
    ) -> None:
        if not 0 <= changed <= questions:
            raise ValueError(f"of {questions} questions {changed} cannot be evaluated")
        if not 0 < alpha <= 0.5 or max_drop < 0 or not 0 <= beyond < largest:  # noqa: PLR2004 - as documented
            raise ValueError(
                f"no test has alpha={alpha}, max_drop={max_drop}, beyond={beyond}, largest={largest}"
            )
        self._questions, self._remaining = questions, changed
        self._alpha, self._alpha_shares, self._largest = alpha, alpha_shares, largest
        self._max_drop, self._beyond = max_drop / largest, beyond / largest
        self._fail_capitals, self._pass_capitals = [1.0] * len(STAKES), [1.0] * len(STAKES)
        self._sum = 0.0
        self.evaluated: int = 0
        self.verdict: Literal["pass", "fail"] | None = None
        self._update_verdict()

    def add(self, drop: float) -> None:
        """Add the difference of an evaluated question.

        Raises:
            ValueError: the difference is not a number from -largest to largest, or all changed questions were added.
        """
        x = drop / self._largest
        if not -1 <= x <= 1:
            raise ValueError(
                f"a difference of scores must be a number from {-self._largest} to {self._largest}, found {drop}"
            )
        self._require_remaining()
        # The mean of the remaining questions if the full set drops by `max_drop`.
        mean = (self._max_drop * self._questions - self._sum) / self._remaining
        if -1 < mean < 1:
            self._pass_capitals = _bet(self._pass_capitals, (mean - x) / (1 - mean))
        self._bet_on_fail(x)
        self._sum += x
        self._remaining -= 1
        self.evaluated += 1
        self._update_verdict()

    def add_unchanged(self) -> None:
        """Add a question that is known to be unchanged, with the difference 0.

        Required only if `beyond` is not 0. The unchanged questions must then be part of the random order.
        """
        self._bet_on_fail(0.0)

    def skip(self) -> None:
        """Remove a question from the full set, because it was evaluated and has no score.

        Raises:
            ValueError: all changed questions were added.
        """
        self._require_remaining()
        self._remaining -= 1
        self._questions -= 1
        self._update_verdict()

    @property
    def estimated_drop(self) -> float:
        """The drop of the full set, estimated from the evaluated questions; 0 before the first one."""
        if not self.evaluated:
            return 0.0
        return (
            self._largest * self._sum * (self.evaluated + self._remaining) / self.evaluated / self._questions
        )

    @property
    def is_certain(self) -> bool:
        """Whether the full set cannot drop by more than `max_drop`, whatever the remaining scores are."""
        return self._sum + self._remaining <= self._max_sum

    @property
    def _max_sum(self) -> float:
        """The sum of the differences of the full set if it drops by `max_drop`, with a tolerance for rounding."""
        return self._max_drop * self._questions + SUM_TOLERANCE

    def _bet_on_fail(self, x: float) -> None:
        self._fail_capitals = _bet(self._fail_capitals, (x - self._beyond) / (1 + self._beyond))

    def _require_remaining(self) -> None:
        if not self._remaining:
            raise ValueError("more questions were evaluated than had changed")

    def _update_verdict(self) -> None:
        if self.verdict is not None:
            return
        if self.is_certain or _mean(self._pass_capitals) >= 1 / self._alpha:
            self.verdict = "pass"
        elif self.evaluated and _mean(self._fail_capitals) >= 2 * self._alpha_shares / self._alpha:
            projected_sum = self._sum * (self.evaluated + self._remaining) / self.evaluated
            if projected_sum > self._max_sum:
                self.verdict = "fail"


def anchor_alpha(alpha: float, update: int) -> float:
    """The level of the k-th comparison with an anchor, by alpha spending over all updates of the baseline.

    `alpha / 20` for the first ten comparisons, then `5·alpha / (k·(k - 1))` for the k-th: alpha/22 for the 11th,
    alpha/1,980 for the 100th. The levels of all comparisons, however many, sum to alpha: `10·alpha/20 + Σ_{k > 10}
    5·alpha/(k·(k-1)) = alpha`. By Bonferroni, the probability that any of them calls a retriever worse than the anchor,
    if it never is, is at most alpha.

    Args:
        alpha: the level of the threshold, in (0, 0.5].
        update: k, which is 1 for the first comparison after the anchor was pinned. All runs until the next update have
            the same number, since only one of them is merged.

    Raises:
        ValueError: `update` is below 1.

    >>> [round(anchor_alpha(0.05, update), 6) for update in (1, 10, 11, 20, 100)]
    [0.0025, 0.0025, 0.002273, 0.000658, 2.5e-05]
    """
    if update < 1:
        raise ValueError(f"updates are counted from 1, found {update}")
    if update <= N_EQUAL_LEVELS:
        return alpha / (2 * N_EQUAL_LEVELS)
    return alpha * N_EQUAL_LEVELS / (2 * update * (update - 1))


def _bet(capitals: list[float], win: float) -> list[float]:
    """The capital of each stake after a bet on `win`, which is at least -1."""
    return [capital * (1 + stake * win) for capital, stake in zip(capitals, STAKES, strict=True)]


def _mean(capitals: list[float]) -> float:
    return math.fsum(capitals) / len(capitals)
