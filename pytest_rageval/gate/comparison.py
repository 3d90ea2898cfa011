"""Pairs the scores of the examples in this run with their scores in the baseline."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import fsum
from typing import Any

from pytest_rageval.baseline.entries import IGNORED_KEYS, BaselineExample, BaselineScore
from pytest_rageval.baseline.file import ids_under, score_getter
from pytest_rageval.core.errors import StaleBaselineError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.lib.text import counted
from pytest_rageval.stats.intervals import SCORE_TOLERANCE


@dataclass(frozen=True, slots=True)
class QuestionChanges:
    """How the questions of a score changed since the baseline: the ids of those that cannot be compared.

    A reworded question is `edited`; as far as the comparison is concerned, it is removed and another one is new. It is
    `edited` too if it was scored with other settings, or if a tag that a slice is selected by has changed or is gone:
    else it would leave its slice unseen. `removed` is empty for a slice.
    `before` is the number of questions in the baseline.
    """

    removed: tuple[str, ...]
    new: tuple[str, ...]
    edited: tuple[str, ...]
    before: int

    @property
    def gone(self) -> tuple[str, ...]:
        """The questions of the baseline that are not compared."""
        return (*self.removed, *self.edited)

    def __len__(self) -> int:
        return len(self.removed) + len(self.new) + len(self.edited)

    def __str__(self) -> str:
        """The three counts, such as "3 removed, 1 new, 0 edited"."""
        return f"{len(self.removed)} removed, {len(self.new)} new, {len(self.edited)} edited"


@dataclass(frozen=True, slots=True)
class ExamplePair:
    """One example in this run and in the baseline; `drop` is the old score minus the new one, without rounding."""

    outcome: Outcome
    drop: float
    before: BaselineExample

    @property
    def old_ranking(self) -> tuple[str, ...] | None:
        """The ranking in the baseline, as labels of documents; None if it is not recorded."""
        ranking = self.before.get("ranking")
        return None if ranking is None else tuple(ranking)

    @property
    def old_answer(self) -> str | None:
        return self.before.get("answer")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a score with the baseline, or its anchor, over the examples that can be compared.

    An example can be compared if its question is unchanged and it has a score in this run and in the baseline. An
    example on which the retriever fails in this run counts with the lowest possible value.

    Attributes:
        before: the score in the baseline.
        outcomes: the outcomes of the compared examples.
        drops: the old score minus the new score of each compared example; 0 if the difference is only rounding.
        mean: the baseline's mean over the compared examples.
        lowest: the lowest value that an example can have, or has.
        changes: the examples that are removed, new or edited.
        unscored: number of unchanged examples without a score in this run or in the baseline.
        unmatched: number of examples with a score in this run and none in the baseline that it can be compared with.
        lost: the unchanged examples that had a score and have none now; they are part of `unscored`.
        failed: the examples among `outcomes` on which the retriever fails in this run.
    """

    before: BaselineScore
    outcomes: Sequence[Outcome]
    drops: list[float]
    mean: float
    lowest: float
    changes: QuestionChanges
    unscored: int
    unmatched: int
    lost: tuple[Outcome, ...]
    failed: tuple[Outcome, ...] = ()

    @property
    def n(self) -> int:
        return len(self.drops)

    @property
    def examples(self) -> list[Example]:
        return [outcome.example for outcome in self.outcomes]

    @property
    def drops_by_id(self) -> dict[str, float]:
        return {outcome.example.id: drop for outcome, drop in zip(self.outcomes, self.drops, strict=True)}

    @property
    def drop(self) -> float:
        return fsum(self.drops) / self.n

    @property
    def pairs(self) -> Iterator[ExamplePair]:
        """All compared examples; created lazily, since there may be 100,000."""
        return map(self._pair, self.outcomes, self.drops)

    @property
    def changed_pairs(self) -> Iterator[ExamplePair]:
        return (
            self._pair(outcome, drop) for outcome, drop in zip(self.outcomes, self.drops, strict=True) if drop
        )

    @property
    def worse(self) -> list[ExamplePair]:
        """The examples that got worse, the largest loss first."""
        return sorted((pair for pair in self.changed_pairs if pair.drop > 0), key=lambda pair: -pair.drop)

    @property
    def better(self) -> list[ExamplePair]:
        """The examples that got better, the largest gain first."""
        return sorted((pair for pair in self.changed_pairs if pair.drop < 0), key=lambda pair: pair.drop)

    @property
    def with_lost(self) -> "Comparison":
        """The worst case of what is unknown: the `lost` examples are compared too, and have the lowest value."""
        return self._lowered(self.lost)

    @property
    def all_wrong(self) -> "Comparison":
        """The worst case of all: each example that had a score has the lowest value."""
        return self._lowered([*self.outcomes, *self.lost])

    def _lowered(self, outcomes: Iterable[Outcome]) -> "Comparison":
        drops = self.drops_by_id
        values = {outcome.example.id: outcome for outcome in self.outcomes}
        score_of = score_getter(self.before.examples)
        for outcome in outcomes:
            name = outcome.example.id
            values[name] = replace(outcome, value=self.lowest)
            drops[name] = (score_of(name) or 0.0) - self.lowest
        return replace(
            self,
            outcomes=tuple(values.values()),
            drops=list(drops.values()),
            mean=_old_mean(values.values(), drops.values()),
            unscored=self.unscored - len(self.lost),
            lost=(),
        )

    def _pair(self, outcome: Outcome, drop: float) -> ExamplePair:
        return ExamplePair(outcome, drop, self.before.examples[outcome.example.id])


