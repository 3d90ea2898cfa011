"""A score beside its baseline, question by question, and the test of whether it dropped."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, fsum
from typing import Any, Final

from pytest_rageval.errors import StaleBaselineError
from pytest_rageval.fingerprint import digest
from pytest_rageval.model import Example
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.stats.paired import NO_CHANGE, RESAMPLES, paired_test
from pytest_rageval.stats.power import detectable_drop, examples_needed

__all__ = [
    "BaselineScore",
    "Change",
    "Comparison",
    "DropTest",
    "changes_of",
    "compared",
    "drop_test",
    "mark_of",
]

NOTED: Final = frozenset({"package"})
"""What a fingerprint tells and does not depend on: of a release, what moves scores has a name of its own."""

SHORT: Final = 8
"""Hex digits that tell the few fingerprints of one score apart."""


def changes_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two fingerprints, a line each."""
    lines = []
    for name in sorted({*before, *now} - NOTED):
        then, today = before.get(name), now.get(name)
        if then != today:
            lines.append(f"{name}: {_shown(then)} in the baseline, {_shown(today)} now")
    return lines


def mark_of(fingerprint: Mapping[str, Any]) -> str:
    """A short digest of a fingerprint, by which each example of the baseline tells that it is its own."""
    return digest({name: value for name, value in fingerprint.items() if name not in NOTED})[:SHORT]


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


@dataclass(frozen=True)
class BaselineScore:
    """A score in the baseline.

    Attributes:
        questions: of its test, by example id, the digest of what was asked and right.
        fingerprint: of all beside the retriever that the score depends on, by name.
        examples: by id, with `score` and, where they were there, `ranking` and `answer`; under `under` the
            mark of the fingerprint that it was had with.
    """

    questions: Mapping[str, str]
    fingerprint: Mapping[str, Any]
    examples: Mapping[str, Mapping[str, Any]]

    @cached_property
    def mark(self) -> str:
        """What each of its examples bears."""
        return mark_of(self.fingerprint)


