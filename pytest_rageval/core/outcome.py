"""`Outcome`: the result of one example. `Score`: the mean of outcomes, a number."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import fsum, inf, isfinite
from statistics import stdev
from typing import Any, Final, NamedTuple, Self

from pytest_rageval.core.errors import Cause, InputError, QueryError, TooManyUnscoredError
from pytest_rageval.core.evalset import EMPTY_MAPPING, Example
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.core.spec import score_name
from pytest_rageval.lib.text import counted, join_first
from pytest_rageval.stats.intervals import MEAN, UNIT, Statistic

STORED_AS: Final = "pytest_rageval.scores"  # see calls.STORED_AS
SCORING_VERSION: Final = "1"
"""The version of the scoring rules. It changes when a release scores the same answers differently; older baselines are
then stale."""

YES_THRESHOLD: Final = 0.5
"""The lowest graded verdict that counts as a yes. It is the judge's grade 3: the answer has the main point."""

REFERENCE_LATENCY: Final = "reference"
"""The name, in `Evidence.beside`, of the seconds that the reference retriever took."""

MAX_SHOWN_REASONS: Final = 5
"""The number of reasons that an error about unscored examples lists."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of verdicts by majority vote and of their votes; tallies can be added.

    The votes of `split` verdicts were not unanimous, and `minority` votes differ from their verdict. `unread` ones
    could not be parsed, and are no part of `votes`.
    """

    verdicts: int = 0
    split: int = 0
    votes: int = 0
    minority: int = 0
    unread: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.verdicts + other.verdicts,
            self.split + other.split,
            self.votes + other.votes,
            self.minority + other.minority,
            self.unread + other.unread,
        )

    @property
    def flip_rate(self) -> float:
        """The share of verdicts with split votes, in [0, 1]; 0 without verdicts."""
        return self.split / self.verdicts if self.verdicts else 0.0

    @property
    def minority_rate(self) -> float:
        """The share of votes that differ from their verdict, in [0, 1]; 0 without votes."""
        return self.minority / self.votes if self.votes else 0.0


NO_VOTES: Final = Tally()

MAX_NAMED_EXAMPLES: Final = 3
"""The number of examples that such an error names for each reason."""

SHARE_TOLERANCE: Final = 1e-9
"""The rounding error that a product of a share and a number of examples can have."""


class Places(NamedTuple):
    """The results of an answer by its place in the judge's prompt: 1 won, 0.5 tied, 0 lost, or None."""

    first: float | None = None
    second: float | None = None


NO_PLACES: Final = Places()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The data that explains the score of one example.

    Attributes:
        ranking: the retrieved passages, or None if the score does not retrieve.
        answer: the generator's answer, or None if the score does not generate one.
        expected: the texts that the answer was compared with; empty if no answers were compared.
        expected_as: the kind of the texts in `expected`: "reference" or "with gold" for alternatives, "wanted" if all
            of them are required.
        recall: the share of the gold passages that was retrieved, or None if the score does not compute it.
        counts: further counts by name, such as "hallucinated_citations".
        votes: the votes of the judge in the verdicts that the score was computed from.
        labels: the usefulness of each passage of the ranking, in [0, 1]; empty if the passages were not labelled.
        answers_alone: the generator's answer from each passage alone; empty if these answers were not generated.
        beside: companion scores of the example, by name.
        sizes: the sizes of the sets that the score compares: "relevant", "shown" (the relevant ones in the prompt) and
            "found" (the shown ones that the answer has); in LLM-retEval, the numbers of answers, see `ceiling_notes`.
        places: in the arena, the judge's verdicts on the answer against the reference.
        explanation: the judge's explanation of the score; empty if the judge gives none.
        remark: a fact that the answer does not show, such as "cited nothing"; empty if there is none.
    """

    ranking: Ranking | None = None
    answer: str | None = None
    expected: tuple[str, ...] = ()
    expected_as: str = "reference"
    recall: float | None = None
    counts: Mapping[str, int] = field(default=EMPTY_MAPPING, hash=False)
    votes: Tally = NO_VOTES
    labels: tuple[float, ...] = ()
    answers_alone: tuple[str, ...] = ()
    beside: Mapping[str, float] = field(default=EMPTY_MAPPING, hash=False)
    sizes: Mapping[str, int] = field(default=EMPTY_MAPPING, hash=False)
    places: Places = NO_PLACES
    explanation: str = ""
    remark: str = ""


NO_EVIDENCE: Final = Evidence()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The score of one example.

    Attributes:
        example: the example that was scored.
        value: the score, or None.
        unscored: the reason why the score is missing; None if there is a score, or if the score is undefined.
        evidence: the data that explains the score, such as the ranking and the answer.
        case: in LLM-retEval, the letter of the case in which the verdict disagrees with recall; otherwise None.
        lost_by: in LLM-retEval, the cause of a lost question, such as "retriever"; None if the question is not lost.
        failed: the error, if the user's retriever, generator or judge failed on the question.
        undefined: the reason why the score is not defined for the example; None if it is defined.
        cause: the component that is responsible for a missing score.
    """

    example: Example
    value: float | None
    unscored: str | None = None
    evidence: Evidence = NO_EVIDENCE
    case: str | None = None
    lost_by: str | None = None
    failed: QueryError | None = None
    undefined: str | None = None
    cause: Cause = "run"


