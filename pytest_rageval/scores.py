"""`Outcome`: the result of one example. `Score`: their mean, a number to assert on. `Spec`: the name of a score."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import fsum, inf, isfinite
from statistics import stdev
from typing import Any, Final, NamedTuple, Self

from pytest_rageval.datatypes import Example, Ranking
from pytest_rageval.errors import Cause, InputError, QueryError, TooManyUnscoredError
from pytest_rageval.plural import counted, join_first
from pytest_rageval.stats.agreement import Tally
from pytest_rageval.stats.intervals import MEAN, UNIT, Statistic

__all__ = [
    "CHANGING",
    "NOTHING",
    "REFERENCE",
    "SCORING",
    "YES",
    "Evidence",
    "Outcome",
    "Places",
    "Relevance",
    "Score",
    "Spec",
    "compute_intervals",
    "score_name",
    "too_many",
]

SCORING: Final = "1"
"""Changes with a release that scores the same answers otherwise: older baselines are stale then."""

YES: Final = 0.5
"""The lowest graded verdict that counts as a yes; of the judge's grades, 3: the main point is there."""

REFERENCE: Final = "reference"
"""The companion score that holds the time of the reference retriever."""

CHANGING: Final = ("comparator", "label", "order", "relevant", "temperature", "draws")
"""The keywords of a threshold that make another score of it, beside its spec."""
NOTHING: Final[Mapping[str, Any]] = {}
"""The counts of most examples: one dict for each would take as much memory as the rest."""

NO_VOTES: Final = Tally()

ROUNDING: Final = 1e-9
_RELEVANCE: Final = re.compile(r"(gold)|(contains|judge)(?:@([1-9][0-9]{0,4}))?", re.ASCII)
_FORM: Final = re.compile(r"(?P<name>[a-z]\w*)(?:\.(?P<part>[a-zA-Z]\w*))?(?:@(?P<k>-?\d+))?", re.ASCII)


def score_name(spec: str, keywords: Mapping[str, Any]) -> str:
    """The name of a score with those keywords that distinguish it from others of the same spec.

    >>> score_name("answer.f1@5", {"label": None, "temperature": 0.0, "draws": 3})
    'answer.f1@5 at temperature 0 in 3 draws'
    """
    parts = [f"by {keywords[keyword]}" for keyword in ("comparator", "label") if keywords.get(keyword)]
    parts += [f"relevant by {keywords['relevant']}"] if keywords.get("relevant") not in {None, "gold"} else []
    parts += ["in random order"] if keywords.get("order") == "random" else []
    parts += [] if keywords.get("temperature") is None else [f"at temperature {keywords['temperature']:g}"]
    parts += [f"in {counted(keywords['draws'], 'draw')}"] if keywords.get("draws") else []
    return " ".join([spec, *parts])


@dataclass(frozen=True, slots=True)
class Spec:
    """The parsed name of a score, `NAME[.PART][@K]`.

    The name is the family, such as `answer`, the part the measure within it, such as `f1`, and k ≥ 1 the rank cut-off.
    """

    name: str
    part: str | None = None
    k: int | None = None

    @classmethod
    def parse(cls, text: object) -> Self:
        """Take a score name apart.

        Raises:
            InputError: it is not of the form, or k < 1.

        >>> Spec.parse("answer.f1@5")
        Spec(name='answer', part='f1', k=5)
        """
        match = _FORM.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InputError(
                f"{text!r} is not a score. A score is written NAME[.PART][@K], "
                "such as recall@5, llm_reteval@5 or answer.f1@5."
            )
        k = None if match["k"] is None else int(match["k"])
        if k is not None and k < 1:
            raise InputError(f"{text!r}: the cut-off k is {k}, but a ranking has at least rank 1.")
        return cls(match["name"], match["part"], k)

    @property
    def measure(self) -> str:
        """The score without its cut-off."""
        return self.name if self.part is None else f"{self.name}.{self.part}"

    def __str__(self) -> str:
        return self.measure if self.k is None else f"{self.measure}@{self.k}"


class Places(NamedTuple):
    """The result of an answer against another, by the order in which a judge read them: 1 won, 0.5 tied, 0 lost.

    None where it was not read in that place.
    """

    first: float | None = None
    second: float | None = None


