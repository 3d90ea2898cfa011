"""`Pipeline`: retrieves, generates and judges for all scores of a run, and computes each result once."""

import asyncio
import random
from array import array
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, cast

from pytest_rageval.answers.comparators import (
    MEASURES,
    AnswerMeasure,
    CanonicalComparator,
    Expression,
    GradedComparator,
    highest,
    in_turn,
    lowest,
    parse_expression,
)
from pytest_rageval.answers.judge import protocol as judges
from pytest_rageval.core.data import Document, Example, Ranking
from pytest_rageval.core.errors import InputError, UnusableRanking
from pytest_rageval.core.gathering import gather_all
from pytest_rageval.core.outcome import Outcome, Tally
from pytest_rageval.core.spec import Relevance, Spec
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.spool import Spool
from pytest_rageval.scores.ground_truth import gold_passages, references_of
from pytest_rageval.scores.measures.gold_matching import DEFAULT_MATCH_SHARE
from pytest_rageval.scores.measures.ranking import Labelled
from pytest_rageval.scores.single_flight import SingleFlight, digest_key

if TYPE_CHECKING:
    from pytest_rageval.answers.judge.protocol import JudgeTask, Text
    from pytest_rageval.models.generator import Generator
    from pytest_rageval.retrievers import Retriever

T = TypeVar("T")
U = TypeVar("U")

abstains: Final = Lazy("answers.abstention", "abstains")  # only for answers

Query = Example | str
"""An example, whose history, filters and metadata count too; or the text of a question."""

SEMI_GOLD_SAMPLES: Final = 3
"""The number of answers that are generated from the gold passages (LLM-retEval, section 3.2)."""


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
class ResolvedScore:
    """A score with all parameters that determine it, except the examples.

    Attributes:
        comparator: the expression by which two answers are compared; None for the default comparator.
        label: the expression by which eRAG compares the answer from one passage; None for `comparator`.
        order: the order of the passages in the prompt of Rel'-recall: "rank" or "random".
        relevant: which passages are relevant: the "gold" passages, or those with a "gold_grade>=2"; in Rel'-recall also
            those that "contains" a wanted answer, or those that the "judge" calls relevant. A number, as in
            "contains@100" and "judge@20", is the number of retrieved passages that are labelled for scores that count
            passages beyond the prompt.
    """

    spec: Spec
    k: int
    comparator: str | None = None
    label: str | None = None
    order: str = "rank"
    relevant: str = "gold"

    @property
    def part(self) -> str:
        """The measure within the family of scores; empty if the name has no part."""
        return self.spec.part or ""

    @property
    def relevance(self) -> Relevance:
        return Relevance.parse(self.relevant)


class GoldRules(NamedTuple):
    """How rankings are compared with gold passages.

    `grade` is the lowest grade of a relevant passage. With `judged_only` only documents count that are gold passages of
    any grade.
    """

    k: int
    grade: int
    judged_only: bool


class GoldMatches(NamedTuple):
    """The rankings of all examples compared with their gold passages, for all measures by the same rules.

    The value of an outcome is that of the measure that was computed last, or None if the example is unscored.
    `gold_ranks` has the ranks of the gold passages for each outcome with a value.
    """

    examples: Sequence[Example]
    rules: GoldRules
    outcomes: Sequence[Outcome]
    gold_ranks: Sequence[Labelled]


