"""Rules on all thresholds of a test: slices, comparison with the baseline, joint test of the drops, verdicts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pytest_rageval.datatypes import Example
from pytest_rageval.errors import InputError, RagevalError, StaleBaselineError
from pytest_rageval.gate.comparison import BaselineScore, Comparison, changed_questions, compare
from pytest_rageval.gate.drops import Compared, DropTest
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
from pytest_rageval.lazy import Lazy
from pytest_rageval.scores import Score

if TYPE_CHECKING:
    from pytest_rageval.gate.ratio import RatioTest

__all__ = [
    "BaselineLookup",
    "EarlyStopped",
    "State",
    "ThresholdInput",
    "ThresholdResult",
    "broken_parts",
    "evaluate_thresholds",
]

# Few thresholds have a reference.
ratio_test: Final = Lazy("gate.ratio", "ratio_test")

State = Literal["asked", "unchanged", "not asked"]


@dataclass(frozen=True, slots=True)
class BaselineLookup:
    """The baseline of a score, or why there is none.

    Attributes:
        fingerprint: of everything besides the retriever that the score depends on now.
        before: the score in the baseline; None where it is missing.
        updating: whether this run writes the baseline, so that nothing is compared.
        required: whether a missing baseline is an error.
        missing: why nothing can be compared, which is an error: the score is not in the file, or generator or judge
            changed. Empty if there is no file.
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
class EarlyStopped:
    """The state of a threshold whose questions are evaluated in random order until its verdict is clear.

    Attributes:
        states: by example id. An "unchanged" example has the passages and the score of the baseline. Examples that
            cannot be compared with the baseline have a state only if they were "not asked", that is, not evaluated.
        changed: number of examples that can be compared and are not known to be unchanged.
        verdict: None if all of them were evaluated, so that the usual test decides.
        drop: of the whole set, estimated from the evaluated examples; None if there is none.
        certain: whether a "pass" cannot change, even if all other examples get the lowest score.
        level: the significance level of a "fail", and of the usual test if all examples were evaluated.
    """

    states: Mapping[str, State]
    changed: int
    verdict: Literal["pass", "fail"] | None
    drop: float | None = None
    certain: bool = False
    level: float = 1.0

    @property
    def clear(self) -> bool:
        """True if the verdict was clear before all questions were evaluated."""
        return self.verdict is not None

    @property
    def asked(self) -> int:
        """Number of changed examples that were evaluated."""
        return Counter(self.states.values())["asked"]

    @property
    def unchanged(self) -> int:
        """Number of examples that keep their score of the baseline."""
        return Counter(self.states.values())["unchanged"]

    @property
    def not_asked(self) -> int:
        """Number of examples that were not evaluated, so that their score is unknown."""
        return Counter(self.states.values())["not asked"]

    @property
    def new(self) -> int:
        """Number of these that cannot be compared."""
        return self.not_asked - (self.changed - self.asked)

    def reason(self, threshold: Threshold) -> str:
        """Why the evaluation stopped."""
        max_drop = threshold.max_drop or 0.0
        if self.verdict == "fail" and self.drop is not None:
            larger = f"a drop of more than {max_drop:g}" if threshold.burden == "beyond" else "a drop"
            how = f"drop about {self.drop:.3f}, allowed {max_drop:g}: {larger} is significant (level {self.level:.2g})"
        elif self.certain:
            how = f"the others cannot take the drop above the allowed {max_drop:g}"
        else:
            how = f"a drop above the allowed {max_drop:g} is excluded (level {threshold.alpha:.2g})"
        return (
            f"stopped early: {self.asked:,} of {self.changed:,} changed questions asked "
            f"({self.unchanged:,} unchanged): {how}"
        )


