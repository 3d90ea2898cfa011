"""Evaluates all thresholds of a test: slices, comparison with the baseline, joint test of the drops, verdicts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pytest_rageval.core.data import Example
from pytest_rageval.core.errors import InputError, RagevalError, StaleBaselineError
from pytest_rageval.core.outcome import Score
from pytest_rageval.gate.comparison import (
    BaselineExample,
    BaselineScore,
    Comparison,
    QuestionChanges,
    changed_questions,
    compare,
    question_changes,
)
from pytest_rageval.gate.drop_types import DropTestInput, DropTestResult
from pytest_rageval.gate.sentences import chance_text, change_text, removal_text
from pytest_rageval.gate.threshold import Threshold, level_shares
from pytest_rageval.gate.verdict import WORST_FIRST, Measured, Verdict, blind_text, early_pass, verdict_on
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

if TYPE_CHECKING:
    from pytest_rageval.gate.ratio import RatioTestResult

# Imported late, since few thresholds compare with a reference.
run_ratio_test: Final = Lazy("gate.ratio", "run_ratio_test")

BASELINE_BOUNDS: Final = ("max_drop", "max_lost")

ExampleState = Literal["asked", "unchanged", "not asked"]
"""How early stop treated an example: evaluated, taken from the baseline, or not evaluated."""


@dataclass(frozen=True, slots=True)
class BaselineLookup:
    """The baseline of a score, or why there is none.

    Attributes:
        fingerprint: what the score depends on in this run, apart from the retriever.
        before: the score in the baseline; None if it is missing.
        updating: whether this run writes the baseline, so that nothing is compared with it.
        required: whether a missing baseline is an error.
        missing: why the comparison is an error: the test is in the file under another name, the generator or judge
            changed, or the score is no baseline, as nothing is below it. Empty if there is no file.
        new: why the score is not in the file; empty if it is, or if there is no file.
        tolerance: differences of an example's scores up to this are rounding.
        anchor: the score in the anchor; None if it is missing or not needed.
        pinning: whether this run pins a new anchor.
        max_removed: the largest share of the baseline's questions that may be removed or edited.
        deterministic: whether no model is in the score, so that it is the same in each run of the same retriever.
    """

    fingerprint: Mapping[str, Any]
    before: BaselineScore | None
    updating: bool = False
    required: bool = False
    missing: str = ""
    new: str = ""
    tolerance: float = SCORE_TOLERANCE
    anchor: BaselineScore | None = None
    pinning: bool = False
    max_removed: float = 0.1
    deterministic: bool = False


@dataclass(frozen=True, slots=True)
class EarlyStopResult:
    """The result of evaluating the questions of a threshold in random order until its verdict is clear.

    The names of `asked`, `changed`, `unchanged`, `not_asked`, `drop` and `verdict` are also keys of the report.

    Attributes:
        states: the state of each example, by its id. Examples that cannot be compared with the baseline have a state
            only if they were not evaluated.
        changed: number of examples that can be compared and are not known to be unchanged.
        verdict: the verdict; None if all examples were evaluated, so that the usual test decides.
        drop: the estimated drop of the whole set; None if no example was evaluated.
        certain: whether a "pass" would remain even if all other examples got the lowest score.
        level: the significance level of the test of all examples.
        changes: the questions of the eval set, evaluated or not, that cannot be compared; None if they are unknown.
    """

    states: Mapping[str, ExampleState]
    changed: int
    verdict: Literal["pass", "fail"] | None
    drop: float | None = None
    certain: bool = False
    level: float = 1.0
    changes: QuestionChanges | None = None

    @property
    def stopped(self) -> bool:
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
    def not_comparable(self) -> int:
        """Number of examples that were not evaluated and cannot be compared with the baseline."""
        return self.not_asked - (self.changed - self.asked)

    def reason(self, threshold: Threshold) -> str:
        """Return why the evaluation stopped, as text."""
        max_drop = threshold.max_drop or 0.0
        if self.verdict == "fail" and self.drop is not None:
            larger = f"a drop of more than {max_drop:g}" if threshold.policy.burden == "beyond" else "a drop"
            how = (
                f"drop about {self.drop:.3f}, allowed {max_drop:g}: with at least 99% probability {larger} is "
                f"significant with all questions (level {self.level:.2g})"
            )
        elif self.certain:
            how = f"the remaining questions cannot raise the drop above the allowed {max_drop:g}"
        else:
            how = (
                f"with at least 99% probability the drop of all questions is at most the allowed {max_drop:g}, or not "
                f"significant (level {self.level:.2g})"
            )
        return (
            f"stopped early: {self.asked:,} of {self.changed:,} changed questions evaluated "
            f"({self.unchanged:,} unchanged): {how}"
        )


@dataclass(frozen=True, slots=True)
class ThresholdResult:
    """The verdict on a threshold, with the score, comparison and tests that it is based on.

    Attributes:
        threshold: the threshold, limited to a single slice.
        score: the score of that slice; None if it cannot be computed.
        verdict: the verdict on the score.
        comparison: the comparison with the baseline; None without a baseline.
        drop: the test of `max_drop`; None without a test.
        anchor: the test of `max_total_drop`; if the run updates the baseline, the test of the new baseline against the
            anchor; None without a test.
        slices: with `by`, the result of each value of the tag, the worst first; this result is the first of them.
        early: the early stop of the threshold; None without it. If it stopped before all questions were evaluated,
            `score` and `comparison` are those of the known examples, and their means say nothing about the whole set.
        ratio: the comparison of `max_ratio` with the reference; None without it.
        changes: the questions of the whole eval set that cannot be compared with the baseline; None without a baseline.
        is_new: whether the threshold compares with a baseline that does not have the score yet.
        deterministic: as in `BaselineLookup`.
    """

    threshold: Threshold
    score: Score | None
    verdict: Verdict
    comparison: Comparison | None = None
    drop: DropTestResult | None = None
    anchor: DropTestResult | None = None
    slices: tuple["ThresholdResult", ...] = ()
    early: EarlyStopResult | None = None
    ratio: "RatioTestResult | None" = None
    changes: QuestionChanges | None = None
    is_new: bool = False
    deterministic: bool = False

    @property
    def stopped_early(self) -> bool:
        """True if the verdict was clear before all questions were evaluated."""
        return self.early is not None and self.early.stopped


class ThresholdInput(NamedTuple):
    """A threshold to evaluate.

    Attributes:
        score: the score of the whole eval set; with `early`, of the examples that are known.
        threshold: the threshold.
        baseline: the score's baseline.
        early: the early stop of the threshold; None without it.
    """

    score: Score
    threshold: Threshold
    baseline: BaselineLookup
    early: EarlyStopResult | None = None


def evaluate_thresholds(
    inputs: Sequence[ThresholdInput | RagevalError], *, family_size: int = 1, extra_alpha_shares: int = 0
) -> list[ThresholdResult | RagevalError]:
    """Evaluate the thresholds of one test.

    Drops from the baseline are tested jointly, and so are drops from the anchor. A slice without any question in the
    baseline has no baseline yet.

    Args:
        inputs: the thresholds, with scores of the same eval set; an error in place of an input is returned unchanged.
        family_size: number of gated tests that share the level of `max_drop` and `max_total_drop`. With several, the
            test of the whole suite has half of the level of `max_drop`.
        extra_alpha_shares: number of further shares of the level in this test, for thresholds with early stop.

    Returns:
        For each input its result; or an `InputError`, if no example has the tag of `where` or `by`, or a
        `TooManyUnscoredError`, if the slice of `where` has no score.
    """
    changed = _ChangedQuestions()
    sliced = [
        threshold_input if isinstance(threshold_input, RagevalError) else _slices(threshold_input, changed)
        for threshold_input in inputs
    ]
    slices = [part for parts in sliced if not isinstance(parts, RagevalError) for part in parts]
    try:
        drops = iter(
            _run_drop_tests(
                [test_input for part in slices if (test_input := part.drop_test_input)],
                family_size=level_shares(family_size),
                extra_alpha_shares=extra_alpha_shares,
            )
        )
        total_drops = iter(
            _run_drop_tests(
                [test_input for part in slices if (test_input := part.anchor_input)], family_size=family_size
            )
        )
    except InputError as error:
        return [error] * len(inputs)
    for part in slices:
        part.drop = next(drops) if part.drop_test_input else None
        part.anchor = next(total_drops) if part.anchor_input else None
    return [parts if isinstance(parts, RagevalError) else _worst_result(parts) for parts in sliced]


def _run_drop_tests(
    inputs: Sequence[DropTestInput], *, family_size: int, extra_alpha_shares: int = 0
) -> list[DropTestResult]:
    if not inputs:
        return []
    # Imported late: few runs need its statistics.
    from pytest_rageval.gate.drop_tests import run_drop_tests  # noqa: PLC0415

    return run_drop_tests(inputs, family_size=family_size, extra_alpha_shares=extra_alpha_shares)


@dataclass(slots=True)
class _Slice:
    """A threshold on a single slice, with its comparisons and tests, which are filled in step by step.

    In an update `comparison_input` compares the score with itself, as the next run will begin. `error` and
    `anchor_error` say why a comparison is missing; `changes` are those of the whole eval set.
    """

    threshold: Threshold
    baseline: BaselineLookup
    score: Score | None = None
    error: RagevalError | None = None
    comparison_input: DropTestInput | None = None
    drop: DropTestResult | None = None
    anchor_input: DropTestInput | None = None
    anchor: DropTestResult | None = None
    anchor_error: RagevalError | None = None
    early: EarlyStopResult | None = None
    ratio: "RatioTestResult | None" = None
    changes: QuestionChanges | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def comparison(self) -> Comparison | None:
        """The comparison with the baseline; None if there is none, or this run writes the baseline."""
        compared = None if self.baseline.updating else self.comparison_input
        return None if compared is None else compared.comparison

    @property
    def stopped_early(self) -> bool:
        """True if the verdict was clear before all questions were evaluated."""
        return self.early is not None and self.early.stopped

    @property
    def drop_test_input(self) -> DropTestInput | None:
        """The input of the test of `max_drop`; None if it is not tested."""
        return None if self.threshold.max_drop is None or self.stopped_early else self.comparison_input


class _ChangedQuestions:
    """A cache of `changed_questions`: all scores and slices of a test share the digests of the questions."""

    def __init__(self) -> None:
        self._entries: list[tuple[BaselineScore, list[Example], set[str]]] = []
        self._changes: dict[tuple[int, int], QuestionChanges] = {}

    def changes(self, score: Score, before: BaselineScore) -> QuestionChanges:
        """Return the `question_changes` of a score, computed only if they are not cached."""
        key = id(score), id(before)
        if key not in self._changes:
            examples = [outcome.example for outcome in score.outcomes]
            self._changes[key] = question_changes(examples, before, self.get(score, before))
        return self._changes[key]

    def get(self, score: Score, before: BaselineScore) -> set[str]:
        """Return the `changed_questions` of a score's examples, computed only if they are not cached."""
        examples = [outcome.example for outcome in score.outcomes]
        for cached_before, cached_examples, changed in self._entries:
            same_baseline = (
                cached_before.questions is before.questions and cached_before.context == before.context
            )
            if (
                same_baseline
                and len(cached_examples) == len(examples)
                and all(map(is_, cached_examples, examples))
            ):
                return changed
        self._entries.append((before, examples, changed_questions(examples, before)))
        return self._entries[-1][-1]


