"""Pairs a score with its baseline, question by question."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from math import fsum, isnan, nan
from types import NoneType
from typing import Any, Final, NamedTuple, Required, Self, TypedDict, cast

from pytest_rageval.datatypes import Example
from pytest_rageval.digests import digest
from pytest_rageval.errors import StaleBaselineError
from pytest_rageval.plural import counted
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.spool import Spool
from pytest_rageval.stats.intervals import ROUNDING

__all__ = [
    "BaselineExample",
    "BaselineScore",
    "Change",
    "Comparison",
    "KeptExample",
    "KeptExamples",
    "Pin",
    "changed_questions",
    "compare",
    "fingerprint_changes",
    "is_same",
    "mark_of",
]

IGNORED: Final = frozenset({"package"})
"""Names in a fingerprint that are not compared: what changes scores in a release has a name of its own."""

UPDATE: Final = "--rageval-update-baseline"

COMMIT_DIGITS: Final = 7  # hex digits of a commit that are shown
NOWHERE: Final = -(2**63)
"""The place of an example without a ranking or an answer."""

MARK_DIGITS: Final = 8  # hex digits that distinguish the few fingerprints of one score


class BaselineExample(TypedDict, total=False):
    """An example of a score in the baseline.

    `score` is null if it had none; `ranking` names documents as reports do; `answer` is the beginning of the
    generator's answer; `under` is the digest of the fingerprint under which it was scored (`mark_of`).
    """

    score: Required[float | None]
    ranking: list[str]
    answer: str
    under: str


class KeptExample(Mapping[str, Any]):
    """A `BaselineExample` whose ranking and answer are in a spool, at a place; None where it has neither."""

    __slots__ = ("_place", "_score", "_spool", "_under")

    def __init__(self, spool: Spool, score: float | None, under: str | None, place: int | None) -> None:
        self._spool, self._score, self._under, self._place = spool, score, under, place

    @classmethod
    def put(cls, spool: Spool, example: dict[str, Any]) -> Self:
        """Keep an example, which is JSON and is emptied of its score and mark."""
        score, under = example.pop("score"), example.pop("under", None)
        return cls(spool, score, under, spool.put(example, plain=True) if example else None)

    def __getitem__(self, key: str) -> Any:
        if key == "score":
            return self._score
        if key == "under" and self._under is not None:
            return self._under
        return self._rest[key]

    def get(self, key: str, default: Any = None) -> Any:
        """As of a dict; the score and the mark of each of 100,000 examples are read."""
        if key == "score":
            return self._score
        if key == "under" and self._under is not None:
            return self._under
        return self._rest.get(key, default)

    def __iter__(self) -> Iterator[str]:
        yield "score"
        if self._under is not None:
            yield "under"
        yield from self._rest

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        """As the object of the file, which an error may quote."""
        return repr(dict(self))

    @property
    def columns(self) -> tuple[float | None, str | None, int | None]:
        """The score, the mark of the fingerprint, and the place of the rest."""
        return self._score, self._under, self._place

    @property
    def _rest(self) -> dict[str, Any]:
        return {} if self._place is None else cast("dict[str, Any]", self._spool.get(self._place))


class KeptExamples(Mapping[str, KeptExample]):
    """The examples of a score, by id, as columns: an object for each would take 0.3 kB.

    Args:
        spool: of all of them.
        examples: at least one.
        alike: of another score; where it has the same ids, both share them.
    """

    __slots__ = ("_places", "_scores", "_spool", "_under", "index")

    index: dict[str, int]

    def __init__(
        self, spool: Spool, examples: Mapping[str, KeptExample], alike: "KeptExamples | None" = None
    ) -> None:
        shared: dict[str, int] = {} if alike is None else alike.index
        self.index = shared if [*shared] == [*examples] else _numbered(examples)
        scores, self._under, places = map(
            list, zip(*[each.columns for each in examples.values()], strict=True)
        )
        exact = {float, NoneType}.issuperset(map(type, scores))
        # An integer in the file is written as it was read, not as a float.
        self._scores = array("d", [nan if each is None else each for each in scores]) if exact else scores
        if len(set(self._under)) == 1:
            del self._under[1:]
        self._places = array("q", [NOWHERE if place is None else place for place in places])
        self._spool = spool

    def __getitem__(self, key: str) -> KeptExample:
        row = self.index[key]
        score, place = self._scores[row], self._places[row]
        return KeptExample(
            self._spool,
            None if score is None or isnan(score) else score,
            self._under[row if len(self._under) > 1 else 0],
            None if place == NOWHERE else place,
        )

    def get(self, key: str, default: Any = None) -> Any:
        """As of a dict, without the error of a missing key."""
        return self[key] if key in self.index else default

    def __contains__(self, key: object) -> bool:
        return key in self.index

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return repr(dict(self))

    @property
    def scores(self) -> Iterator[float | None]:
        """The score of each, without the rest of it."""
        return (None if score is None or isnan(score) else score for score in self._scores)


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: row for row, name in enumerate(names)}


class Pin(NamedTuple):
    """When an anchor was pinned: commit, date in ISO 8601, and the updates since that changed the test's scores."""

    commit: str | None
    date: str
    updates: int = 0

    @classmethod
    def today(cls, commit: str | None) -> Self:
        """The pin of an anchor that is pinned today (UTC); `commit` is None without git."""
        return cls(commit, datetime.now(UTC).date().isoformat())

    def __str__(self) -> str:
        """Such as "pinned at 1a2b3c4, 7 updates ago"."""
        place = f"on {self.date}" if self.commit is None else f"at {self.commit[:COMMIT_DIGITS]}"
        ago = f", {counted(self.updates, 'update')} ago" if self.updates else ""
        return f"pinned {place}{ago}"