NO_PLACES: Final = Places()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What explains the score of one example.

    Attributes:
        ranking: the retrieved passages, or None where nothing was retrieved.
        answer: of the generator, or None.
        expected: the texts that the answer was compared with; empty if no answers were compared.
        expected_as: their kind: "reference" or "with gold" for alternatives, "wanted" if all of them are
            required.
        recall: the share of the gold passages among the retrieved ones, or None.
        counts: further counts, such as hallucinated citations, by name.
        votes: of the judge, on the verdicts behind the score.
        labels: how useful each passage of the ranking is, in [0, 1]; empty where none was labelled.
        answers_alone: the generator's answer from each passage alone; empty where it was not asked.
        beside: companion scores of the example, by name.
        sizes: of the sets that the score compares: "relevant", of these "shown", and of these "found".
        places: of the arena, the verdicts of the judge on the answer against the reference.
        explanation: of the score, in the judge's words; empty where it gives none.
        remark: what is not seen in the answer itself, such as "cited nothing"; empty without one.
    """

    ranking: Ranking | None = None
    answer: str | None = None
    expected: tuple[str, ...] = ()
    expected_as: str = "reference"
    recall: float | None = None
    counts: Mapping[str, int] = field(default_factory=lambda: NOTHING, hash=False)
    votes: Tally = NO_VOTES
    labels: tuple[float, ...] = ()
    answers_alone: tuple[str, ...] = ()
    beside: Mapping[str, float] = field(default_factory=lambda: NOTHING, hash=False)
    sizes: Mapping[str, int] = field(default_factory=lambda: NOTHING, hash=False)
    places: Places = NO_PLACES
    explanation: str = ""
    remark: str = ""


NO_EVIDENCE: Final = Evidence()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The score of one example.

    Attributes:
        example: that was scored.
        value: the score, or None.
        unscored: why a score is missing; None if there is one, or if it is undefined.
        evidence: what was retrieved and answered.
        case: of LLM-retEval, the letter of a disagreement with recall.
        lost_by: of LLM-retEval, the cause of a lost question, such as "retriever"; None if it is not lost.
        failed: the error, if the user's retriever, generator or judge failed on the question.
        undefined: why the score is not defined for the example; None if it is.
        cause: which part is responsible for a missing score.
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


class Relevance(NamedTuple):
    """What makes a passage relevant, as the keyword `relevant` names it: "gold", "contains", "judge@20".

    Attributes:
        by: "gold" passages, those that "contains" a wanted answer, or those that the "judge" calls relevant.
        depth: how many retrieved passages are labelled, where those beyond the prompt count; None for the default.
    """

    by: str
    depth: int | None

    @classmethod
    def parse(cls, text: object) -> "Relevance":
        """Read what the keyword says.

        Raises:
            ValueError: it names none of these.

        >>> Relevance.parse("judge@20")
        Relevance(by='judge', depth=20)
        """
        found = _RELEVANCE.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"{text!r} says nothing about passages")
        gold, by, depth = found.groups()
        return cls(gold or by, int(depth) if depth else None)


class Score(float):
    """The mean, or another statistic, over the scored examples: a float with the outcomes behind it.

    Attributes:
        spec: its name, such as "recall@5".
        outcomes: one for every example, in the eval set's order, unscored ones included. With `repeats` the value is
            the mean over the runs in which the example has a score, and the rest is from the run closest to it.
        slice: the tags it is limited to; empty for the whole set.
        max_unscored: the largest share of examples without a score, of those for which it is defined.
        seed: of the interval's bootstrap.
        repeats: the outcomes of further runs, in which generator and judge were asked again.
        scale: the lowest and the highest value that an example may have.
        statistic: of the examples' values.
        keywords: the keywords that it was asked for with, such as "comparator".
    """

    def __new__(  # noqa: PLR0913 - all that a score keeps
        cls,
        spec: str,
        outcomes: Sequence[Outcome],
        *,
        slice: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the attribute
        max_unscored: float = 1.0,
        repeats: Sequence[Sequence[Outcome]] = (),
        statistic: Statistic = MEAN,
        keywords: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> Self:
        """Sum up the scored outcomes.

        Raises:
            InputError: a value is not a finite number, so that there is no mean.
            TooManyUnscoredError: no example has a score, or too many of those for which it is defined
                have none.
        """
        for each in chain(outcomes, *repeats):
            if each.value is not None and not isfinite(each.value):
                raise InputError(
                    f"{spec}: the score of example {each.example.id} is {each.value!r}, no finite number."
                )
        outcomes = _over_runs(outcomes, *repeats)
        values = _values(outcomes)
        defined = sum(outcome.undefined is None for outcome in outcomes)
        if not values or too_many(defined - len(values), defined, max_unscored):
            raise TooManyUnscoredError(
                _too_many(_name(spec, keywords or {}, slice or {}), outcomes, max_unscored)
            )
        return super().__new__(cls, statistic.compute(values))

    def __init__(  # noqa: PLR0913 - all that a score keeps
        self,
        spec: str,
        outcomes: Sequence[Outcome],
        *,
        slice: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the attribute
        max_unscored: float = 1.0,
        seed: int = 0,
        repeats: Sequence[Sequence[Outcome]] = (),
        scale: tuple[float, float] = UNIT,
        statistic: Statistic = MEAN,
        keywords: Mapping[str, Any] | None = None,
    ) -> None:
        self.spec = spec
        self._first = tuple(outcomes)
        self.outcomes = _over_runs(self._first, *repeats)
        self.slice = dict(slice or {})
        self.max_unscored = max_unscored
        self.seed = seed
        self.repeats = tuple(map(tuple, repeats))
        self.scale = scale
        self.statistic = statistic
        self.keywords = dict(keywords or {})

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of `__new__` for a copy, whose attributes are restored from the state."""
        names = ("slice", "max_unscored", "statistic", "keywords")
        return (self.spec, self.outcomes), {name: getattr(self, name) for name in names}

    @property
    def name(self) -> str:
        """Such as "recall@5 where topic='billing'"."""
        return _name(self.spec, self.keywords, self.slice)

    @property
    def values(self) -> list[float]:
        """The scores of the scored examples."""
        return _values(self.outcomes)

    @cached_property
    def n(self) -> int:
        """How many examples have a score."""
        return len(self.values)

    @property
    def unscored(self) -> int:
        """How many examples should have a score and have none."""
        return len(self.outcomes) - self.n - self.undefined

    @cached_property
    def undefined(self) -> int:
        """For how many examples the score is not defined."""
        return sum(outcome.undefined is not None for outcome in self.outcomes)

    @property
    def reasons(self) -> Counter[str]:
        """Why some are unscored, with counts."""
        return Counter(outcome.unscored for outcome in self.outcomes if outcome.unscored is not None)

    @property
    def undefined_reasons(self) -> Counter[str]:
        """Why the score is not defined for some examples, with counts."""
        return Counter(outcome.undefined for outcome in self.outcomes if outcome.undefined is not None)

    @property
    def reach(self) -> tuple[float, float]:
        """The lowest and the highest value that an example may have, or has.

        A plugin's score may exceed its scale, and a scale may have no end.
        """
        ends = filter(isfinite, self.scale)
        possible = [*ends, *self.values]
        return min(possible), max(possible)

    def lacking(self, *causes: Cause) -> list[Outcome]:
        """The examples that are unscored for one of these causes."""
        return [each for each in self.outcomes if each.unscored is not None and each.cause in causes]

    def counting(self, value: float, *causes: Cause) -> float:
        """The statistic, with this value for each example that is unscored for one of these causes."""
        return self.statistic.compute(self.values + [value] * len(self.lacking(*causes)))

    @property
    def counts(self) -> Counter[str]:
        """The further counts, summed over the scored examples, 0 included."""
        total: Counter[str] = Counter()
        for counts in filter(None, [outcome.evidence.counts for outcome in self.outcomes]):
            total.update(counts)
        return total

    @property
    def votes(self) -> Tally:
        """The judge's votes on the verdicts behind the scored examples, and behind their cases."""
        votes = [outcome.evidence.votes for outcome in self.outcomes]
        # Most scores are not judged.
        return sum((each for each in votes if each is not NO_VOTES), NO_VOTES)

    @cached_property
    def ci95(self) -> tuple[float, float] | None:
        """95% interval of the statistic over examples like these; None where there are too few, as for a single one."""
        [interval] = self.statistic.intervals([self.values], scale=self.scale, seed=self.seed)
        return interval

    @property
    def spread(self) -> float | None:
        """Standard deviation of the statistic between repeats of generator and judge; None without repeats.

        A run without any scored example is left out.
        """
        found = [
            self.statistic.compute(values) for values in map(_values, (self._first, *self.repeats)) if values
        ]
        return stdev(found) if len(found) > 1 else None

    @property
    def partly_scored(self) -> int:
        """How many examples have a score in some repeats and none in others."""
        runs = zip(self._first, *self.repeats, strict=True)
        return sum(len({outcome.value is None for outcome in outcomes}) > 1 for outcomes in runs)

    def where(self, **tags: Any) -> "Score":
        """The same score over the examples with all of these tags.

        A tag's value matches when equal, or when it is in the given list, tuple or set;
        an example whose tag is itself a list matches when one of its items does.

        Raises:
            InputError: no example has such a tag; the message lists the known ones.
            TooManyUnscoredError: as for the whole.
        """
        chosen, *repeats = (
            [outcome for outcome in run if _matches(outcome.example, tags)]
            for run in (self._first, *self.repeats)
        )
        if not chosen:
            raise InputError(_no_such_slice([outcome.example for outcome in self.outcomes], tags))
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
    """Compute `ci95` of several scores at once, in less time than one by one: means share their resamples."""
    alike: dict[tuple[Any, ...], list[Score]] = {}
    for score in {id(score): score for score in scores}.values():
        alike.setdefault((score.statistic, score.n, score.scale, score.seed), []).append(score)
    for (statistic, _, scale, seed), group in alike.items():
        intervals = statistic.intervals([score.values for score in group], scale=scale, seed=seed)
        for score, interval in zip(group, intervals, strict=True):
            score.ci95 = interval