def _slices(threshold_input: ThresholdInput, changed: _ChangedQuestions) -> list[_Slice] | RagevalError:
    """Return the slices of a threshold: a single one, or with `by` one for each value of the tag."""
    score, threshold, baseline, early = threshold_input
    try:
        whole = score.where(**threshold.where) if threshold.where else score
        if threshold.by is None:
            part = _Slice(threshold, baseline, whole, early=early)
            _fill_in_comparisons(part, score, changed)
            return [part]
        values = _tag_values(whole, threshold.by)
    except RagevalError as error:
        return error
    slices = []
    for value in values:
        part = _Slice(replace(threshold, where={**threshold.where, threshold.by: value}), baseline)
        try:
            part.score = whole.where(**part.threshold.where)
        except RagevalError as error:
            part.error = error
        _fill_in_comparisons(part, score, changed)
        slices.append(part)
    return slices


def _fill_in_comparisons(part: _Slice, whole: Score, changed: _ChangedQuestions) -> None:
    """Compare a slice with the baseline, the anchor and the reference, as far as its threshold needs them.

    If the run updates the baseline, the slice is compared with the anchor only.
    """
    score, baseline = part.score, part.baseline
    if score is not None and part.threshold.max_ratio is not None:
        part.ratio = run_ratio_test(score)
    if score is None or not part.threshold.uses_baseline:
        return
    try:
        part.anchor_input = _compare_with_anchor(part, score, whole, changed)
    except RagevalError as error:
        part.anchor_error = error
    level = None if part.early is None else part.early.level
    try:
        if baseline.missing:
            raise StaleBaselineError(f"{score.name}: {baseline.missing}")
        if baseline.updating:
            comparison = _self_comparison(score, baseline)
        elif baseline.before is None or _is_new_slice(score, baseline.before):
            return
        else:
            comparison = compare(
                score,
                baseline.fingerprint,
                baseline.before,
                tolerance=baseline.tolerance,
                changed=changed.get(whole, baseline.before),
            )
            part.changes = (
                changed.changes(whole, baseline.before) if part.early is None else part.early.changes
            )
            if part.changes is not None:
                part.error = _check_removed(part, baseline.before, part.changes)
        part.comparison_input = DropTestInput(part.threshold, comparison, score.scale, score.seed, level)
    except RagevalError as error:
        part.error = error


