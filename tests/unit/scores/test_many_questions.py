"""Tasks, memory and progress totals of runs with many questions."""

import asyncio
import gc
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.calls.user_code import MAX_FAILURES
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.ranking import Document, Ranking, Span
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.lib import spool
from pytest_rageval.retrievers import MAX_CONCURRENCY, adapt_retriever
from pytest_rageval.run.registry import resolve
from pytest_rageval.scores.definition import MAX_CONCURRENT_EXAMPLES, score_with_progress
from pytest_rageval.scores.pipeline import Pipeline

SPECS = ("recall@5", "ndcg@10", "mrr@10")
MANY = 2 * MAX_CONCURRENCY
LIMIT = 2_200  # bytes


def _examples(questions: int) -> list[Example]:
    return [Example(f"q{n}", f"item {n}", gold=(Gold(id=f"doc-{n}"),)) for n in range(questions)]


def _found(query: str, k: int) -> list[dict[str, Any]]:
    number = int(query.rsplit(maxsplit=1)[-1])
    return [{"id": f"doc-{n}", "text": f"Passage {n} " * 30} for n in range(number + 1 - k, number + 1)]


async def _evaluated(run: Pipeline, examples: list[Example], specs: tuple[str, ...]) -> list[list[Outcome]]:
    resolved = [resolve(ScoreRequest(spec)) for spec in specs]
    return await gather_all(score.evaluate(run, examples, resolved) for resolved, score in resolved)


@pytest.mark.slow
def test_a_bounded_number_of_tasks_is_in_flight_and_the_total_is_known(loop) -> None:
    tasks, totals, calls = [], [], []

    async def search(query: str, k: int) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        calls.append((query, k))
        if len(calls) % 100 == 0:
            tasks.append(len(asyncio.all_tasks()))
            totals.append((run.rankings.total, run.rankings.finished < run.rankings.total))
        return _found(query, k)

    run = Pipeline(adapt_retriever(search, loop), None, None)
    outcomes = loop.run(_evaluated(run, _examples(MANY), SPECS))
    # Each question has a task per score, and a task per ranking, which two of the scores share.
    assert max(tasks) <= 5 * MAX_CONCURRENCY + 10
    assert set(totals) == {(2 * MANY, True)}
    assert (run.rankings.total, run.rankings.finished, len(calls)) == (2 * MANY, 2 * MANY, 2 * MANY)
    for score, value in zip(outcomes, (1.0, None, 0.1), strict=True):
        assert [outcome.example.id for outcome in score] == [f"q{n}" for n in range(MANY)]
        assert value is None or {outcome.value for outcome in score} == {value}


class CountingGenerator:
    def __init__(self) -> None:
        self.now = self.most = 0
        self.totals: set[int] = set()
        self.run: Pipeline | None = None

    async def answer(self, _method: str, question: str, *_: object) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        self.totals.add(self.run.started_examples + self.run.waiting_examples)
        await asyncio.sleep(0)
        self.now -= 1
        return question


