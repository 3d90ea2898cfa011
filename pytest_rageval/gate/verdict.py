"""What a score says to a threshold."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Final, Literal

from pytest_rageval.gate.drop import DropTest
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.scores import Score

__all__ = ["Status", "Verdict", "verdict_on"]

Status = Literal["pass", "inconclusive", "fail", "error"]

SLACK: Final = 1e-12
"""The mean of n equal numbers can differ from them in the last bit, which is no regression."""

NAMED: Final = 5
"""How many of the examples that lost their score are named."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a threshold ended.

    Attributes:
        status: `inconclusive` passes.
        reason: why, in a sentence.
        warnings: what a reader should know even of a test that passes.
    """

    status: Status
    reason: str
    warnings: tuple[str, ...] = ()


def verdict_on(score: Score, threshold: Threshold, drop: DropTest | None = None) -> Verdict:
    """Compare the mean with the bounds, in full precision; a mean on a bound passes.

    A bound that is closer to the mean than the means of repeated runs are to each other is pointed out:
    the next run may end on its other side. So is a drop that `max_drop` would not see, where more than it
    could have been lost among examples that cannot be compared.

    Args:
        score: of the threshold's slice.
        threshold: its bounds.
        drop: how the score stands to its baseline; None where there is none, which passes with a warning.

    Returns:
        `fail` where a bound is passed: `max_drop` by a drop that is larger and no noise, or with
        `strict` by one that is not excluded. `inconclusive` where a larger drop may be noise.
    """
    verdict = _verdict(score, threshold, drop)
    unseen = () if verdict.status == "fail" else _unseen(score, threshold, drop)
    powerless = _powerless(drop) if verdict.status == "pass" and not threshold.strict else ()
    noise = _within_noise(score, threshold, drop)
    return replace(verdict, warnings=(*verdict.warnings, *unseen, *powerless, *noise))


def _verdict(score: Score, threshold: Threshold, drop: DropTest | None) -> Verdict:
    below = threshold.min is not None and score < threshold.min - SLACK
    above = threshold.max is not None and score > threshold.max + SLACK
    passed = []
    if threshold.min is not None and below:
        passed.append(f"{_beside(score, threshold.min)} is below the minimum {threshold.min:g}")
    if threshold.max is not None and above:
        passed.append(f"{_beside(score, threshold.max)} is above the maximum {threshold.max:g}")
    dropped = _on_drop(score, threshold, drop)
    if not passed:
        return dropped
    # A bound that is passed is passed, whatever the data say of the drop; what they say is told all the same.
    if dropped.status == "fail":
        passed.append(dropped.reason)
    return Verdict("fail", "; ".join(passed), dropped.warnings)


def _on_drop(score: Score, threshold: Threshold, drop: DropTest | None) -> Verdict:
    if threshold.max_drop is None:
        return Verdict("pass", f"{score:.3f} is within bounds")
    if drop is None:
        told = f"{score:.3f} has no baseline yet to compare with; --rageval-update-baseline writes one"
        return Verdict("pass", told, (told,))
    return (_strictly if threshold.strict else _shown)(score, threshold.max_drop, drop)


def _shown(score: Score, max_drop: float, drop: DropTest) -> Verdict:
    """A drop is held against the retriever where it is shown."""
    stands = f"{_stands(score, drop, max_drop)}{_common(drop)}"
    if drop.comparison.drop <= max_drop + SLACK:
        return Verdict("pass", f"{stands}, within the allowed drop of {max_drop:g}")
    beyond = f"{stands}, more than the allowed {max_drop:g}"
    if drop.significant:
        return Verdict("fail", f"{beyond}, and it is no noise ({_held(drop)})")
    told = f"{beyond}, but may be noise ({_held(drop)}){_power(score, drop)}"
    return Verdict("inconclusive", told, (told,))


def _strictly(score: Score, max_drop: float, drop: DropTest) -> Verdict:
    """A drop is held against the retriever until it is excluded."""
    stands = f"{_stands(score, drop, max_drop)}{_common(drop)}"
    if drop.significant:
        return Verdict("pass", f"{stands}; a drop of {max_drop:g} is excluded ({_held(drop)})")
    return Verdict(
        "fail",
        f"{stands}; a drop of {max_drop:g} is not excluded ({_held(drop)}){_power(score, drop)}",
    )


def _within_noise(score: Score, threshold: Threshold, drop: DropTest | None) -> Iterator[str]:
    """The bounds that are closer to the mean than one run is to the next."""
    spread = score.spread or 0.0
    now = float(score)
    bounds = [("min", threshold.min, now), ("max", threshold.max, now)]
    if threshold.max_drop is not None and drop is not None:
        before, lost = drop.comparison.mean, drop.comparison.drop
        bounds.append(("max_drop", before - threshold.max_drop, before - lost))
    for word, bound, mean in bounds:
        if bound is not None and abs(mean - bound) < spread:
            at = f" ({bound:.3f})" if word == "max_drop" else f" {bound:g}"
            yield (
                f"{word}{at} is {abs(mean - bound):.3f} from {mean:.3f}, and runs differ by {spread:.3f}: "
                "another run may end on the other side"
            )


def _unseen(score: Score, threshold: Threshold, drop: DropTest | None) -> Iterator[str]:
    """The examples of now that may have lost more than is allowed, and cannot be compared."""
    if threshold.max_drop is None or drop is None:
        return
    new, lost = drop.comparison.new, [outcome.example.id for outcome in drop.comparison.lost]
    # A score that another plugin added may reach further than anybody said.
    width = max(score.scale[1] - score.scale[0], max(score.values) - min(score.values))
    unseen = new + len(lost)
    whole = len(drop.comparison.changes) + unseen
    if unseen * width <= threshold.max_drop * whole + SLACK:
        return
    told = f"a drop among {unseen} of {whole} examples would not be seen"
    if lost:
        named = ", ".join(lost[:NAMED]) + (", …" if len(lost) > NAMED else "")
        told += f"; {len(lost)} had a score in the baseline and have none now: {named}"
    if new:
        told += (
            f"; {new} have no score in the baseline, as they are now: write it anew on the commit to compare "
            "with, --rageval-update-baseline"
        )
    yield told


def _powerless(drop: DropTest | None) -> Iterator[str]:
    """That no drop whatever could fail: where all signs agree, one pattern of signs in 2^n is as extreme."""
    if drop is None:
        return
    n = len(drop.comparison.changes)
    if 0.5**n > drop.alpha:
        needed = ceil(log2(1 / drop.alpha))
        yield (
            f"{n} examples can show no drop, should all of them get worse (p = {0.5**n:.2g} > {drop.alpha:.2g}); "
            f"{needed} are the least"
        )


def _stands(score: Score, drop: DropTest, max_drop: float) -> str:
    before, lost = drop.comparison.mean, drop.comparison.drop
    now = before - lost
    if abs(lost) <= SLACK:
        return f"{now:.3f} is the baseline's"
    how = "below" if lost > 0 else "above"
    # The score of all examples is told where it is another than that of the common ones.
    whole = "" if abs(now - score) <= SLACK else f" ({score:.3f} over all)"
    by = _beside(lost, max_drop) if lost > max_drop + SLACK else f"{abs(lost):.3f}"
    return f"{now:.3f}{whole} is {by} {how} the baseline's {before:.3f}"


def _common(drop: DropTest) -> str:
    """Over which examples, where these are not all."""
    told = []
    if drop.comparison.left_out:
        told.append(f"{drop.comparison.left_out} are not the same in the baseline")
    if drop.comparison.unscored:
        told.append(f"{drop.comparison.unscored} have no score now or then")
    return f" over {len(drop.comparison.changes)} examples ({', '.join(told)})" if told else ""


def _power(score: Score, drop: DropTest) -> str:
    n = len(drop.comparison.changes)
    told = []
    # A score that another plugin added may go lower than anybody said.
    lowest = min(score.scale[0], *score.values)
    if drop.detectable is not None and drop.detectable <= drop.comparison.mean - lowest:
        told.append(f"{n} examples show a drop of {drop.detectable:.3f} at 80% power")
    elif drop.detectable is not None:
        told.append(f"{n} examples are too few to show any drop at 80% power")
    if drop.needed is not None and drop.needed > n:
        told.append(f"about {drop.needed:,} would settle this one")
    return f": {'; '.join(told)}" if told else ""


def _held(drop: DropTest) -> str:
    """The p-value beside the level, in as many digits as tell them apart."""
    sign = "≤" if drop.significant else ">"
    both = ((f"{drop.p_value:.{digits}g}", f"{drop.alpha:.{digits}g}") for digits in range(2, 9))
    p_value, alpha = next((each for each in both if each[0] != each[1]), (drop.p_value, drop.alpha))
    return f"p = {p_value} {sign} {alpha}"


def _beside(score: float, bound: float) -> str:
    """The score in three digits, or in as many as tell it from the bound."""
    shown = (f"{score:.{digits}f}" for digits in range(3, 12))
    return next((text for text in shown if float(text) != bound), f"{score:.12f}")
