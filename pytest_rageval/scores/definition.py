"""`ScoreDef`: the definition of a score, with its `Family`. `score_each`: scores examples one by one."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pytest_rageval.answers.judge import collect_tallies
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import (
    CallableError,
    InputError,
    QueryError,
    RagevalError,
    Undefined,
    Unscored,
)
from pytest_rageval.core.evalset import EMPTY_MAPPING, Example
from pytest_rageval.core.outcome import SCORING_VERSION, Evidence, Outcome, Score, too_many_unscored
from pytest_rageval.lib.text import counted, join_first
from pytest_rageval.scores.pipeline import DEFAULT_DRAWS, DrawSettings, Evaluation, Pipeline, ResolvedScore
from pytest_rageval.stats.intervals import MEAN, UNIT, Statistic

if TYPE_CHECKING:
    from pytest_rageval.answers.comparators import Expression
    from pytest_rageval.answers.judge import JudgeTask

GOLD: Final = "gold passages"
GOLD_TEXTS: Final = "gold passages with text"
REFERENCES: Final = "reference answers"
NUGGETS: Final = "nuggets"
LONG_REFERENCE: Final = "a long-form reference"
"""The data that an example must have, as `ScoreDef.needs` and lists of scores name them."""

_FIELDS: Final[Mapping[str, tuple[str, Callable[[Example], object]]]] = {
    GOLD: ("gold", lambda example: example.relevant),
    GOLD_TEXTS: (
        'gold, each with its text (corpus="…" of the marker takes it from a corpus) or its id,',
        lambda example: any(gold.text or gold.id for gold in example.relevant),
    ),
    REFERENCES: ("answers", lambda example: example.wanted or example.reference),
    NUGGETS: ("nuggets", lambda example: example.nuggets),
    LONG_REFERENCE: ("reference", lambda example: example.reference),
}
"""For each of these data, the fields of a record with them, and whether an example has them."""

GENERATOR_METHODS: Final = frozenset({"generate", "cite", "explain"})


MATCH_ITEMS: Final = "match"
"""The value in `ScoreDef.asks` of a score that compares list items. It uses a judge only if a threshold names one."""

KEYWORD_DEPENDENCIES: Final[Mapping[str, AbstractSet[object]]] = {
    "comparator": {"compare", MATCH_ITEMS},
    "label": {"label"},
    "order": {"cite"},
    "temperature": GENERATOR_METHODS,
    "draws": GENERATOR_METHODS,
}
"""The dependencies that each keyword of a threshold changes. It changes every score that has one of them."""


def _default_comparisons(_pipeline: Pipeline, resolved: ResolvedScore) -> dict[str, str | None]:
    return {"comparator": resolved.comparator} | (
        {"label": resolved.label} if resolved.label is not None else {}
    )


class WorkedExample(NamedTuple):
    """A question, and what the retriever, the generator and the judge return for it. Tests compute its scores."""

    text: str  # the example in words
    k: int
    record: Mapping[str, object]  # of the eval set
    retrieved: Sequence[str]  # ids of passages; empty for a score that no single run has
    others: Mapping[str, Sequence[str]] = EMPTY_MAPPING  # the same of other questions
    texts: Mapping[str, str] = EMPTY_MAPPING  # of passages by id; "Passage ID." for all others
    metadata: Mapping[str, Mapping[str, object]] = EMPTY_MAPPING  # of passages by id
    stages: Mapping[str, Sequence[str]] = EMPTY_MAPPING  # ids of passages by stage
    # The other arguments of `Retrieval`; its steps are pairs of a query and the ids of passages.
    retrieval: Mapping[str, object] = EMPTY_MAPPING
    says: Mapping[str, str] = EMPTY_MAPPING  # answers, by the ids of the passages in the prompt
    # By method of the user's judge: "relevant" has the relevant texts, "support" the labels by text.
    judge: Mapping[str, object] = EMPTY_MAPPING


@dataclass(frozen=True, eq=False)
class Family:
    """What the scores of a method have in common.

    `doc` is the docstring of the module: the question that the scores answer, an empty line, and a text in Markdown
    with links from the page of scores.
    """

    title: str  # the heading under which lists of scores show the scores
    doc: str | None
    requests: str  # of one question, as a text
    source: str  # the publications that define the scores; sentences
    example: WorkedExample  # in which each score has the value `ScoreDef.worked`


@dataclass(frozen=True, slots=True)
class ScoreDef:
    """The definition of a score, built in or added by a plugin."""

    name: str  # that users write, without the cut-off
    evaluate: Evaluation
    # What the score may ask generator, comparator and judge, out of `scores.known_dependencies()`.
    asks: "AbstractSet[str | JudgeTask[Any]]" = frozenset()
    scale: tuple[float, float] | None = UNIT  # the lowest and the highest value of an example; None: unknown
    # Returns the comparators that the score uses, by their keyword in the fingerprint.
    comparisons: Callable[[Pipeline, ResolvedScore], Mapping[str, str | None]] = _default_comparisons
    # Returns further settings of the run that change the score, by name, for the fingerprint.
    settings: Callable[[Pipeline, ResolvedScore], Mapping[str, object]] = lambda _pipeline, _resolved: {}
    # Returns what it asks besides, by the settings of a run.
    asks_more: "Callable[[Pipeline], AbstractSet[str | JudgeTask[Any]]]" = lambda _pipeline: frozenset()
    asks_all: bool = False  # whether it is not known what the score asks, so that `asks` has everything
    separable: bool = True  # whether the score of an example does not depend on the other examples
    depends_on_ids: bool = False  # or on their ids alone; `ExampleSubset` has those of the whole set
    # The human labels that can correct the mean: of "answers" if the values are verdicts on answers, of "passages" if
    # they are measures over verdicts on passages; None: the mean cannot be corrected.
    corrected_by: Literal["answers", "passages"] | None = None
    # Returns the keys that only this score has in its report entry; of None if the score could not be computed.
    notes: Callable[[Score | None], Mapping[str, object]] = lambda _score: {}
    family: Family | None = None  # of a built-in score; the `FAMILY` of its module, if it names no other
    definition: str = ""  # of an example's value, in one sentence
    worked: tuple[float, str] = (0.0, "")  # the value in the example of the family, and how it is computed
    needs: tuple[str, ...] = ()  # the data that an example must have, such as `GOLD`
    extra: str | None = None  # of this package that the score needs
    needs_k: bool = True
    is_cost: bool = False  # whether a lower value is better, so that only `max` bounds the score
    statistic: Statistic = MEAN
    # Whether the values are durations. Such a score is evaluated before the others of a test, while nothing else runs.
    is_time: bool = False
    # Whether the keyword `draws` sets the number of answers from the gold passages, not of those that are scored.
    semi_gold: bool = False
    ir_measures: str = ""  # the name of the measure in the package ir_measures; empty if it has none
    takes_relevant: AbstractSet[str] = frozenset()  # the rules that the keyword `relevant` may name
    one_passage: bool = False  # whether the generator reads one passage at a time, so that they have no order
    # The score, without the cut-off, that is reported together with this one over their common examples.
    paired_score: str = ""
    # Counts verdicts on answers by the verdicts of this score on their context; None: it has no such ones.
    strata: Callable[[Sequence[Outcome], Sequence[Outcome]], Mapping[str, object]] | None = None

    @property
    def has_answer_verdicts(self) -> bool:
        return self.corrected_by == "answers"

    @property
    def deterministic(self) -> bool:
        """Whether no model is in the score, so that it is the same in each run of the same retriever."""
        return not (self.asks or self.is_time)

    @property
    def generates(self) -> bool:
        return not self.asks.isdisjoint(GENERATOR_METHODS)

    @property
    def keywords(self) -> frozenset[str]:
        keywords = {
            keyword for keyword, dependencies in KEYWORD_DEPENDENCIES.items() if dependencies & self.asks
        }
        return frozenset(keywords | {"relevant"} if self.takes_relevant else keywords)

    @property
    def ignores(self) -> frozenset[str]:
        """The keywords that the score accepts without effect, so that all scores of a test can have the same keywords.

        The keyword `order` has an effect only if a generator reads several passages at once.
        """
        unordered = self.one_passage or self.asks.isdisjoint(GENERATOR_METHODS)
        return frozenset({"order"} if unordered else ()) - self.keywords

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the score uses: "generator", "judge". With some comparators no judge is needed."""
        methods_by_model = (
            ("generator", self.asks & GENERATOR_METHODS),
            ("judge", self.asks - GENERATOR_METHODS - {MATCH_ITEMS}),
        )
        return tuple(model for model, methods in methods_by_model if methods)

    def fingerprint(self, pipeline: Pipeline, resolved: ResolvedScore, *, package: str) -> dict[str, object]:
        """Return everything that the score depends on except the retriever, by name.

        The version of the package is recorded but not compared. `scoring` says whether two versions score alike.
        """
        fingerprint: dict[str, object] = {
            "package": package,
            "scoring": SCORING_VERSION,
            "match_share": pipeline.match_share,
            **({"document_id": pipeline.document_id} if pipeline.document_id else {}),
            **pipeline.retriever.settings,
        }
        generator_methods = self._generator_methods(pipeline)
        for method in generator_methods:
            fingerprint |= _prefixed("generator", pipeline.generator.identity(method))
        comparisons = self._parsed_comparisons(pipeline, resolved)
        fingerprint |= {keyword: comparison.text for keyword, comparison in comparisons.items()}
        for task in self._judge_tasks(pipeline, comparisons):
            fingerprint |= _prefixed("judge", pipeline.judge.identity(task))
        if generator_methods:
            fingerprint |= _changed_draws(pipeline.draw_settings)
        if names := _comparator_names(comparisons):
            from pytest_rageval.answers.comparators import CANONICAL_RULES, measure_fingerprint  # noqa: PLC0415 - ranking scores compare no answers

            fingerprint |= {"canonical rules": CANONICAL_RULES} if "canonical" in names else {}
            fingerprint |= measure_fingerprint(pipeline.measures, names)
        if "cite" in self.asks and resolved.order == "random":
            fingerprint["seed"] = pipeline.seed
        if resolved.relevant != "gold":
            fingerprint["relevant"] = resolved.relevant
        return fingerprint | dict(self.settings(pipeline, resolved))

    def prompts(self, pipeline: Pipeline, resolved: ResolvedScore) -> dict[str, str]:
        """Return the templates of the score's prompts by method; prompts of the user's own code are not known."""
        templates = {
            method: pipeline.generator.template(method) for method in self._generator_methods(pipeline)
        }
        for task in self._judge_tasks(pipeline, self._parsed_comparisons(pipeline, resolved)):
            templates[task.name] = pipeline.judge.template(task)
        return {method: template for method, template in templates.items() if template}

    def uses_judge(self, pipeline: Pipeline, resolved: ResolvedScore) -> bool:
        return not self.asks_all and bool(
            self._judge_tasks(pipeline, self._parsed_comparisons(pipeline, resolved))
        )

    def check_needs(self, pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore) -> None:
        """Check before the first call, which may be paid, that judge, answer measures and examples are there.

        Raises:
            RagevalError: no model judges, the user's judge lacks a method, or an extra of this package is missing.
            InputError: no example has the data that the score needs.
        """
        if self.asks_all or not self.asks:
            return
        comparisons = self._parsed_comparisons(pipeline, resolved)
        for task in self._judge_tasks(pipeline, comparisons):
            pipeline.judge.require(task)
        from pytest_rageval.answers.comparators import Measure  # noqa: PLC0415 - as above

        used = _comparator_names(comparisons) | {resolved.part}
        for name, measure in pipeline.measures.items():
            if name in used and isinstance(measure, Measure) and measure.extra is not None:
                measure("a", ["a"])  # an encoder or a package that is missing is an error
        for need in self.needs if resolved.relevant == "gold" else ():
            fields, has = _FIELDS[need]
            if examples and not any(map(has, examples)):
                raise InputError(
                    f"{resolved.spec} needs {need}, and none of {counted(len(examples), 'example')} has them.\n"
                    f"Write {fields} into the records of the eval set, or leave the score out."
                )

    def _generator_methods(self, pipeline: Pipeline) -> list[str]:
        return sorted(GENERATOR_METHODS & {*self.asks, *self.asks_more(pipeline)})

    def _judge_tasks(
        self, pipeline: Pipeline, comparisons: "Mapping[str, Expression]"
    ) -> "list[JudgeTask[Any]]":
        tasks = [ask for ask in {*self.asks, *self.asks_more(pipeline)} if not isinstance(ask, str)]
        if names := _comparator_names(comparisons):
            from pytest_rageval.answers.comparators import judge_tasks  # noqa: PLC0415 - as above

            tasks += judge_tasks(names)
        return sorted(tasks, key=lambda task: task.name)

    def _parsed_comparisons(self, pipeline: Pipeline, resolved: ResolvedScore) -> "dict[str, Expression]":
        compares = "comparator" in self.keywords
        texts = self.comparisons(pipeline, resolved) if compares else {}
        return {keyword: pipeline.comparison(text) for keyword, text in texts.items()}