class Score(float):
    """The mean, or another statistic, of the examples' values: a float with the outcomes that it was computed from.

    Attributes:
        spec: the name of the score, such as "recall@5".
        outcomes: one outcome per example, in the eval set's order, including unscored examples. With `repeats`, the
            value of an outcome is the mean over the runs in which the example has a score, and the rest of the outcome
            is from the run whose value is closest to that mean.
        slice: the tags that the score is limited to; empty for the whole set.
        max_unscored: the largest allowed share of unscored examples, of those for which the score is defined.
        seed: the seed of the bootstrap for the interval.
        repeats: the outcomes of further runs, with new replies of generator and judge.
        scale: the lowest and the highest value that an example can have.
        statistic: the statistic that sums up the examples' values, such as the mean.
        keywords: the keywords that the score was requested with, such as "comparator".
    """

    def __new__(  # noqa: PLR0913 - the attributes of a score
        cls,
        spec: str,
        outcomes: Sequence[Outcome],
        *,
        slice: Mapping[str, object] | None = None,  # noqa: A002 - the name of the attribute
        max_unscored: float = 1.0,
        repeats: Sequence[Sequence[Outcome]] = (),
        statistic: Statistic = MEAN,
        keywords: Mapping[str, object] | None = None,
        **_: Any,
    ) -> Self:
        """Compute the statistic of the scored outcomes.

        Raises:
            InputError: a value is not a finite number, so that there is no mean.
            TooManyUnscoredError: no example has a score; or of the examples for which the score is defined, a larger
                share than `max_unscored` has none.
        """
        for outcome in chain(outcomes, *repeats):
            if outcome.value is not None and not isfinite(outcome.value):
                raise InputError(
                    f"{spec}: the score of example {outcome.example.id} is {outcome.value!r}, no finite number."
                )
        outcomes = _average_runs(outcomes, *repeats)
        values = _values(outcomes)
        defined = [outcome.undefined for outcome in outcomes].count(None)
        if not values or too_many_unscored(defined - len(values), defined, max_unscored):
            raise TooManyUnscoredError(
                _too_many_unscored_message(_name(spec, keywords or {}, slice or {}), outcomes, max_unscored)
            )
        return super().__new__(cls, statistic.compute(values))

    def __init__(  # noqa: PLR0913 - the attributes of a score
        self,
        spec: str,
        outcomes: Sequence[Outcome],
        *,
        slice: Mapping[str, object] | None = None,  # noqa: A002 - the name of the attribute
        max_unscored: float = 1.0,
        seed: int = 0,
        repeats: Sequence[Sequence[Outcome]] = (),
        scale: tuple[float, float] = UNIT,
        statistic: Statistic = MEAN,
        keywords: Mapping[str, object] | None = None,
    ) -> None:
        self.spec = spec
        self._first_run = tuple(outcomes)
        self.outcomes: tuple[Outcome, ...] = _average_runs(self._first_run, *repeats)
        self.slice: dict[str, object] = dict(slice or {})
        self.max_unscored = max_unscored
        self.seed = seed
        self.repeats: tuple[tuple[Outcome, ...], ...] = tuple(map(tuple, repeats))
        self.scale = scale
        self.statistic = statistic
        self.keywords: dict[str, object] = dict(keywords or {})

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, object]]:
        """Return the arguments of `__new__` for a copy. The copy's attributes are restored from the state."""
        names = ("slice", "max_unscored", "statistic", "keywords")
        return (self.spec, self.outcomes), {name: getattr(self, name) for name in names}

    @property
    def name(self) -> str:
        """The spec with the keywords and the slice, such as "recall@5 where topic='billing'"."""
        return _name(self.spec, self.keywords, self.slice)

    @property
    def values(self) -> list[float]:
        """The values of the scored examples."""
        return _values(self.outcomes)

    @cached_property
    def n(self) -> int:
        """The number of examples that have a score."""
        return len(self.values)

    @property
    def unscored(self) -> int:
        """The number of examples that should have a score and have none."""
        return len(self.outcomes) - self.n - self.undefined

    @cached_property
    def undefined(self) -> int:
        """The number of examples for which the score is not defined."""
        return len(self.outcomes) - [outcome.undefined for outcome in self.outcomes].count(None)

    @property
    def reasons(self) -> Counter[str]:
        """The reasons why examples are unscored, with the number of examples for each."""
        return Counter(outcome.unscored for outcome in self.outcomes if outcome.unscored is not None)

    @property
    def undefined_reasons(self) -> Counter[str]:
        """The reasons why the score is not defined for examples, with the number of examples for each."""
        return Counter(outcome.undefined for outcome in self.outcomes if outcome.undefined is not None)

    @property
    def reach(self) -> tuple[float, float]:
        """The lowest and the highest value that an example can have, or has.

        The examples' values count too, because the score of a plugin may exceed its scale, and a scale may be infinite.
        """
        ends = filter(isfinite, self.scale)
        possible = [*ends, *self.values]
        return min(possible), max(possible)

    def lacking(self, *causes: Cause) -> list[Outcome]:
        """Return the outcomes that are unscored for one of the causes."""
        return [
            outcome for outcome in self.outcomes if outcome.unscored is not None and outcome.cause in causes
        ]

    def counting(self, value: float, *causes: Cause) -> float:
        """Return the statistic if each example that is unscored for one of the causes had this value."""
        return self.statistic.compute(self.values + [value] * len(self.lacking(*causes)))

    @property
    def counts(self) -> Counter[str]:
        """The sums of `Evidence.counts` over the outcomes, including counts of 0."""
        total: Counter[str] = Counter()
        for counts in filter(None, [outcome.evidence.counts for outcome in self.outcomes]):
            total.update(counts)
        return total

    @property
    def votes(self) -> Tally:
        """The judge's votes in the verdicts that determined the examples' scores and cases."""
        votes = [outcome.evidence.votes for outcome in self.outcomes]
        # Most outcomes have no votes.
        return sum((tally for tally in votes if tally is not NO_VOTES), NO_VOTES)

    @cached_property
    def ci95(self) -> tuple[float, float] | None:
        """The 95% interval of the statistic, with the examples as a random sample; None for too few, such as one."""
        [interval] = self.statistic.intervals([self.values], scale=self.scale, seed=self.seed)
        return interval

    @property
    def spread(self) -> float | None:
        """Standard deviation of the statistic between repeats of generator and judge; None without repeats.

        A run without any scored example is left out.
        """
        runs = (self._first_run, *self.repeats)
        statistics = [self.statistic.compute(values) for values in map(_values, runs) if values]
        return stdev(statistics) if len(statistics) > 1 else None

    @property
    def partly_scored(self) -> int:
        """The number of examples that have a score in some repeats and none in others."""
        runs = zip(self._first_run, *self.repeats, strict=True)
        return sum(len({outcome.value is None for outcome in outcomes}) > 1 for outcomes in runs)

    def where(self, **tags: Any) -> "Score":
        """Return the same score over the examples that have all of these tags.

        A tag matches if its value equals the argument, or is in the argument if that is a list, tuple or set. If the
        tag of an example is itself a list, it matches if one of its items matches.

        Raises:
            InputError: no example has all of these tags. The message lists the existing tags.
            TooManyUnscoredError: too many examples of the slice are unscored, as for the whole set.
        """
        chosen, *repeats = (
            [outcome for outcome in run if has_tags(outcome.example.tags, tags)]
            for run in (self._first_run, *self.repeats)
        )
        if not chosen:
            raise InputError(_no_such_slice_message([outcome.example for outcome in self.outcomes], tags))
        return type(self)(
            self.spec,
            chosen,
            slice={**self.slice, **tags},
            max_unscored=self.max_unscored,
            seed=self.seed,
            repeats=repeats,
            scale=self.scale,
            statistic=self.statistic,
            keywords=self.keywords,
        )