@dataclass(frozen=True, slots=True)
class ThresholdResult:
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
        ratio: the comparison of `max_ratio` with the reference, or None.
    """

    threshold: Threshold
    score: Score | None
    verdict: Verdict
    comparison: Comparison | None = None
    drop: DropTest | None = None
    anchor: DropTest | None = None
    slices: tuple["ThresholdResult", ...] = ()
    early: EarlyStopped | None = None
    ratio: "RatioTest | None" = None

    @property
    def stopped_early(self) -> bool:
        """True if the verdict was clear before all questions were evaluated."""
        return self.early is not None and self.early.clear


class ThresholdInput(NamedTuple):
    """A threshold to rule on: its score of the whole eval set, and the score's baseline.

    With `early`, the score is that of the examples that are known.
    """

    score: Score
    threshold: Threshold
    baseline: BaselineLookup
    early: EarlyStopped | None = None


def evaluate_thresholds(
    cases: Sequence[ThresholdInput | RagevalError], *, tests: int = 1, apart: int = 0
) -> list[ThresholdResult | RagevalError]:
    """Rule on the thresholds of one test. Drops from the baseline, and from the anchor, are tested jointly.

    A slice without any question in the baseline has no baseline yet.

    Args:
        cases: with scores of one eval set; an error in place of a case is returned in its place.
        tests: number of the run's tests that share the level of `max_drop` and `max_total_drop`.
        apart: number of the thresholds that need a share of the level of their own; see `drop_tests`.

    Returns:
        For each case the ruling; or an `InputError`, where no example has the tag of `where` or `by`, or a
        `TooManyUnscoredError`, where the slice of `where` has no score.
    """
    changed = _ChangedQuestions()
    sliced = [case if isinstance(case, RagevalError) else _slices(case, changed) for case in cases]
    slices = [each for found in sliced if not isinstance(found, RagevalError) for each in found]
    try:
        drops = iter(_tested([part for each in slices if (part := each.tested)], tests=tests, apart=apart))
        totals = iter(_tested([part for each in slices if (part := each.anchored)], tests=tests))
    except InputError as error:
        return [error] * len(cases)
    for each in slices:
        each.drop = next(drops) if each.tested else None
        each.anchor = next(totals) if each.anchored else None
    return [found if isinstance(found, RagevalError) else _ruling(found) for found in sliced]


def _tested(parts: Sequence[Compared], *, tests: int, apart: int = 0) -> list[DropTest]:
    if not parts:
        return []
    from pytest_rageval.gate.drop_tests import drop_tests  # noqa: PLC0415 - brings statistics that few runs need

    return drop_tests(parts, tests=tests, apart=apart)


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
    early: EarlyStopped | None = None
    ratio: "RatioTest | None" = None

    @property
    def comparison(self) -> Comparison | None:
        return None if self.compared is None else self.compared.comparison

    @property
    def stopped(self) -> bool:
        return self.early is not None and self.early.clear

    @property
    def tested(self) -> Compared | None:
        return None if self.threshold.max_drop is None or self.stopped else self.compared


class _ChangedQuestions:
    """The `changed_questions` of sets of examples: a digest is made once for all scores and slices of a test."""

    def __init__(self) -> None:
        self._found: list[tuple[BaselineScore, list[Example], set[str]]] = []

    def of(self, score: Score, before: BaselineScore) -> set[str]:
        examples = [outcome.example for outcome in score.outcomes]
        for known, of, changed in self._found:
            is_alike = known.questions is before.questions and known.context == before.context
            if is_alike and len(of) == len(examples) and all(map(is_, of, examples)):
                return changed
        self._found.append((before, examples, changed_questions(examples, before)))
        return self._found[-1][-1]


def _slices(case: ThresholdInput, changed: _ChangedQuestions) -> list[_Slice] | RagevalError:
    """The slices of a case: one, or with `by` one for each value of the tag."""
    score, threshold, baseline, early = case
    try:
        whole = score.where(**threshold.where) if threshold.where else score
        if threshold.by is None:
            return [_compared(_Slice(threshold, baseline, whole, early=early), score, changed)]
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
        slices.append(_compared(each, score, changed))
    return slices


def _compared(each: _Slice, whole: Score, changed: _ChangedQuestions) -> _Slice:
    """Compare a slice with the baseline and the anchor, as its threshold says; in an update only with the anchor.

    Or with the times of a reference. `whole` is the score of all examples.
    """
    score, baseline = each.score, each.baseline
    if score is not None and each.threshold.max_ratio is not None:
        each.ratio = ratio_test(score)
    if score is None or not each.threshold.compares:
        return each
    try:
        each.anchored = _anchored(each, score, whole, changed)
    except RagevalError as error:
        each.anchor_error = error
    if baseline.updating:
        return each
    try:
        if baseline.missing:
            raise StaleBaselineError(f"{score.name}: {baseline.missing}")
        if baseline.before is not None and not _is_new(score, baseline.before):
            comparison = compare(
                score,
                baseline.fingerprint,
                baseline.before,
                tolerance=baseline.tolerance,
                changed=changed.of(whole, baseline.before),
            )
            level = None if each.early is None else each.early.level
            each.compared = Compared(each.threshold, comparison, score.scale, score.seed, level)
    except RagevalError as error:
        each.error = error
    return each


def _anchored(each: _Slice, score: Score, whole: Score, changed: _ChangedQuestions) -> Compared | None:
    baseline, anchor = each.baseline, each.baseline.anchor
    if anchor is None or anchor.pin is None or _is_new(score, anchor):
        return None
    comparison = compare(
        score,
        baseline.fingerprint,
        anchor,
        tolerance=baseline.tolerance,
        changed=changed.of(whole, anchor),
    )
    return Compared(each.threshold.since_anchor(anchor.pin.updates), comparison, score.scale, score.seed)


def _ruling(slices: Sequence[_Slice]) -> ThresholdResult:
    rulings = sorted(map(_ruled, slices), key=_worst_first)
    return replace(rulings[0], slices=tuple(rulings)) if rulings[0].threshold.by is not None else rulings[0]


def _ruled(each: _Slice) -> ThresholdResult:
    verdict = Verdict("error", str(each.error)) if each.score is None else _verdict(each, each.score)
    anchor = each.anchor if each.error is None else None
    return ThresholdResult(
        each.threshold,
        each.score,
        verdict,
        each.comparison,
        each.drop,
        anchor,
        early=each.early,
        ratio=each.ratio,
    )


def _verdict(each: _Slice, score: Score) -> Verdict:
    threshold = each.threshold
    if each.baseline.updating and threshold.compares:
        bounded = verdict_on(score, _without_baseline(threshold))
        if bounded.status == "pass":
            bounded = replace(bounded, reason=f"{score:.3f} is the new baseline")
        return replace(bounded, warnings=(*bounded.warnings, *_below_anchor(score, each)))
    error = each.error or each.anchor_error
    if error is not None:
        # A violated `min` or `max` fails, even if the comparison passes.
        whole = each.error is None
        bounds = replace(threshold, max_total_drop=None) if whole else _without_baseline(threshold)
        bounded = verdict_on(score, bounds, each.comparison, each.drop)
        if bounded.status == "fail":
            return replace(bounded, warnings=(*bounded.warnings, str(error)))
        return Verdict("error", str(error))
    if each.early is not None and each.early.clear and each.comparison is not None:
        return _stopped_early(score, threshold, each.comparison, each.early)
    verdict = verdict_on(score, threshold, each.comparison, each.drop, each.anchor, each.ratio)
    missing = (threshold.compares and each.comparison is None) or (
        threshold.max_total_drop is not None and each.anchor is None
    )
    if missing and each.baseline.required and verdict.status != "fail":
        return Verdict(
            "error", f"{score.name}: {verdict.reason} (--rageval-require-baseline, the default under CI=true)"
        )
    return verdict


def _stopped_early(
    score: Score, threshold: Threshold, comparison: Comparison, early: EarlyStopped
) -> Verdict:
    verdict = Verdict(early.verdict or "pass", early.reason(threshold))
    if early.verdict == "fail":
        return verdict
    # Those that were not asked had a score in the baseline, or they are new.
    unasked = early.changed - early.asked
    comparison = replace(comparison, new=early.new)
    return replace(verdict, warnings=tuple(unseen_drop(score, threshold, comparison, unasked=unasked)))


def broken_parts(ruling: ThresholdResult) -> set[str]:
    """Return what a failed threshold breaks: "bounds" (`min`, `max`), "baseline" (`max_drop`, `max_lost`)."""
    if ruling.score is None:
        return set()
    if ruling.early is not None:
        return {"baseline"}
    parts = {
        "bounds": _without_baseline(ruling.threshold),
        "baseline": replace(ruling.threshold, min=None, max=None, max_total_drop=None),
    }
    return {
        name
        for name, part in parts.items()
        if verdict_on(ruling.score, part, ruling.comparison, ruling.drop).status == "fail"
    }


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
    """Return True if the score is of a slice without any question in the baseline.

    A score of the whole set is never new, because a changed set is not compared at all.
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
        raise InputError(f"{score.spec}: no example has the tag by={tag!r}. {listed}")
    return [found[key] for key in sorted(found)]


def _worst_first(ruling: ThresholdResult) -> tuple[int, float, str]:
    """Sort key: the verdict, then how close the mean is to a bound."""
    threshold, score = ruling.threshold, ruling.score
    margin = 0.0
    if score is not None:
        since = None if ruling.anchor is None else ruling.anchor.comparison
        drops = ((threshold.max_drop, ruling.comparison), (threshold.max_total_drop, since))
        margins = [bound - found.drop for bound, found in drops if bound is not None and found is not None]
        margins += [] if threshold.min is None else [score - threshold.min]
        margins += [] if threshold.max is None else [threshold.max - score]
        allowed, ratio = threshold.max_ratio, ruling.ratio
        margins += [] if allowed is None or ratio is None else [allowed - ratio.ratio]
        margin = min(margins, default=float(score))
    return WORST_FIRST.index(ruling.verdict.status), margin, str(ruling.threshold.where)