@dataclass(eq=False)
class Pipeline:
    """One retriever, generator and judge, with all results that they have returned so far.

    For use in one event loop. A result is computed when it is first requested, and shared by all scores. Rankings are
    not stored beyond the run: the retriever is under test, so every run calls it.

    Attributes:
        retriever: the retriever under test.
        generator: the generator of answers.
        judge: the judge, which the comparators "judge" and "graded" use.
        comparator: the expression of the default comparator.
        measures: the answer measures by name.
        comparators: further comparators by name.
        seed: the seed of random orders of passages in prompts.
        match_share: the share of a gold passage that must be retrieved for the passage to count as found.
        document_id: the path of the field with the ids of the documents; empty: the usual names.
        both_orders: whether two long answers are judged in both orders.
        repeat: the number of the repeat, from 0. It determines the sample numbers of generator and judge.
        draw_settings: how often and at which temperature answers are generated.
        draw: the number of the draw, from 0: which of the drawn answers this pipeline scores.
        recorded_verdicts: the judge's verdicts of yes or no so far. A key has the question and the judged texts.
        has_custom_judge: whether code of the user or of another plugin judges answers, which may fail on every answer.
        reference: a second retriever, which is timed together with the retriever under test; None if there is none.
        cached_replies: returns the number of model replies of this run that came from the cache.
        spool: stores the documents of rankings, of which a report shows only a few.
    """

    retriever: "Retriever | _SharedRankings"
    generator: "Generator"
    judge: judges.Judge
    _: KW_ONLY
    comparator: str = "judge"
    measures: Mapping[str, AnswerMeasure] = field(default_factory=lambda: MEASURES)
    comparators: Mapping[str, judges.Comparator] = field(default_factory=dict)
    seed: int = 0
    match_share: float = DEFAULT_MATCH_SHARE
    document_id: str = ""
    both_orders: bool = False
    repeat: int = 0
    draw_settings: DrawSettings = DEFAULT_DRAWS
    draw: int = 0
    recorded_verdicts: dict[tuple[str, ...], float] = field(default_factory=dict)
    has_custom_judge: bool = False
    reference: "Retriever | None" = None
    cached_replies: Callable[[], int] = lambda: 0
    spool: Spool = field(default_factory=Spool)

    def __post_init__(self) -> None:
        """Create the comparators and the empty caches of results."""
        self._comparators: dict[str, judges.Comparator] = {
            "judge": _RecordingComparator(self.judge, self.recorded_verdicts),
            "graded": GradedComparator(self.judge),
            "canonical": CanonicalComparator(),
            **self.comparators,
        }
        self._expressions: dict[str, Expression] = {}
        self.results: SingleFlight = SingleFlight()
        # By k.
        self._rankings: defaultdict[int, SingleFlight] = defaultdict(
            partial(SingleFlight, _compact_ranking_key)
        )
        # For the display of progress.
        self.started_examples: int = 0
        self.waiting_examples: int = 0
        self.finished_rankings: int = 0
        self._started_rankings = 0
        # Hashes, because 100,000 questions may be waiting at once and only their number is needed.
        self._expected_rankings: set[int] = set()
        # Held while a retrieval is timed.
        self.timing_lock: asyncio.Lock = asyncio.Lock()
        # Hashes of the retrievals during which a model reply came from the cache, for the retriever or for another
        # caller. The array is moved to the set when the set is needed, which is only in runs that measure latency.
        self._overlapped_cached_reply: set[int] = set()
        self._new_overlaps = array("q")
        # The rankings that were last compared with gold passages. The next measure often needs the same.
        self.last_gold_matches: GoldMatches | None = None

    def repetition(self, n: int) -> "Pipeline":
        """Return the pipeline of the n-th repeat: the same rankings, and new replies of generator and judge."""
        return replace(
            self,
            retriever=_SharedRankings(self),
            judge=self.judge.repetition(n),
            repeat=n,
            recorded_verdicts={},
        )

    def draw_pipelines(self, generator: "Generator", draw_settings: DrawSettings) -> list["Pipeline"]:
        """Return one pipeline per drawn answer, all with the rankings of this pipeline."""
        shared = replace(
            self, retriever=_SharedRankings(self), generator=generator, draw_settings=draw_settings
        )
        return [replace(shared, draw=n) for n in range(draw_settings.answers)]

    async def ranking(self, query: Query, k: int) -> Ranking:
        """Return the retriever's ranking for k documents.

        Raises:
            InputError: the example has filters, and the retriever does not accept them.
        """
        key = self.retriever.key(query)
        ranking = await self._rankings[k].get(key, lambda: self._retrieve(key, query, k))
        # The attribute is not set by the retriever, because a question without a history may share the ranking.
        without_history = (
            isinstance(query, Example)
            and query.history
            and not self.retriever.context_names & {"history", "example"}
        )
        return replace(ranking, without_history=True) if without_history else ranking

    def known_ranking(self, query: Query, k: int) -> Ranking | None:
        """Return the ranking if it was retrieved already; None if it was not, or if the retriever failed."""
        return cast("Ranking | None", self._rankings[k].get_if_done(self.retriever.key(query)))

    @property
    def retriever_description(self) -> str:
        """The class of the retriever, and by what it was recognised; empty for a function."""
        return getattr(self.retriever, "description", "")

    @property
    def has_retrieved(self) -> bool:
        return self._started_rankings > 0

    @property
    def total_rankings(self) -> int:
        """The number of rankings that were requested or are expected."""
        return self._started_rankings + len(self._expected_rankings)

    @contextmanager
    def expect_rankings(self, examples: Iterable[Example], k: int) -> Iterator[None]:
        """Count the rankings of examples as expected, before they are requested."""
        if isinstance(self.retriever, _SharedRankings):
            yield
            return
        hashes, expected = set(), []
        for example in examples:
            # If the retriever does not accept an example, `ranking` will raise this error.
            with suppress(InputError):
                key = self.retriever.key(example)
                if not self._rankings[k].has_started(key):
                    hashes.add(hash((key, k)))
                    expected.append(example)
        self._expected_rankings |= hashes
        self.retriever.expect(expected, k)
        try:
            yield
        finally:
            # If the run was interrupted, some of the rankings were not requested. A new set is created, because a set
            # does not shrink in memory when its items are removed.
            self._expected_rankings = self._expected_rankings - hashes

    @contextmanager
    def track_scoring(self, number: int) -> Iterator[Callable[[], None]]:
        """Count this number of examples as waiting to be scored.

        Yields a function that must be called when the scoring of an example starts.
        """
        waiting = number
        self.waiting_examples += number

        def start_example() -> None:
            nonlocal waiting
            waiting -= 1
            self.waiting_examples -= 1
            self.started_examples += 1

        try:
            yield start_example
        finally:
            # If the run was interrupted, some of the examples were not started.
            self.waiting_examples -= waiting

    async def _retrieve(self, key: Hashable, query: Query, k: int, *, alone: bool = False) -> Ranking:
        self._started_rankings += 1
        retrieval = hash((key, k))
        self._expected_rankings.discard(retrieval)
        is_first, cached_before = self._started_rankings == 1, self.cached_replies()
        try:
            ranking = await self.retriever.retrieve(query, k, alone=alone)
        finally:
            self.finished_rankings += 1
        if self.cached_replies() > cached_before:
            self._new_overlaps.append(retrieval)
        ranking = ranking.move_to_spool(self.spool)
        # The first call also opens connections and loads models, so its duration is not that of a retrieval.
        return replace(ranking, seconds=None) if is_first and not self.retriever.replays else ranking

    async def retrieve_alone(self, query: Query, k: int) -> Ranking:
        """Retrieve a ranking again; the question is not sent in a batch with others."""
        return await self._retrieve(self.retriever.key(query), query, k, alone=True)

    def overlapped_cached_reply(self, query: Query, k: int) -> bool:
        """Return True if a model reply came from the cache during a retrieval, for the retriever or another caller."""
        self._overlapped_cached_reply.update(self._new_overlaps)
        del self._new_overlaps[:]
        return hash((self.retriever.key(query), k)) in self._overlapped_cached_reply

    async def ranking_with_texts(self, query: Query, k: int) -> Ranking:
        """Return the same as `ranking`, for a generator or a judge, which read the texts.

        Raises:
            UnusableRanking: one of the documents has no text.
        """
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
        return replace(ranking, documents=tuple(documents)).move_to_spool(self.spool)

    async def answer(self, query: Query, k: int) -> str:
        _, answer = await self.ranking_and_answer(query, k)
        return answer

    async def ranking_and_answer(self, query: Query, k: int) -> tuple[Ranking, str]:
        """Return the first k retrieved documents, and the generator's answer from these documents."""
        ranking = await self.ranking_with_texts(query, k)
        return ranking, await self.answer_from(_question_to_answer(query, ranking), tuple(ranking.documents))

    async def answer_from(self, question: str, passages: Sequence[Document], sample: int = 0) -> str:
        """Return the generator's answer from these passages."""
        return await self.results.get(
            ("answer", question, texts_of(passages), sample),
            lambda: self.generator.generate(question, passages, sample=sample + self._first_answer_sample),
        )

    @property
    def _first_answer_sample(self) -> int:
        """The sample number of the first answer in this draw and repeat."""
        settings = self.draw_settings
        return self.draw + self.repeat * max(SEMI_GOLD_SAMPLES, settings.answers, settings.gold)

    async def semi_gold(self, example: Example) -> tuple[str, ...]:
        """Return the generator's answers from the gold passages, by default three.

        If a retriever returns exactly the gold passages, the request of `answer` is the same as that of the first of
        these answers, so that LLM-retEval scores 1.

        Raises:
            NoGroundTruth: see `gold_passages`.
        """
        passages, first = gold_passages(example), self._first_answer_sample
        count = self.draw_settings.gold
        answers = self.generator.answers_nowait(
            "generate", example.full_question, passages, range(first, first + count)
        )
        if answers is not None:
            return answers
        requests = (self.answer_from(example.full_question, passages, sample) for sample in range(count))
        return tuple(await gather_all(requests))

    async def cited_answer(self, query: Query, k: int, order: str = "rank") -> str:
        """Return the generator's list of all answers in the first k retrieved documents, with citations."""
        ranking = await self.prompt_ranking(query, k, order)
        question, documents = _question_to_answer(query, ranking), ranking.documents
        # The key has the texts in the order of the prompt, so that equal prompts share the answer.
        return await self.results.get(
            ("cited", question, texts_of(documents)),
            lambda: self.generator.cite(question, documents, sample=self._sample),
        )

    async def long_answer(self, query: Query, k: int) -> str:
        """Return the generator's long answer from the first k retrieved documents."""
        ranking = await self.ranking_with_texts(query, k)
        question, documents = _question_to_answer(query, ranking), ranking.documents
        return await self.results.get(
            ("explained", question, texts_of(documents)),
            lambda: self.generator.explain(question, documents, sample=self._sample),
        )

    @property
    def _sample(self) -> int:
        """The sample number of lists and long answers. Each draw has one of them."""
        return self.draw + self.repeat * self.draw_settings.answers

    def known_long_answer(self, query: Query, k: int) -> str | None:
        """Return the long answer if it was generated already; None if it was not, or if a component failed."""
        ranking = self.known_ranking(query, k)
        if ranking is None:
            return None
        key = ("explained", _question_to_answer(query, ranking), texts_of(ranking.documents))
        return cast("str | None", self.results.get_if_done(key))

    async def ask(self, task: "JudgeTask[T]", question: str, *texts: "Text") -> T:
        """Return the judge's verdict of a task on a question and further texts."""
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

    def comparison(self, text: str | None, keyword: str = "comparator") -> Expression:
        """Parse the expression of a comparator; None is the default comparator.

        Raises:
            InputError: the expression, which is the value of the keyword `keyword`, is not valid.
        """
        text = self.comparator if text is None else text
        if text not in self._expressions:
            self._expressions[text] = parse_expression(
                text, measures=self.measures, comparators=self._comparators, keyword=keyword
            )
        return self._expressions[text]

    def free_comparator(self, text: str | None = None) -> str:
        """Return a comparator, or the default one, if it sends no requests; otherwise canonical comparison."""
        comparison = self.comparison(text)
        return comparison.text if comparison.names <= {"canonical", *self.measures} else "canonical"

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
        return await self._combine_comparisons(lowest, example, answer, comparator)

    async def partial_correctness(
        self, example: Example, answer: str, comparator: str | None = None
    ) -> float:
        """Return the same as `correctness`, but any one answer of an answer set is enough."""
        return await self._combine_comparisons(highest, example, answer, comparator)

    async def _combine_comparisons(
        self,
        combine: Callable[[Iterable[Awaitable[float]]], Awaitable[float]],
        example: Example,
        answer: str,
        comparator: str | None,
    ) -> float:
        """Compare an answer with each answer of an answer set, and combine the results; references are alternatives."""
        if abstains(answer):
            return 0.0
        references = references_of(example)
        wanted = [references] if references else example.answer_set
        return await combine(
            self.compare(example.full_question, aliases, answer, comparator) for aliases in wanted
        )