def compute_intervals(scores: Iterable[Score]) -> None:
    """Compute `ci95` of several scores at once, which is faster than one by one because means share resamples."""
    groups: dict[tuple[Any, ...], list[Score]] = {}
    for score in {id(score): score for score in scores}.values():
        groups.setdefault((score.statistic, score.n, score.scale, score.seed), []).append(score)
    for (statistic, _, scale, seed), group in groups.items():
        intervals = statistic.intervals([score.values for score in group], scale=scale, seed=seed)
        for score, interval in zip(group, intervals, strict=True):
            score.ci95 = interval


def too_many_unscored(unscored: int, examples: int, max_unscored: float) -> bool:
    # 29 of 100 examples do not exceed the share 0.29, although 0.29 * 100 is a little less than 29.
    return unscored > max_unscored * examples + SHARE_TOLERANCE


def _values(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.value for outcome in outcomes if outcome.value is not None]


def _average_runs(*runs: Sequence[Outcome]) -> tuple[Outcome, ...]:
    return tuple(map(_average_outcome, zip(*runs, strict=True)) if len(runs) > 1 else runs[0])


def _average_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome whose value is closest to the mean, with the mean as its value; the first if none has one."""
    values = _values(outcomes)
    if not values:
        return outcomes[0]
    mean = values[0] if len(set(values)) == 1 else fsum(values) / len(values)
    closest = min(outcomes, key=lambda outcome: inf if outcome.value is None else abs(outcome.value - mean))
    return replace(closest, value=mean)


def has_tags(tags: Mapping[str, object], where: Mapping[str, object]) -> bool:
    """Whether an example with these tags is in the slice `where`, as `Score.where` selects it."""
    for name, wanted in where.items():
        if name not in tags:
            return False
        options = wanted if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        value = tags[name]
        if not any(item in options for item in (value if isinstance(value, list) else [value])):
            return False
    return True


def _no_such_slice_message(examples: Sequence[Example], tags: Mapping[str, object]) -> str:
    known: dict[str, set[str]] = {}
    for example in examples:
        for name, value in example.tags.items():
            known.setdefault(name, set()).add(repr(value))
    requested = ", ".join(f"{name}={value!r}" for name, value in tags.items())
    if not known:
        return f"No example has {requested}: the examples have no tags."
    lines = "\n".join(f"  {name}: {', '.join(sorted(values))}" for name, values in known.items())
    return f"No example has {requested}. The tags there are:\n{lines}"


def _name(spec: str, keywords: Mapping[str, object], tags: Mapping[str, object]) -> str:
    return score_name(spec, keywords) + "".join(f" where {tag}={value!r}" for tag, value in tags.items())


def _too_many_unscored_message(name: str, outcomes: Sequence[Outcome], max_unscored: float) -> str:
    scored = len(_values(outcomes))
    lines = [f"{name}: none of {counted(len(outcomes), 'example')} has a score:"]
    if scored:
        defined = sum(outcome.undefined is None for outcome in outcomes)
        lines[0] = (
            f"{name}: {defined - scored} of {counted(defined, 'example')} have no score, "
            f"more than the allowed {100 * max_unscored:g}%:"
        )
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        # Undefined examples are named only if no example has a score: then they may be the reason.
        reason = outcome.unscored if scored else outcome.unscored or outcome.undefined
        if reason is not None:
            reasons.setdefault(reason, []).append(outcome.example.id)
    for reason, ids in sorted(reasons.items(), key=lambda item: -len(item[1]))[:MAX_SHOWN_REASONS]:
        lines.append(f"  {len(ids)} × {reason} ({join_first(ids, MAX_NAMED_EXAMPLES)})")
    if scored:
        lines.append(
            "To allow a larger share: --rageval max_unscored=SHARE. To bound the other examples alone, give them a "
            'tag: where={"TAG": "VALUE"}.'
        )
    if any("reply" in reason for reason in reasons):
        lines.append(
            "A run requests empty replies again; with --rageval-refresh also those that cannot be read."
        )
    return "\n".join(lines)