def _changed_draws(draw_settings: DrawSettings) -> dict[str, int]:
    numbers = {
        "draws": (draw_settings.answers, DEFAULT_DRAWS.answers),
        "gold draws": (draw_settings.gold, DEFAULT_DRAWS.gold),
    }
    return {name: number for name, (number, default) in numbers.items() if number != default}


def _comparator_names(comparisons: "Mapping[str, Expression]") -> frozenset[str]:
    return frozenset[str]().union(*(expression.names for expression in comparisons.values()))


def _prefixed(prefix: str, identity: Mapping[str, object]) -> dict[str, object]:
    """Return an identity with prefixed names, such as "judge votes". The empty name becomes the prefix."""
    return {f"{prefix} {name}".strip(): value for name, value in identity.items()}


MAX_SHOWN_ERRORS: Final = 3  # number of different errors of one score that are shown

MAX_NAMED_EXAMPLES: Final = 5  # number of examples that are named for each error

MAX_CONCURRENT_EXAMPLES: Final = 1000
"""The number of examples of a score that are evaluated concurrently. Each takes some 40 kB during its evaluation, and
far fewer keep a server busy."""


def check_failures(outcomes: Sequence[Outcome], max_unscored: float) -> None:
    """Raise CallableError if the user's code failed on all questions, or on a larger share than `max_unscored`."""
    failed = {outcome.example.id: outcome.failed for outcome in outcomes if outcome.failed is not None}
    if not failed:
        return
    defined = sum(outcome.undefined is None for outcome in outcomes)
    if len(failed) == defined:
        raise combine_errors(failed)
    if too_many_unscored(len(failed), defined, max_unscored):
        share = (
            f"More than the allowed {100 * max_unscored:g}% of {counted(defined, 'example')} have no score."
        )
        remedy = "Fix it, or allow a larger share with --rageval max_unscored=SHARE."
        raise combine_errors(failed, f"{share} {remedy}")