def compare(
    score: Score,
    fingerprint: Mapping[str, object],
    before: BaselineScore,
    *,
    tolerance: float = SCORE_TOLERANCE,
    changed: AbstractSet[str] | None = None,
) -> Comparison:
    """Compare a score with its baseline.

    Differences of an example's scores up to `tolerance` count as 0. `changed` are the `changed_questions` of the whole
    eval set; None to compute them for this score.

    Raises:
        StaleBaselineError: the fingerprints differ, or no example can be compared.
    """
    differing = fingerprint_changes(before, fingerprint)
    which = before.kind if before.pin is None else f"{before.kind} ({before.pin})"
    remedy = f"{'write' if before.pin is None else 'pin'} a new {before.kind} on the commit to compare with"
    if differing:
        raise StaleBaselineError(
            f"{score.spec}: the {which} was made with other settings; only the retriever may differ. Changed since:\n"
            + "\n".join(f"  {line}" for line in differing)
            + f"\nGo back to what it was, or {remedy}: {before.options}."
        )
    if changed is None:
        changed = changed_questions((outcome.example for outcome in score.outcomes), before)
    examples = [outcome.example for outcome in score.outcomes]
    changes = question_changes(examples, before, changed, is_slice=bool(score.slice))
    not_comparable = {*changes.new, *changes.edited}
    same = [outcome for outcome in score.outcomes if outcome.example.id not in not_comparable]
    scored, old_values, score_of = [], [], score_getter(before.examples)
    for outcome in same:
        if (old_value := score_of(outcome.example.id)) is not None:
            scored.append(outcome)
            old_values.append(old_value)
    lowest = min([score.reach[0], *old_values])
    outcomes, drops, lost, failed = [], [], [], []
    for scored_outcome, old_value in zip(scored, old_values, strict=True):
        outcome = scored_outcome
        # If failures were left out, a retriever would improve by failing on the questions that it loses.
        if outcome.unscored is not None and outcome.cause == "retriever":
            outcome = replace(outcome, value=lowest)
            failed.append(outcome)
        if outcome.value is None:
            lost.append(outcome)
            continue
        outcomes.append(outcome)
        drop = old_value - outcome.value
        # Machines may round differently; such a difference is not a change.
        drops.append(drop if abs(drop) > tolerance else 0.0)
    if not outcomes:
        raise StaleBaselineError(
            f"{score.name}: of {counted(len(score.outcomes), 'example')} none is in the {which} with the same "
            f"question, answers and gold, and scored in both.\n{remedy[0].upper()}{remedy[1:]}: {before.options}."
        )
    return Comparison(
        before,
        tuple(outcomes),
        drops,
        mean=_old_mean(outcomes, drops),
        lowest=lowest,
        changes=changes,
        unscored=len(same) - len(outcomes),
        unmatched=score.n - (len(outcomes) - len(failed)),
        lost=tuple(lost),
        failed=tuple(failed),
    )


def _old_mean(outcomes: Collection[Outcome], drops: Collection[float]) -> float:
    return fsum(drop + (outcome.value or 0.0) for outcome, drop in zip(outcomes, drops, strict=True)) / len(
        outcomes
    )


def question_changes(
    examples: Iterable[Example], before: BaselineScore, changed: AbstractSet[str], *, is_slice: bool = False
) -> QuestionChanges:
    """Return which of the examples cannot be compared; `changed` are the `changed_questions` of them.

    If they are those of a slice, others were not removed.
    """
    # A merge without a conflict may put an example of one branch under the fingerprint of another.
    current = ids_under(before.examples, before.fingerprint_digest)
    present = {example.id: example.id in changed or example.id not in current for example in examples}
    return QuestionChanges(
        removed=() if is_slice else tuple(name for name in before.examples if name not in present),
        new=tuple(name for name in present if name not in before.examples),
        edited=tuple(name for name, differs in present.items() if differs and name in before.examples),
        before=len(before.examples),
    )


def fingerprint_changes(before: BaselineScore, fingerprint: Mapping[str, object]) -> list[str]:
    """Return the differences between the baseline's fingerprint and the one of this run, as a line of text each."""
    old = before.fingerprint
    return [
        f"{name}: {_value_text(old.get(name))} in the {before.kind}, {_value_text(fingerprint.get(name))} now"
        for name in sorted({*old, *fingerprint} - IGNORED_KEYS)
        if old.get(name) != fingerprint.get(name)
    ]


def _value_text(value: Any) -> str:
    return "nothing" if value is None else str(value)


def is_comparable(example: Example, before: BaselineScore) -> bool:
    """Whether the baseline has an entry of the same question under the same fingerprint."""
    if changed_questions([example], before):
        return False
    old, current = before.examples.get(example.id), before.fingerprint_digest
    return old is not None and old.get("under", current) == current


def changed_questions(examples: Iterable[Example], before: BaselineScore) -> set[str]:
    """Return the ids of the examples whose question is new or edited since the baseline."""
    changed = set()
    for example in examples:
        if example.id in before.tags:
            old_tags = before.tags[example.id].items()
            if any(example.tags.get(tag) != value for tag, value in old_tags):
                changed.add(example.id)
                continue
        old_digest = before.questions.get(example.id)
        # All scores of a test share the digest of the question. If some of them see the history, it includes the
        # history.
        if old_digest != example.digest_with_context(before.context) and not (
            example.history and old_digest == example.digest_with_context({*before.context, "history"})
        ):
            changed.add(example.id)
    return changed
