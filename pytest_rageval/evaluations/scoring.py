"""`ScoreDef`, the definition of a score; and `score_each`, which turns examples into outcomes."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final, Literal

from pytest_rageval.answers.comparators import JUDGE_METHOD_OF_COMPARATOR, Expression
from pytest_rageval.answers.judge_protocol import collect_tallies
from pytest_rageval.concurrency.gathering import gather_all
from pytest_rageval.datatypes import Example
from pytest_rageval.errors import CallableError, QueryError, RagevalError, Undefined, Unscored
from pytest_rageval.evaluations.pipeline import (
    DEFAULT_DRAWS,
    DrawSettings,
    Evaluation,
    Pipeline,
    ResolvedScore,
)
from pytest_rageval.measures.gold_matching import GoldMatch
from pytest_rageval.plural import counted
from pytest_rageval.prompts.templates import CRITERIA
from pytest_rageval.scores import SCORING, Evidence, Outcome, Score, too_many
from pytest_rageval.stats.intervals import MEAN, UNIT, Statistic

__all__ = [
    "ASKABLE",
    "FEWEST",
    "GOLD",
    "GOLD_TEXTS",
    "NUGGETS",
    "REFERENCES",
    "ScoreDef",
    "check_failures",
    "each_example",
    "error_of_all",
    "score_each",
    "score_in_turn",
    "uniform_judge",
]

GOLD: Final = "gold passages"
GOLD_TEXTS: Final = "gold passages with text"
REFERENCES: Final = "reference answers"
NUGGETS: Final = "nuggets"
"""What an example must have; lists of scores show it."""

GENERATOR_METHODS: Final = frozenset({"generate", "cite", "explain"})
JUDGE_METHODS: Final = frozenset(
    {"relevant", "sufficient", "prefer", "support", *(f"rate {each}" for each in CRITERIA)}
)

ASKABLE: Final = GENERATOR_METHODS | JUDGE_METHODS | {"compare", "label"}
"""What a score can depend on: methods of generator and judge, `run.comparison`, and `resolved.label`."""

MATCH: Final = "match"
"""The dependency of a score that compares items of lists: a judge is asked only where a threshold names it."""

KEYWORDS: Final = {
    "comparator": {"compare", MATCH},
    "label": {"label"},
    "order": {"cite"},
    "temperature": GENERATOR_METHODS,
    "draws": GENERATOR_METHODS,
}
"""The keywords of a threshold that change a score, each with the dependencies that it changes."""


def _comparisons(_run: Pipeline, resolved: ResolvedScore) -> dict[str, str | None]:
    return {"comparator": resolved.comparator} | (
        {"label": resolved.label} if resolved.label is not None else {}
    )


@dataclass(frozen=True, slots=True)
class ScoreDef:
    """One score, built in or added by a plugin.

    Attributes:
        name: as users type it, without the cut-off.
        evaluate: scores the examples.
        asks: the methods of generator and judge that it uses, of `ASKABLE`; None: unknown, so possibly all.
        scale: the lowest and the highest value of an example; None: unknown.
        comparisons: how it compares answers, by the keyword that the fingerprint shows it under.
        settings: further settings of the run that change it, by name, for the fingerprint.
        separable: whether the score of an example does not depend on the other examples.
        by_ids: whether it depends on the other examples only by their ids, which `ExampleSubset` has of the whole set.
        corrected_by: the human labels that can correct the mean: of "answers" where its values are verdicts on these,
            of "passages" where they are measures over verdicts on these; None: none.
        notes: the keys that only this score has in its report entry; for None, of one that could not be computed.
        family: the heading under which lists of scores show it.
        definition: what the value of an example is, in a sentence.
        needs: what an example must have, such as `GOLD`; models follow from `asks`.
        extra: of the package, that it needs; None: none.
        needs_k: whether its name must have a cut-off.
        is_cost: whether less is better, so that only `max` bounds it.
        statistic: sums up the values of the examples.
        is_time: whether its values are times: it is evaluated before other scores of a test, while nothing else runs.
        semi_gold: whether `draws` are of the answer from the gold passages; else those of each answer that is scored.
        takes_relevant: whether it depends on which passages are relevant, which the keyword `relevant` names.
        one_passage: whether the generator reads one passage at a time, so that a prompt has no order.
        pair: the score, without the cut-off, that is read beside it; both are given over their common examples.
    """

    name: str
    evaluate: Evaluation
    asks: AbstractSet[str] | None = None
    scale: tuple[float, float] | None = UNIT
    comparisons: Callable[[Pipeline, ResolvedScore], Mapping[str, str | None]] = _comparisons
    settings: Callable[[Pipeline, ResolvedScore], Mapping[str, Any]] = lambda _run, _resolved: {}
    separable: bool = True
    by_ids: bool = False
    corrected_by: Literal["answers", "passages"] | None = None
    notes: Callable[[Score | None], Mapping[str, Any]] = lambda _score: {}
    family: str = ""
    definition: str = ""
    needs: tuple[str, ...] = ()
    extra: str | None = None
    needs_k: bool = True
    is_cost: bool = False
    statistic: Statistic = MEAN
    is_time: bool = False
    semi_gold: bool = False
    takes_relevant: bool = False
    one_passage: bool = False
    pair: str = ""

    @property
    def verdicts(self) -> bool:
        """Whether its values are verdicts on answers."""
        return self.corrected_by == "answers"

    @property
    def dependencies(self) -> frozenset[str]:
        """The methods of generator, comparator and judge that it may use; empty if it needs no replies."""
        return ASKABLE if self.asks is None else frozenset(self.asks)

    @property
    def generates(self) -> bool:
        """Whether it may use the generator."""
        return not self.dependencies.isdisjoint(GENERATOR_METHODS)

    @property
    def keywords(self) -> frozenset[str]:
        """The keywords of a threshold that change it."""
        keywords = {keyword for keyword, asked in KEYWORDS.items() if asked & self.dependencies}
        return frozenset(keywords | {"relevant"} if self.takes_relevant else keywords)

    @property
    def ignores(self) -> frozenset[str]:
        """The keywords that it accepts without effect, so that all scores of a test can have the same keywords.

        The order of a prompt matters only where a generator reads several passages at once.
        """
        unordered = self.one_passage or self.dependencies.isdisjoint(GENERATOR_METHODS)
        return frozenset({"order"} if unordered else ()) - self.keywords

    @property
    def models(self) -> tuple[str, ...]:
        """Which of "generator" and "judge" it uses. With some comparators no judge is needed."""
        asked = (
            ("generator", self.dependencies & GENERATOR_METHODS),
            ("judge", self.dependencies - GENERATOR_METHODS - {MATCH}),
        )
        return tuple(model for model, methods in asked if methods)

    def fingerprint(self, pipeline: Pipeline, resolved: ResolvedScore, *, package: str) -> dict[str, Any]:
        """Return by name everything but the retriever that the score depends on.

        The version of the package is noted but not compared: `scoring` says whether two versions score alike.
        """
        found: dict[str, Any] = {"package": package, "scoring": SCORING, "match_share": pipeline.match_share}
        for method in self._of_generator:
            found |= _prefixed("generator", pipeline.generator.identity(method))
        comparisons = self._compared(pipeline, resolved)
        found |= {keyword: comparison.text for keyword, comparison in comparisons.items()}
        for method in self._of_judge(comparisons):
            found |= _prefixed("judge", pipeline.judge.identity(method))
        if self._of_generator:
            found |= _draws(pipeline.drawing)
        found |= pipeline.measured_by.fingerprint(_names(comparisons))
        if "cite" in self.dependencies and resolved.order == "random":
            found["seed"] = pipeline.seed
        if resolved.relevant != "gold":
            found["relevant"] = resolved.relevant
        return found | dict(self.settings(pipeline, resolved))

    def prompts(self, pipeline: Pipeline, resolved: ResolvedScore) -> dict[str, str]:
        """Return the templates of what it asks of models, by method; without those of the user's own code."""
        templates = {method: pipeline.generator.template(method) for method in self._of_generator}
        for method in self._of_judge(self._compared(pipeline, resolved)):
            templates[method] = pipeline.judge.template(method)
        return {method: template for method, template in templates.items() if template}

    def judges(self, pipeline: Pipeline, resolved: ResolvedScore) -> bool:
        """Whether it uses the judge, by its definition."""
        return self.asks is not None and bool(self._of_judge(self._compared(pipeline, resolved)))

    @property
    def _of_generator(self) -> list[str]:
        return sorted(self.dependencies & GENERATOR_METHODS)

    def _of_judge(self, comparisons: Mapping[str, Expression]) -> list[str]:
        by_comparators = {
            JUDGE_METHOD_OF_COMPARATOR[name]
            for name in _names(comparisons) & JUDGE_METHOD_OF_COMPARATOR.keys()
        }
        return sorted((self.dependencies & JUDGE_METHODS) | by_comparators)

    def _compared(self, pipeline: Pipeline, resolved: ResolvedScore) -> dict[str, Expression]:
        """How it compares answers, by keyword."""
        compares = "comparator" in self.keywords
        texts = self.comparisons(pipeline, resolved) if compares else {}
        return {keyword: pipeline.comparison(text) for keyword, text in texts.items()}