def check_ids(retriever: Any, outcomes: Sequence[Outcome]) -> None:
    """Check that the documents do not have the ids of gold passages in another field than the id, or in another form.

    This happens if a framework creates new ids at each start, for instance, or if the eval set has names of files where
    the retriever has their paths. Then every score is 0, which says nothing of the retriever. Only a retriever with a
    sample of `fields` can be checked.

    Raises:
        InputError: no gold passage was found, and a field has ids of gold passages, or an id or a field similar ones.
    """
    fields = getattr(retriever, "fields", None)
    if fields is None or any(outcome.value for outcome in outcomes):
        return
    rankings = [
        (outcome.evidence.ranking, gold)
        for outcome in outcomes
        if outcome.evidence.ranking is not None and (gold := outcome.example.gold_id_keys)
    ]
    ids = [name for ranking, _ in rankings for name in ranking.ids if name is not None]
    own = f"ids such as {ids[0]!r:.60}" if ids else "no ids"
    head = "No retrieved document has the id of a gold passage"
    setting = "write in pytest.ini or under [tool.pytest.ini_options]: rageval_document_id"
    if (found := fields.gold_field(rankings)) is not None:
        values = join_first([repr(value) for value in found.values], MAX_SHOWN_ERRORS)
        raise InputError(
            f"{head}: they have {own}.\n"
            f"Their field {found.path} has ids of gold passages, in {found.rankings} of "
            f"{counted(found.of, 'ranking')}: {values}.\n"
            f'To use it as the id, {setting} = "{found.path}"'
        )
    # A retriever that finds other passages is no error here.
    if any(not gold.isdisjoint(ranking.id_keys) for ranking, gold in rankings):
        return
    if (similar := fields.similar_ids(rankings)) is not None:
        place = f" in their field {similar.path}" if similar.path else ""
        use = f' If the field is the id, {setting} = "{similar.path}".' if similar.path else ""
        raise InputError(
            f"{head}, and they have one like it{place}: gold {similar.gold!r:.80}, retrieved "
            f"{similar.retrieved!r:.80}.\n"
            f"Write the ids in the eval set as the retriever returns them, or return them in that form.{use}"
        )


