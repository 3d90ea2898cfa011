"""The sentences of verdicts: counts, sizes, chance, and what cannot be compared."""

from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import NormalDist, stdev
from typing import TYPE_CHECKING, Final

from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.lib.text import counted, join_counted, join_first
from pytest_rageval.stats.intervals import MEAN, SCORE_TOLERANCE

if TYPE_CHECKING:
    from pytest_rageval.baseline.entries import BaselineScore
    from pytest_rageval.gate.comparison import Comparison, QuestionChanges
    from pytest_rageval.gate.drop_tests import DropTestResult

MAX_WORSE_IDS: Final = 5  # number of examples that an unsure verdict names

LIKELY: Final = 0.2  # a larger p-value is no evidence of a drop; its frequency is not printed

RARE: Final = 0.001  # a smaller p-value is not printed more precisely

MIN_CHANGED: Final = 5  # with fewer changed questions the number of needed questions is a guess

COIN_TOSS: Final = 0.2  # from this probability of the other verdict on, a bound on a mean is a coin toss

MIN_COIN_TOSS: Final = 10  # with fewer questions the spread of their scores is unknown

MAX_LISTED_IDS: Final = 10  # number of examples whose ids a text lists

MAX_LISTED_REASONS: Final = 3  # number of different reasons for a missing score that a text lists


def change_text(
    score: Score,
    drop: "DropTestResult",
    max_drop: float | None = None,
    *,
    minimum: float | None = None,
    name_worse: bool = False,
) -> str:
    """Return a change as text: "fell from 0.940 to 0.593 (allowed 0.02): 32 of 91 questions worse, 0 better".

    Only a drop needs `max_drop`, which is "allowed".
    If the comparison excludes examples, or counts some with the worst value, their numbers follow. `minimum` is the
    minimum that the score violates, if any.
    """
    comparison = drop.comparison
    old, change = comparison.mean, comparison.drop
    bound = max_drop if max_drop is not None and change > max_drop + SCORE_TOLERANCE else 0.0
    # As many digits as are needed to show the change, and that it is larger than allowed.
    for digits in range(3, 12):
        then, now = f"{old:.{digits}f}", f"{old - change:.{digits}f}"
        if not change or abs(round(float(then) - float(now), digits)) > bound:
            break
    pin = comparison.before.pin
    then = then if pin is None else f"the anchor's {then} ({pin})"
    text = f"{'fell' if change > 0 else 'rose'} from {then} to {now}" if change else f"is {now} as before"
    if change == 0 and pin is not None:
        text = f"is {then}, as {comparison.before.kind}ed"
    if abs(old - change - score) > SCORE_TOLERANCE:
        text += f", {score:.3f} {'without those' if comparison.failed else 'over all'}"
    limits = [] if max_drop is None or change <= 0 else [f"allowed {max_drop:g}"]
    limits += [] if minimum is None else [f"minimum {minimum:g}"]
    text += f" ({'; '.join(limits)})" if limits else ""
    worse = [pair.outcome.example.id for pair in comparison.worse]
    counts = f"{len(worse)} of {counted(comparison.n, 'question')} worse, {len(comparison.better)} better"
    named = f"; look at {join_first(worse, MAX_WORSE_IDS)} before you merge" if name_worse and worse else ""
    return f"{text}: {counts}{named}{_examples_text(comparison)}"


def chance_text(drop: "DropTestResult", alpha: float) -> str:
    """Return how often chance alone gives such a drop: "Chance alone: about 1 in 60 comparisons".

    A drop beyond `max_drop` is compared with chance at a true drop of `max_drop`. If the drop is not significant, the
    text also says how rare it would have to be, and why, if that is rarer than `alpha`.
    """
    given = f"With a true drop of {drop.beyond:g}, chance alone" if drop.beyond else "Chance alone"
    if drop.p_value > LIKELY:
        return f"{given} often does that"
    if drop.significant and drop.p_value < RARE:
        return f"{given}: {odds_text(drop.p_value)}"
    often, limit = odds(drop)
    if drop.significant:
        return f"{given}: about 1 in {often} comparisons"
    why = " among so many scores" if drop.alpha < alpha else ""
    return f"{given}: about 1 in {often} comparisons (red{why}: 1 in {limit} or rarer)"


def odds_text(p_value: float) -> str:
    """Return how often chance alone does that: "about 1 in 60 comparisons", or "fewer than 1 in 1,000 comparisons"."""
    rare = p_value < RARE
    how, number = ("fewer than", 1 / RARE) if rare else ("about", 1 / p_value)
    return f"{how} 1 in {_often(number, 2):,} comparisons"


def odds(drop: "DropTestResult") -> tuple[str, str]:
    """Return in how many comparisons chance does this once, and the number from which on that fails.

    Both have as many digits as are needed to tell them apart.
    """
    pairs = (
        tuple(f"{_often(1 / p, digits):,}" for p in (drop.p_value, drop.alpha)) for digits in range(2, 12)
    )
    often, limit = next((pair for pair in pairs if pair[0] != pair[1]), (f"{1 / drop.p_value}",) * 2)
    return often, limit