def too_many(unscored: int, examples: int, max_unscored: float) -> bool:
    """Whether more than this share of the examples have no score."""
    # 29 of 100 do not exceed the share 0.29, though 0.29 * 100 is a little less than 29.
    return unscored > max_unscored * examples + ROUNDING


def _values(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.value for outcome in outcomes if outcome.value is not None]


def _over_runs(*runs: Sequence[Outcome]) -> tuple[Outcome, ...]:
    return tuple(map(_mean_outcome, zip(*runs, strict=True)) if len(runs) > 1 else runs[0])


def _mean_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome closest to the mean of those with a score, with that mean as its value; the first where none has."""
    values = _values(outcomes)
    if not values:
        return outcomes[0]
    mean = values[0] if len(set(values)) == 1 else fsum(values) / len(values)
    closest = min(outcomes, key=lambda each: inf if each.value is None else abs(each.value - mean))
    return replace(closest, value=mean)


def _matches(example: Example, tags: Mapping[str, Any]) -> bool:
    for name, wanted in tags.items():
        if name not in example.tags:
            return False
        options = wanted if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        found = example.tags[name]
        if not any(item in options for item in (found if isinstance(found, list) else [found])):
            return False
    return True


def _no_such_slice(examples: Sequence[Example], tags: Mapping[str, Any]) -> str:
    known: dict[str, set[str]] = {}
    for example in examples:
        for name, value in example.tags.items():
            known.setdefault(name, set()).add(repr(value))
    asked = ", ".join(f"{name}={value!r}" for name, value in tags.items())
    if not known:
        return f"No example has {asked}: the examples have no tags."
    listed = "\n".join(f"  {name}: {', '.join(sorted(found))}" for name, found in known.items())
    return f"No example has {asked}. The tags there are:\n{listed}"


def _name(spec: str, keywords: Mapping[str, Any], tags: Mapping[str, Any]) -> str:
    return score_name(spec, keywords) + "".join(f" where {tag}={value!r}" for tag, value in tags.items())


def _too_many(name: str, outcomes: Sequence[Outcome], max_unscored: float) -> str:
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
        # Undefined examples matter only where they are the reason for having no score at all.
        reason = outcome.unscored if scored else outcome.unscored or outcome.undefined
        if reason is not None:
            reasons.setdefault(reason, []).append(outcome.example.id)
    for reason, ids in sorted(reasons.items(), key=lambda each: -len(each[1]))[:5]:
        lines.append(f"  {len(ids)} × {reason} ({join_first(ids, 3)})")
    remedy = ", or allow a larger share with --rageval-max-unscored SHARE" if scored else ""
    lines.append(f"Fix what the reasons name{remedy}.")
    return "\n".join(lines)
