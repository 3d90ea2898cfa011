"""`Pipeline`: retrieves, generates and judges for all scores of a run; computes each result once."""

import asyncio
import random
from array import array
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, cast

from pytest_rageval.answers import comparators as compare
from pytest_rageval.answers import judge_protocol as judges
from pytest_rageval.answers.abstention import abstains
from pytest_rageval.concurrency.gathering import gather_all
from pytest_rageval.datatypes import Document, Example, Ranking
from pytest_rageval.errors import InputError, NoGroundTruth, UnusableRanking
from pytest_rageval.evaluations.single_flight import SingleFlight, digest
from pytest_rageval.measures.gold_matching import SHARE
from pytest_rageval.measures.gold_measures import GoldRanks
from pytest_rageval.scores import Outcome, Relevance, Spec
from pytest_rageval.spool import Spool
from pytest_rageval.stats.agreement import Tally

if TYPE_CHECKING:
    from pytest_rageval.generator import Generator
    from pytest_rageval.retrievers import Retriever

__all__ = [
    "DEFAULT_DRAWS",
    "NO_GOLD",
    "NO_REFERENCES",
    "DrawSettings",
    "Evaluation",
    "GoldMatches",
    "Pipeline",
    "Query",
    "ResolvedScore",
    "ScoreRequest",
    "expected_of",
    "gold_passages",
    "references_of",
    "texts_of",
]

T = TypeVar("T")
U = TypeVar("U")

Query = Example | str
"""What is asked: an example, with its history, filters and metadata; or a question without any."""

NO_REFERENCES: Final = "no reference answers"
NO_GOLD: Final = "no gold passages"
"""Why an example without them is unscored."""

SEMI_GOLD_SAMPLES: Final = 3
"""How often the answer with gold passages is drawn (LLM-retEval, section 3.2)."""


