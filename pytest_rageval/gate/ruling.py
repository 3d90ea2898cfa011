"""The rulings on the thresholds of a test: their slices, the baseline, the joint test of drops, and the verdicts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_rageval.errors import InputError, RagevalError, StaleBaselineError
from pytest_rageval.gate.comparison import BaselineScore, Comparison, compare
from pytest_rageval.gate.drop_tests import Compared, DropTest, drop_tests
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import (
    ROUNDING,
    WORST_FIRST,
    Verdict,
    drop_text,
    p_value_text,
    unseen_drop,
    verdict_on,
)
from pytest_rageval.scores import Score

if TYPE_CHECKING:
    from pytest_rageval.gate.early_stop import EarlyStopped

__all__ = ["BaselineLookup", "Case", "Ruling", "broken_parts", "rule"]


@dataclass(frozen=True, slots=True)
class BaselineLookup:
    """A score's baseline, or why there is none.

    Attributes:
        fingerprint: of everything besides the retriever that the score depends on now.
        before: the score in the baseline; None where it is missing.
        updating: whether this run writes the baseline, so that nothing is compared.
        required: whether a missing baseline is an error.
        missing: why there is nothing to compare with, which is an error: the score is missing in the file, or generator
            or judge changed. Empty where there is no file.
        tolerance: differences of a question's scores up to this are rounding.
        anchor: the score in the anchor; None where it is missing, or not compared with.
        pinning: whether this run pins a new anchor.
    """

    fingerprint: Mapping[str, Any]
    before: BaselineScore | None
    updating: bool = False
    required: bool = False
    missing: str = ""
    tolerance: float = ROUNDING
    anchor: BaselineScore | None = None
    pinning: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """A threshold, its score and the verdict.

    Attributes:
        threshold: with the slice that it is on.
        score: of that slice; None where it cannot be computed.
        verdict: on the score.
        comparison: of the examples of the baseline and of now, or None.
        drop: the test of `max_drop`, or None.
        anchor: the test of `max_total_drop`, or in an update of the new baseline, against the anchor; or None.
        slices: with `by`, one ruling for each value of the tag, the worst first; this one is the first of them.
        early: where its questions were asked until the verdict was clear. If it was clear before all were asked,
            `score` and `comparison` are those of the examples that are known, and their means say nothing.
    """

    threshold: Threshold
    score: Score | None
    verdict: Verdict
    comparison: Comparison | None = None
    drop: DropTest | None = None
    anchor: DropTest | None = None
    slices: tuple["Ruling", ...] = ()
    early: "EarlyStopped | None" = None

    @property
    def stopped_early(self) -> bool:
        """Whether the verdict was clear before all questions were asked."""
        return self.early is not None and self.early.clear


class Case(NamedTuple):
    """A threshold to rule on: its score of the whole eval set, and the score's baseline.

    `early` is for a threshold whose questions were asked until its verdict was clear; the score is then that of the
    examples that are known.
    """

    score: Score
    threshold: Threshold
    baseline: BaselineLookup
    early: "EarlyStopped | None" = None


def rule(
    cases: Sequence[Case | RagevalError], *, tests: int = 1, apart: int = 0
) -> list[Ruling | RagevalError]:
    """Rule on the thresholds of one test; their drops are tested together, those below the anchor apart.

    A slice of which the baseline has no question has no baseline yet.

    Args:
        cases: with scores of one eval set; an error in place of a case is returned in its place.
        tests: number of the run's tests that share the level of `max_drop` and `max_total_drop`.
        apart: number of the thresholds that need a share of the level of their own; see `drop_tests`.

    Returns:
        For each case the ruling; or an `InputError`, where no example has the tag of `where` or `by`, or a
        `TooManyUnscoredError`, where the slice of `where` has no score.
    """
    sliced = [case if isinstance(case, RagevalError) else _slices(case) for case in cases]
    slices = [each for found in sliced if not isinstance(found, RagevalError) for each in found]
    tested = [
        (each, each.compared)
        for each in slices
        if each.compared is not None
        and each.threshold.max_drop is not None
        and not (each.early and each.early.clear)
    ]
    anchored = [(each, each.anchored) for each in slices if each.anchored is not None]
    try:
        drops = drop_tests([compared for _, compared in tested], tests=tests, apart=apart)
        totals = drop_tests([compared for _, compared in anchored], tests=tests)
    except InputError as error:
        return [error] * len(cases)
    for (each, _), result in zip(tested, drops, strict=True):
        each.drop = result
    for (each, _), result in zip(anchored, totals, strict=True):
        each.anchor = result
    return [found if isinstance(found, RagevalError) else _ruling(found) for found in sliced]


@dataclass(slots=True)
class _Slice:
    """A case limited to the slice of its threshold, compared with the baseline, and tested."""

    threshold: Threshold
    baseline: BaselineLookup
    score: Score | None = None
    error: RagevalError | None = None
    compared: Compared | None = None
    drop: DropTest | None = None
    anchored: Compared | None = None
    anchor: DropTest | None = None
    anchor_error: RagevalError | None = None
    early: "EarlyStopped | None" = None

    @property
    def comparison(self) -> Comparison | None:
        return None if self.compared is None else self.compared.comparison


def _slices(case: Case) -> list[_Slice] | RagevalError:
    """The slices of a case: one, or with `by` one for each value of the tag."""
    score, threshold, baseline, early = case
    try:
        whole = score.where(**threshold.where) if threshold.where else score
        if threshold.by is None:
            return [_compared(_Slice(threshold, baseline, whole, early=early))]
        values = _values(whole, threshold.by)
    except RagevalError as error:
        return error
    slices = []
    for value in values:
        each = _Slice(replace(threshold, where={**threshold.where, threshold.by: value}), baseline)
        try:
            each.score = whole.where(**each.threshold.where)
        except RagevalError as error:
            each.error = error
        slices.append(_compared(each))
    return slices


def _compared(each: _Slice) -> _Slice:
    """Compare a slice with the baseline and the anchor, where its threshold does; an update with the anchor alone."""
    score, baseline = each.score, each.baseline
    if score is None or not each.threshold.compares:
        return each
    try:
        each.anchored = _anchored(score, each.threshold, baseline)
    except RagevalError as error:
        each.anchor_error = error
    if baseline.updating:
        return each
    try:
        if baseline.missing:
            raise StaleBaselineError(f"{score.name}: {baseline.missing}")
        if baseline.before is not None and not _is_new(score, baseline.before):
            comparison = compare(score, baseline.fingerprint, baseline.before, tolerance=baseline.tolerance)
            level = None if each.early is None else each.early.level
            each.compared = Compared(each.threshold, comparison, score.scale, score.seed, level)
    except RagevalError as error:
        each.error = error
    return each


def _anchored(score: Score, threshold: Threshold, baseline: BaselineLookup) -> Compared | None:
    anchor = baseline.anchor
    if anchor is None or anchor.pin is None or _is_new(score, anchor):
        return None
    comparison = compare(score, baseline.fingerprint, anchor, tolerance=baseline.tolerance)
    return Compared(threshold.since_anchor(anchor.pin.updates), comparison, score.scale, score.seed)


def _ruling(slices: Sequence[_Slice]) -> Ruling:
    rulings = sorted(map(_ruled, slices), key=_worst_first)
    return replace(rulings[0], slices=tuple(rulings)) if rulings[0].threshold.by is not None else rulings[0]


def _ruled(each: _Slice) -> Ruling:
    score, threshold = each.score, each.threshold
    if score is None:
        return Ruling(threshold, None, Verdict("error", str(each.error)))
    if each.baseline.updating and threshold.compares:
        bounded = verdict_on(score, _without_baseline(threshold))
        if bounded.status == "pass":
            bounded = replace(bounded, reason=f"{score:.3f} is the new baseline")
        bounded = replace(bounded, warnings=(*bounded.warnings, *_below_anchor(score, each)))
        return Ruling(threshold, score, bounded, anchor=each.anchor)
    error = each.error or each.anchor_error
    if error is not None:
        # A violated bound fails, whatever the baseline or the anchor.
        whole = each.error is None
        bounds = replace(threshold, max_total_drop=None) if whole else _without_baseline(threshold)
        bounded = verdict_on(score, bounds, each.comparison, each.drop)
        if bounded.status == "fail":
            bounded = replace(bounded, warnings=(*bounded.warnings, str(error)))
        else:
            bounded = Verdict("error", str(error))
        return Ruling(threshold, score, bounded, each.comparison, each.drop, early=each.early)
    if each.early is not None and each.early.clear and each.comparison is not None:
        verdict = _stopped_early(score, threshold, each.comparison, each.early)
        return Ruling(threshold, score, verdict, each.comparison, early=each.early)
    verdict = verdict_on(score, threshold, each.comparison, each.drop, each.anchor)
    missing = (threshold.compares and each.comparison is None) or (
        threshold.max_total_drop is not None and each.anchor is None
    )
    if missing and each.baseline.required and verdict.status != "fail":
        verdict = Verdict(
            "error", f"{score.name}: {verdict.reason} (--rageval-require-baseline, the default under CI=true)"
        )
    return Ruling(threshold, score, verdict, each.comparison, each.drop, each.anchor, early=each.early)


def _stopped_early(
    score: Score, threshold: Threshold, comparison: Comparison, early: "EarlyStopped"
) -> Verdict:
    verdict = Verdict(early.verdict or "pass", early.reason(threshold))
    if early.verdict == "fail":
        return verdict
    # Those that were not asked had a score in the baseline, or they are new.
    unasked = early.changed - early.asked
    comparison = replace(comparison, new=early.new)
    return replace(verdict, warnings=tuple(unseen_drop(score, threshold, comparison, unasked=unasked)))


def broken_parts(ruling: Ruling) -> set[str]:
    """What a failed threshold breaks: "bounds" (`min`, `max`), "baseline" (`max_drop`, `max_lost`)."""
    if ruling.score is None:
        return set()
    if ruling.early is not None:
        return {"baseline"}
    threshold = ruling.threshold
    parts = {
        "bounds": _without_baseline(threshold),
        "baseline": replace(threshold, min=None, max=None, max_total_drop=None),
    }
    verdicts = {
        name: verdict_on(ruling.score, part, ruling.comparison, ruling.drop) for name, part in parts.items()
    }
    return {name for name, verdict in verdicts.items() if verdict.status == "fail"}


def _without_baseline(threshold: Threshold) -> Threshold:
    return replace(threshold, max_drop=None, max_total_drop=None, max_lost=None)


def _below_anchor(score: Score, each: _Slice) -> Iterator[str]:
    """A warning where an update writes a baseline that is below the anchor, or cannot be compared with it."""
    pinning, allowed = each.baseline.pinning, each.threshold.max_total_drop
    if each.anchor_error is not None and not pinning:
        yield f"the anchor is kept, and cannot be compared with: {each.anchor_error}"
    if (drop := each.anchor) is None:
        return
    lost = drop.comparison.drop
    if lost > ROUNDING and (drop.significant or (allowed is not None and lost > allowed + ROUNDING)):
        bound = "" if allowed is None else f", allowed {allowed:g}"
        significant = "significant" if drop.significant else "not significant"
        anchor = "it is replaced" if pinning else "it is kept, and --rageval-pin-baseline would replace it"
        yield (
            f"the new baseline is below the anchor: {drop_text(score, drop, allowed or 0.0)}"
            f"{bound}: {'a larger drop' if drop.beyond else 'a drop'} is {significant} ({p_value_text(drop)}); {anchor}"
        )


def _is_new(score: Score, before: BaselineScore) -> bool:
    """Whether the score is of a slice of which the baseline has no question.

    A whole set is never new: a changed set would not be compared at all.
    """
    return bool(score.slice) and not any(outcome.example.id in before.questions for outcome in score.outcomes)


def _values(score: Score, tag: str) -> Sequence[Any]:
    """The values of a tag, in the same order in every process."""
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


def _worst_first(ruling: Ruling) -> tuple[int, float, str]:
    """Sort key: the verdict, then how close the mean is to a bound."""
    margin = 0.0
    if ruling.score is not None:
        threshold = ruling.threshold
        margins = []
        if threshold.min is not None:
            margins.append(ruling.score - threshold.min)
        if threshold.max is not None:
            margins.append(threshold.max - ruling.score)
        if threshold.max_drop is not None and ruling.comparison is not None:
            margins.append(threshold.max_drop - ruling.comparison.drop)
        if threshold.max_total_drop is not None and ruling.anchor is not None:
            margins.append(threshold.max_total_drop - ruling.anchor.comparison.drop)
        margin = min(margins, default=float(ruling.score))
    return WORST_FIRST.index(ruling.verdict.status), margin, str(ruling.threshold.where)
