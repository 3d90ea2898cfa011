"""What the evaluations of a run share: rankings, answers and verdicts, each computed once."""

import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.compare import CanonicalComparator, Comparator, GradedComparator, Judge
from pytest_rageval.answers.expression import Expression, parse_expression
from pytest_rageval.answers.logic import highest, lowest
from pytest_rageval.answers.measures import MEASURES, AnswerMeasure
from pytest_rageval.answers.rating import Rating
from pytest_rageval.errors import UnusableRanking
from pytest_rageval.evaluations.at_once import all_of
from pytest_rageval.evaluations.ground_truth import gold_passages
from pytest_rageval.evaluations.once import Once
from pytest_rageval.evaluations.terms import Terms
from pytest_rageval.generator import Generator
from pytest_rageval.measures.labels import SHARE
from pytest_rageval.model import Document, Example, Ranking
from pytest_rageval.retrievers.adapt import Retriever
from pytest_rageval.scores import Outcome

__all__ = ["Evaluation", "Run"]

SEMI_GOLD_SAMPLES: Final = 3
"""How often the answer with gold passages is drawn (LLM-retEval, section 3.2)."""


class Run:
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
        self._once = Once()

    def again(self, n: int) -> "Run":
        """The n-th run of the same rankings, in which generator and judge are asked again."""
        return Run(
            _Ranked(self),
            self.generator,
            self.judge.again(n),
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
        return tuple(await all_of(drawn))

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


Evaluation = Callable[[Run, Sequence[Example], Terms], Awaitable[list[Outcome]]]
"""Scores examples on these terms: one outcome an example, in their order."""


class _Heard:
    """A judge that compares, and whose verdicts are kept."""

    def __init__(self, judge: Judge, verdicts: MutableMapping[tuple[str, ...], float]) -> None:
        self._judge = judge
        self._verdicts = verdicts

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `pytest_rageval.answers.compare.Comparator`."""
        verdict = await self._judge.compare(question, references, prediction)
        self._verdicts[question, prediction, *references] = verdict
        return verdict


class _Ranked:
    """The rankings of a run, as a retriever: a repeated run does not ask for them again."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def retrieve(self, query: str, k: int) -> Ranking:
        """See `pytest_rageval.retrievers.adapt.Retriever`."""
        return await self._run.ranking(query, k)