def _self_comparison(score: Score, baseline: BaselineLookup) -> Comparison:
    """Return the comparison of a score with the baseline that is written from it."""
    examples: dict[str, BaselineExample] = {
        outcome.example.id: {"score": outcome.value} for outcome in score.outcomes
    }
    return compare(
        score, baseline.fingerprint, BaselineScore({}, baseline.fingerprint, examples), changed=frozenset()
    )


def _check_removed(
    part: _Slice, before: BaselineScore, changes: QuestionChanges
) -> StaleBaselineError | None:
    """Return an error if too many of the baseline's questions are gone, or add a warning if it is not required."""
    text = removal_text(before, changes, part.baseline.max_removed)
    if text and part.baseline.required:
        name = part.threshold.name if part.score is None else part.score.name
        return StaleBaselineError(f"{name}: {text}")
    part.warnings += [f"{text}. Under CI=true this is an error"] if text else []
    return None


def _compare_with_anchor(
    part: _Slice, score: Score, whole: Score, changed: _ChangedQuestions
) -> DropTestInput | None:
    baseline, anchor = part.baseline, part.baseline.anchor
    if anchor is None or anchor.pin is None or _is_new_slice(score, anchor):
        return None
    comparison = compare(
        score,
        baseline.fingerprint,
        anchor,
        tolerance=baseline.tolerance,
        changed=changed.get(whole, anchor),
    )
    part.anchor_error = _check_removed(part, anchor, changed.changes(whole, anchor))
    threshold = part.threshold.total_drop_threshold(anchor.pin.updates)
    return DropTestInput(threshold, comparison, score.scale, score.seed)


