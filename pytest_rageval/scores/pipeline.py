"""`Pipeline`: retrieves, generates and judges for all scores of a run, and computes each result once."""

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar, cast

from pytest_rageval.answers import judge as judges
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import (
    GoldNotRetrieved,
    NoGroundTruth,
    RagevalError,
    Unscored,
    UnusableRanking,
)
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome, Tally
from pytest_rageval.core.ranking import Document, Ranking, texts_of
from pytest_rageval.core.spec import Relevance, Spec
from pytest_rageval.lib.foreign_values import id_key
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.spool import Spool
from pytest_rageval.options import DEFAULT_MATCH_SHARE
from pytest_rageval.scores.measures import GoldMatches
from pytest_rageval.scores.rankings import Query, Rankings, SingleFlight, spooled

if TYPE_CHECKING:
    from pytest_rageval.answers.comparators import AnswerMeasure, Expression
    from pytest_rageval.answers.judge import JudgeTask, Text
    from pytest_rageval.models.generator import Generator
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.retrievers import Retriever

T = TypeVar("T")
U = TypeVar("U")

abstains: Final = Lazy("answers.abstention", "abstains")  # only for answers

SEMI_GOLD_SAMPLES: Final = 3
"""The number of answers that are generated from the gold passages (LLM-retEval, section 3.2)."""


NO_REFERENCES: Final = "no reference answers"
"""The reason why an example without reference answers is unscored."""

NO_GOLD: Final = "no gold passages"  # reason why an example without gold passages is unscored
NO_TEXT: Final = 'a gold passage has no "text" for the generator to read'  # likewise

MAX_CONCURRENT_SEARCHES: Final = 1000


def references_of(example: Example) -> tuple[str, ...]:
    """Return the alternative reference answers; empty if there are none, or if the example has an answer set.

    An `answer_set` takes precedence over `answers`, and `answers` over the long-form `reference`.
    """
    if example.answer_set:
        return ()
    return example.answers or ((example.reference,) if example.reference is not None else ())


def retrieved_gold_texts(example: Example) -> dict[str, int]:
    """Return, as a count of evidence, how many gold passages have only an id; empty if none has."""
    number = len([gold for gold in example.relevant if gold.text is None and gold.id is not None])
    return {"retrieved_gold_texts": number} if number else {}


def expected_of(example: Example) -> tuple[tuple[str, ...], str]:
    """Return `expected` and `expected_as` of `Evidence`: the references, or one alias of each wanted answer."""
    if references := references_of(example):
        return references, "reference"
    return tuple(aliases[0] for aliases in example.answer_set), "wanted"


def has_references(example: Example) -> bool:
    return bool(references_of(example) or example.answer_set)


class DrawSettings(NamedTuple):
    """How often and at which temperature answers are generated.

    `temperature` is None for the generator's own. All `answers` to a question are scored, and the mean counts. `gold`
    is the number of answers per question that are generated from the gold passages.
    """

    temperature: float | None = None
    answers: int = 1
    gold: int = SEMI_GOLD_SAMPLES


DEFAULT_DRAWS: Final = DrawSettings()


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a score depends on besides the retriever; `prompts` has the templates of this package's own prompts."""

    fingerprint: dict[str, Any]
    prompts: dict[str, str]
    comparison: str


@dataclass(frozen=True, slots=True)
class ResolvedScore:
    """A score with all parameters that determine it, except the examples.

    `relevant` says which passages are relevant: the "gold" passages, or those with a "gold_grade>=2"; in Rel'-recall
    also those that "contains" a wanted answer, or those that the "judge" calls relevant. A number, as in "contains@100"
    and "judge@20", is that of the passages that are labelled for scores that count passages beyond the prompt.
    """

    spec: Spec
    k: int
    comparator: str | None = None  # by which two answers are compared; None for the default
    label: str | None = None  # by which eRAG compares the answer from one passage; None for `comparator`
    order: str = "rank"  # of the passages in the prompt of Rel'-recall; or "random"
    relevant: str = "gold"

    @property
    def part(self) -> str:
        """The measure within the family of scores; empty if the name has no part."""
        return self.spec.part or ""

    @property
    def relevance(self) -> Relevance:
        return Relevance.parse(self.relevant)


