"""The verdict on a threshold: bounds and drops, from a score and its baseline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Any, Final, Literal

from pytest_rageval.errors import Cause, InputError, RagevalError, StaleBaselineError
from pytest_rageval.gate.comparison import BaselineScore, Comparison, DropTest, compared, drop_test
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.scores import Outcome, Score

__all__ = ["BaselineLookup", "Ruling", "Status", "Verdict", "rule", "uncounted", "verdict_on"]

Status = Literal["pass", "inconclusive", "fail", "error"]

SLACK: Final = 1e-12
"""The mean of n equal numbers can differ from them in the last bit, which is no regression."""

NAMED: Final = 10
"""How many of the examples without a score are named."""

REASONS: Final = 3
"""How many different reasons for which they have none are told."""


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

    `min` and `max` hold for the worst that the examples can be at which the retriever failed: it would be
    no regression to fail at the questions that it loses. What has no score for another reason in this
    run, and could pass a bound, is pointed out.

    A bound that is closer to the mean than the means of repeated runs are to each other is pointed out:
    the next run may end on its other side. So is a drop that `max_drop` would not see, where more than it
    could have been lost among examples that cannot be compared.

    Args:
        score: of the threshold's slice.
        threshold: its bounds.
        drop: how the score stands to its baseline; None where there is none, which passes with a warning.

    Returns:
        `fail` where a bound is passed: `max_drop` by a drop that is larger and significant, or with
        `strict` by one that is not excluded. `inconclusive` where a larger drop is not significant.
    """
    verdict = _verdict(score, threshold, drop)
    failed = verdict.status == "fail"
    unscored = () if failed else (text for _, text in _beyond(score, threshold, "retriever", "run"))
    unseen = () if failed else _unseen(score, threshold, drop)
    powerless = _powerless(drop) if verdict.status == "pass" and not threshold.strict else ()
    noise = _within_noise(score, threshold, drop)
    return replace(verdict, warnings=(*verdict.warnings, *unscored, *unseen, *powerless, *noise))


def _verdict(score: Score, threshold: Threshold, drop: DropTest | None) -> Verdict:
    below = threshold.min is not None and score < threshold.min - SLACK
    above = threshold.max is not None and score > threshold.max + SLACK
    passed = []
    if threshold.min is not None and below:
        passed.append(f"{_beside(score, threshold.min)} is below the minimum {threshold.min:g}")
    if threshold.max is not None and above:
        passed.append(f"{_beside(score, threshold.max)} is above the maximum {threshold.max:g}")
    beyond = _beyond(score, threshold, "retriever")
    passed += [text for word, text in beyond if not {"min": below, "max": above}[word]]
    dropped = _on_drop(score, threshold, drop)
    if not passed:
        return dropped
    # A bound that is passed is passed, whatever the data say of the drop; what they say is told all the same.
    if dropped.status == "fail":
        passed.append(dropped.reason)
    return Verdict("fail", "; ".join(passed), dropped.warnings)


def uncounted(score: Score) -> Iterator[str]:
    """For a score without bounds: the examples that the retriever failed at, which are not in its mean."""
    lost = score.lacking("retriever")
    if lost:
        mean = score.counting(score.reach[0], "retriever")
        yield f"{_without(lost)}; were each of them {score.reach[0]:g}, it would be {mean:.3f}"


def _beyond(score: Score, threshold: Threshold, *causes: Cause) -> Iterator[tuple[str, str]]:
    """The bounds that could be passed, were there a score of what has none for these causes: which, and how."""
    lacking = score.lacking(*causes)
    if not lacking:
        return
    bounds = (("min", "below the minimum", threshold.min), ("max", "above the maximum", threshold.max))
    for (word, how, bound), worst in zip(bounds, score.reach, strict=True):
        if bound is None:
            continue
        mean = score.counting(worst, *causes)
        if (mean < bound - SLACK) if word == "min" else (mean > bound + SLACK):
            text = f"{_without(lacking)}; were each of them {worst:g}, it would be {_beside(mean, bound)}"
            yield word, f"{score:.3f} is {text}, {how} {bound:g}"


def _without(lacking: Sequence[Outcome]) -> str:
    """How many examples are not in the mean, why, and which."""
    some = "1 example that has" if len(lacking) == 1 else f"{len(lacking)} examples that have"
    return f"the mean without {some} no score: {_reasons(lacking)}"