def combine_errors(
    errors: Mapping[str, RagevalError], last_line: str = "", what: str = "example"
) -> RagevalError:
    """Combine the errors of examples, by id, into one, which has each message once, with the ids of its examples.

    Errors with the same `reason` count as one. `what` is the word for what the keys name.
    """
    ids_by_message: dict[str, list[str]] = {}
    for id_, error in errors.items():
        ids_by_message.setdefault(error.reason or str(error), []).append(id_)
    lines = []
    for ids in list(ids_by_message.values())[:MAX_SHOWN_ERRORS]:
        lines.append(str(errors[ids[0]]))
        lines.append(f"It affects {counted(len(ids), what)}: {join_first(ids, MAX_NAMED_EXAMPLES)}.")
    rest = sum(len(ids) for ids in list(ids_by_message.values())[MAX_SHOWN_ERRORS:])
    if rest:
        lines.append(f"{counted(rest, f'more {what}')} ended with other messages.")
    kind = type(next(iter(errors.values())))
    # A QueryError is for one question, so the combined error is a CallableError.
    kind = CallableError if issubclass(kind, QueryError) else kind
    combined = kind("\n".join([*lines, *([last_line] if last_line else [])]))
    combined.examples = tuple(id_ for id_, error in errors.items() if isinstance(error, kind))
    return combined


