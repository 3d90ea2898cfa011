"""Compares the slices of thresholds with the baseline and its anchor."""

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from pytest_rageval.baseline.entries import BaselineExample, BaselineScore
from pytest_rageval.core.errors import RagevalError, StaleBaselineError
from pytest_rageval.core.outcome import Score, has_tags
from pytest_rageval.gate.comparison import (
    Comparison,
    QuestionChanges,
    changed_questions,
    compare,
    question_changes,
)
from pytest_rageval.gate.drop_tests import DropTestInput
from pytest_rageval.gate.sentences import chance_text, change_text, removal_text
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, Slice
from pytest_rageval.lib.text import counted
from pytest_rageval.stats.intervals import SCORE_TOLERANCE


class ChangedQuestions:
    """A cache of `changed_questions` and `question_changes`: the scores and slices of a test share the questions."""

    def __init__(self) -> None:
        self._changed: dict[tuple[int, frozenset[str], bytes], set[str]] = {}
        self._changes: dict[tuple[int, int], QuestionChanges] = {}

    def changes(self, score: Score, before: BaselineScore) -> QuestionChanges:
        key = id(score), id(before)
        if key not in self._changes:
            examples = [outcome.example for outcome in score.outcomes]
            self._changes[key] = question_changes(examples, before, self.get(score, before))
        return self._changes[key]

    def get(self, score: Score, before: BaselineScore) -> set[str]:
        examples = [outcome.example for outcome in score.outcomes]
        key = id(before.questions), frozenset(before.context), array("Q", map(id, examples)).tobytes()
        if key not in self._changed:
            self._changed[key] = changed_questions(examples, before)
        return self._changed[key]


def fill_in_comparisons(part: Slice, score: Score, whole: Score, changed: ChangedQuestions) -> None:
    """Compare the score of a slice with the baseline and the anchor, as far as its threshold needs them.

    If the run updates the baseline, the slice is compared with the anchor only.
    """
    baseline = part.baseline
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
            part.changes = part.early.changes if part.early else changed.changes(whole, baseline.before)
            if part.changes is not None:
                part.error = _check_removed(part, baseline.before, part.changes)
                if part.error is None and not part.warnings and part.threshold.where:
                    inside = _changes_inside(part.changes, baseline.before, part.threshold.where)
                    part.error = _check_removed(part, baseline.before, inside)
        part.comparison_input = DropTestInput(part.threshold, comparison, score.scale, score.seed, level)
    except RagevalError as error:
        part.error = error


def emptied_slices(
    values: Collection[object], score: Score, threshold: Threshold, baseline: BaselineLookup, other: Slice
) -> Iterator[Slice]:
    """Yield a slice with an error for each value of the tag `by` that only questions of the baseline have.

    If a baseline is not required, `other` gets a warning instead.
    """
    before = baseline.before
    if before is None or threshold.by is None:
        return
    inside = (
        tags
        for name, tags in before.tags.items()
        if name in before.examples and has_tags(tags, threshold.where)
    )
    old = (tags.get(threshold.by) for tags in inside)
    items = (item for value in old for item in (value if isinstance(value, list) else [value]))
    # By text: the value of a tag may be an object, which cannot be hashed.
    by_text = defaultdict[str, list[object]](list)
    for item in items:
        by_text[f"{type(item).__name__} {item}"].append(item)
    for known in (None, *values):
        by_text.pop(f"{type(known).__name__} {known}", None)
    for value, count in ((gone[0], len(gone)) for gone in by_text.values()):
        text = (
            f"no question has {threshold.by}={value!r} now, and {counted(count, 'question')} had it in the baseline. "
            f"Restore the tag; or, if the eval set is meant to change, write the baseline again: {before.options}"
        )
        if baseline.required:
            empty = replace(threshold, where={**threshold.where, threshold.by: value})
            yield Slice(empty, baseline, error=StaleBaselineError(f"{score.name}: {text}"))
        else:
            other.warnings.append(f"{text}. Under CI=true this is an error")


def _self_comparison(score: Score, baseline: BaselineLookup) -> Comparison:
    """Return the comparison of a score with the baseline that is written from it."""
    examples: dict[str, BaselineExample] = {
        outcome.example.id: {"score": outcome.value} for outcome in score.outcomes
    }
    return compare(
        score, baseline.fingerprint, BaselineScore({}, baseline.fingerprint, examples), changed=frozenset()
    )


def _changes_inside(
    changes: QuestionChanges, before: BaselineScore, where: Mapping[str, object]
) -> QuestionChanges:
    """Return the changes of those questions that were in a slice when the baseline was written."""
    inside = {name for name, tags in before.tags.items() if has_tags(tags, where)}
    removed, edited = (
        tuple(name for name in names if name in inside) for names in (changes.removed, changes.edited)
    )
    return QuestionChanges(removed, (), edited, len(inside & before.examples.keys()))


def _check_removed(part: Slice, before: BaselineScore, changes: QuestionChanges) -> StaleBaselineError | None:
    """Return an error if too many of the baseline's questions are gone, or add a warning if it is not required."""
    text = removal_text(before, changes, part.baseline.max_removed)
    if text and part.baseline.required:
        name = part.threshold.name if part.score is None else part.score.name
        return StaleBaselineError(f"{name}: {text}")
    part.warnings += [f"{text}. Under CI=true this is an error"] if text else []
    return None


def _compare_with_anchor(
    part: Slice, score: Score, whole: Score, changed: ChangedQuestions
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


def anchor_warnings(score: Score, part: Slice) -> Iterator[str]:
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
        chance = chance_text(test, part.threshold.policy.alpha)
        yield f"the new baseline is below the anchor: {change_text(score, test, allowed)}. {chance}; {anchor}"


def _is_new_slice(score: Score, before: BaselineScore) -> bool:
    """Whether the score is of a slice without any question in the baseline.

    A score of the whole set is never new, because a changed set is not compared at all.
    """
    return bool(score.slice) and not any(outcome.example.id in before.questions for outcome in score.outcomes)