def _draws(drawing: DrawSettings) -> dict[str, int]:
    """The part of a fingerprint for how answers are drawn; empty for the default."""
    named = {
        "draws": (drawing.answers, DEFAULT_DRAWS.answers),
        "gold draws": (drawing.gold, DEFAULT_DRAWS.gold),
    }
    return {name: now for name, (now, default) in named.items() if now != default}


def _names(comparisons: Mapping[str, Expression]) -> frozenset[str]:
    """The comparators that expressions are made of."""
    return frozenset[str]().union(*(each.names for each in comparisons.values()))


def _prefixed(part: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """An identity under names such as "judge votes"; what has no name of its own is the part itself."""
    return {f"{part} {name}".strip(): value for name, value in identity.items()}


ERRORS: Final = 3
"""How many different errors of one score are shown."""

NAMED: Final = 5
"""How many of the examples that an error ended are named."""

AT_ONCE: Final = 1000
"""So many examples of a score are evaluated at once: each takes some 40 kB meanwhile, and far fewer busy a server."""

FEWEST: Final = 30
"""From this number of verdicts on, equal verdicts are unlikely to be chance."""


def check_failures(outcomes: Sequence[Outcome], max_unscored: float) -> None:
    """Check that the user's retriever, generator or judge failed on few enough questions.

    Raises:
        CallableError: they failed at all of them, or at a larger share than may be unscored.
    """
    failed = {outcome.example.id: outcome.failed for outcome in outcomes if outcome.failed is not None}
    if not failed:
        return
    defined = sum(outcome.undefined is None for outcome in outcomes)
    if len(failed) == defined:
        raise error_of_all(failed)
    if too_many(len(failed), defined, max_unscored):
        share = (
            f"More than the allowed {100 * max_unscored:g}% of {counted(defined, 'example')} have no score."
        )
        remedy = "Fix it, or allow a larger share with --rageval-max-unscored SHARE."
        raise error_of_all(failed, f"{share} {remedy}")


def error_of_all(failed: Mapping[str, RagevalError], more: str = "") -> RagevalError:
    """Combine errors of several examples: each text once, with its examples; `more` is the last line.

    Errors that differ only in the question count as one.
    """
    ended: dict[str, list[str]] = {}
    for name, error in failed.items():
        ended.setdefault(error.reason if isinstance(error, QueryError) else str(error), []).append(name)
    lines = []
    for names in list(ended.values())[:ERRORS]:
        named = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
        lines.append(str(failed[names[0]]))
        lines.append(f"It affects {counted(len(names), 'example')}: {named}.")
    rest = sum(len(names) for names in list(ended.values())[ERRORS:])
    if rest:
        lines.append(f"{counted(rest, 'more example')} ended with other messages.")
    kind = type(next(iter(failed.values())))
    # A QueryError is that of one question.
    kind = CallableError if issubclass(kind, QueryError) else kind
    return kind("\n".join([*lines, *([more] if more else [])]))


async def score_each(
    examples: Iterable[Example],
    score: Callable[[Example], Awaitable[tuple[float, Evidence] | Outcome]],
    *,
    at_once: int | None = None,
) -> list[Outcome]:
    """Score all examples at once, or so many at a time, each with the votes behind it.

    An example is unscored or undefined where its score raises `Unscored` or `Undefined`, and unscored where the
    user's retriever, generator or judge fails; then the outcome keeps the error. Any other exception is raised when
    all examples have ended, so that replies are in the cache. A `RagevalError` names its examples.
    """
    failed: dict[str, RagevalError] = {}

    async def outcome(example: Example) -> Outcome:
        try:
            scored, votes = await collect_tallies(score(example))
        except QueryError as error:
            return Outcome(example, None, error.reason, failed=error, cause=error.cause)
        except Undefined as undefined:
            return Outcome(example, None, undefined=str(undefined))
        except Unscored as unscored:
            return Outcome(example, None, str(unscored), cause=unscored.cause)
        except RagevalError as error:
            failed[example.id] = error
            return Outcome(example, None, str(error))
        if not isinstance(scored, Outcome):
            value, evidence = scored
            scored = Outcome(example, value, None, evidence)
        if not votes.verdicts:
            return scored
        return replace(scored, evidence=replace(scored.evidence, votes=votes))

    outcomes = await gather_all(map(outcome, examples), at_once=at_once)
    if failed:
        # In the order of the examples: the order of the failures varies.
        ended = (each.example.id for each in outcomes)
        raise error_of_all({name: failed[name] for name in ended if name in failed})
    return outcomes


async def score_in_turn(
    pipeline: Pipeline,
    examples: Sequence[Example],
    score: Callable[[Example], Awaitable[tuple[float, Evidence] | Outcome]],
) -> list[Outcome]:
    """`score_each` for a limited number of examples at a time; the run counts those that wait."""
    with pipeline.scoring(len(examples)) as begin:

        def begun(example: Example) -> Awaitable[tuple[float, Evidence] | Outcome]:
            begin()
            return score(example)

        return await score_each(examples, begun, at_once=max(AT_ONCE, pipeline.retriever.at_once))


def each_example(
    score: Callable[[Pipeline, Example, ResolvedScore], Awaitable[tuple[float, Evidence] | Outcome]],
) -> Evaluation:
    """Turn a function that scores one example into an evaluation of all examples."""

    @wraps(score)
    async def evaluate(
        pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
    ) -> list[Outcome]:
        return await score_in_turn(pipeline, examples, lambda example: score(pipeline, example, resolved))

    return evaluate


def uniform_judge(pipeline: Pipeline, scores: Iterable[Score], moved: Collection[str]) -> str:
    """A warning about a judge that gave the same verdict on everything; empty otherwise.

    There is none where the rankings are all equally good, and as good as in the baseline: then the verdicts may be
    right. `moved` are the questions of which one of the scores differs from its baseline.
    """
    outcomes = [outcome for score in scores for outcome in score.outcomes]
    examples = {outcome.example.full_question for outcome in outcomes}
    verdicts = [(question, verdict) for question, verdict in pipeline.verdicts if question in examples]
    said = {verdict for _, verdict in verdicts}
    if len(verdicts) < FEWEST or len(said) > 1 or not said <= {0.0, 1.0}:
        return ""
    judged = {question for question, _ in verdicts}
    if judged.isdisjoint(moved):
        recalls = _recalls(
            pipeline, (outcome for outcome in outcomes if outcome.example.full_question in judged)
        )
        first = next(recalls, None)
        if all(each == first for each in recalls):
            return ""
    word = "yes" if said.pop() else "no"
    return (
        f"the judge said {word} {len(verdicts)} times and never anything else, though the rankings behind it differ in "
        "what they find: it may not tell right from wrong. Hold it against people's labels (rageval_calibration), or "
        "name another with --rageval-judge-model or --rageval-comparator"
    )


def _recalls(pipeline: Pipeline, outcomes: Iterable[Outcome]) -> Iterator[float]:
    """The share of its gold passages that each ranking holds, which several scores have in common."""
    seen: set[tuple[int, int]] = set()
    for outcome in outcomes:
        example, ranking = outcome.example, outcome.evidence.ranking
        if ranking is None or (pair := (id(example), id(ranking))) in seen:
            continue
        seen.add(pair)
        if outcome.evidence.recall is not None:
            yield outcome.evidence.recall
        elif relevant := example.relevant:
            labels = GoldMatch(ranking, example.gold, pipeline.match_share).labels
            yield len([label for label in labels if label > 0]) / len(relevant)