@dataclass(frozen=True, slots=True)
class Change:
    """One example then and now.

    Attributes:
        outcome: now; it has a value. That of an example at which the retriever failed is the lowest there is.
        drop: the score then less the score now.
        ranking: then, as reports name the documents; None where the score had none.
        answer: then, or None.
    """

    outcome: Outcome
    drop: float
    ranking: tuple[str, ...] | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All examples then and now that can be compared.

    Attributes:
        changes: one an example that is the same, and scored, in both; also where nothing changed. An example
            at which the retriever fails now is among them, with the lowest value that it may have.
        mean: of the baseline over these.
        left_out: how many examples of now or then are not among them: new, gone, or another question now.
        unscored: how many others are the same, and have no score now or had none then, for whatever reason.
        new: how many have a score now and none in the baseline: they had none, or are not the same there.
        lost: those that are the same, had a score then and have none now, a part of `unscored`.
        failed: those among `changes` at which the retriever fails now.
    """

    changes: tuple[Change, ...]
    mean: float
    left_out: int
    unscored: int
    new: int
    lost: tuple[Outcome, ...]
    failed: tuple[Outcome, ...] = ()

    @property
    def drops(self) -> list[float]:
        """Then less now, an example each."""
        return [change.drop for change in self.changes]

    @property
    def drop(self) -> float:
        """Their mean."""
        return fsum(self.drops) / len(self.changes)

    @property
    def worse(self) -> list[Change]:
        """The examples that lost, worst first."""
        return sorted((each for each in self.changes if each.drop > 0), key=lambda each: -each.drop)

    @property
    def better(self) -> list[Change]:
        """The examples that gained, most first."""
        return sorted((each for each in self.changes if each.drop < 0), key=lambda each: each.drop)


def compared(score: Score, fingerprint: Mapping[str, Any], before: BaselineScore) -> Comparison:
    """Lay a score, perhaps of a slice, beside its baseline.

    Raises:
        StaleBaselineError: something else than the retriever changed, or no example is the same and scored in both.
    """
    changed = changes_of(before.fingerprint, fingerprint)
    if changed:
        raise StaleBaselineError(
            f"{score.spec}: the baseline was made with other settings; only the retriever may differ. Changed since:\n"
            + "\n".join(f"  {line}" for line in changed)
            + "\nGo back to what it was, or write a new baseline on the commit to compare with: "
            "--rageval-update-baseline."
        )
    same = [outcome for outcome in score.outcomes if _is_same(outcome.example, before)]
    had = [outcome for outcome in same if before.examples[outcome.example.id].get("score") is not None]
    lowest = min([score.reach[0], *(before.examples[outcome.example.id]["score"] for outcome in had)])
    # Were they left out, a retriever would get better by failing at what it loses.
    counted = {id(outcome) for outcome in score.lacking("retriever")}
    now = [replace(outcome, value=lowest) if id(outcome) in counted else outcome for outcome in had]
    changes = tuple(
        _change(outcome, outcome.value, before.examples[outcome.example.id])
        for outcome in now
        if outcome.value is not None
    )
    if not changes:
        raise StaleBaselineError(
            f"{score.name}: of {len(score.outcomes)} examples none is in the baseline with the same question and "
            "gold, and scored in both.\nWrite a new baseline on the commit to compare with: "
            "--rageval-update-baseline."
        )
    # A slice leaves out the rest of the set on purpose; examples that are gone are only seen without one.
    gone = 0 if score.slice else len(before.examples.keys() - {o.example.id for o in score.outcomes})
    failed = tuple(outcome for outcome in now if outcome.value is not None and outcome.unscored is not None)
    return Comparison(
        changes,
        mean=fsum(change.drop + _value(change) for change in changes) / len(changes),
        left_out=len(score.outcomes) - len(same) + gone,
        unscored=len(same) - len(changes),
        new=score.n - (len(changes) - len(failed)),
        lost=tuple(outcome for outcome in now if outcome.value is None),
        failed=failed,
    )


def _is_same(example: Example, before: BaselineScore) -> bool:
    """Whether the baseline has a score of the same question, had under what the fingerprint says."""
    kept = before.examples.get(example.id)
    if kept is None or before.questions.get(example.id) != example.digest:
        return False
    # A merge without a conflict may put a score from the other branch below a fingerprint that is not its own.
    return bool(kept.get("under", before.mark) == before.mark)


def _change(outcome: Outcome, now: float, kept: Mapping[str, Any]) -> Change:
    then, ranking = kept["score"], kept.get("ranking")
    # Another machine may round otherwise, which is no question that got worse.
    drop = then - now if abs(then - now) > NO_CHANGE else 0.0
    return Change(outcome, drop, None if ranking is None else tuple(ranking), kept.get("answer"))


def _value(change: Change) -> float:
    return change.outcome.value or 0.0


BELOW: Final = 20
"""How many times smaller than the level the smallest p-value of drawn signs must be: none could else be significant."""


@dataclass(frozen=True, slots=True)
class DropTest:
    """What the examples say of a drop.

    Attributes:
        comparison: the examples then and now.
        p_value: of the test that decides: that nothing dropped, or where the threshold is strict, that
            the drop is at least `max_drop`.
        alpha: the level it is held against: the threshold's, divided by the number of such thresholds.
        detectable: the drop that this many examples show with a probability of 80%; None where the
            threshold is strict.
        needed: how many examples would show the drop that was seen, likewise; where the threshold is
            strict, how many like these would exclude one of `max_drop`. None where no number would, or
            more than 32 times as many.
    """

    comparison: Comparison
    p_value: float
    alpha: float
    detectable: float | None
    needed: int | None

    @property
    def significant(self) -> bool:
        """Whether the null hypothesis is rejected."""
        return self.p_value <= self.alpha


def drop_test(  # noqa: PLR0913 - what a test of a drop is made of
    comparison: Comparison,
    *,
    max_drop: float,
    strict: bool,
    alpha: float,
    largest: float = 1.0,
    seed: int = 0,
) -> DropTest:
    """Test the drop over the examples that can be compared.

    Args:
        comparison: at least one example.
        max_drop: the largest drop that is allowed.
        strict: whether the burden of proof is on the retriever.
        alpha: of this one test.
        largest: the largest drop that an example can have: how far the scale of the score reaches.
        seed: of the draws where not all sign patterns are weighed.
    """
    drops = comparison.drops
    # A score that another plugin added may reach further than anybody said.
    largest = max([largest, *map(abs, drops)])
    if strict:
        p_value, needed = _exclusion(drops, max_drop, alpha, largest)
        return DropTest(comparison, p_value, alpha, None, needed)
    return DropTest(
        comparison,
        paired_test(drops, seed=seed, resamples=max(RESAMPLES, ceil(BELOW / alpha))).p_value,
        alpha,
        detectable_drop(drops, alpha=alpha, max_drop=max_drop),
        examples_needed(drops, alpha=alpha, max_drop=max_drop),
    )


def _exclusion(drops: list[float], margin: float, alpha: float, largest: float) -> tuple[float, int | None]:
    """The p-value of "the drop is `margin` or more", and how many examples of which these are typical exclude it.

    In steps of as many as there are; None where 32 times as many do not.
    """
    # Imported late: of all that a gate needs, only this needs numpy whatever the scores.
    from pytest_rageval.stats.noninferiority import noninferiority  # noqa: PLC0415

    p_value = noninferiority(drops, margin, largest=largest)
    if p_value <= alpha:
        return p_value, len(drops)
    for times in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        if noninferiority(drops * times, margin, largest=largest) <= alpha:
            return p_value, times * len(drops)
    return p_value, None