def _worst_result(slices: Sequence[_Slice]) -> ThresholdResult:
    """Return the worst result of the slices; with `by`, it contains the results of all slices."""
    blind = {id(part): _blind_text(part) for part in slices if _is_compared(part)}
    # A slice with few questions only warns, if the threshold can fail in another slice.
    is_blind = bool(blind) and all(blind.values())
    results = sorted(
        (_slice_result(part, blind.get(id(part), "") if is_blind else "") for part in slices),
        key=_worst_first,
    )
    return replace(results[0], slices=tuple(results)) if results[0].threshold.by is not None else results[0]


def _is_compared(part: _Slice) -> bool:
    errors = part.error or part.anchor_error
    return part.comparison_input is not None and errors is None and not part.stopped_early


def _blind_text(part: _Slice) -> str:
    if part.score is None or part.comparison_input is None:
        return ""
    anchor = None if part.baseline.updating else part.anchor
    comparison, deterministic = part.comparison_input.comparison, part.baseline.deterministic
    measured = Measured(part.score, comparison, part.drop, anchor, deterministic=deterministic)
    return blind_text(measured, part.threshold)


def _slice_result(part: _Slice, blind: str) -> ThresholdResult:
    """Return the result of a slice; `blind` says why the threshold could not fail, and is empty if it could."""
    verdict = Verdict("error", str(part.error)) if part.score is None else _slice_verdict(part, part.score)
    updating = part.baseline.updating
    if blind and updating:
        verdict = replace(verdict, warnings=(*verdict.warnings, f"the next run will be an error: {blind}"))
    elif blind and part.score is not None and verdict.status != "fail":
        verdict = Verdict("error", f"{part.score.name}: {blind}.")
    return ThresholdResult(
        part.threshold,
        part.score,
        replace(verdict, warnings=(*part.warnings, *verdict.warnings)),
        part.comparison,
        None if updating else part.drop,
        part.anchor if part.error is None else None,
        early=part.early,
        ratio=part.ratio,
        changes=part.changes,
        is_new=part.error is part.anchor_error is None
        and part.score is not None
        and part.threshold.uses_baseline
        and part.comparison is None,
        deterministic=part.baseline.deterministic,
    )