class GoldPassages:
    """The gold passages of examples. Those that have only an id have the text of a retrieved document with this id."""

    def __init__(self, rankings: Rankings) -> None:
        self._rankings = rankings
        # By the digest of an example and the cut-off, the texts of retrieved documents by their `id_key`.
        self._texts: dict[tuple[str, int], Mapping[str, AbstractSet[str]]] = {}

    async def find_texts(self, examples: Sequence[Example], k: int) -> None:
        """Take the texts of gold passages that have only an id from what the retriever returns for these examples.

        These are all examples of the eval set, so that a text depends neither on the order of evaluation nor on what
        else is evaluated.
        """
        texts: defaultdict[str, set[str]] = defaultdict(set)
        by_id = [example for example in examples if retrieved_gold_texts(example)]
        wanted = {id_key(gold.id) for example in by_id for gold in example.relevant if gold.id is not None}

        async def documents(example: Example) -> Sequence[Document]:
            # An example whose retrieval fails is unscored later.
            with suppress(RagevalError, Unscored):
                return (await self._rankings.get(example, k)).documents
            return ()

        searches = map(documents, examples) if wanted else ()
        for each in await gather_all(searches, max_concurrency=MAX_CONCURRENT_SEARCHES):
            for document in each:
                if document.text and document.id is not None and (key := id_key(document.id)) in wanted:
                    texts[key].add(document.text)
        self._texts |= {(example.digest, k): texts for example in by_id}

    async def get(self, example: Example, k: int) -> list[Document]:
        """Return the relevant gold passages as documents; raise NoGroundTruth if there are none with text.

        A gold passage that has only an id has the text of the retrieved document with this id, see `find_texts`.
        Without one the retriever is the cause, which must not gain by losing a passage. If it failed on this example,
        its failure is raised.
        """
        relevant = example.relevant
        if not relevant:
            raise NoGroundTruth(NO_GOLD)
        retrieved: Mapping[str, AbstractSet[str]] = {}
        if None in [gold.text for gold in relevant] and retrieved_gold_texts(example):
            await self._rankings.get(example, k)
            retrieved = self._texts[example.digest, k]
        passages = []
        for gold in relevant:
            text = gold.text
            if text is None and gold.id is None:
                raise NoGroundTruth(NO_TEXT)
            if text is None:
                texts = retrieved.get(id_key(gold.id or ""), frozenset())
                if len(texts) != 1:
                    found = "several documents of its id were" if texts else "no document of its id was"
                    raise GoldNotRetrieved(f"{NO_TEXT}, and {found} retrieved")
                [text] = texts
            passages.append(Document(text, gold.id))
        return passages