Scored = tuple[float, Evidence]  # value of an example, with its evidence


async def score_each(
    examples: Iterable[Example],
    score: Callable[[Example], Awaitable[Scored | Outcome]],
    *,
    max_concurrency: int | None = None,
) -> list[Outcome]:
    """Score examples concurrently (at most `max_concurrency`; None: all), and collect for each the judge's votes.

    If `score` raises `Unscored` or `Undefined`, the example is unscored or undefined. If the user's retriever,
    generator or judge fails, the example is unscored and the outcome has the error. Any other exception is raised when
    all examples have ended, so that their replies are in the cache. A `RagevalError` names its examples.
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

    outcomes = await gather_all(map(outcome, examples), max_concurrency=max_concurrency)
    if failed:
        # The order of the failures varies, so errors are raised in the order of the examples.
        ids = (outcome.example.id for outcome in outcomes)
        raise combine_errors({id_: failed[id_] for id_ in ids if id_ in failed})
    return outcomes


async def score_with_progress(
    pipeline: Pipeline,
    examples: Sequence[Example],
    score: Callable[[Example], Awaitable[Scored | Outcome]],
) -> list[Outcome]:
    """Call `score_each` for a limited number of concurrent examples; the pipeline counts the examples that wait."""
    waiting = len(examples)
    pipeline.waiting_examples += waiting

    def start(example: Example) -> Awaitable[Scored | Outcome]:
        nonlocal waiting
        waiting -= 1
        pipeline.waiting_examples -= 1
        pipeline.started_examples += 1
        return score(example)

    limit = max(MAX_CONCURRENT_EXAMPLES, pipeline.retriever.max_concurrency)
    try:
        return await score_each(examples, start, max_concurrency=limit)
    finally:
        # If the run was interrupted, some of the examples were not started.
        pipeline.waiting_examples -= waiting


def each_example(
    score: Callable[[Pipeline, Example, ResolvedScore], Awaitable[Scored | Outcome]],
) -> Evaluation:
    @wraps(score)
    async def evaluate(
        pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
    ) -> list[Outcome]:
        return await score_with_progress(
            pipeline, examples, lambda example: score(pipeline, example, resolved)
        )

    return evaluate