def _slice_verdict(part: _Slice, score: Score) -> Verdict:
    threshold, baseline = part.threshold, part.baseline
    measured = Measured(
        score, part.comparison, part.drop, part.anchor, part.ratio, deterministic=baseline.deterministic
    )
    if baseline.updating and threshold.uses_baseline and not baseline.missing:
        verdict = verdict_on(Measured(score), threshold.without(*BASELINE_BOUNDS))
        if verdict.status == "pass":
            verdict = replace(verdict, reason=f"{score:.3f} is the new baseline")
        return replace(verdict, warnings=(*verdict.warnings, *_anchor_warnings(score, part)))
    error = part.error or part.anchor_error
    if error is not None:
        # A violated `min` or `max` fails, even if the comparison is impossible. If there is one, with the baseline,
        # `max_drop` and `max_lost` can fail too.
        is_compared = part.comparison is not None and not part.stopped_early
        bounds = threshold.without_total_drop() if is_compared else threshold.without(*BASELINE_BOUNDS)
        verdict = verdict_on(measured._replace(anchor=None), bounds)
        if verdict.status == "fail":
            return replace(verdict, warnings=(*verdict.warnings, str(error)))
        return Verdict("error", str(error))
    if part.early is not None and part.early.stopped and part.comparison is not None:
        return _early_stop_verdict(score, threshold, part.comparison, part.early)
    verdict = verdict_on(measured, threshold)
    is_missing = (threshold.uses_baseline and part.comparison is None) or (
        threshold.max_total_drop is not None and part.anchor is None
    )
    if part.comparison is None and baseline.new and verdict.status == "pass":
        text = f"{score:.3f} has no baseline yet: {' '.join(baseline.new.splitlines())}"
        verdict = replace(verdict, reason=text, warnings=(text, *verdict.warnings[1:]))
    if is_missing and baseline.required and verdict.status != "fail":
        return Verdict(
            "error",
            f"{score.name}: {verdict.reason} (--rageval require_baseline=true, the default under CI=true)",
        )
    return verdict


