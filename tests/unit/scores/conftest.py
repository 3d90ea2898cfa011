"""`World`: a scripted retriever, generator and judge in memory, for the tests of evaluations."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_rageval.answers.judge import JudgeTask, Verdict
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.ranking import Document
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.run.registry import resolve
from pytest_rageval.scores.pipeline import Pipeline


def _result(scripted: Any) -> Any:
    if isinstance(scripted, Exception):
        raise scripted
    return scripted


class World:
    """The retriever, the generator and the judge of a pipeline, with scripted results and counts of their calls.

    A result that is an exception is raised. Passages in keys are their texts, joined by "|".

    Attributes:
        rankings: the texts of the retrieved passages, by question; default: none.
        answers: the answer, by the passages of the prompt; a tuple has one answer per sample. Default: the first
            passage, or an abstention without passages.
        cited: the answer with citations, by the passages of the prompt; default: an abstention.
        explained: the long answer, by the passages of the prompt; default: an abstention.
        better: the judge's preference, by question: the text of the better answer, or its position, 1 or 2; 0 for
            neither.
        verdicts: the verdict of the comparator, by prediction; default: 1 if it equals a reference, else 0.
        grades: the grade of the judge, by prediction.
        relevance: the judge's verdict on a passage, by its text; default: 0.
        enough: the judge's verdict whether passages are sufficient, by the passages; default: 0.
        ratings: the judge's rating, by criterion, rated texts, and texts that they are compared with.
        nuggets: the judge's labels of the nuggets, by the text of the passage or the answer; default: zeros.
        asked: the number of calls, by method and arguments, such as ("retrieve", question, k).
        run: a pipeline with default settings.
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
        self.ratings: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Verdict | Exception] = {}
        self.nuggets: dict[str, tuple[float, ...] | Exception] = {}
        self.asked: Counter[tuple[str, ...]] = Counter()
        self.run = self.make_pipeline()

    def make_pipeline(self, **settings: object) -> Pipeline:
        return Pipeline(adapt_retriever(self.retrieve, self.loop), self, self, **settings)

    def retrieve(self, question: str, k: int) -> list[str]:
        self.asked["retrieve", question, str(k)] += 1
        return self.rankings.get(question, [])[:k]

    async def answer(self, method: str, question: str, passages: Sequence[Document], sample: int = 0) -> str:
        return await getattr(self, method)(question, passages, sample=sample)

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        texts = "|".join(passage.text for passage in passages)
        self.asked["generate", question, texts, str(sample)] += 1
        answer = _result(
            self.answers.get(texts, passages[0].text if passages else "no answer in the documents")
        )
        return answer[sample] if isinstance(answer, tuple) else answer

    async def cached_answers(self, *_: object) -> None:
        """Return None: no answer is cached."""

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        shown = "|".join(passage.text for passage in passages)
        self.asked["cite", question, shown, str(sample)] += 1
        return self.cited.get(shown, "no answer in the documents")

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        shown = "|".join(passage.text for passage in passages)
        self.asked["explain", question, shown, str(sample)] += 1
        return self.explained.get(shown, "no answer in the documents")

    async def ask(self, task: JudgeTask[Any], question: str, *texts: Any) -> Any:
        return await getattr(self, task.method)(*task.criterion, question, *texts)

    async def prefer(self, question: str, first: str, second: str) -> Verdict:
        self.asked["prefer", question, first, second] += 1
        better = self.better[question]
        place = better if isinstance(better, int) else [first, second].index(better) + 1
        return Verdict(place, f"Answer {place} it is.")

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        self.asked["compare", question, *references, prediction] += 1
        return _result(self.verdicts.get(prediction, float(prediction in references)))

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        self.asked["grade", question, *references, prediction] += 1
        return self.grades[prediction]

    async def relevant(self, question: str, passage: str) -> float:
        self.asked["relevant", question, passage] += 1
        return self.relevance.get(passage, 0.0)

    async def sufficient(self, question: str, passages: Sequence[str]) -> Verdict:
        shown = "|".join(passages)
        self.asked["sufficient", question, shown] += 1
        return Verdict(_result(self.enough.get(shown, 0.0)), f"It reads {shown}.")

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Verdict:
        self.asked["rate", criterion, question, *rated, *against] += 1
        return _result(self.ratings[criterion, tuple(rated), tuple(against)])

    async def support(self, question: str, nuggets: Sequence[str], passage: str) -> Sequence[float]:
        self.asked["support", question, *nuggets, passage] += 1
        return _result(self.nuggets.get(passage, (0.0,) * len(nuggets)))

    def evaluate(self, spec: str, *examples: Example, **words: str) -> list[Outcome]:
        resolved, score = resolve(ScoreRequest(spec, **words))
        self.loop.run(self.run.gold.find_texts(examples, resolved.k))
        return self.loop.run(score.evaluate(self.run, examples, resolved))

    def call_count(self, method: str) -> int:
        return sum(count for call, count in self.asked.items() if call[0] == method)


@pytest.fixture
def world(loop: BackgroundEventLoop) -> World:
    return World(loop)


@pytest.fixture
def example() -> Callable[..., Example]:
    def make(question: str, *gold: str, **fields: object) -> Example:
        return Example(question, question, gold=tuple(Gold(text=text) for text in gold), **fields)

    return make


def five_passages(world: World, example: Callable[..., Example]) -> Example:
    """Script five passages; from the first or the fourth passage alone, the generator gives the right answer.

    The second passage contains the answer, but the generator does not find it there. The third passage is useless, and
    the generator abstains from the fifth passage.
    """
    world.rankings["q"] = ["one", "the answer is Ada", "three", "four", "five"]
    world.answers |= {
        "one": "Ada",
        "the answer is Ada": "Bob",
        "three": "Eve",
        "four": "Ada",
        "five": "no answer in the documents",
    }
    world.relevance |= {"the answer is Ada": 1.0, "three": 1.0}
    return example("q", "gold", answers=("Ada",))