def _reasons(lacking: Sequence[Outcome]) -> str:
    """Why examples have no score, the commonest reasons first, each with the examples."""
    reasons: dict[str, list[str]] = {}
    for outcome in lacking:
        reasons.setdefault(str(outcome.unscored), []).append(outcome.example.id)
    most = sorted(reasons.items(), key=lambda each: -len(each[1]))
    first = [f"{reason} ({_named(names)})" for reason, names in most[:REASONS]]
    more = [f"{len(most) - REASONS} more reasons"] if len(most) > REASONS else []
    return ", ".join(first + more)


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")


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
        return Verdict("fail", f"{beyond}, and significant ({_held(drop)})")
    told = f"{beyond}, but not significant ({_held(drop)}){_power(score, drop)}"
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
    lowest, highest = score.reach
    width = highest - lowest
    unseen = new + len(lost)
    whole = len(drop.comparison.changes) + unseen
    if unseen * width <= threshold.max_drop * whole + SLACK:
        return
    told = f"a drop among {unseen} of {whole} examples would not be seen"
    if lost:
        told += f"; {len(lost)} had a score in the baseline and have none now: {_named(lost)}"
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
    # The score of all examples that have one is told where it is another than that of the common ones.
    over = "without those" if drop.comparison.failed else "over all"
    whole = "" if abs(now - score) <= SLACK else f" ({score:.3f} {over})"
    by = _beside(lost, max_drop) if lost > max_drop + SLACK else f"{abs(lost):.3f}"
    return f"{now:.3f}{whole} is {by} {how} the baseline's {before:.3f}"


def _common(drop: DropTest) -> str:
    """Over which examples, where these are not all."""
    told = []
    if failed := drop.comparison.failed:
        lowest = failed[0].value
        told.append(
            f"{len(failed)} have no score, since the retriever failed, and count as {lowest:g}: {_reasons(failed)}"
        )
    if drop.comparison.left_out:
        told.append(f"{drop.comparison.left_out} are not the same in the baseline")
    if drop.comparison.unscored:
        told.append(f"{drop.comparison.unscored} have no score now or then")
    return f" over {len(drop.comparison.changes)} examples ({', '.join(told)})" if told else ""


def _power(score: Score, drop: DropTest) -> str:
    n = len(drop.comparison.changes)
    told = []
    if drop.detectable is not None and drop.detectable <= drop.comparison.mean - score.reach[0]:
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


WORST_FIRST: Final[tuple[Status, ...]] = ("error", "fail", "inconclusive", "pass")


@dataclass(frozen=True, slots=True)
class BaselineLookup:
    """What is known of a score from before.

    Attributes:
        fingerprint: of all beside the retriever that the score depends on now.
        before: the score in the baseline; None where it is not in it.
        updating: whether this run writes the baseline, so that there is nothing to compare with.
        required: whether a missing baseline is an error.
        missing: why the score is not in the baseline, where there is one; that is an error.
    """

    fingerprint: Mapping[str, Any]
    before: BaselineScore | None
    updating: bool = False
    required: bool = False
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """How a threshold ended.

    Attributes:
        threshold: of one slice, where it is of one.
        score: of that slice; None where there is none.
        verdict: on it.
        drop: how it stands to its baseline, or None.
        slices: with `by`, one ruling a value of the tag, the worst first; this one is the first of them.
    """

    threshold: Threshold
    score: Score | None
    verdict: Verdict
    drop: DropTest | None = None
    slices: tuple["Ruling", ...] = ()

    @property
    def comparison(self) -> Comparison | None:
        """The examples then and now."""
        return None if self.drop is None else self.drop.comparison


