"""What thousands of questions take while they are asked: tasks, memory, and the totals that are shown meanwhile."""

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from pytest_rageval.evaluations.context import Pipeline, ScoreRequest, gather_all
from pytest_rageval.evaluations.registry import resolve
from pytest_rageval.model import Example, Gold
from pytest_rageval.retrievers import AT_ONCE, adapt_retriever
from pytest_rageval.scores import Outcome
from pytest_rageval.user_code import FIRST

SPECS = ("recall@5", "ndcg@10", "mrr@10")
MANY = 2 * AT_ONCE
LIMIT = 8_000  # bytes


def _examples(questions: int) -> list[Example]:
    return [Example(f"q{n}", f"item {n}", gold=(Gold(id=f"doc-{n}"),)) for n in range(questions)]


def _found(query: str, k: int) -> list[dict[str, Any]]:
    number = int(query.rsplit(maxsplit=1)[-1])
    return [{"id": f"doc-{n}", "text": f"Passage {n} " * 30} for n in range(number + 1 - k, number + 1)]


async def _evaluated(run: Pipeline, examples: list[Example], specs: tuple[str, ...]) -> list[list[Outcome]]:
    resolved = [resolve(ScoreRequest(spec)) for spec in specs]
    return await gather_all(score.evaluate(run, examples, terms) for terms, score in resolved)


@pytest.mark.slow
def test_a_bounded_number_of_tasks_is_in_flight_and_the_total_is_known(loop) -> None:
    """Each score asks a window of its questions; the progress shows all rankings from the first on."""
    tasks, totals, asked = [], [], []

    async def search(query: str, k: int) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        asked.append((query, k))
        if len(asked) % 100 == 0:
            tasks.append(len(asyncio.all_tasks()))
            totals.append((run.rankings, run.ranked < run.rankings))
        return _found(query, k)

    run = Pipeline(adapt_retriever(search, loop), None, None)
    outcomes = loop.run(_evaluated(run, _examples(MANY), SPECS))
    # A task of the score, and one of the ranking, which two of the scores share.
    assert max(tasks) <= 5 * AT_ONCE + 10
    assert set(totals) == {(2 * MANY, True)}
    assert (run.rankings, run.ranked, len(asked)) == (2 * MANY, 2 * MANY, 2 * MANY)
    for score, value in zip(outcomes, (1.0, None, 0.1), strict=True):
        assert [each.example.id for each in score] == [f"q{n}" for n in range(MANY)]
        assert value is None or {each.value for each in score} == {value}


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_broken_retriever_is_given_up_at_the_first_questions(loop, *, asynchronous: bool) -> None:
    """The rest are not asked, all are unscored, and nothing is expected any more."""
    asked: list[str] = []

    def search(query: str, _k: int) -> list[str]:
        asked.append(query)
        raise LookupError("no index")

    async def searched(query: str, k: int) -> list[str]:
        await asyncio.sleep(0)
        return search(query, k)

    run = Pipeline(adapt_retriever(searched if asynchronous else search, loop), None, None)
    (outcomes,) = loop.run(_evaluated(run, _examples(MANY), ("recall@5",)))
    assert asked == [f"item {n}" for n in range(FIRST)]
    assert sum(outcome.failed is not None for outcome in outcomes) == MANY
    assert run.rankings == run.ranked == MANY


@pytest.mark.slow
def test_an_interrupted_run_expects_nothing_and_can_be_run_again(loop) -> None:
    """What was not asked is not shown as missing in the next test."""
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
    assert run.rankings == run.ranked <= AT_ONCE
    (outcomes,) = loop.run(_evaluated(run, _examples(MANY), ("recall@5",)))
    assert [outcome.value for outcome in outcomes] == [1.0] * MANY


def test_a_passage_is_kept_once_for_all_cutoffs(loop) -> None:
    """The documents of two cut-offs are the same objects; two scores of one cut-off share the ranking."""
    run = Pipeline(adapt_retriever(_found, loop), None, None)
    short, long, same = loop.run(_evaluated(run, _examples(20), SPECS))
    for five, ten, other in zip(short, long, same, strict=True):
        assert ten.evidence.ranking is other.evidence.ranking
        kept = {id(document) for document in ten.evidence.ranking}
        assert all(id(document) in kept for document in five.evidence.ranking)


def test_a_passage_with_another_score_or_metadata_is_another_document(loop) -> None:
    """Its text alone is shared."""

    def search(query: str, k: int) -> list[dict[str, Any]]:
        number = int(query.rsplit(maxsplit=1)[-1])
        text = "The same passage of any question."
        other = {"metadata": {"page": number}} if number > 1 else {}
        return [{"id": "doc", "text": text[:-1] + ".", "score": float(number), **other}][:k]

    run = Pipeline(adapt_retriever(search, loop), None, None)
    found = [loop.run(run.ranking(f"item {n}", 1))[0] for n in range(4)]
    assert [document.score for document in found] == [0.0, 1.0, 2.0, 3.0]
    assert [dict(document.metadata) for document in found] == [{}, {}, {"page": 2}, {"page": 3}]
    assert len({id(document.text) for document in found}) == 1


@pytest.mark.slow
def test_a_question_takes_few_kilobytes(loop) -> None:
    """Three scores at two cut-offs, with passages that several questions share."""

    def peak(questions: int) -> int:
        run, examples = Pipeline(adapt_retriever(_found, loop), None, None), _examples(questions)
        gc.collect()
        tracemalloc.start(1)
        loop.run(_evaluated(run, examples, SPECS))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(10)
    # Beyond the first windows of questions, which are in flight together.
    slope = (peak(3 * AT_ONCE) - peak(2 * AT_ONCE)) / AT_ONCE
    assert slope < LIMIT