@dataclass(frozen=True)
class BaselineScore:
    """A score in the baseline, or in its anchor.

    Attributes:
        questions: of its test, by example id, the digest of the question and its right answers.
        fingerprint: of everything besides the retriever that the score depends on, by name.
        examples: by id.
        runs: number of runs over which each example's score is a mean.
        pin: of an anchor; None of a baseline.
        context: the parts of an example's context that the score depends on, and that belong to the question.
    """

    questions: Mapping[str, str]
    fingerprint: Mapping[str, Any]
    examples: Mapping[str, BaselineExample]
    runs: int = 1
    pin: Pin | None = None
    context: AbstractSet[str] = frozenset()

    @property
    def kind(self) -> str:
        """The kind of comparison, for messages: baseline or anchor."""
        return "baseline" if self.pin is None else "anchor"

    @property
    def options(self) -> str:
        """The command-line options that write it again."""
        return UPDATE if self.pin is None else f"{UPDATE} --rageval-pin-baseline"

    @cached_property
    def mark(self) -> str:
        """The mark of the fingerprint."""
        return mark_of(self.fingerprint)


@dataclass(frozen=True, slots=True)
class Change:
    """One example in the baseline and now.

    Attributes:
        outcome: now; it has a value, which is the lowest possible where the retriever failed.
        drop: the old score minus the score now; 0 if it may be rounding.
        kept: the example in the baseline.
    """

    outcome: Outcome
    drop: float
    kept: BaselineExample

    @property
    def ranking(self) -> tuple[str, ...] | None:
        """The ranking in the baseline, as reports name documents; None where the score had none."""
        ranking = self.kept.get("ranking")
        return None if ranking is None else tuple(ranking)

    @property
    def answer(self) -> str | None:
        """The answer in the baseline, or None."""
        return self.kept.get("answer")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The examples that can be compared between this run and the baseline, or its anchor.

    Attributes:
        before: the baseline.
        outcomes: of the compared examples: those that are unchanged and scored in both. An example on which the
            retriever fails now counts with the lowest possible value.
        drops: of these examples: the old score minus the new one; 0 if the difference is only rounding.
        mean: the baseline's mean over these examples.
        left_out: number of examples that are new, removed or edited.
        unscored: number of unchanged examples without a score now or in the baseline.
        new: number of examples with a score now that are not in the baseline, or have another question there.
        lost: unchanged examples that had a score and have none now; a part of `unscored`.
        failed: those among `outcomes` on which the retriever fails now.
    """

    before: BaselineScore
    outcomes: Sequence[Outcome]
    drops: list[float]
    mean: float
    left_out: int
    unscored: int
    new: int
    lost: tuple[Outcome, ...]
    failed: tuple[Outcome, ...] = ()

    @property
    def n(self) -> int:
        """The number of examples that can be compared."""
        return len(self.drops)

    @property
    def examples(self) -> list[Example]:
        """The examples that can be compared."""
        return [outcome.example for outcome in self.outcomes]

    @property
    def drop_of(self) -> dict[str, float]:
        """The drop of each example, by its id."""
        return {outcome.example.id: drop for outcome, drop in zip(self.outcomes, self.drops, strict=True)}

    @property
    def drop(self) -> float:
        """Their mean."""
        return fsum(self.drops) / self.n

    @property
    def changes(self) -> Iterator[Change]:
        """The examples, including those with an equal score; created lazily, since there may be 100,000."""
        return map(self._change, self.outcomes, self.drops)

    @property
    def moved(self) -> Iterator[Change]:
        """The examples that got worse or better."""
        return (
            self._change(each, drop) for each, drop in zip(self.outcomes, self.drops, strict=True) if drop
        )

    @property
    def worse(self) -> list[Change]:
        """The examples that got worse, worst first."""
        return sorted((each for each in self.moved if each.drop > 0), key=lambda each: -each.drop)

    @property
    def better(self) -> list[Change]:
        """The examples that got better, best first."""
        return sorted((each for each in self.moved if each.drop < 0), key=lambda each: each.drop)

    def _change(self, outcome: Outcome, drop: float) -> Change:
        return Change(outcome, drop, self.before.examples[outcome.example.id])


def compare(
    score: Score,
    fingerprint: Mapping[str, Any],
    before: BaselineScore,
    *,
    tolerance: float = ROUNDING,
    changed: AbstractSet[str] | None = None,
) -> Comparison:
    """Compare a score, perhaps of a slice, with its baseline; differences up to the tolerance count as 0.

    `changed` are the `changed_questions` of the whole set, if they are known.

    Raises:
        StaleBaselineError: more than the retriever changed, or no example is the same and scored in both.
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
    same, scored, thens = 0, [], []
    for outcome in score.outcomes:
        if outcome.example.id not in changed and (kept := _kept(outcome.example, before)) is not None:
            same += 1
            if (then := kept.get("score")) is not None:
                scored.append(outcome)
                thens.append(then)
    lowest = min([score.reach[0], *thens])
    outcomes, drops, lost, failed = [], [], [], []
    for outcome, then in zip(scored, thens, strict=True):
        now = outcome
        # If they were left out, a retriever would improve by failing on the questions that it loses.
        if outcome.unscored is not None and outcome.cause == "retriever":
            now = replace(outcome, value=lowest)
            failed.append(now)
        if now.value is None:
            lost.append(now)
            continue
        outcomes.append(now)
        drop = then - now.value
        # Machines round differently; that is not a change.
        drops.append(drop if abs(drop) > tolerance else 0.0)
    if not outcomes:
        raise StaleBaselineError(
            f"{score.name}: of {counted(len(score.outcomes), 'example')} none is in the {which} with the same "
            f"question and gold, and scored in both.\n{remedy[0].upper()}{remedy[1:]}: {before.options}."
        )
    known = sum(outcome.example.id in before.examples for outcome in score.outcomes)
    # A slice leaves out the rest of the set on purpose.
    gone = 0 if score.slice else len(before.examples) - known
    return Comparison(
        before,
        tuple(outcomes),
        drops,
        mean=fsum(drop + (outcome.value or 0.0) for outcome, drop in zip(outcomes, drops, strict=True))
        / len(outcomes),
        left_out=len(score.outcomes) - same + gone,
        unscored=same - len(outcomes),
        new=score.n - (len(outcomes) - len(failed)),
        lost=tuple(lost),
        failed=tuple(failed),
    )


