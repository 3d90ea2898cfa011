"""The results that the evaluations of a run share."""

import asyncio
from collections.abc import Sequence

import pytest

from pytest_rageval.answers.judge import record_tally
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.gathering import gather_results, let_others_run
from pytest_rageval.core.errors import CallableError, Unscored
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Tally
from pytest_rageval.core.ranking import Document, Ranking, Retrieval
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.scores.pipeline import Pipeline
from pytest_rageval.scores.rankings import SingleFlight


def test_the_same_piece_is_computed_once(world, example) -> None:
    world.rankings = {"q": ["Elko"]}
    item = example("q", "Reno", answers=("Reno",))
    for spec in ("llm_reteval@1", "answer.correct@1", "recall@1", "llm_reteval@1"):
        world.evaluate(spec, item, item)
    # One retrieval, three semi-gold answers and a prediction; one comparison, as semi-gold and reference are equal.
    assert set(world.asked.values()) == {1}
    assert [world.call_count(part) for part in ("retrieve", "generate", "compare")] == [1, 4, 1]


def test_cached_answers_from_the_gold_passages_are_read_in_one_look_up(world, example) -> None:
    asked: list[list[int]] = []

    async def cached_answers(
        method: str, question: str, passages: list[Document], samples: Sequence[int]
    ) -> tuple[str, ...]:
        assert (method, question, [passage.text for passage in passages]) == ("generate", "q", ["Reno"])
        asked.append([*samples])
        return "a", "b", "c"

    item, world.answers = example("q", "Reno"), {"Reno": tuple("abcdefgh")}
    for run in (world.run, world.make_pipeline(repeat=1), world.make_pipeline(draw=1)):
        golds = world.loop.run(run.gold.get(item, 2))
        semi_gold = world.loop.run(run.semi_gold("q", golds))
        samples = [int(sample) for part, *_, sample in world.asked if part == "generate"]
        world.asked.clear()
        world.cached_answers = cached_answers
        assert world.loop.run(run.cached_semi_gold("q", golds)) == ("a", "b", "c")
        del world.cached_answers
        assert asked.pop() == samples
        assert semi_gold == tuple("abcdefgh"[sample] for sample in samples)
    assert not world.asked


def test_keys_differ_by_everything_that_matters(world) -> None:
    world.rankings = {"q": ["a", "b"], "r": ["a", "b"]}
    run = world.run

    async def ask() -> list[str]:
        return [await run.answer("q", 1), await run.answer("q", 2), await run.answer("r", 1)]

    assert world.loop.run(ask()) == ["a", "a", "a"]
    assert world.call_count("generate") == 3


@pytest.mark.parametrize("spec", ["answer.correct@1", "llm_reteval@1", "erag.p@2", "relevance.p@2"])
def test_votes_are_listed_for_each_example_and_score(world, example, spec: str) -> None:
    async def split(question: str, *_: object) -> float:
        record_tally(question, Tally(1, int(question == "one"), 3, int(question == "one")))
        return 1.0

    world.compare = world.relevant = split
    world.rankings = {"one": ["Reno"], "two": ["Elko"]}
    examples = [example(name, "gold", answers=("Reno, Nevada",)) for name in ("one", "two")]
    world.evaluate("answer.correct@2", *examples)
    # LLM-retEval also compares with the reference, because its verdict disagrees with recall.
    verdicts = 2 if spec == "llm_reteval@1" else 1
    for _ in range(2):
        votes = [outcome.evidence.votes for outcome in world.evaluate(spec, *examples)]
        assert votes == [
            Tally(verdicts, verdicts, 3 * verdicts, verdicts),
            Tally(verdicts, 0, 3 * verdicts, 0),
        ]


def test_a_failed_piece_fails_again_without_being_asked(world) -> None:
    """An answer that was unscored once is unscored for every score of the run, without a new request."""
    world.answers = {"a": Unscored("too long")}
    world.rankings = {"q": ["a"]}
    for _ in range(2):
        with pytest.raises(Unscored, match="too long"):
            world.loop.run(world.run.answer("q", 1))
    assert world.call_count("generate") == 1


def test_a_broken_retriever_is_asked_again_by_the_next_test(loop) -> None:
    """A failed retrieval is repeated in the next run of the loop, because the failure may be temporary."""
    queries: list[str] = []

    def search(question: str, _k: int) -> list[str]:
        queries.append(question)
        raise LookupError("no index")

    run = Pipeline(adapt_retriever(search, loop), None, None)
    for question in ("one", "two", "one"):
        with pytest.raises(CallableError, match=f"raised for '{question}'"):
            loop.run(run.ranking(question, 5))
    assert queries == ["one", "two", "one"]


def test_work_that_was_dropped_is_done_again(loop) -> None:
    results = SingleFlight()

    async def waits() -> str:
        await asyncio.Event().wait()
        return "never"

    async def done() -> str:
        return "done"

    async def dropped_then_done() -> str:
        dropped = results.get("work", waits)
        dropped.send(None)
        dropped.close()
        return await results.get("work", done)

    assert loop.run(dropped_then_done()) == "done"


def _documents(*names: str) -> list[Document]:
    return [Document(f"text of {name}", name) for name in names]


def test_the_k_of_a_ranking_is_the_number_that_was_asked_for() -> None:
    assert [Ranking.of("q", _documents("a", "b"), k).k for k in (1, 2, 3)] == [1, 2, 3]


def test_the_generator_answers_the_question_that_the_retriever_names(world, monkeypatch):
    world.explained["text of a"] = world.cited["text of a"] = "said"
    retrieval = Retrieval(_documents("a"), question="rewritten")
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: retrieval)
    world.run = world.make_pipeline()
    world.evaluate("answer.correct@1", Example("q", "asked", answers=("wanted",)))
    for answer in (world.run.cited_answer, world.run.long_answer):
        world.loop.run(answer("asked", 1))
    questions = {call[:2] for call in world.asked}
    assert questions == {(part, "rewritten") for part in ("generate", "cite", "explain")} | {
        ("compare", "asked")
    }


def test_a_question_in_place_of_the_users_is_a_text(world, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: Retrieval(_documents("a"), question=["x"]))
    world.run = world.make_pipeline()
    [outcome] = world.evaluate("recall@1", Example("q", "q", gold=(Gold("a"), Gold("b"), Gold("n", grade=0))))
    assert outcome.unscored == "rageval_retriever returned question=['x']"


@pytest.mark.parametrize("fails", [False, True])
def test_examples_of_one_block_share_a_result_without_an_event_loop(fails):
    loop, flight, computed = BackgroundEventLoop(), SingleFlight(), []

    async def compute() -> str:
        await let_others_run()
        computed.append(1)
        await let_others_run()
        if fails:
            raise Unscored("no reply")
        return "result"

    results = loop.run(
        gather_results((flight.get(("a", n % 2), compute) for n in range(10)), max_concurrency=10),
        inline=True,
    )
    assert [str(result) for result in results] == ["no reply" if fails else "result"] * 10
    assert (len(computed), loop.started) == (2, False)