def _often(number: float, digits: int) -> float:
    """Round to two digits, and to a whole number, or to more digits."""
    return round_digits(number, digits if digits > 2 or number >= 10 else 1)  # noqa: PLR2004 - the digits of 10


def round_digits(number: float, digits: int) -> float:
    """Round to significant digits; a whole number is an int.

    >>> round_digits(16.2, 2), round_digits(1420, 2), round_digits(1.25, 2)
    (16, 1400, 1.2)
    """
    rounded = float(f"{number:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def drop_interval_text(low: float, high: float, alpha: float) -> str:
    """Return an interval with its level, such as "95% interval 0.252 to 0.437".

    Each bound is that of a one-sided test at the level `alpha`, so the interval's level is 1 - 2·alpha.
    """
    return f"{100 * (1 - 2 * alpha):.4g}% interval {format_number(low)} to {format_number(high)}"


def format_number(number: float) -> str:
    """Format a number with three decimals, and a rounded zero without its sign."""
    return f"{round(number, 3) + 0.0:.3f}"


def _examples_text(comparison: "Comparison") -> str:
    parts = []
    if failed := comparison.failed:
        parts.append(
            f"{len(failed)} have no score, since the retriever failed, and count as {failed[0].value:g}: "
            f"{reasons_text(failed)}"
        )
    if comparison.changes:
        parts.append(f"{comparison.changes} since the {comparison.before.kind}")
    if comparison.unscored:
        parts.append(f"{comparison.unscored} unscored now or before")
    return f" ({'; '.join(parts)})" if parts else ""


def power_text(score: Score, drop: "DropTestResult", *, strict: bool = False) -> str:
    comparison, detectable, needed = drop.comparison, drop.detectable_drop, drop.examples_needed
    questions, changed = counted(comparison.n, "question"), sum(1 for _ in comparison.changed_pairs)
    # From a few changed questions their number would be a false precision.
    known = needed is not None and needed > comparison.n and (strict or changed >= MIN_CHANGED)
    number = f"about {round_digits(needed, 1):,}" if known and needed is not None else "more"
    if detectable is None:
        return f". {number.capitalize()} questions would show it" if known else ""
    if detectable > comparison.mean - score.reach[0]:
        return f". {questions} are too few for any drop"
    smaller = "this one needs" if known else "smaller ones need"
    return f". {questions} show drops above about {detectable:.2g}; {smaller} {number}"


def lost_text(comparison: "Comparison") -> str:
    """Return which examples had a score and have none now, as the beginning of what follows if they score lowest."""
    lost = comparison.lost
    return (
        f"{counted(len(lost), 'example')} had a score in the {comparison.before.kind} and "
        f"{'has' if len(lost) == 1 else 'have'} none now: {reasons_text(lost)}; with {comparison.lowest:g} for each"
    )


def removal_text(before: "BaselineScore", changes: "QuestionChanges", max_removed: float) -> str:
    """Return that more of the baseline's questions are gone than the share that is allowed; empty if they are not."""
    gone = len(changes.gone)
    if gone <= max_removed * changes.before + SCORE_TOLERANCE:
        return ""
    listed = [
        f"{len(names)} {what} ({ids_text(names)})"
        for what, names in (("removed", changes.removed), ("edited", changes.edited))
        if names
    ]
    return (
        f"{gone} of {counted(changes.before, 'question')} of the {before.kind} cannot be compared, more than the share "
        f"of {max_removed:.4g} that rageval_max_removed allows: {', '.join(listed)}. Restore them; or, if the eval set "
        f"is meant to change, write the {before.kind} of the new one with the retriever of the commit to compare with: "
        f"{before.options}"
    )


def coin_toss_text(score: Score, bound: float) -> str:
    """Return how many other sets of such questions would pass, if that is many; else empty."""
    if score.n < MIN_COIN_TOSS or score.statistic is not MEAN:
        return ""
    error = stdev(score.values) / sqrt(score.n)
    chance = NormalDist().cdf(-abs(score - bound) / error) if error else 0.0
    if chance < COIN_TOSS:
        return ""
    return (
        f". Improve the retriever, or add questions: {score.n} are too few to tell, as about 1 in {round(1 / chance)} "
        "other samples of that size would pass"
    )


def excluded_failures_warnings(score: Score) -> Iterator[str]:
    """Yield a warning that the mean of a score without bounds excludes examples on which the retriever failed."""
    failed = score.lacking("retriever")
    if failed:
        mean = score.counting(score.reach[0], "retriever")
        yield f"{excluded_text(score, failed)}; with {score.reach[0]:g} for each of them it would be {mean:.3f}"


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
    listed = [f"{reason} ({ids_text(ids)})" for reason, ids in by_frequency]
    return join_counted(listed, MAX_LISTED_REASONS, " reasons")


def ids_text(names: Sequence[str]) -> str:
    return join_first(names, MAX_LISTED_IDS)