def _early_stop_verdict(
    score: Score, threshold: Threshold, comparison: Comparison, early: EarlyStopResult
) -> Verdict:
    verdict = Verdict(early.verdict or "pass", early.reason(threshold))
    if early.verdict == "fail":
        return verdict
    # The examples that were not evaluated have a score in the baseline, or cannot be compared.
    not_evaluated = early.changed - early.asked
    comparison = replace(comparison, unmatched=early.not_comparable)
    return early_pass(score, threshold, comparison, verdict.reason, not_evaluated=not_evaluated)


def violated_bounds(result: ThresholdResult) -> set[str]:
    """Return which bounds of a failed threshold are violated.

    "bounds" stands for `min` and `max`, "baseline" for `max_drop` and `max_lost`.
    """
    if result.score is None:
        return set()
    if result.early is not None:
        return {"baseline"}
    parts = {
        "bounds": result.threshold.without(*BASELINE_BOUNDS),
        "baseline": result.threshold.without("min", "max").without_total_drop(),
    }
    measured = Measured(result.score, result.comparison, result.drop, deterministic=result.deterministic)
    return {name for name, threshold in parts.items() if verdict_on(measured, threshold).status == "fail"}


def _anchor_warnings(score: Score, part: _Slice) -> Iterator[str]:
    """Yield a warning if an update writes a baseline that is below the anchor, or cannot be compared with it."""
    pinning, allowed = part.baseline.pinning, part.threshold.max_total_drop
    if part.anchor_error is not None and not pinning:
        yield f"the anchor is kept, and cannot be compared with: {part.anchor_error}"
    if (test := part.anchor) is None:
        return
    drop = test.comparison.drop
    if drop > SCORE_TOLERANCE and (
        test.significant or (allowed is not None and drop > allowed + SCORE_TOLERANCE)
    ):
        anchor = "it is replaced" if pinning else "it is kept, and --rageval-pin-baseline would replace it"
        yield (
            f"the new baseline is below the anchor: {change_text(score, test, allowed)}. {chance_text(test)}; {anchor}"
        )


def _is_new_slice(score: Score, before: BaselineScore) -> bool:
    """Whether the score is of a slice without any question in the baseline.

    A score of the whole set is never new, because a changed set is not compared at all.
    """
    return bool(score.slice) and not any(outcome.example.id in before.questions for outcome in score.outcomes)


def _tag_values(score: Score, tag: str) -> Sequence[Any]:
    """Return the values of a tag, in the same order in every process.

    Raises:
        InputError: no example has the tag.
    """
    by_text: dict[str, Any] = {}
    for outcome in score.outcomes:
        value = outcome.example.tags.get(tag)
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                by_text.setdefault(f"{type(item).__name__} {item}", item)
    if not by_text:
        known = sorted({name for outcome in score.outcomes for name in outcome.example.tags})
        existing = f"They have: {', '.join(known)}." if known else "They have no tags."
        raise InputError(f"{score.spec}: no example has the tag by={tag!r}. {existing}")
    return [by_text[text] for text in sorted(by_text)]


def _worst_first(result: ThresholdResult) -> tuple[int, float, str]:
    """Sort key: the verdict, then how close the mean is to a bound."""
    threshold, score = result.threshold, result.score
    margin = 0.0
    if score is not None:
        anchor_comparison = None if result.anchor is None else result.anchor.comparison
        drops = (
            (threshold.max_drop, result.comparison),
            (threshold.max_total_drop, anchor_comparison),
        )
        margins = [
            bound - comparison.drop
            for bound, comparison in drops
            if bound is not None and comparison is not None
        ]
        margins += [] if threshold.min is None else [score - threshold.min]
        margins += [] if threshold.max is None else [threshold.max - score]
        allowed, ratio = threshold.max_ratio, result.ratio
        margins += [] if allowed is None or ratio is None else [allowed - ratio.ratio]
        margin = min(margins, default=float(score))
    return WORST_FIRST.index(result.verdict.status), margin, str(result.threshold.where)
