"""What the evaluations of a run share: rankings, answers and verdicts, each computed once."""

import asyncio
import random
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar, cast

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.comparators import (
    MEASURES,
    AnswerMeasure,
    Expression,
    highest,
    lowest,
    parse_expression,
)
from pytest_rageval.answers.judge_protocol import (
    CanonicalComparator,
    Comparator,
    GradedComparator,
    Judge,
    Rating,
)
from pytest_rageval.answers.votes import add_tally, with_tally
from pytest_rageval.errors import CallableError, NoGroundTruth, UnusableRanking
from pytest_rageval.generator import Generator
from pytest_rageval.measures.gold_matching import SHARE
from pytest_rageval.measures.spec import Spec
from pytest_rageval.model import Document, Example, Ranking
from pytest_rageval.retrievers.retriever import Retriever
from pytest_rageval.scores import Outcome
from pytest_rageval.stats.agreement import Tally

__all__ = [
    "NO_GOLD",
    "NO_REFERENCES",
    "Evaluation",
    "Pipeline",
    "ScoreRequest",
    "SingleFlight",
    "Terms",
    "expected_of",
    "gather_all",
    "gather_two",
    "gold_passages",
    "references_of",
]


class ScoreRequest(NamedTuple):
    """A score as a user asks for it.

    Attributes:
        spec: its name, such as "recall@5".
        comparator: how two answers are compared; None for the comparator in force.
        label: how the answer from one passage is compared in eRAG; None for the comparator.
        order: of the passages in the prompt of Rel'-recall: "rank", or "random".
    """

    spec: str
    comparator: str | None = None
    label: str | None = None
    order: str = "rank"

    @property
    def words(self) -> dict[str, str]:
        """What beside the name is given, and is not what stands where nothing is."""
        given = self._asdict()
        return {word: given[word] for word, usual in self._field_defaults.items() if given[word] != usual}


@dataclass(frozen=True, slots=True)
class Terms:
    """A score, with everything that can change it beside the examples.

    Attributes:
        spec: its name.
        k: its cut-off, at least 1.
        comparator: how two answers are compared; None for the comparator in force.
        label: how the answer from one passage is compared in eRAG; None for the comparator.
        order: of the passages in the prompt of Rel'-recall: "rank", or "random".
    """

    spec: Spec
    k: int
    comparator: str | None = None
    label: str | None = None
    order: str = "rank"

    @property
    def part(self) -> str:
        """The measure within the family; empty where there is none."""
        return self.spec.part or ""


T = TypeVar("T")
U = TypeVar("U")


