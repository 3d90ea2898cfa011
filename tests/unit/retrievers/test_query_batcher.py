"""A retriever with a method for many questions is called with batches, in the loop and without one."""

import _thread
import asyncio
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.gathering import gather_results
from pytest_rageval.core.errors import CallableError, QueryError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Retrieval
from pytest_rageval.retrievers import Retriever, adapt_retriever, query_batcher

INLINE = pytest.mark.parametrize("inline", [True, False], ids=["without a loop", "in the loop"])


class _Many:
    def __init__(self, broken: Sequence[str] = ()) -> None:
        self.batches: list[tuple[list[str], int]] = []
        self.alone: list[str] = []
        self.threads: set[int] = set()
        self._broken = broken

    def __call__(self, query: str, k: int) -> list[str]:
        self.alone.append(query)
        if query in self._broken:
            raise ValueError(f"{query} is broken")
        return [f"{query} {rank}" for rank in range(k)]

    def retrieve_many(self, queries: list[str], k: int) -> list[list[str]]:
        self.batches.append((queries, k))
        self.threads.add(threading.get_ident())
        if not set(queries).isdisjoint(self._broken):
            raise ValueError("one is broken")
        return [[f"{query} {rank}" for rank in range(k)] for query in queries]


def _asked(
    loop: BackgroundEventLoop,
    retriever: Retriever,
    questions: Sequence[Example | str],
    k: int = 2,
    *,
    inline: bool,
) -> list[Any]:
    retriever.expect(
        [Example("", question) if isinstance(question, str) else question for question in questions], k
    )
    results = loop.run(
        gather_results(retriever.retrieve(question, k) for question in questions), inline=inline
    )
    return [
        result if isinstance(result, BaseException) else [str(document) for document in result]
        for result in results
    ]


@INLINE
def test_questions_are_asked_in_batches_in_the_calling_thread(loop, monkeypatch, *, inline):
    monkeypatch.setattr(query_batcher, "MAX_BATCH", 3)
    search = _Many()
    questions = [f"q{n}" for n in range(7)]
    results = _asked(loop, adapt_retriever(search, loop), questions, inline=inline)
    assert results == [[f"{question} 0", f"{question} 1"] for question in questions]
    assert [queries for queries, _ in search.batches] == [questions[:3], questions[3:6], questions[6:]]
    assert search.threads == {threading.get_ident()}
    assert search.alone == []


@INLINE
def test_an_async_function_for_many(loop: BackgroundEventLoop, *, inline: bool) -> None:
    class Many:
        async def __call__(self, query: str, *, top_k: int) -> list[str]:
            raise AssertionError(query, top_k)

        async def retrieve_many(self, queries: list[str], *, top_k: int) -> tuple[list[str], ...]:
            return tuple([query] * top_k for query in queries)

    assert _asked(loop, adapt_retriever(Many(), loop), ["a", "b"], 1, inline=inline) == [["a"], ["b"]]


@INLINE
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_async_function_is_asked_for_each_question_once(loop, monkeypatch, *, inline, wrapped):
    monkeypatch.setattr(query_batcher, "MAX_BATCH", 10)
    batches: list[list[str]] = []

    async def many(queries: list[str], k: int) -> list[list[str]]:
        batches.append(queries)
        return [[query] * k for query in queries]

    class Many:
        def __call__(self, query: str, k: int) -> list[str]:
            raise AssertionError(query, k)

        retrieve_many = staticmethod((lambda queries, k: many(queries, k)) if wrapped else many)  # noqa: PLW0108 - it does not look async

    questions = [f"q{number}" for number in range(100)]
    results = _asked(loop, adapt_retriever(Many(), loop), questions, 1, inline=inline)
    assert results == [[question] for question in questions]
    assert sorted(question for batch in batches for question in batch) == sorted(questions)
    assert len(batches) <= 11


class _Awaitable(_Many):
    """A retriever whose retrieve_many looks sync, and returns an awaitable."""

    def retrieve_many(self, queries: list[str], k: int) -> Any:
        async def later() -> Any:
            await asyncio.sleep(0.001)
            return super(_Awaitable, self).retrieve_many(queries, k)

        return later()


