"""A threshold held against a score: its slice, its baseline, its verdict; with `by`, one for each value of a tag."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pytest_rageval.errors import InputError, RagevalError, StaleBaselineError
from pytest_rageval.gate.comparison import Before, Comparison, compared
from pytest_rageval.gate.drop import DropTest, drop_test
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import Status, Verdict, verdict_on
from pytest_rageval.scores import Score

__all__ = ["Memory", "Ruling", "rule"]

WORST_FIRST: Final[tuple[Status, ...]] = ("error", "fail", "inconclusive", "pass")


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known of a score from before.

    Attributes:
        fingerprint: of all beside the retriever that the score depends on now.
        before: the score in the baseline; None where it is not in it.
        updating: whether this run writes the baseline, so that there is nothing to compare with.
        required: whether a missing baseline is an error.
        missing: why the score is not in the baseline, where there is one; that is an error.
    """

    fingerprint: Mapping[str, Any]
    before: Before | None
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


def rule(score: Score, threshold: Threshold, memory: Memory, *, alpha: float) -> Ruling:
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


def _slice(whole: Score, threshold: Threshold, memory: Memory, alpha: float) -> Ruling:
    """The ruling on one value; what it cannot be had for is its verdict."""
    try:
        return _ruled(whole.where(**threshold.where), threshold, memory, alpha)
    except RagevalError as error:
        return Ruling(threshold, None, Verdict("error", str(error)))


def _ruled(score: Score, threshold: Threshold, memory: Memory, alpha: float) -> Ruling:
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


def _is_new(score: Score, before: Before | None) -> bool:
    """Whether it is of a slice of which the baseline knows no question.

    Of the whole set that would be another set, which is never taken for a new one: nothing would be compared.
    """
    return bool(score.slice) and not any(
        before is not None and outcome.example.id in before.questions for outcome in score.outcomes
    )


def _tested(score: Score, threshold: Threshold, memory: Memory, before: Before, alpha: float) -> DropTest:
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
