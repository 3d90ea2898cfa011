"""`Verdict`: whether a score is within the bounds of its threshold, with the reason as text; the bounds on its mean."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, stdev
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pytest_rageval.core.errors import Cause
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.text import join_first
from pytest_rageval.stats.intervals import MEAN, SCORE_TOLERANCE

if TYPE_CHECKING:
    from pytest_rageval.gate.comparison import Comparison
    from pytest_rageval.gate.drop_types import DropTestResult
    from pytest_rageval.gate.ratio import RatioTestResult

Status = Literal["pass", "inconclusive", "fail", "error"]

WORST_FIRST: Final[tuple[Status, ...]] = ("error", "fail", "inconclusive", "pass")

COIN_TOSS: Final = 0.2
"""From this probability of the other verdict on, a bound on a mean is a coin toss."""

MIN_COIN_TOSS: Final = 10  # with fewer questions the spread of their scores is unknown


MAX_LISTED_IDS: Final = 10  # number of examples whose ids a text lists


MAX_LISTED_REASONS: Final = 3  # number of different reasons for a missing score that a text lists


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a threshold.

    Attributes:
        status: the status; with `inconclusive` the test passes.
        reason: the reason, in a sentence.
        warnings: warnings, which are shown even if the test passes.
        brief: the violated bounds of a failure, such as "0.593 < 0.85; drop 0.346 > 0.02"; else empty.
    """

    status: Status
    reason: str
    warnings: tuple[str, ...] = ()
    brief: str = ""


class Measured(NamedTuple):
    """What a threshold is decided on.

    Attributes:
        score: the score of the threshold's slice.
        comparison: the comparison with the baseline; None without a baseline, which passes with a warning.
        drop: the test of `max_drop`; None if it is not tested.
        anchor: the test of `max_total_drop`; None if it is not tested, or without an anchor, which passes with a
            warning.
        ratio: the comparison of `max_ratio` with the reference; None without it.
        deterministic: whether no model is in the score, so that it is the same in each run of the same retriever.
    """

    score: Score
    comparison: "Comparison | None" = None
    drop: "DropTestResult | None" = None
    anchor: "DropTestResult | None" = None
    ratio: "RatioTestResult | None" = None
    deterministic: bool = False


def mean_bounds(threshold: Threshold) -> Iterator[tuple[str, float, str, str]]:
    """Yield `min` and `max` if they are set: the keyword, its value, and a description and sign of its violation."""
    if threshold.min is not None:
        yield "min", threshold.min, "below the minimum", "<"
    if threshold.max is not None:
        yield "max", threshold.max, "above the maximum", ">"


def is_violated(mean: float, keyword: str, bound: float) -> bool:
    """Return True if a mean is beyond a bound, `min` or `max`."""
    # The mean of n equal numbers can differ from them in the last bit; that is not a violation.
    return mean < bound - SCORE_TOLERANCE if keyword == "min" else mean > bound + SCORE_TOLERANCE


def coin_toss_text(measured: Measured, bound: float) -> str:
    """Return how many other sets of such questions would pass, if that is many; "" where only the retriever varies."""
    score = measured.score
    if measured.deterministic or score.n < MIN_COIN_TOSS or score.statistic is not MEAN:
        return ""
    error = stdev(score.values) / sqrt(score.n)
    chance = NormalDist().cdf(-abs(score - bound) / error) if error else 0.0
    if chance < COIN_TOSS:
        return ""
    return f"; of other sets of {score.n} such questions about 1 in {round(1 / chance)} would not be"


def excluded_failures_warnings(score: Score) -> Iterator[str]:
    """Yield a warning that the mean of a score without bounds excludes examples on which the retriever failed."""
    failed = score.lacking("retriever")
    if failed:
        mean = score.counting(score.reach[0], "retriever")
        yield f"{excluded_text(score, failed)}; with {score.reach[0]:g} for each of them it would be {mean:.3f}"


def bounds_at_risk(score: Score, threshold: Threshold, *causes: Cause) -> Iterator[tuple[str, str]]:
    """Yield the bounds that are violated if examples unscored for these causes count with the worst score.

    Each is a pair of the keyword and a description.
    """
    unscored = score.lacking(*causes)
    if not unscored:
        return
    for keyword, bound, how, _ in mean_bounds(threshold):
        worst = score.reach[keyword == "max"]
        mean = score.counting(worst, *causes)
        if is_violated(mean, keyword, bound):
            mean_text = format_against(mean, bound)
            text = (
                f"{excluded_text(score, unscored)}; with {worst:g} for each of them it would be {mean_text}"
            )
            yield keyword, f"{score:.3f} is {text}, {how} {bound:g}"


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on several bounds: the worst one, with the reasons of all bounds that do not pass."""
    ordered = sorted(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.status))
    worst = ordered[0].status
    # The reasons of bounds that pass are of interest only if all bounds pass.
    explaining = [verdict for verdict in ordered if worst == "pass" or verdict.status != "pass"]
    return Verdict(
        worst,
        "; ".join(verdict.reason for verdict in explaining),
        tuple(warning for verdict in ordered for warning in verdict.warnings),
        "; ".join(verdict.brief for verdict in ordered if verdict.brief),
    )


def inconclusive(threshold: Threshold, text: str, brief: str) -> Verdict:
    """Return the verdict on a bound that the data cannot decide."""
    if threshold.policy.inconclusive == "fail":
        return Verdict("fail", f"{text}; inconclusive is set to fail", brief=brief)
    return Verdict("inconclusive", text, (text,))


def format_against(number: float, bound: float) -> str:
    """Format a number with three decimals, or as many as are needed to show on which side of the bound it is."""
    texts = (f"{number:.{digits}f}" for digits in range(3, 12))
    return next((text for text in texts if (number - bound) * (float(text) - bound) > 0), f"{number:.12f}")


def excluded_text(score: Score, unscored: Sequence[Outcome]) -> str:
    """Return how many examples the mean is without, and why."""
    some = "1 example that has" if len(unscored) == 1 else f"{len(unscored)} examples that have"
    return f"the {score.statistic.name} without {some} no score: {reasons_text(unscored)}"


def reasons_text(unscored: Sequence[Outcome]) -> str:
    """Return the reasons why examples have no score, the most frequent first, each with the ids of its examples."""
    reasons: dict[str, list[str]] = {}
    for outcome in unscored:
        reasons.setdefault(str(outcome.unscored or outcome.undefined), []).append(outcome.example.id)
    by_frequency = sorted(reasons.items(), key=lambda reason_and_ids: -len(reason_and_ids[1]))
    listed = [f"{reason} ({ids_text(ids)})" for reason, ids in by_frequency[:MAX_LISTED_REASONS]]
    if len(by_frequency) > MAX_LISTED_REASONS:
        listed.append(f"{len(by_frequency) - MAX_LISTED_REASONS} more reasons")
    return ", ".join(listed)


def ids_text(names: Sequence[str]) -> str:
    """Return the first ids of examples."""
    return join_first(names, MAX_LISTED_IDS)