def test_examples_are_answered_in_turn_and_those_that_wait_are_counted(loop) -> None:
    generator = CountingGenerator()
    generator.run = run = Pipeline(adapt_retriever(_found, loop), generator, None)
    examples = [Example(f"q{n}", f"item {n}", answers=(f"item {n}",)) for n in range(MANY)]
    (outcomes,) = loop.run(_evaluated(run, examples, ("answer.em@1",)))
    assert [outcome.value for outcome in outcomes] == [1.0] * MANY
    assert 1 < generator.most <= MAX_CONCURRENCY
    assert generator.totals == {MANY}
    assert (run.started_examples, run.waiting_examples) == (MANY, 0)

    async def sleep(_: Example) -> None:
        await asyncio.sleep(60)

    with suppress(TimeoutError):
        loop.run(
            asyncio.wait_for(
                score_with_progress(run, examples[:1] * (MAX_CONCURRENT_EXAMPLES + 5), sleep), 0.1
            )
        )
    assert (run.started_examples, run.waiting_examples) == (MANY + MAX_CONCURRENT_EXAMPLES, 0)


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_broken_retriever_is_given_up_at_the_first_questions(loop, *, asynchronous: bool) -> None:
    """All questions are unscored and the progress is complete."""
    queries: list[str] = []

    def search(query: str, _k: int) -> list[str]:
        queries.append(query)
        raise LookupError("no index")

    async def searched(query: str, k: int) -> list[str]:
        await asyncio.sleep(0)
        return search(query, k)

    run = Pipeline(adapt_retriever(searched if asynchronous else search, loop), None, None)
    (outcomes,) = loop.run(_evaluated(run, _examples(MANY), ("recall@5",)))
    assert queries == [f"item {n}" for n in range(MAX_FAILURES)]
    assert sum(outcome.failed is not None for outcome in outcomes) == MANY
    assert run.rankings.total == run.rankings.finished == MANY


@pytest.mark.slow
def test_an_interrupted_run_expects_nothing_and_can_be_run_again(loop) -> None:
    asked: list[str] = []

    def search(query: str, k: int) -> list[dict[str, Any]]:
        asked.append(query)
        if len(asked) == 10:
            raise KeyboardInterrupt
        return _found(query, k)

    run = Pipeline(adapt_retriever(search, loop), None, None)
    with pytest.raises(KeyboardInterrupt):
        loop.run(_evaluated(run, _examples(MANY), ("recall@5",)))
    loop.run(asyncio.sleep(0.05))
    # The total has the questions that were retrieved and those that waited.
    assert run.rankings.total == run.rankings.finished <= len(asked) + MAX_CONCURRENCY
    (outcomes,) = loop.run(_evaluated(run, _examples(MANY), ("recall@5",)))
    assert [outcome.value for outcome in outcomes] == [1.0] * MANY


@pytest.mark.slow
def test_passages_leave_memory_and_come_back_as_they_were(loop, monkeypatch) -> None:
    """Scores, spans and metadata of any type, too. Two scores with the same cut-off share the ranking."""
    monkeypatch.setattr(spool, "WRITE_BUFFER_BYTES", 0)
    marker = object()

    def search(query: str, k: int) -> list[Document]:
        number = int(query.rsplit(maxsplit=1)[-1])
        metadata: dict[str, Any] = {1: {"page": (1, 2.5)}, 2: {"object": marker}}.get(number, {})
        return [
            Document(f"Passage {number} " * 30, f"doc-{n}", 0.5, metadata, Span("a.md", 1, 9))
            for n in range(k)
        ]

    run = Pipeline(adapt_retriever(search, loop), None, None)
    _, long, same = loop.run(_evaluated(run, _examples(20), SPECS))
    gc.collect()
    alive = [
        document for document in gc.get_objects() if type(document) is Document and document.id == "doc-9"
    ]
    assert [document.metadata for document in alive] == []
    for number, (one, other) in enumerate(zip(long, same, strict=True)):
        assert one.evidence.ranking is other.evidence.ranking
        assert one.evidence.ranking == Ranking.of(f"item {number}", search(f"item {number}", 10))


@pytest.mark.slow
@pytest.mark.long
def test_a_question_takes_few_kilobytes(loop) -> None:
    def kept(questions: int) -> int:
        run, examples = Pipeline(adapt_retriever(_found, loop), None, None), _examples(questions)
        gc.collect()
        tracemalloc.start(1)
        outcomes = loop.run(_evaluated(run, examples, SPECS))
        # The peak is not used: it depends on timing, by how many concurrent questions have documents in memory.
        memory, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(outcomes[0]) == questions
        return memory

    kept(10)
    slope = (kept(3 * MAX_CONCURRENCY) - kept(2 * MAX_CONCURRENCY)) / MAX_CONCURRENCY
    assert slope < LIMIT