@dataclass(eq=False)
class Pipeline:
    """One retriever, generator and judge, with all results that they have returned so far.

    For use in one event loop. A result is computed when it is first requested, and shared by all scores.
    """

    retriever: "Retriever"
    generator: "Generator"
    judge: judges.Judge
    _: KW_ONLY
    comparator: str = "judge"  # the default one
    added_measures: "Mapping[str, AnswerMeasure]" = field(default_factory=dict)  # those of other plugins
    settings: "Settings | None" = None  # which answer measures depend on
    comparators: Mapping[str, judges.Comparator] = field(default_factory=dict)
    seed: int = 0  # of random orders of passages in prompts
    match_share: float = DEFAULT_MATCH_SHARE
    document_id: str = ""  # the path of the field with the ids of the documents; empty: the usual names
    both_orders: bool = False  # whether two long answers are judged in both orders
    grades_together: bool = False  # whether one request of the judge has the grades by all criteria
    repeat: int = 0  # from 0; determines the sample numbers of generator and judge
    draw_settings: DrawSettings = DEFAULT_DRAWS
    draw: int = 0  # from 0: which of the drawn answers this pipeline scores
    # The judge's verdicts of yes or no so far. A key has the question and the judged texts.
    recorded_verdicts: dict[tuple[str, ...], float] = field(default_factory=dict)
    has_custom_judge: bool = False  # whether foreign code judges answers, which may fail on every answer
    reference: "Retriever | None" = None  # which is timed together with the retriever under test
    cached_replies: Callable[[], int] = lambda: 0  # the model replies of this run that came from the cache
    spool: Spool = field(default_factory=Spool)  # of rankings, of which a report shows only a few
    # Both are created from the retriever, and shared by repeats.
    rankings: Rankings = None  # type: ignore[assignment]
    gold: GoldPassages = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self._expressions: dict[str, Expression] = {}
        self.results: SingleFlight = SingleFlight()
        if self.rankings is None:
            self.rankings = Rankings(self.retriever, self.cached_replies, self.spool)
            self.gold = GoldPassages(self.rankings)
        self.ranking: Callable[[Query, int], Coroutine[Any, Any, Ranking]] = self.rankings.get
        # For the display of progress.
        self.started_examples: int = 0
        self.waiting_examples: int = 0
        # The rankings that were last compared with gold passages. The next measure often needs the same.
        self.last_gold_matches: GoldMatches | None = None

    @cached_property
    def measures(self) -> "Mapping[str, AnswerMeasure]":
        from pytest_rageval.answers.comparators import measures_in_force  # noqa: PLC0415 - ranking scores compare no answers

        return measures_in_force(self.added_measures, self.settings)

    @cached_property
    def _comparators(self) -> "dict[str, judges.Comparator]":
        from pytest_rageval.answers import comparators  # noqa: PLC0415 - as above

        return {
            "judge": comparators.RecordingComparator(self.judge, self.recorded_verdicts),
            "graded": comparators.GradedComparator(self.judge),
            "canonical": comparators.CanonicalComparator(),
            **self.comparators,
        }

    def repetition(self, n: int) -> "Pipeline":
        """Return the pipeline of the n-th repeat: the same rankings, and new replies of generator and judge."""
        return replace(self, judge=self.judge.repetition(n), repeat=n, recorded_verdicts={})

    def draw_pipelines(self, generator: "Generator", draw_settings: DrawSettings) -> list["Pipeline"]:
        shared = replace(self, generator=generator, draw_settings=draw_settings)
        return [replace(shared, draw=n) for n in range(draw_settings.answers)]

    async def ranking_with_texts(self, query: Query, k: int) -> Ranking:
        """Return the ranking, for those who read the texts; raise UnusableRanking if a document has none."""
        ranking = await self.ranking(query, k)
        if ranking.textless:
            raise UnusableRanking("a retrieved document has no text to read")
        return ranking

    async def prompt_ranking(self, query: Query, k: int, order: str = "rank") -> Ranking:
        """Return the first k documents in the order of the prompt: by rank, or shuffled by question and seed."""
        ranking = await self.ranking_with_texts(query, k)
        if order == "rank":
            return ranking
        documents = list(ranking.documents)
        # A text as the seed gives the same order in every process.
        random.Random(f"{self.seed} {_question_text(query)}").shuffle(documents)  # noqa: S311 - no secret
        return spooled(replace(ranking, documents=tuple(documents)), self.spool)

    async def answer(self, query: Query, k: int) -> str:
        _, answer = await self.ranking_and_answer(query, k)
        return answer

    async def ranking_and_answer(self, query: Query, k: int) -> tuple[Ranking, str]:
        ranking = await self.ranking_with_texts(query, k)
        return ranking, await self.answer_from(_question_to_answer(query, ranking), ranking.documents)

    async def answer_from(self, question: str, passages: Sequence[Document], sample: int = 0) -> str:
        return await self.results.get(
            ("answer", question, texts_of(passages), sample),
            lambda: self.generator.answer("generate", question, passages, sample + self._first_answer_sample),
        )

    @property
    def _first_answer_sample(self) -> int:
        """The sample number of the first answer in this draw and repeat."""
        settings = self.draw_settings
        return self.draw + self.repeat * max(SEMI_GOLD_SAMPLES, settings.answers, settings.gold)

    async def semi_gold(self, question: str, golds: Sequence[Document]) -> tuple[str, ...]:
        """Return the generator's answers from the gold passages, by default three.

        If a retriever returns exactly the gold passages, the request of `answer` is the same as that of the first of
        these answers, so that LLM-retEval scores 1.
        """
        requests = (self.answer_from(question, golds, sample) for sample in range(self.draw_settings.gold))
        return tuple(await gather_all(requests))

    async def cached_semi_gold(self, question: str, golds: Sequence[Document]) -> tuple[str, ...] | None:
        """Return the answers of `semi_gold` if all of them are cached, else None."""
        first = self._first_answer_sample
        samples = range(first, first + self.draw_settings.gold)
        return await self.generator.cached_answers("generate", question, golds, samples)

    async def cited_answer(self, query: Query, k: int, order: str = "rank") -> str:
        return await self._single_answer("cite", query, await self.prompt_ranking(query, k, order))

    async def long_answer(self, query: Query, k: int) -> str:
        return await self._single_answer("explain", query, await self.ranking_with_texts(query, k))

    async def _single_answer(self, method: str, query: Query, ranking: Ranking) -> str:
        """Return a list or a long answer. Each draw has one of them, which is its sample."""
        question, documents = _question_to_answer(query, ranking), ranking.documents
        sample = self.draw + self.repeat * self.draw_settings.answers
        # The key has the texts in the order of the prompt, so that equal prompts share the answer.
        return await self.results.get(
            (method, question, texts_of(documents)),
            lambda: self.generator.answer(method, question, documents, sample),
        )

    def known_long_answer(self, query: Query, k: int) -> str | None:
        ranking = self.rankings.known(query, k)
        if ranking is None:
            return None
        key = ("explain", _question_to_answer(query, ranking), texts_of(ranking.documents))
        return cast("str | None", self.results.get_if_done(key))

    async def ask(self, task: "JudgeTask[T]", question: str, *texts: "Text") -> T:
        known = tuple([text if isinstance(text, str) else tuple(text) for text in texts])
        verdict = await self._verdict(
            (task.name, question, *known), lambda: self.judge.ask(task, question, *known)
        )
        if task.is_yes_no:
            value = cast("float", verdict.value if isinstance(verdict, judges.Verdict) else verdict)
            flat = chain.from_iterable([text] if isinstance(text, str) else text for text in known)
            self.recorded_verdicts[question, task.name, *flat] = value
        return verdict

    async def _verdict(self, key: Hashable, compute: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Compute a verdict once. The votes in it are counted for each score that uses it."""
        verdict: T | _VotedVerdict[T] = await self.results.get(key, lambda: _collect_votes(compute()))
        if not isinstance(verdict, _VotedVerdict):
            return verdict
        judges.record_tally(key, verdict.votes)
        return verdict.verdict

    @property
    def verdicts(self) -> Iterator[tuple[str, float]]:
        """The judge's verdicts so far on answers and passages, with their questions: 1 is yes, 0 is no."""
        return ((question, verdict) for (question, *_), verdict in self.recorded_verdicts.items())

    def comparison(self, text: str | None, keyword: str = "comparator") -> "Expression":
        """Parse the expression of a comparator, the value of the keyword `keyword`; None is the default comparator."""
        text = self.comparator if text is None else text
        if text not in self._expressions:
            from pytest_rageval.answers.comparators import parse_expression  # noqa: PLC0415 - as above

            self._expressions[text] = parse_expression(
                text, measures=self.measures, comparators=self._comparators, keyword=keyword
            )
        return self._expressions[text]

    def free_comparator(self, text: str | None = None) -> str:
        """Return a comparator, or the default one, if it sends no requests; otherwise canonical comparison."""
        comparison = self.comparison(text)
        return comparison.text if comparison.names - self.measures.keys() <= {"canonical"} else "canonical"

    async def compare(
        self, question: str, references: Sequence[str], prediction: str, comparator: str | None = None
    ) -> float:
        """Return how far the prediction agrees with one of the references, in [0, 1]."""
        comparison = self.comparison(comparator)
        return await self._verdict(
            ("same", comparison.text, question, tuple(references), prediction),
            lambda: comparison.compare(question, references, prediction),
        )

    async def correctness(self, example: Example, answer: str, comparator: str | None = None) -> float:
        """Return how far an answer agrees with one of the references, or with all answers of an answer set.

        An abstention is 0.
        """
        return await self._combine_comparisons("lowest", example, answer, comparator)

    async def partial_correctness(self, example: Example, answer: str, comparator: str | None) -> float:
        """Return the same as `correctness`, but any one answer of an answer set is enough."""
        return await self._combine_comparisons("highest", example, answer, comparator)

    async def _combine_comparisons(
        self, combine: Literal["lowest", "highest"], example: Example, answer: str, comparator: str | None
    ) -> float:
        """Compare an answer with each answer of an answer set, and combine the results; references are alternatives."""
        if abstains(answer):
            return 0.0
        question = example.full_question
        if references := references_of(example):
            return await self.compare(question, references, answer, comparator)
        from pytest_rageval.answers import comparators  # noqa: PLC0415 - as above

        values = (self.compare(question, aliases, answer, comparator) for aliases in example.answer_set)
        return await (comparators.lowest(values) if combine == "lowest" else comparators.highest(values))


@dataclass(frozen=True, slots=True)
class _VotedVerdict(Generic[T]):
    verdict: T
    votes: Tally


async def _collect_votes(work: Awaitable[T]) -> T | _VotedVerdict[T]:
    """Return a verdict; if several votes determined it, return it with the votes. Most verdicts have one vote."""
    verdict, votes = await judges.collect_tallies(work)
    return _VotedVerdict(verdict, votes) if votes.verdicts else verdict


def _question_text(query: Query) -> str:
    return query if isinstance(query, str) else query.full_question


def _question_to_answer(query: Query, ranking: Ranking) -> str:
    """Return the question that the generator answers: the one that the retriever has set, or the user's."""
    return _question_text(query) if ranking.question is None else ranking.question


Evaluation = Callable[[Pipeline, Sequence[Example], ResolvedScore], Awaitable[list[Outcome]]]
"""Scores examples: returns one outcome per example, in the order of the examples."""
