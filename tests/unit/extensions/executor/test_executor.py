"""A sync retriever in the processes of an executor returns and raises what it does in the test's thread."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any

import pytest

from pytest_rageval import RetrieverFactory
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError, QueryError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.extensions.executor.executor import MAX_CHUNKS, retriever_in_executor
from pytest_rageval.retrievers import Retriever, adapt_retriever
from tests.unit.extensions.executor import executed

Found = list[Ranking | BaseException]


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2) as executor:
        yield executor


class Here(Executor):
    """An executor that runs calls at once in this process, and stores the sizes of submitted chunks."""

    def __init__(self, *, fails: Exception | None = None) -> None:
        self.fails = fails
        self.chunks: list[int] = []
        self.held: list[tuple[Future[Any], Any]] | None = None

    def submit(self, fn: Any, /, *args: Any, **named: Any) -> Future[Any]:
        if len(args) > 1:
            if self.fails:
                raise self.fails
            self.chunks.append(len(args[1]))
        future: Future[Any] = Future()
        if self.held is not None and len(args) > 1:
            self.held.append((future, None))
            return future
        future.set_result(fn(*args, **named))
        return future


def _ask(
    loop: BackgroundEventLoop, retriever: Retriever, questions: Sequence[Example | str], k: int = 2
) -> Found:
    async def every() -> Found:
        return await asyncio.gather(
            *(retriever.retrieve(question, k) for question in questions), return_exceptions=True
        )

    return loop.run(every())


def _plain(results: Found) -> list[object]:
    """Return the parts of results that must be equal wherever the retriever runs: all but times."""
    plain: list[object] = []
    for result in results:
        if isinstance(result, Ranking):
            plain.append(
                (result.query, result.documents, result.steps, result.tokens, result.cost, result.own_k)
            )
        else:
            reason = getattr(result, "reason", None)
            plain.append((type(result), str(result), reason, getattr(result, "cause", None)))
    return plain


CONTEXT = Example(
    "q",
    "why?",
    history=({"role": "user", "content": "hello"},),
    filters={"tenant": "acme"},
    metadata={"source": "chat"},
)


@pytest.mark.parametrize(
    ("retriever", "questions"),
    [
        (executed.with_context, [CONTEXT, "plain"]),
        (executed.stepped, ["one", "two"]),
        (executed.lazily, ["one", "two"]),
        (executed.faulty, ["fine", "raise", "unscored", "none", "empty", "exit", "cancelled", "fine too"]),
        (executed.faulty, ["fine", "input"]),
        (executed.faulty, ["raise", "raise", "raise"]),
    ],
)
def test_answers_and_errors_are_those_of_a_thread(loop, pool, retriever, questions):
    in_thread = _plain(_ask(loop, adapt_retriever(retriever, loop), questions))
    in_processes = _plain(_ask(loop, retriever_in_executor(retriever, pool, loop), questions))
    assert in_processes == in_thread


def test_a_factory_builds_once_in_each_process(loop: BackgroundEventLoop) -> None:
    factory = RetrieverFactory(executed.Index, "index", lock=True)
    with ProcessPoolExecutor(2) as pool:
        retriever = retriever_in_executor(factory, pool, loop)
        results = [answer for _ in range(3) for answer in _ask(loop, retriever, [f"q{n}" for n in range(60)])]
    texts = {result.documents[0].text for result in results if isinstance(result, Ranking)}
    assert len(results) == 180
    assert {text.split()[2] for text in texts} == {"1"}  # each process built the index once
    assert str(os.getpid()) not in {text.split()[1] for text in texts}
    assert not executed.built


def test_without_an_executor_a_factory_builds_here(loop: BackgroundEventLoop) -> None:
    try:
        (ranking,) = _ask(loop, adapt_retriever(RetrieverFactory(executed.Index, "index"), loop), ["q"])
    finally:
        built = [*executed.built]
        executed.built.clear()
    assert isinstance(ranking, Ranking)
    assert built == [os.getpid()]


def test_what_cannot_be_pickled_is_named(loop: BackgroundEventLoop, pool: Executor) -> None:
    try:
        index = executed.Index("index", lock=True)
    finally:
        executed.built.clear()
    with pytest.raises(
        InputError, match=r"rageval_retriever\.client\['session'\] \(_thread\.lock\) cannot be pi"
    ) as r:
        retriever_in_executor(index, pool, loop)
    assert "RetrieverFactory" in str(r.value)
    with pytest.raises(InputError, match=r"rageval_retriever \(.*<lambda>\) cannot be pickled"):
        retriever_in_executor(lambda query, k: [query] * k, pool, loop)


@pytest.mark.parametrize(
    ("retriever", "executor", "message"),
    [
        (executed.where, object(), "rageval_executor is object, which is not a concurrent.futures.Executor"),
        (executed.asynchronous, Here(), "rageval_retriever is async"),
        (executed.Large(), Here(), "is 10 MB when it is pickled"),
    ],
)
def test_what_cannot_be_used_is_refused(loop, retriever, executor, message):
    with pytest.raises(InputError, match=message):
        retriever_in_executor(retriever, executor, loop)


def test_a_factory_that_fails_is_an_error_with_its_line(loop: BackgroundEventLoop, pool: Executor) -> None:
    with pytest.raises(CallableError, match="FileNotFoundError: no index at /none") as raised:
        retriever_in_executor(RetrieverFactory(executed.no_index, "/none"), pool, loop)
    assert "executed.py" in str(raised.value)


def test_a_result_that_cannot_be_pickled_is_the_error_of_its_question(loop, pool):
    results = _ask(loop, retriever_in_executor(executed.faulty, pool, loop), ["fine", "lock"])
    assert isinstance(results[0], Ranking)
    assert isinstance(results[1], QueryError)
    assert "returned for 'lock' what cannot be pickled" in str(results[1])


def test_a_killed_process_is_a_clear_error(loop: BackgroundEventLoop) -> None:
    with ProcessPoolExecutor(1) as pool:
        retriever = retriever_in_executor(executed.faulty, pool, loop)
        assert isinstance(_ask(loop, retriever, ["fine"])[0], Ranking)
        results = _ask(loop, retriever, ["kill", "other", "third"])
    assert all(isinstance(result, CallableError) and not isinstance(result, Unscored) for result in results)
    assert "rageval_executor, ProcessPoolExecutor, failed while rageval_retriever ran for 'kill'" in str(
        results[0]
    )


@pytest.mark.slow
def test_a_failing_executor_is_asked_no_more_in_that_run(loop: BackgroundEventLoop) -> None:
    here = Here()
    retriever = retriever_in_executor(executed.where, here, loop)
    _ask(loop, retriever, ["first"])
    here.fails = RuntimeError("no connection")
    results = _ask(loop, retriever, [f"q{n}" for n in range(1000)])
    assert all("no connection" in str(result) for result in results)
    here.fails = None
    assert isinstance(_ask(loop, retriever, ["later"])[0], Ranking)


def test_questions_go_in_chunks(loop: BackgroundEventLoop) -> None:
    here = Here()
    retriever = retriever_in_executor(executed.where, here, loop)
    assert len(_ask(loop, retriever, [f"q{n}" for n in range(500)])) == 500
    assert sum(here.chunks) == 500
    assert len(here.chunks) < 50
    assert here.chunks[0] == 5  # chunks are small until the first result


def test_a_question_alone_has_the_time_of_its_process(loop: BackgroundEventLoop) -> None:
    retriever = retriever_in_executor(executed.where, Here(), loop)
    (first,) = _ask(loop, retriever, ["first"])
    assert isinstance(first, Ranking)
    assert first.seconds is not None
    together = _ask(loop, retriever, ["a", "b"])
    assert [ranking.seconds for ranking in together if isinstance(ranking, Ranking)] == [None, None]
    own = retriever_in_executor(executed.stepped, Here(), loop)
    assert [ranking.seconds for ranking in _ask(loop, own, ["a", "b"]) if isinstance(ranking, Ranking)] == [
        0.25,
        0.25,
    ]


def test_a_cancelled_run_leaves_nothing_in_the_executor(loops: Any) -> None:
    here = Here()
    interrupt: list[bool] = []

    def tick() -> None:
        if interrupt and here.held:
            raise KeyboardInterrupt

    loop = loops(tick=tick)
    retriever = retriever_in_executor(executed.where, here, loop)
    _ask(loop, retriever, ["first"])
    here.held, here.chunks = [], []
    interrupt.append(True)
    with pytest.raises(KeyboardInterrupt):
        _ask(loop, retriever, [f"q{n}" for n in range(1000)])
    interrupt.clear()
    held, here.held = here.held, None
    assert held
    assert len(held) <= MAX_CHUNKS
    assert isinstance(_ask(loop, retriever, ["next"])[0], Ranking)
    assert all(future.cancelled() for future, _ in held)


@pytest.mark.slow
def test_two_workers_of_dask(loop: BackgroundEventLoop) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        retriever = retriever_in_executor(
            RetrieverFactory(executed.Index, "index", lock=True), client.get_executor(), loop
        )
        results = [
            answer for _ in range(3) for answer in _ask(loop, retriever, [f"q{n}" for n in range(200)])
        ]
        failing = retriever_in_executor(executed.faulty, client.get_executor(), loop)
        here = _plain(_ask(loop, adapt_retriever(executed.faulty, loop), ["fine", "raise", "none"]))
        assert _plain(_ask(loop, failing, ["fine", "raise", "none"])) == here
    texts = {result.documents[0].text for result in results if isinstance(result, Ranking)}
    assert len(results) == 600
    assert {text.split()[2] for text in texts} == {"1"}
    assert str(os.getpid()) not in {text.split()[1] for text in texts}
