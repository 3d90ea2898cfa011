"""A small world: a corpus, a retriever, a generator and a comparator, in memory."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from pytest_rageval.answers.judge_protocol import JudgeVerdict, Preference, Rating
from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.datatypes import Document, Example, Gold
from pytest_rageval.evaluations.pipeline import Pipeline, ScoreRequest
from pytest_rageval.evaluations.registry import resolve
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.scores import Outcome


class World:
    """What there is to ask, and how often it was asked.

    Attributes:
        rankings: by question, the passages' texts; nothing for any other.
        answers: by the passages shown, joined by "|": what the generator says; a tuple gives one a
            sample, an exception is raised. Else the first passage is the answer.
        cited: by the passages shown, likewise: the cited answer; else the abstention.
        verdicts: by the prediction: what the comparator says; else whether it equals a reference.
        explained: by the passages shown, likewise: the long answer; else the abstention.
        better: by the question: the better of two answers, 0 for neither, or 1 or 2 for one in its place.
        grades: by the prediction: what the judge gives it.
        relevance: by the passage's text: what the judge says of it; else 0.
        enough: by the passages shown, joined by "|": whether the judge finds them enough; else 0.
        ratings: by criterion, what is rated and what it is held against: what the judge says; an
            exception is raised.
        nuggets: by the text of a passage or an answer: the labels of the nuggets; an exception is raised.
            Else no nugget is supported.
        asked: counts of ("retrieve" | "generate" | "cite" | "explain" | "compare" | "prefer", …).
    """

    def __init__(self, loop: BackgroundEventLoop) -> None:
        self.loop = loop
        self.rankings: dict[str, list[str]] = {}
        self.answers: dict[str, str | tuple[str, ...] | Exception] = {}
        self.cited: dict[str, str] = {}
        self.explained: dict[str, str] = {}
        self.better: dict[str, str | int] = {}
        self.verdicts: dict[str, float | Exception] = {}
        self.grades: dict[str, float] = {}
        self.relevance: dict[str, float] = {}
        self.enough: dict[str, float | Exception] = {}
        self.ratings: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Rating | Exception] = {}
        self.nuggets: dict[str, tuple[float, ...] | Exception] = {}
        self.asked: Counter[tuple[str, ...]] = Counter()
        self.run = self.made()

    def made(self, **words: object) -> Pipeline:
        """A run of this world of another resolved score."""
        return Pipeline(adapt_retriever(self.retrieve, self.loop), self, self, **words)

    def retrieve(self, question: str, k: int) -> list[str]:
        """The user's retriever."""
        self.asked["retrieve", question, str(k)] += 1
        return self.rankings.get(question, [])[:k]

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """The generator."""
        shown = "|".join(passage.text for passage in passages)
        self.asked["generate", question, shown, str(sample)] += 1
        said = self.answers.get(shown, passages[0].text if passages else "no answer in the documents")
        if isinstance(said, Exception):
            raise said
        return said[sample] if isinstance(said, tuple) else said

    def answers_nowait(self, *_: object) -> None:
        """No answer is kept."""

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """The generator, asked for all answers with citations."""
        shown = "|".join(passage.text for passage in passages)
        self.asked["cite", question, shown, str(sample)] += 1
        return self.cited.get(shown, "no answer in the documents")

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """The generator, asked for a long answer."""
        shown = "|".join(passage.text for passage in passages)
        self.asked["explain", question, shown, str(sample)] += 1
        return self.explained.get(shown, "no answer in the documents")

    async def prefer(self, question: str, first: str, second: str) -> Preference:
        """The judge of two answers."""
        self.asked["prefer", question, first, second] += 1
        better = self.better[question]
        place = better if isinstance(better, int) else [first, second].index(better) + 1
        return Preference(place, f"Answer {place} it is.")

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """The comparator."""
        self.asked["compare", question, *references, prediction] += 1
        verdict = self.verdicts.get(prediction, float(prediction in references))
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """The judge's grade."""
        self.asked["grade", question, *references, prediction] += 1
        return self.grades[prediction]

    async def relevant(self, question: str, passage: str) -> float:
        """The judge of passages."""
        self.asked["relevant", question, passage] += 1
        return self.relevance.get(passage, 0.0)

    async def sufficient(self, question: str, passages: Sequence[str]) -> JudgeVerdict:
        """The judge of what was shown."""
        shown = "|".join(passages)
        self.asked["sufficient", question, shown] += 1
        verdict = self.enough.get(shown, 0.0)
        if isinstance(verdict, Exception):
            raise verdict
        return JudgeVerdict(verdict, f"It reads {shown}.")

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """The judge's rating."""
        self.asked["rate", criterion, question, *rated, *against] += 1
        rating = self.ratings[criterion, tuple(rated), tuple(against)]
        if isinstance(rating, Exception):
            raise rating
        return rating

    async def support(self, question: str, nuggets: Sequence[str], passage: str) -> Sequence[float]:
        """The judge of nuggets."""
        self.asked["support", question, *nuggets, passage] += 1
        labels = self.nuggets.get(passage, (0.0,) * len(nuggets))
        if isinstance(labels, Exception):
            raise labels
        return labels

    def evaluate(self, spec: str, *examples: Example, **words: str) -> list[Outcome]:
        """Score examples as a test does."""
        resolved, score = resolve(ScoreRequest(spec, **words))
        return self.loop.run(score.evaluate(self.run, examples, resolved))

    def asked_of(self, part: str) -> int:
        """How often a part was asked."""
        return sum(count for what, count in self.asked.items() if what[0] == part)


@pytest.fixture
def world(loop: BackgroundEventLoop) -> World:
    """An empty world."""
    return World(loop)


@pytest.fixture
def example() -> Callable[..., Example]:
    """Makes an example: its question, the texts of its gold passages, other fields."""

    def make(question: str, *gold: str, **fields: object) -> Example:
        return Example(question, question, gold=tuple(Gold(text=text) for text in gold), **fields)

    return make