def rule(score: Score, threshold: Threshold, memory: BaselineLookup, *, alpha: float) -> Ruling:
    """Hold a threshold against a score.

    A slice of which the baseline has no question is new, and has no baseline yet.

    Args:
        score: of the whole eval set.
        threshold: with its slice.
        memory: of the score.
        alpha: the level for this threshold. With `by` it is divided among the values of the tag, so
            that all of them together keep it.

    Raises:
        InputError: no example has the tag of `where` or `by`.
        TooManyUnscoredError: the slice of `where` has no score.
    """
    whole = score.where(**threshold.where) if threshold.where else score
    if threshold.by is None:
        return _ruled(whole, threshold, memory, alpha)
    values = _values(whole, threshold.by)
    rulings = [
        _slice(
            whole,
            replace(threshold, where={**threshold.where, threshold.by: value}),
            memory,
            alpha / len(values),
        )
        for value in values
    ]
    rulings.sort(key=_badness)
    return replace(rulings[0], slices=tuple(rulings))


def _slice(whole: Score, threshold: Threshold, memory: BaselineLookup, alpha: float) -> Ruling:
    """The ruling on one value; what it cannot be had for is its verdict."""
    try:
        return _ruled(whole.where(**threshold.where), threshold, memory, alpha)
    except RagevalError as error:
        return Ruling(threshold, None, Verdict("error", str(error)))


def _ruled(score: Score, threshold: Threshold, memory: BaselineLookup, alpha: float) -> Ruling:
    if threshold.max_drop is None:
        return Ruling(threshold, score, verdict_on(score, threshold))
    if memory.updating:
        bounded = verdict_on(score, replace(threshold, max_drop=None))
        if bounded.status == "pass":
            bounded = replace(bounded, reason=f"{score:.3f} is the new baseline")
        return Ruling(threshold, score, bounded)
    before = None if _is_new(score, memory.before) else memory.before
    try:
        if memory.missing:
            raise StaleBaselineError(f"{score.name}: {memory.missing}")
        drop = None if before is None else _tested(score, threshold, memory, before, alpha)
    except RagevalError as error:
        # A bound that is passed is passed, whatever the baseline.
        bounded = verdict_on(score, replace(threshold, max_drop=None))
        if bounded.status == "fail":
            return Ruling(threshold, score, replace(bounded, warnings=(*bounded.warnings, str(error))))
        return Ruling(threshold, score, Verdict("error", str(error)))
    verdict = verdict_on(score, threshold, drop)
    if before is None and memory.required and verdict.status == "pass":
        verdict = Verdict(
            "error", f"{score.name}: {verdict.reason} (--rageval-require-baseline, the default under CI=true)"
        )
    return Ruling(threshold, score, verdict, drop)


def _is_new(score: Score, before: BaselineScore | None) -> bool:
    """Whether it is of a slice of which the baseline knows no question.

    Of the whole set that would be another set, which is never taken for a new one: nothing would be compared.
    """
    return bool(score.slice) and not any(
        before is not None and outcome.example.id in before.questions for outcome in score.outcomes
    )


def _tested(
    score: Score, threshold: Threshold, memory: BaselineLookup, before: BaselineScore, alpha: float
) -> DropTest:
    return drop_test(
        compared(score, memory.fingerprint, before),
        max_drop=threshold.max_drop or 0.0,
        strict=threshold.strict,
        alpha=alpha,
        largest=score.scale[1] - score.scale[0],
        seed=score.seed,
    )


def _values(score: Score, tag: str) -> Sequence[Any]:
    """The values of a tag, in an order that is the same in every process."""
    found: dict[str, Any] = {}
    for outcome in score.outcomes:
        value = outcome.example.tags.get(tag)
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                found.setdefault(f"{type(item).__name__} {item}", item)
    if not found:
        known = sorted({name for outcome in score.outcomes for name in outcome.example.tags})
        listed = f"They have: {', '.join(known)}." if known else "They have no tags."
        message = f"{score.spec}: no example has the tag by={tag!r}. {listed}"
        raise InputError(message)
    return [found[key] for key in sorted(found)]


def _badness(ruling: Ruling) -> tuple[int, float, str]:
    """Worst first: by verdict, then by how close the mean comes to a bound it may not pass."""
    margin = 0.0
    if ruling.score is not None:
        given = ruling.threshold
        margins = [
            ruling.score - given.min if given.min is not None else None,
            given.max - ruling.score if given.max is not None else None,
            given.max_drop - ruling.drop.comparison.drop
            if given.max_drop is not None and ruling.drop is not None
            else None,
        ]
        margin = min((each for each in margins if each is not None), default=float(ruling.score))
    return WORST_FIRST.index(ruling.verdict.status), margin, str(ruling.threshold.where)