@dataclass(frozen=True, slots=True)
class _VotedVerdict(Generic[T]):
    verdict: T
    votes: Tally


async def _collect_votes(work: Awaitable[T]) -> T | _VotedVerdict[T]:
    """Return a verdict; if several votes determined it, return it with the votes. Most verdicts have one vote."""
    verdict, votes = await judges.collect_tallies(work)
    return _VotedVerdict(verdict, votes) if votes.verdicts else verdict


def _compact_ranking_key(key: tuple[str, str]) -> Hashable:
    """Return the question, or if there is a context a digest of both.

    The question needs no digest: the example has the same object, so it takes no further memory.
    """
    question, context = key
    return digest_key(key) if context else question


def _question_text(query: Query) -> str:
    return query if isinstance(query, str) else query.full_question


def _question_to_answer(query: Query, ranking: Ranking) -> str:
    """Return the question that the generator answers: the one that the retriever has set, or the user's."""
    return _question_text(query) if ranking.question is None else ranking.question


Evaluation = Callable[[Pipeline, Sequence[Example], ResolvedScore], Awaitable[list[Outcome]]]
"""Scores examples: returns one outcome per example, in the order of the examples."""


def texts_of(passages: Iterable[Document]) -> tuple[str, ...]:
    return tuple([passage.text for passage in passages])