def mark_of(fingerprint: Mapping[str, Any]) -> str:
    """A short digest of a fingerprint, kept with each example that was scored under it."""
    return digest({name: value for name, value in fingerprint.items() if name not in IGNORED})[:MARK_DIGITS]


def fingerprint_changes(before: BaselineScore, now: Mapping[str, Any]) -> list[str]:
    """What differs between the fingerprints, one line each."""
    then = before.fingerprint
    return [
        f"{name}: {_shown(then.get(name))} in the {before.kind}, {_shown(now.get(name))} now"
        for name in sorted({*then, *now} - IGNORED)
        if then.get(name) != now.get(name)
    ]


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


def is_same(example: Example, before: BaselineScore) -> bool:
    """Whether the baseline has a score of the same question under the same fingerprint."""
    return not changed_questions([example], before) and _kept(example, before) is not None


def changed_questions(examples: Iterable[Example], before: BaselineScore) -> set[str]:
    """The ids of the examples whose question is new or edited since the baseline."""
    changed = set()
    for example in examples:
        then = before.questions.get(example.id)
        # All scores of a test share the digest, and some of them see the history.
        if then != example.digest_in(before.context) and not (
            example.history and then == example.digest_in({*before.context, "history"})
        ):
            changed.add(example.id)
    return changed


def _kept(example: Example, before: BaselineScore) -> BaselineExample | None:
    """The example in the baseline; None where it has none under the same fingerprint."""
    kept = before.examples.get(example.id)
    # A merge without a conflict may put a score of one branch under the fingerprint of another.
    return None if kept is None or kept.get("under", before.mark) != before.mark else kept