def test_two_cutoffs_of_a_function_that_returns_an_awaitable(loop: BackgroundEventLoop) -> None:
    """Questions for a second cutoff that arrive while the first call is in flight are not lost."""
    search = _Awaitable()
    retriever = adapt_retriever(search, loop)
    questions = [f"q{number}" for number in range(5)]

    async def cutoff(k: int) -> list[Any]:
        retriever.expect([Example("", question) for question in questions], k)
        return await gather_results(retriever.retrieve(question, k) for question in questions)

    results = loop.run(gather_results([cutoff(1), cutoff(2)]), inline=True)
    assert [[len(ranking) for ranking in rankings] for rankings in results] == [[1] * 5, [2] * 5]
    assert sorted(search.batches) == [(questions, 1), (questions, 2)]


def test_a_batch_in_flight_that_fails_is_asked_alone(loop: BackgroundEventLoop) -> None:
    search = _Awaitable(broken=["b"])
    a, b, c = _asked(loop, adapt_retriever(search, loop), ["a", "b", "c"], 1, inline=True)
    assert (a, c) == (["a 0"], ["c 0"])
    assert "ValueError: b is broken" in str(b)
    assert search.batches == [(["a", "b", "c"], 1)]


def test_a_batch_in_flight_that_is_interrupted_leaves_nothing_behind(loop: BackgroundEventLoop) -> None:
    class Interrupted(_Many):
        def retrieve_many(self, queries: list[str], k: int) -> Any:
            async def later() -> Any:
                await asyncio.sleep(3600)

            if not self.batches:
                self.batches.append((queries, k))
                threading.Timer(0.1, _thread.interrupt_main).start()
                return later()
            return super().retrieve_many(queries, k)

    search = Interrupted()
    retriever = adapt_retriever(search, loop)
    # Needed if a shell started this process in the background, with SIGINT ignored.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _asked(loop, retriever, ["a", "b"], 1, inline=True)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert _asked(loop, retriever, ["a", "b"], 1, inline=True) == [["a 0"], ["b 0"]]
    assert search.batches == [(["a", "b"], 1)] * 2


@INLINE
@pytest.mark.parametrize("error", [ValueError("no index"), asyncio.CancelledError(), Unscored("no tenant")])
def test_a_lazy_result_that_raises_concerns_its_question(loop, *, inline, error):
    class Lazy(_Many):
        def _lazy(self, query: str) -> Iterator[str]:
            self.threads.add(threading.get_ident())
            yield query
            if query == "b":
                raise error

        def __call__(self, query: str, _k: int) -> Any:
            self.alone.append(query)
            return self._lazy(query)

        def retrieve_many(self, queries: list[str], k: int) -> Any:
            self.batches.append((queries, k))
            return [self._lazy(query) if query < "c" else Retrieval(self._lazy(query)) for query in queries]

    search = Lazy()
    a, b, c = _asked(loop, adapt_retriever(search, loop), ["a", "b", "c"], 1, inline=inline)
    assert (a, c) == (["a"], ["c"])
    assert isinstance(b, Unscored)
    assert str(error) in str(b)
    assert (search.batches, search.alone) == ([(["a", "b", "c"], 1)], ["b"])
    assert search.threads == {threading.get_ident()}


@INLINE
def test_a_question_with_a_context_is_asked_alone(loop: BackgroundEventLoop, *, inline: bool) -> None:
    class Many(_Many):
        def __call__(self, query: str, k: int, filters: Any = None) -> list[str]:
            return [f"{query} {filters}"] * k

    search = Many()
    questions: list[Example | str] = ["a", Example("", "b", filters={"x": 1}), "c"]
    results = _asked(loop, adapt_retriever(search, loop), questions, 1, inline=inline)
    assert results == [["a 0"], ["b {'x': 1}"], ["c 0"]]
    assert search.batches == [(["a", "c"], 1)]