@dataclass(frozen=True)
class _RecordingComparator:
    """Compares answers by the judge, and records the verdicts."""

    _judge: judges.Judge
    _verdicts: dict[tuple[str, ...], float]

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        verdict = await self._judge.compare(question, references, prediction)
        self._verdicts[question, prediction, *references] = verdict
        return verdict

    async def compare_in_turn(self, question: str, references: Sequence[str], prediction: str) -> float:
        """As `compare`. It is not recorded: of answers that rules refuse, a judge may always say the same."""
        return await in_turn(self._judge)(question, references, prediction)


@dataclass(frozen=True)
class _SharedRankings:
    """A retriever that returns the rankings of another pipeline, so that a repeat does not retrieve again."""

    _pipeline: Pipeline

    def key(self, query: Query) -> Hashable:
        return self._pipeline.retriever.key(query)

    async def retrieve(self, query: Query, k: int, *, alone: bool = False) -> Ranking:  # noqa: ARG002 - no call is made
        return await self._pipeline.ranking(query, k)

    @property
    def replays(self) -> bool:
        return self._pipeline.retriever.replays

    @property
    def settings(self) -> Mapping[str, str]:
        return self._pipeline.retriever.settings

    @property
    def context_names(self) -> frozenset[str]:
        return self._pipeline.retriever.context_names

    @property
    def max_concurrency(self) -> int:
        return self._pipeline.retriever.max_concurrency
