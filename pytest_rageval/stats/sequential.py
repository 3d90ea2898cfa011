"""Sequential tests: after each question until the verdict is clear, and after each update of the baseline."""

import math
from itertools import cycle, islice
from statistics import NormalDist
from typing import Final, Literal

EQUAL_UPDATES: Final = 20  # so many comparisons with an anchor have the same level; later ones a lower one
ANCHOR_SHARES: Final = 8  # alpha is divided by this; found by simulation (`anchor_alpha`)
CLEAR: Final = 0.01  # the probability that all questions would lead to another verdict than the clear one
PRIOR_QUESTIONS: Final = 4  # imagined questions: one lost, one gained, two without a change
MIN_CHANGES: Final = 8  # with fewer observed changes, changes of the whole scale are assumed possible
SUM_TOLERANCE: Final = 1e-9  # sums of differences that differ by less are equal up to floating-point rounding
NORMAL: Final = NormalDist()


class CurtailedDropTest:
    """Decides after each question, in random order, whether the verdict of the test of all questions is clear.

    The test of all questions is `pytest_rageval.stats.paired_tests.drop_p_values` at alpha, and it fails only with a
    mean drop above `max_drop`. The verdict is "fail" if the predicted probability that it fails is at least 99%, and
    "pass" if that is at most 1%, or if the remaining questions cannot raise the drop above `max_drop`. After all
    questions the caller runs the test itself, so that nothing is paid for the looks but these predictions.

    The remaining questions are predicted from those so far, and four more: one lost, one gained and two without a
    change, of the largest size that is assumed possible. With m and q the mean and the mean square of these w
    differences, the sum of the r remaining ones is normal with the mean `r·m` and the variance
    `r·(q - m²)·(1 + r/w)`. The test fails if the sum of all is above `max_drop·n` and
    `beyond·n + z·sqrt(Σ(x - beyond)²)`. Differences of several sizes need more than this approximation to fail: the
    test itself must be significant on all questions, if the remaining ones repeat those so far.

    The full set has n `questions` that can be compared; the difference of `changed` ones is not known to be 0, so that
    they must be evaluated. `beyond` is the mean drop under the null hypothesis: 0, or `max_drop` if a drop of more than
    that must be shown. `largest` is the largest possible difference in either direction. `verdict` is None until it is
    clear; then it does not change any more.

    Shares of evaluated questions, and of other verdicts than that of all questions: the table `stopped_early` of
    `tests/benchmarks/false_alarms.py`. With fewer than about 300 questions most of the changed ones are evaluated.

    Source: stochastic curtailment: Lan, Simon and Halperin (1982), "Stochastically curtailed tests in long-term
    clinical trials"; by predictive probability: Spiegelhalter, Freedman and Blackburn (1986), "Monitoring clinical
    trials: conditional or predictive power?".

    >>> test = CurtailedDropTest(questions=100, changed=40, max_drop=0.02, alpha=0.05)
    >>> while test.verdict is None:
    ...     test.add(1.0)
    >>> test.verdict, test.evaluated
    ('fail', 7)
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
    ) -> None:
        if not 0 <= changed <= questions:
            raise ValueError(f"of {questions} questions {changed} cannot be evaluated")
        if not 0 < alpha <= 0.5 or max_drop < 0 or not 0 <= beyond < largest:  # noqa: PLR2004 - as documented
            raise ValueError(
                f"no test has alpha={alpha}, max_drop={max_drop}, beyond={beyond}, largest={largest}"
            )
        self._questions, self._remaining = questions, changed
        self._max_drop, self._beyond, self._alpha, self._largest = max_drop, beyond, alpha, largest
        self._drops: list[float] = []
        self._sum = self._square = 0.0
        self.verdict: Literal["pass", "fail"] | None = None
        self._update_verdict()

    def add(self, drop: float) -> None:
        """Add the difference of an evaluated question; raise ValueError if it is out of range, or one too many."""
        if not -self._largest <= drop <= self._largest:
            raise ValueError(
                f"a difference of scores must be a number from {-self._largest} to {self._largest}, found {drop}"
            )
        self._take_one()
        self._drops.append(drop)
        self._sum += drop
        self._square += drop * drop
        self._update_verdict()

    def skip(self) -> None:
        """Remove a question from the full set, because it was evaluated and has no score."""
        self._take_one()
        self._questions -= 1
        self._update_verdict()

    @property
    def evaluated(self) -> int:
        """The number of questions that were evaluated and have a score."""
        return len(self._drops)

    @property
    def estimated_drop(self) -> float:
        """The drop of the full set, estimated from the evaluated questions; 0 before the first one."""
        if not self._drops:
            return 0.0
        return self._sum * (self.evaluated + self._remaining) / self.evaluated / self._questions

    @property
    def is_certain(self) -> bool:
        """Whether the full set cannot drop by more than `max_drop`, whatever the remaining scores are."""
        allowed = self._max_drop * self._questions + SUM_TOLERANCE
        return self._sum + self._remaining * self._largest <= allowed

    def _take_one(self) -> None:
        if not self._remaining:
            raise ValueError("more questions were evaluated than had changed")
        self._remaining -= 1

    def _update_verdict(self) -> None:
        if self.verdict is not None:
            return
        if self.is_certain:
            self.verdict = "pass"
        elif self._drops and self._remaining:
            chance = self._chance_of_failing()
            if chance <= CLEAR:
                self.verdict = "pass"
            elif chance >= 1 - CLEAR and self._fails_if_the_rest_is_like_the_first():
                self.verdict = "fail"

    def _chance_of_failing(self) -> float:
        sizes = [abs(drop) for drop in self._drops if drop]
        size = min(self._largest, 2 * max(sizes)) if len(sizes) >= MIN_CHANGES else self._largest
        n, r, w = self._questions, self._remaining, self.evaluated + PRIOR_QUESTIONS
        mean, square = self._sum / w, (self._square + 2 * size * size) / w
        total = self._sum + r * mean
        deviations = self._square + r * square + self._beyond * (n * self._beyond - 2 * total)
        z = NORMAL.inv_cdf(1 - self._alpha)
        needed = max(
            self._max_drop * n + SUM_TOLERANCE, self._beyond * n + z * math.sqrt(max(0.0, deviations))
        )
        spread = math.sqrt(r * (square - mean * mean) * (1 + r / w))
        return NORMAL.cdf((total - needed) / spread)

    def _fails_if_the_rest_is_like_the_first(self) -> bool:
        # Imported late: few runs stop early.
        from pytest_rageval.stats.paired_tests import PairedDrops, drop_p_values  # noqa: PLC0415

        drops = list(islice(cycle(self._drops), self.evaluated + self._remaining))
        drops += [0.0] * (self._questions - len(drops))
        tested = PairedDrops(drops, self._beyond, self._largest)
        return drop_p_values([tested], alpha=self._alpha).p_values[0] <= self._alpha


def anchor_alpha(alpha: float, update: int) -> float:
    """The level of the k-th comparison with an anchor: `alpha / 8`; from the 20th on `47.5·alpha / (k·(k - 1))`.

    The comparisons depend on each other, so that alpha/20 for each of 20 (Bonferroni) is too strict. In the table
    `anchored` of `tests/benchmarks/false_alarms.py`, 20 updates that lose half a point each are called worse than the
    anchor in 71% of runs with 100 questions, and in 61% at alpha/20. Without a drop any of 20 comparisons calls the
    retriever worse in 4 to 6% of runs where questions change by noise or for good, and in 1 to 3% at alpha/20.

    `update` is k, which is 1 for the first comparison after the anchor was pinned. All runs until the next update have
    the same number, since only one of them is merged.

    >>> [round(anchor_alpha(0.05, update), 6) for update in (1, 20, 21, 40, 100)]
    [0.00625, 0.00625, 0.005655, 0.001522, 0.00024]
    """
    if update < 1:
        raise ValueError(f"updates are counted from 1, found {update}")
    share = min(1.0, EQUAL_UPDATES * (EQUAL_UPDATES - 1) / max(1, update * (update - 1)))
    return alpha / ANCHOR_SHARES * share