class ScoreRequest(NamedTuple):
    """A score as the user writes it, such as "recall@5", with its keywords: see `ResolvedScore`."""

    spec: str
    comparator: str | None = None
    label: str | None = None
    order: str = "rank"
    relevant: str = "gold"
    temperature: float | None = None
    draws: int | None = None

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords that differ from their defaults."""
        defaults = self._field_defaults
        return {
            keyword: value
            for keyword, value in self._asdict().items()
            if value != defaults.get(keyword, value)
        }


class DrawSettings(NamedTuple):
    """How answers are drawn: the temperature (None: the generator's own), and the number of draws.

    `answers` of each question are scored, and the mean counts. `gold` are drawn from the gold passages.
    """

    temperature: float | None = None
    answers: int = 1
    gold: int = SEMI_GOLD_SAMPLES


DEFAULT_DRAWS: Final = DrawSettings()
"""The default."""


@dataclass(frozen=True, slots=True)
class ResolvedScore:
    """A score with everything that determines it, except the examples.

    Attributes:
        spec: its name.
        k: its cut-off, at least 1.
        comparator: how two answers are compared; None for the default comparator.
        label: how the answer from one passage is compared in eRAG; None for the comparator.
        order: of the passages in the prompt of Rel'-recall: "rank", or "random".
        relevant: which passages are relevant in Rel'-recall: the "gold" ones, those that the wanted answers occur in
            ("contains"), or those that the judge calls relevant ("judge"). "contains@100" and "judge@20" name how many
            retrieved passages are labelled where those beyond the prompt count.
    """

    spec: Spec
    k: int
    comparator: str | None = None
    label: str | None = None
    order: str = "rank"
    relevant: str = "gold"

    @property
    def part(self) -> str:
        """The measure within the family; empty where there is none."""
        return self.spec.part or ""

    @property
    def relevance(self) -> Relevance:
        """What `relevant` says."""
        return Relevance.parse(self.relevant)


class GoldMatches(NamedTuple):
    """The rankings of a set compared with its gold passages, for all measures at one cut-off.

    `rows` has one for each outcome with a value, which is that of another measure; the others are unscored.
    """

    examples: Sequence[Example]
    k: int
    outcomes: Sequence[Outcome]
    rows: Sequence[GoldRanks]


@dataclass(eq=False)
class Pipeline:
    """One retriever, generator and judge, with all results that they have returned so far.

    For one event loop. A result that several scores need is computed at its first use. Rankings are not kept beyond
        the run: the retriever is under test, so every run calls it.

    Attributes:
        retriever: under test.
        generator: of answers.
        judge: behind the comparators "judge" and "graded".
        comparator: the default comparator.
        measures: the answer measures, by name, as `measured_by` has them.
        measured_by: how they are computed.
        comparators: more comparators, by name.
        seed: of the random orders of prompts.
        match_share: the share of a gold passage that must be retrieved for it to count as found.
        both_orders: whether two long answers are judged in both orders.
        repeat: 0, 1, 2 …: determines the sample numbers of generator and judge.
        drawing: how answers are drawn.
        draw: 0, 1, 2 …: which of the drawn answers this pipeline has.
        judged: the judge's verdicts so far, by question, what was judged, and what it was held against.
        untried: whether answers are judged by the user's own code, or another plugin's, which may fail at all of them.
        reference: a retriever that is timed beside the one under test; None where none is.
        cached: the number of replies of models that came from the cache so far.
        spool: of the documents of rankings: a report shows few of them.
    """

    retriever: "Retriever | _SharedRankings"
    generator: "Generator"
    judge: judges.Judge
    _: KW_ONLY
    comparator: str = "judge"
    measures: Mapping[str, compare.AnswerMeasure] = field(default_factory=lambda: compare.MEASURES)
    measured_by: compare.MeasureSettings = field(default_factory=compare.MeasureSettings)
    comparators: Mapping[str, judges.Comparator] = field(default_factory=dict)
    seed: int = 0
    match_share: float = SHARE
    both_orders: bool = False
    repeat: int = 0
    drawing: DrawSettings = DEFAULT_DRAWS
    draw: int = 0
    judged: dict[tuple[str, ...], float] = field(default_factory=dict)
    untried: bool = False
    reference: "Retriever | None" = None
    cached: Callable[[], int] = lambda: 0
    spool: Spool = field(default_factory=Spool)

    def __post_init__(self) -> None:
        """Begin with nothing known."""
        self._comparators: dict[str, judges.Comparator] = {
            "judge": _RecordedJudge(self.judge, self.judged),
            "graded": compare.GradedComparator(self.judge),
            "canonical": compare.CanonicalComparator(),
            **self.comparators,
        }
        self._expressions: dict[str, compare.Expression] = {}
        self.once = SingleFlight()
        self._rankings: defaultdict[int, SingleFlight] = defaultdict(partial(SingleFlight, _as_retrieved))
        # For the display of progress: rankings, and examples that have begun or wait to be scored.
        self.begun = self.waiting = 0
        self.ranked = 0
        self._begun = 0
        # By hash, which is enough to count: 100,000 questions are waiting at once.
        self._expected: set[int] = set()
        # Held by the one retrieval that is timed.
        self.timing = asyncio.Lock()
        # Retrievals during which models gave cached replies, to the retriever or to others. Few runs ask for them.
        self._beside_cached: set[int] = set()
        self._last_beside_cached = array("q")
        # The rankings that were last compared with gold passages, for the next measure.
        self.matched: GoldMatches | None = None

    def again(self, n: int) -> "Pipeline":
        """The n-th repeat: the same rankings, with new replies of generator and judge."""
        return replace(
            self, retriever=_SharedRankings(self), judge=self.judge.repetition(n), repeat=n, judged={}
        )

    def drawn(self, generator: "Generator", drawing: DrawSettings) -> list["Pipeline"]:
        """Pipelines over the same rankings, one for each answer that is drawn in this way."""
        shared = replace(self, retriever=_SharedRankings(self), generator=generator, drawing=drawing)
        return [replace(shared, draw=n) for n in range(drawing.answers)]

    async def ranking(self, query: Query, k: int) -> Ranking:
        """The retriever's ranking when asked for k documents.

        Raises:
            InputError: the example has filters, and the retriever does not take them.
        """
        key = self.retriever.key(query)
        ranking = await self._rankings[k].of(key, lambda: self._retrieved(key, query, k))
        # Not in the retriever: a question without a history may share the ranking.
        unseen = (
            isinstance(query, Example) and query.history and not self.retriever.takes & {"history", "example"}
        )
        return replace(ranking, without_history=True) if unseen else ranking

    def known_ranking(self, query: Query, k: int) -> Ranking | None:
        """The ranking if it was retrieved already; None if it was not, or if the retriever failed."""
        return cast("Ranking | None", self._rankings[k].known(self.retriever.key(query)))

    @property
    def has_retrieved(self) -> bool:
        """Whether a retrieval has begun."""
        return self._begun > 0

    @property
    def rankings(self) -> int:
        """The number of rankings that were requested or are expected."""
        return self._begun + len(self._expected)

    @contextmanager
    def expecting(self, examples: Iterable[Example], k: int) -> Iterator[None]:
        """Count the rankings of these examples as requested, before they are."""
        if isinstance(self.retriever, _SharedRankings):
            yield
            return
        found, expected = set(), []
        for each in examples:
            # An example that the retriever cannot take has this error.
            with suppress(InputError):
                key = self.retriever.key(each)
                if not self._rankings[k].has(key):
                    found.add(hash((key, k)))
                    expected.append(each)
        self._expected |= found
        self.retriever.expect(expected, k)
        try:
            yield
        finally:
            # What was not retrieved: the run was interrupted.
            # A set from which all is taken keeps its size.
            self._expected = self._expected - found

    @contextmanager
    def scoring(self, examples: int) -> Iterator[Callable[[], None]]:
        """Count so many examples as waiting to be scored; what it yields is called as each of them begins."""
        waiting = examples
        self.waiting += examples

        def begin() -> None:
            nonlocal waiting
            waiting -= 1
            self.waiting -= 1
            self.begun += 1

        try:
            yield begin
        finally:
            # What did not begin: the run was interrupted.
            self.waiting -= waiting

    async def _retrieved(self, key: Hashable, query: Query, k: int, *, alone: bool = False) -> Ranking:
        self._begun += 1
        place = hash((key, k))
        self._expected.discard(place)
        is_first, cached = self._begun == 1, self.cached()
        try:
            ranking = await self.retriever.retrieve(query, k, alone=alone)
        finally:
            self.ranked += 1
        if self.cached() > cached:
            self._last_beside_cached.append(place)
        ranking = ranking.kept(self.spool)
        # The first call also opens connections and loads models.
        return replace(ranking, seconds=None) if is_first and not self.retriever.replays else ranking

    async def retrieved_alone(self, query: Query, k: int) -> Ranking:
        """A ranking that is retrieved again, while no other is."""
        return await self._retrieved(self.retriever.key(query), query, k, alone=True)

    def was_beside_cached(self, query: Query, k: int) -> bool:
        """Whether models gave cached replies, to the retriever or to others, during a retrieval."""
        self._beside_cached.update(self._last_beside_cached)
        del self._last_beside_cached[:]
        return hash((self.retriever.key(query), k)) in self._beside_cached

    async def readable(self, query: Query, k: int) -> Ranking:
        """As `ranking`, for a generator or a judge, which need the texts.

        Raises:
            UnusableRanking: one of the documents has no text.
        """
        ranking = await self.ranking(query, k)
        if ranking.textless:
            raise UnusableRanking("a retrieved document has no text to read")
        return ranking

    async def shown(self, query: Query, k: int, order: str = "rank") -> Ranking:
        """The first k documents in the order of the prompt: by rank, or at random by question and seed."""
        ranking = await self.readable(query, k)
        if order == "rank":
            return ranking
        documents = list(ranking.documents)
        # A text as seed gives the same order in every process.
        random.Random(f"{self.seed} {_question(query)}").shuffle(documents)  # noqa: S311 - no secret
        return replace(ranking, documents=tuple(documents)).kept(self.spool)

    async def answer(self, query: Query, k: int) -> str:
        """The generator's answer from the first k retrieved documents."""
        _, answer = await self.ranking_and_answer(query, k)
        return answer

    async def ranking_and_answer(self, query: Query, k: int) -> tuple[Ranking, str]:
        """The first k retrieved documents, and the generator's answer from these."""
        ranking = await self.readable(query, k)
        return ranking, await self.answer_from(_answered(query, ranking), tuple(ranking.documents))

    async def answer_from(self, question: str, passages: Sequence[Document], sample: int = 0) -> str:
        """The generator's answer from these passages."""
        return await self.once.of(
            ("answer", question, texts_of(passages), sample),
            lambda: self.generator.generate(question, passages, sample=sample + self._first_sample),
        )

    @property
    def _first_sample(self) -> int:
        """The sample number of the first answer in this draw and repeat."""
        return self.draw + self.repeat * max(SEMI_GOLD_SAMPLES, self.drawing.answers, self.drawing.gold)

    async def semi_gold(self, example: Example) -> tuple[str, ...]:
        """The generator's answers from the gold passages, by default drawn three times.

        With a retriever that returns just these passages, the first draw is the request of `answer`, and scores 1.

        Raises:
            NoGroundTruth: see `gold_passages`.
        """
        passages, first = gold_passages(example), self._first_sample
        samples = range(first, first + self.drawing.gold)
        if (
            answers := self.generator.answers_nowait("generate", example.full_question, passages, samples)
        ) is not None:
            return answers
        drawn = (
            self.answer_from(example.full_question, passages, sample) for sample in range(self.drawing.gold)
        )
        return tuple(await gather_all(drawn))

    async def cited_answer(self, query: Query, k: int, order: str = "rank") -> str:
        """All answers that the generator finds in the first k retrieved documents, with citations."""
        ranking = await self.shown(query, k, order)
        question, documents = _answered(query, ranking), ranking.documents
        # The key holds the order of the texts: two orders that happen to agree are one prompt.
        return await self.once.of(
            ("cited", question, texts_of(documents)),
            lambda: self.generator.cite(question, documents, sample=self._sample),
        )

    async def long_answer(self, query: Query, k: int) -> str:
        """The generator's long answer from the first k retrieved documents."""
        ranking = await self.readable(query, k)
        question, documents = _answered(query, ranking), ranking.documents
        return await self.once.of(
            ("explained", question, texts_of(documents)),
            lambda: self.generator.explain(question, documents, sample=self._sample),
        )

    @property
    def _sample(self) -> int:
        """The sample number of lists and long answers, of which each draw has one."""
        return self.draw + self.repeat * self.drawing.answers

    def known_long_answer(self, query: Query, k: int) -> str | None:
        """The long answer if it was written already; None where it was not, or something failed."""
        ranking = self.known_ranking(query, k)
        if ranking is None:
            return None
        key = ("explained", _answered(query, ranking), texts_of(ranking.documents))
        return cast("str | None", self.once.known(key))

    async def preferred(self, question: str, first: str, second: str) -> judges.Preference:
        """1 or 2 where the judge prefers the first or the second answer, else 0; and why."""
        return await self._verdict(
            ("preferred", question, first, second), lambda: self.judge.prefer(question, first, second)
        )

    async def relevant(self, question: str, passage: Document) -> float:
        """How relevant the judge finds a passage to a question, in [0, 1]."""
        verdict = await self._verdict(
            ("relevant", question, passage.text), lambda: self.judge.relevant(question, passage.text)
        )
        self.judged[question, passage.text] = verdict
        return verdict

    async def sufficient(self, question: str, passages: Sequence[Document]) -> judges.JudgeVerdict:
        """How far the judge finds passages enough to answer a question, in [0, 1], and why."""
        texts = texts_of(passages)
        verdict = await self._verdict(
            ("sufficient", question, texts), lambda: self.judge.sufficient(question, texts)
        )
        self.judged[question, "sufficient", *texts] = verdict.value
        return verdict

    async def supported(self, question: str, nuggets: Sequence[str], text: str) -> Sequence[float]:
        """How far a passage or an answer says each nugget, by the judge: 1 all of it, 0.5 a part, 0 nothing.

        Labels depend on neither k nor rank.
        """
        return await self._verdict(
            ("supported", question, tuple(nuggets), text),
            lambda: self.judge.support(question, nuggets, text),
        )

    async def rated(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> judges.Rating:
        """The judge's rating by a criterion, from 1 to 5, with its explanation; see `Judge.rate`."""
        return await self._verdict(
            ("rated", criterion, question, tuple(rated), tuple(against)),
            lambda: self.judge.rate(criterion, question, rated, against),
        )

    async def _verdict(self, about: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """A verdict that is given once; the votes behind it count for each score that uses it."""
        found: T | _Voted[T] = await self.once.of(about, lambda: _with_votes(make()))
        if not isinstance(found, _Voted):
            return found
        judges.record_tally(about, found.votes)
        return found.verdict

    @property
    def verdicts(self) -> Iterator[tuple[str, float]]:
        """The judge's verdicts so far on answers and passages, with their questions: 1 is yes, 0 is no."""
        return ((question, verdict) for (question, *_), verdict in self.judged.items())

    def comparison(self, text: str | None, keyword: str = "comparator") -> compare.Expression:
        """The comparator of an expression; None is the default.

        Raises:
            InputError: the expression, of the keyword `keyword`, is not valid.
        """
        text = self.comparator if text is None else text
        if text not in self._expressions:
            self._expressions[text] = compare.parse_expression(
                text, measures=self.measures, comparators=self._comparators, keyword=keyword
            )
        return self._expressions[text]

    async def same(
        self, question: str, references: Sequence[str], prediction: str, comparator: str | None = None
    ) -> float:
        """How far the prediction agrees with one of the references, in [0, 1]."""
        comparison = self.comparison(comparator)
        return await self._verdict(
            ("same", comparison.text, question, tuple(references), prediction),
            lambda: comparison.compare(question, references, prediction),
        )

    async def correct(self, example: Example, answer: str, comparator: str | None = None) -> float:
        """Whether an answer is right: one of the references, or every one of an answer set; an abstention is not."""
        return await self._compared(compare.lowest, example, answer, comparator)

    async def helpful(self, example: Example, answer: str, comparator: str | None = None) -> float:
        """Whether an answer is a right one: like `correct`, but any one of an answer set is enough."""
        return await self._compared(compare.highest, example, answer, comparator)

    async def _compared(
        self,
        combined: Callable[[Iterable[Awaitable[float]]], Awaitable[float]],
        example: Example,
        answer: str,
        comparator: str | None,
    ) -> float:
        """The combined comparisons of an answer with each wanted one; references are alternatives."""
        if abstains(answer):
            return 0.0
        references = references_of(example)
        wanted = [references] if references else example.answer_set
        return await combined(
            self.same(example.full_question, aliases, answer, comparator) for aliases in wanted
        )


@dataclass(frozen=True, slots=True)
class _Voted(Generic[T]):
    """A verdict with the votes behind it."""

    verdict: T
    votes: Tally


async def _with_votes(work: Awaitable[T]) -> T | _Voted[T]:
    """A verdict, with votes where there are any: most have one only."""
    verdict, votes = await judges.collect_tallies(work)
    return _Voted(verdict, votes) if votes.verdicts else verdict


def _as_retrieved(key: tuple[str, str]) -> Hashable:
    """A question, which the example has too, so that it costs no memory; with its context, a digest of both."""
    question, context = key
    return digest(key) if context else question


def _question(query: Query) -> str:
    return query if isinstance(query, str) else query.full_question


def _answered(query: Query, ranking: Ranking) -> str:
    """The question that the generator answers."""
    return _question(query) if ranking.question is None else ranking.question


Evaluation = Callable[[Pipeline, Sequence[Example], ResolvedScore], Awaitable[list[Outcome]]]
"""Scores examples for a resolved score: one outcome per example, in their order."""


def texts_of(passages: Iterable[Document]) -> tuple[str, ...]:
    """The texts of passages, in their order."""
    return tuple([passage.text for passage in passages])


@dataclass(frozen=True)
class _RecordedJudge:
    """A judge whose verdicts are recorded by the pipeline."""

    _judge: judges.Judge
    _verdicts: dict[tuple[str, ...], float]

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        verdict = await self._judge.compare(question, references, prediction)
        self._verdicts[question, prediction, *references] = verdict
        return verdict


@dataclass(frozen=True)
class _SharedRankings:
    """Serves the rankings of a run as a retriever, so that a repeat does not retrieve again."""

    _run: Pipeline

    def key(self, query: Query) -> Hashable:
        return self._run.retriever.key(query)

    async def retrieve(self, query: Query, k: int, *, alone: bool = False) -> Ranking:  # noqa: ARG002 - it has them
        return await self._run.ranking(query, k)

    @property
    def replays(self) -> bool:
        return self._run.retriever.replays

    @property
    def takes(self) -> frozenset[str]:
        return self._run.retriever.takes

    @property
    def at_once(self) -> int:
        return self._run.retriever.at_once


def references_of(example: Example) -> tuple[str, ...]:
    """The alternatives, any one of which is right; empty where there are none, or several answers are wanted.

    An `answer_set` takes precedence over `answers`, and these over the long-form `reference`.
    """
    if example.answer_set:
        return ()
    return example.answers or ((example.reference,) if example.reference is not None else ())


def expected_of(example: Example) -> tuple[tuple[str, ...], str]:
    """The expected answers as `Evidence` shows them: alternatives, or one alias of each that is wanted."""
    if references := references_of(example):
        return references, "reference"
    return tuple(aliases[0] for aliases in example.answer_set), "wanted"


def gold_passages(example: Example) -> list[Document]:
    """The relevant gold passages, as the generator reads them.

    Raises:
        NoGroundTruth: there are none, or one of them has no text.
    """
    relevant = example.relevant
    if not relevant:
        raise NoGroundTruth(NO_GOLD)
    passages = [Document(gold.text, gold.id) for gold in relevant if gold.text is not None]
    if len(passages) < len(relevant):
        raise NoGroundTruth('a gold passage has no "text" for the generator to read')
    return passages