async def gather_all(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Await all at once; an exception is raised when all have come to their end."""
    ended = await asyncio.gather(*awaitables, return_exceptions=True)
    results = []
    for result in ended:
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results


async def gather_two(one: Awaitable[T], other: Awaitable[U]) -> tuple[T, U]:
    """`gather_all` for two of different types."""
    first, second = await gather_all([cast("Awaitable[Any]", one), cast("Awaitable[Any]", other)])
    return first, second


class SingleFlight:
    """Does each piece of work when the first asks for it; the others wait, and get the same.

    For one event loop. An error is kept like a result, but for one of the user's own code. The
    votes behind a verdict count for everybody who gets it.
    """

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Future[tuple[Any, Tally]]] = {}

    async def of(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the work gives.

        Args:
            key: what sets it apart from all other work.
            make: begins it.
        """
        if key not in self._tasks or _may_be_tried_again(self._tasks[key]):
            self._tasks[key] = asyncio.ensure_future(with_tally(make()))
        # Shielded: one who no longer waits must not cancel what others wait for.
        result, votes = await asyncio.shield(cast("asyncio.Future[tuple[T, Tally]]", self._tasks[key]))
        add_tally(key, votes)
        return result


def _may_be_tried_again(task: "asyncio.Future[Any]") -> bool:
    """What an interrupted run left, or what the user's own code failed at, which a later test may not."""
    return task.done() and (task.cancelled() or isinstance(task.exception(), CallableError))


NO_REFERENCES: Final = "no reference answers"
NO_GOLD: Final = "no gold passages"
"""Why an example without them is unscored."""


def references_of(example: Example) -> tuple[str, ...]:
    """The alternatives, any one of which is right; empty where there are none, or several answers are wanted.

    One rule for all scores: an `answer_set` rules over `answers`, and these over the long-form
    `reference`. Whoever wants more than alternatives looks at `answer_set` where this is empty.
    """
    if example.answer_set:
        return ()
    return example.answers or ((example.reference,) if example.reference is not None else ())


def expected_of(example: Example) -> tuple[tuple[str, ...], str]:
    """What an answer is held against, as `Evidence` shows it: alternatives, or one alias of each that is wanted."""
    references = references_of(example)
    return (
        (references, "reference") if references else (tuple(one[0] for one in example.answer_set), "wanted")
    )


def gold_passages(example: Example) -> list[Document]:
    """The relevant gold passages, as the generator reads them.

    Raises:
        NoGroundTruth: there are none, or one of them has no text.
    """
    if not example.relevant:
        raise NoGroundTruth(NO_GOLD)
    passages = [Document(gold.text, gold.id) for gold in example.relevant if gold.text is not None]
    if len(passages) < len(example.relevant):
        reason = 'a gold passage has no "text" for the generator to read'
        raise NoGroundTruth(reason)
    return passages


SEMI_GOLD_SAMPLES: Final = 3
"""How often the answer with gold passages is drawn (LLM-retEval, section 3.2)."""


class Pipeline:
    """One retriever, generator and judge, and what they have said so far.

    All methods are for one event loop. Whatever several scores need is computed
    when the first of them asks, and the others wait for it. Nothing outlives
    the run: the retriever is under test, so every run asks it anew.

    Args:
        retriever: under test.
        generator: of answers.
        judge: what the names "judge" and "graded" stand for in a comparator.
        comparator: how answers are compared where nothing else is said.
        measures: the answer measures there are, by name.
        comparators: more comparators, by name.
        seed: of the random orders of prompts.
        match_share: of a gold passage that has to be retrieved for it to be found.
        both_orders: whether two long answers are judged in both orders.
        repeat: 0, 1, 2 …: which sample numbers generator and judge are asked under.
    """

    def __init__(  # noqa: PLR0913 - what takes part in a run
        self,
        retriever: "Retriever | _Ranked",
        generator: Generator,
        judge: Judge,
        *,
        comparator: str = "judge",
        measures: Mapping[str, AnswerMeasure] = MEASURES,
        comparators: Mapping[str, Comparator] | None = None,
        seed: int = 0,
        match_share: float = SHARE,
        both_orders: bool = False,
        repeat: int = 0,
    ) -> None:
        self._retriever = retriever
        self.generator = generator
        """Of answers."""
        self.judge = judge
        """What "judge" and "graded" stand for."""
        self._verdicts: dict[tuple[str, ...], float] = {}
        self._comparators: dict[str, Comparator] = {
            "judge": _Heard(judge, self._verdicts),
            "graded": GradedComparator(judge),
            "canonical": CanonicalComparator(),
            **(comparators or {}),
        }
        self._added = comparators
        self._default = comparator
        self._expressions: dict[str, Expression] = {}
        self.measures = measures
        """The answer measures there are, by name."""
        self.match_share = match_share
        """Of a gold passage that has to be retrieved for it to be found."""
        self.seed = seed
        """Of the random orders of prompts."""
        self.both_orders = both_orders
        """Whether two long answers are judged in both orders."""
        self._repeat = repeat
        self._once = SingleFlight()

    def again(self, n: int) -> "Pipeline":
        """The n-th run of the same rankings, in which generator and judge are asked again."""
        return Pipeline(
            _Ranked(self),
            self.generator,
            self.judge.repetition(n),
            comparator=self._default,
            measures=self.measures,
            comparators=self._added,
            seed=self.seed,
            match_share=self.match_share,
            both_orders=self.both_orders,
            repeat=n,
        )

    async def ranking(self, question: str, k: int) -> Ranking:
        """What the retriever returns for a question when asked for k documents."""
        return await self._once.of(("ranking", question, k), lambda: self._retriever.retrieve(question, k))

    async def readable(self, question: str, k: int) -> Ranking:
        """The same, to be read by a generator or a judge.

        Raises:
            UnusableRanking: one of the documents has no text.
        """
        ranking = await self.ranking(question, k)
        if ranking.textless:
            reason = "a retrieved document has no text to read"
            raise UnusableRanking(reason)
        return ranking

    async def answer(self, question: str, k: int) -> str:
        """The generator's answer from the first k retrieved documents."""
        ranking = await self.readable(question, k)
        return await self._generated(question, ranking.documents, 0)

    async def answer_from(self, question: str, passages: Sequence[Document]) -> str:
        """The generator's answer from these passages."""
        return await self._generated(question, passages, 0)

    async def shown(self, question: str, k: int, order: str = "rank") -> Ranking:
        """The first k retrieved documents in the order of the prompt: by rank, or at random.

        The random order is that of the question and the run's seed, so that the same question is asked
        with the same prompt in every run.
        """
        ranking = await self.readable(question, k)
        if order == "rank":
            return ranking
        documents = list(ranking.documents)
        # A text as seed gives the same order in every process.
        random.Random(f"{self.seed} {question}").shuffle(documents)  # noqa: S311 - no secret
        return replace(ranking, documents=tuple(documents))

    async def cited_answer(self, question: str, k: int, order: str = "rank") -> str:
        """All answers that the generator finds in the first k retrieved documents, with citations."""
        ranking = await self.shown(question, k, order)
        texts = tuple(passage.text for passage in ranking)
        # The order is in the key as that of the texts: two orders that happen to agree are one prompt.
        return await self._once.of(
            ("cited", question, texts),
            lambda: self.generator.cite(question, ranking.documents, sample=self._repeat),
        )

    async def long_answer(self, question: str, k: int) -> str:
        """The generator's long answer from the first k retrieved documents."""
        ranking = await self.readable(question, k)
        texts = tuple(passage.text for passage in ranking)
        return await self._once.of(
            ("explained", question, texts),
            lambda: self.generator.explain(question, ranking.documents, sample=self._repeat),
        )

    async def preferred(self, question: str, first: str, second: str) -> int:
        """1 or 2 where the judge says that the first or the second answer is better, else 0."""
        return await self._once.of(
            ("preferred", question, first, second), lambda: self.judge.prefer(question, first, second)
        )

    async def relevant(self, question: str, passage: Document) -> float:
        """1.0 where the judge says that a passage is relevant to a question, else 0.0."""
        verdict = await self._once.of(
            ("relevant", question, passage.text), lambda: self.judge.relevant(question, passage.text)
        )
        self._verdicts[question, passage.text] = verdict
        return verdict

    @property
    def verdicts(self) -> Iterator[tuple[str, float]]:
        """What the judge said so far of answers and passages, each once, with its question: 1 is yes, 0 is no."""
        return ((question, verdict) for (question, *_), verdict in self._verdicts.items())

    async def rated(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """The judge's rating by a criterion, from 1 to 5, and why; see `Judge.rate`."""
        return await self._once.of(
            ("rated", criterion, question, tuple(rated), tuple(against)),
            lambda: self.judge.rate(criterion, question, rated, against),
        )

    async def semi_gold(self, example: Example) -> tuple[str, ...]:
        """The generator's answers from the gold passages, drawn three times.

        The first draw and `answer` are the same request where the retriever
        returned exactly the gold passages, so an ideal retriever is no
        different from itself.

        Raises:
            NoGroundTruth: see `gold_passages`.
        """
        passages = gold_passages(example)
        samples = range(SEMI_GOLD_SAMPLES)
        drawn = (self._generated(example.question, passages, sample) for sample in samples)
        return tuple(await gather_all(drawn))

    def comparison(self, text: str | None, word: str = "comparator") -> Expression:
        """How two answers are compared, by its text; None is the way in force.

        Args:
            text: the expression.
            word: that it was given as.

        Raises:
            InputError: the text is no such expression.
        """
        text = self._default if text is None else text
        if text not in self._expressions:
            self._expressions[text] = parse_expression(
                text, measures=self.measures, comparators=self._comparators, word=word
            )
        return self._expressions[text]

    async def same(
        self, question: str, references: Sequence[str], prediction: str, comparator: str | None = None
    ) -> float:
        """How far the prediction says what one of the references says, in [0, 1]."""
        comparison = self.comparison(comparator)
        return await self._once.of(
            ("same", comparison.text, question, tuple(references), prediction),
            lambda: comparison.compare(question, references, prediction),
        )

    async def correct(
        self, example: Example, references: Sequence[str], answer: str, comparator: str | None = None
    ) -> float:
        """Whether an answer is right: one of the references, or every one of an answer set; no abstention is."""
        return await self._held(lowest, example, references, answer, comparator)

    async def helpful(
        self, example: Example, references: Sequence[str], answer: str, comparator: str | None = None
    ) -> float:
        """Whether an answer is a right one: one of the references, or any one of an answer set; no abstention is."""
        return await self._held(highest, example, references, answer, comparator)

    async def _held(
        self,
        combined: Callable[[Iterable[Awaitable[float]]], Awaitable[float]],
        example: Example,
        references: Sequence[str],
        answer: str,
        comparator: str | None,
    ) -> float:
        """An answer held against each wanted one in turn, its references being alternatives."""
        if abstains(answer):
            return 0.0
        wanted = [references] if references else example.answer_set
        return await combined(self.same(example.question, aliases, answer, comparator) for aliases in wanted)

    async def _generated(self, question: str, passages: Sequence[Document], sample: int) -> str:
        texts = tuple(passage.text for passage in passages)
        return await self._once.of(
            ("answer", question, texts, sample),
            lambda: self.generator.generate(
                question, passages, sample=sample + self._repeat * SEMI_GOLD_SAMPLES
            ),
        )


Evaluation = Callable[[Pipeline, Sequence[Example], Terms], Awaitable[list[Outcome]]]
"""Scores examples on these terms: one outcome an example, in their order."""


class _Heard:
    """A judge that compares, and whose verdicts are kept."""

    def __init__(self, judge: Judge, verdicts: MutableMapping[tuple[str, ...], float]) -> None:
        self._judge = judge
        self._verdicts = verdicts

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `pytest_rageval.answers.judge_protocol.Comparator`."""
        verdict = await self._judge.compare(question, references, prediction)
        self._verdicts[question, prediction, *references] = verdict
        return verdict


class _Ranked:
    """The rankings of a run, as a retriever: a repeated run does not ask for them again."""

    def __init__(self, run: Pipeline) -> None:
        self._run = run

    async def retrieve(self, query: str, k: int) -> Ranking:
        """See `pytest_rageval.retrievers.retriever.Retriever`."""
        return await self._run.ranking(query, k)