@INLINE
def test_the_questions_of_a_batch_that_fails_are_asked_alone(loop, monkeypatch, *, inline):
    monkeypatch.setattr(query_batcher, "MAX_BATCH", 2)
    search = _Many(broken=["b"])
    a, b, c, d = _asked(loop, adapt_retriever(search, loop), ["a", "b", "c", "d"], 1, inline=inline)
    assert [a, c, d] == [["a 0"], ["c 0"], ["d 0"]]
    assert isinstance(b, QueryError)
    assert "ValueError: b is broken" in str(b)
    assert search.alone == ["a", "b"]
    assert len(search.batches) == 2


@INLINE
@pytest.mark.parametrize(
    ("results", "message"),
    [
        (lambda _queries, _k: [["x"]], "returned 1 results for 2 questions in one call"),
        (lambda _queries, _k: {"x": 1}, "returned dict for 2 questions in one call"),
        (lambda _queries, _k: None, "returned NoneType for 2 questions in one call"),
    ],
)
def test_another_number_of_results_is_an_error(loop, results, message, *, inline):
    """If retrieve_many returns another number of results, every question has an error: results cannot be assigned."""
    search = _Many()
    search.retrieve_many = results
    errors = _asked(loop, adapt_retriever(search, loop), ["a", "b"], inline=inline)
    assert [type(result) for result in errors] == [CallableError, CallableError]
    assert f"rageval_retriever {message}" in str(errors[0])
    assert "Return a list with one result for each question, in their order" in str(errors[0])


@INLINE
def test_a_result_that_cannot_be_read_concerns_its_question(loop, *, inline):
    class Many(_Many):
        def __call__(self, query: str, k: int) -> Any:
            return 5 if query == "b" else super().__call__(query, k)

        def retrieve_many(self, queries: list[str], k: int) -> list[Any]:
            return [self(query, k) for query in queries]

    a, b = _asked(loop, adapt_retriever(Many(), loop), ["a", "b"], 1, inline=inline)
    assert a == ["a 0"]
    assert str(b).startswith("rageval_retriever returned int for 'b'")


@INLINE
def test_a_question_that_is_timed_is_asked_alone(loop: BackgroundEventLoop, *, inline: bool) -> None:
    """A question whose time is measured is retrieved alone, since a batch has only a total time."""
    search = _Many()
    retriever = adapt_retriever(search, loop)
    assert loop.run(retriever.retrieve("a", 1), inline=inline).seconds is None
    assert loop.run(retriever.retrieve("a", 1, alone=True), inline=inline).seconds is not None
    assert search.alone == ["a"]


def test_a_mock_takes_one_question_at_a_time(loop: BackgroundEventLoop) -> None:
    from unittest.mock import MagicMock

    retriever = adapt_retriever(MagicMock(return_value=["x"]), loop)
    assert _asked(loop, retriever, ["a", "b"], inline=False) == [["x"], ["x"]]


def test_threads_get_batches(loops, monkeypatch):
    monkeypatch.setattr(query_batcher, "MAX_BATCH", 2)
    loop, search = loops(threads=2), _Many()
    questions = [f"q{n}" for n in range(8)]
    assert _asked(loop, adapt_retriever(search, loop), questions, 1, inline=True) == [
        [f"{q} 0"] for q in questions
    ]
    assert threading.get_ident() not in search.threads
    assert sorted(len(queries) for queries, _ in search.batches) == [2, 2, 2, 2]


@INLINE
@pytest.mark.parametrize("has_k", [True, False])
def test_a_langchain_retriever_with_a_batch_of_its_own(loop, *, inline, has_k):
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    threads = set()

    class Plain(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            threads.add(threading.get_ident())
            return [Document(f"{query} alone")]

    class Own(Plain):
        def batch(self, inputs: list[str], *_: Any, **__: Any) -> list[list[Document]]:
            k = self.k if isinstance(self, Counted) else 1
            return [[Document(f"{query} {len(inputs)}")] * k for query in inputs]

    class Counted(Own):
        k: int = 4

    kind = Counted if has_k else Own
    assert _asked(loop, adapt_retriever(kind(), loop), ["a", "b"], 1, inline=inline) == [["a 2"], ["b 2"]]
    assert _asked(loop, adapt_retriever(Plain(), loop), ["a", "b"], 1, inline=inline) == [
        ["a alone"],
        ["b alone"],
    ]
    assert threads == {threading.get_ident()}
