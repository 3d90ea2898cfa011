"""Calling the retriever under test, and checking its results."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.retrievers.adapters import Adapter


def _sync(_query: str, k: int) -> list[object]:
    return ["one", {"text": "two", "id": 2}, Document("three", "3"), SimpleNamespace(page_content="four")][:k]


async def _async(query: str, k: int) -> list[object]:
    await asyncio.sleep(0)
    return _sync(query, k)


class _Callable:
    def __call__(self, query: str, k: int) -> list[object]:
        return _sync(query, k)


class _AsyncCallable:
    async def __call__(self, query: str, k: int) -> list[object]:
        return await _async(query, k)


def _retrieve(loop: BackgroundEventLoop, retriever: object, k: int = 3) -> Ranking:
    return loop.run(adapt_retriever(retriever, loop).retrieve("q", k))


@pytest.mark.parametrize(
    "retriever",
    [
        _sync,
        _async,
        _Callable(),
        _AsyncCallable(),
        partial(_async),
        lambda query, k: tuple(_sync(query, k)),
        lambda query, k: iter(_sync(query, k)),
    ],
    ids=["sync", "async", "object", "async object", "returns a coroutine", "tuple", "iterator"],
)
def test_every_kind_of_retriever_gives_a_ranking(loop, retriever):
    ranking = _retrieve(loop, retriever)
    assert ranking == Ranking("q", (Document("one"), Document("two", "2"), Document("three", "3")))


def test_more_than_k_documents_are_cut(loop: BackgroundEventLoop) -> None:
    ranking = _retrieve(loop, lambda _query, _k: ["a", "a", "b", "c"], k=2)
    assert [document.text for document in ranking] == ["a", "b"]
    assert ranking.duplicates == 1


@pytest.mark.parametrize("nothing", [[], (), iter(())])
def test_no_documents_are_an_empty_ranking(loop: BackgroundEventLoop, nothing: object) -> None:
    assert len(_retrieve(loop, lambda _query, _k: nothing)) == 0


def test_a_sync_retriever_is_called_in_the_tests_thread_one_query_at_a_time(loop):
    inside, threads, most = 0, set(), 0

    def search(_query: str, _k: int) -> list[str]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threads.add(threading.get_ident())
        inside -= 1
        return ["d"]

    retriever = adapt_retriever(search, loop)

    async def all_queries() -> None:
        await asyncio.gather(*(retriever.retrieve(f"q{n}", 1) for n in range(20)))

    loop.run(all_queries())
    assert (threads, most) == ({threading.get_ident()}, 1)


def test_a_sync_generator_is_read_in_the_tests_thread_too(loop: BackgroundEventLoop) -> None:
    threads = set()

    def search(_query: str, _k: int) -> Iterator[str]:
        threads.add(threading.get_ident())
        yield "d"

    _retrieve(loop, search)
    assert threads == {threading.get_ident()}


def test_an_async_retriever_is_asked_for_all_queries_at_once(loop: BackgroundEventLoop) -> None:
    here: set[str] = set()
    all_here = asyncio.Event()

    async def search(query: str, _k: int) -> list[str]:
        here.add(query)
        if len(here) == 5:
            all_here.set()
        await all_here.wait()
        return ["d"]

    retriever = adapt_retriever(search, loop)

    async def all_queries() -> list[Ranking]:
        return await asyncio.gather(*(retriever.retrieve(f"q{n}", 1) for n in range(5)))

    assert len(loop.run(all_queries())) == 5


async def _agen(query: str, k: int) -> AsyncIterator[str]:
    yield query
    await asyncio.sleep(0)
    yield str(k)


class _AsyncGenerating:
    async def __call__(self, query: str, k: int) -> AsyncIterator[str]:
        async for text in _agen(query, k):
            yield text


@pytest.mark.parametrize(("returned", "name"), [(None, "NoneType"), (b"x", "bytes"), (5, "int")])
def test_anything_but_a_list_of_documents_is_an_error(loop, returned, name):
    with pytest.raises(CallableError) as caught:
        _retrieve(loop, lambda _query, _k: returned)
    assert str(caught.value) == (
        f"rageval_retriever returned {name} for 'q'.\n"
        "Return a list of documents, best first: strings, dicts or Documents."
    )


async def _returns_agen(query: str, k: int) -> AsyncIterator[str]:
    return _agen(query, k)


@pytest.mark.parametrize(
    "retriever",
    [_agen, _returns_agen, lambda query, k=3: _agen(query, k), partial(_agen), _AsyncGenerating()],
)
def test_an_async_generator_is_read(loop: BackgroundEventLoop, retriever: Callable[..., Any]) -> None:
    assert [document.text for document in _retrieve(loop, retriever)] == ["q", "3"]


def test_an_async_generator_that_raises_is_the_users_error(loop: BackgroundEventLoop) -> None:
    async def search(_query: str, _k: int) -> AsyncIterator[str]:
        yield "d"
        raise LookupError("no index")

    with pytest.raises(
        CallableError, match=r"rageval_retriever raised for 'q': LookupError: no index\n.* in search"
    ):
        _retrieve(loop, search)


def test_an_item_without_text_is_named_with_its_rank(loop: BackgroundEventLoop) -> None:
    with pytest.raises(CallableError, match="for 'q', at rank 2, a document that has no text: int"):
        _retrieve(loop, lambda _query, _k: ["a", 7])


def _fail(_query: str, _k: int) -> list[str]:
    raise LookupError("no index")


async def _fail_async(query: str, k: int) -> list[str]:
    return _fail(query, k)


def _fail_while_read(query: str, k: int) -> Iterator[str]:
    yield "d"
    _fail(query, k)


@pytest.mark.parametrize("retriever", [_fail, _fail_async, _fail_while_read])
def test_an_exception_of_the_retriever_is_reported_with_the_query(loop, retriever):
    with pytest.raises(CallableError) as caught:
        _retrieve(loop, retriever)
    assert str(caught.value).startswith("rageval_retriever raised for 'q': LookupError: no index\n")
    assert str(caught.value).endswith(" in _fail")
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_wrong_signature_is_the_users_error(loop: BackgroundEventLoop) -> None:
    def search() -> list[str]:
        return ["d"]

    with pytest.raises(CallableError, match=r"TypeError: .* takes 0 positional arguments but 1 was given"):
        _retrieve(loop, search)


@pytest.mark.parametrize("value", [None, ["doc"], "search"])
def test_what_cannot_be_called_is_refused(loop: BackgroundEventLoop, value: object) -> None:
    with pytest.raises(CallableError, match="which cannot be called") as caught:
        adapt_retriever(value, loop)
    assert type(value).__name__ in str(caught.value)
    assert "(query, k) -> documents" in str(caught.value)


def _broken(retriever: object) -> Any:
    raise LookupError(f"no field in {retriever}")


@pytest.mark.parametrize(
    "adapter", [(_broken, _sync), (lambda _: True, _broken)], ids=["recognises", "adapt"]
)
def test_an_adapter_that_raises_is_named(loop: BackgroundEventLoop, adapter: Adapter) -> None:
    with pytest.raises(CallableError) as caught:
        adapt_retriever("shelf", loop, [adapter])
    first, *places = str(caught.value).splitlines()
    part = f"The retriever adapter {__name__}._broken"
    assert first == f"{part} raised for str: LookupError: no field in shelf"
    assert places[-1].endswith(" in _broken")


def test_an_adapter_that_gives_nothing_to_call_is_named(loop: BackgroundEventLoop) -> None:
    with pytest.raises(CallableError, match=r"builtins\.list gave list for str\.\nIt gives a function"):
        adapt_retriever("shelf", loop, [(callable, _sync), (lambda _: True, list)])


def test_a_class_in_place_of_its_object_is_refused(loop: BackgroundEventLoop) -> None:
    with pytest.raises(CallableError, match=r"is the class _Callable itself(?s:.*)an object: _Callable\(…\)"):
        adapt_retriever(_Callable, loop)


@pytest.mark.parametrize(
    ("returned", "kept"),
    [
        (["q1", "d1", "d2", "d3"], ["d1", "d2"]),
        (["d1", "q1", "d2"], ["d1", "d2"]),
        (["d1", "d2", "d3"], ["d1", "d2"]),
        (["q1"], []),
    ],
)
def test_excluded_ids_take_no_place(loop: BackgroundEventLoop, returned: list[str], kept: list[str]) -> None:
    """BEIR leaves out the document with the id of the query: one more is asked for, and the next ones move up."""
    asked: list[int] = []

    def search(_query: str, k: int) -> list[dict[str, str]]:
        asked.append(k)
        return [{"id": name} for name in returned[:k]]

    example = Example("q1", "Where?", extra={"exclude_ids": ["q1"]})
    ranking = loop.run(adapt_retriever(search, loop).retrieve(example, 2))
    assert (list(ranking.ids), asked) == (kept, [3])
    assert (ranking.missing, ranking.surplus) == (2 - len(kept), 0)


def test_questions_with_other_excluded_ids_share_no_ranking(loop: BackgroundEventLoop) -> None:
    retriever = adapt_retriever(lambda _query, _k: [], loop)
    keys = {
        retriever.key(Example("", "Where?", extra={"exclude_ids": ids} if ids else {}))
        for ids in ([], ["a"], ["b"])
    }
    assert len(keys) == 3
    with pytest.raises(InputError, match="expected a list of ids"):
        retriever.key(Example("q1", "Where?", extra={"exclude_ids": "a"}))


def test_excluded_ids_are_left_out_of_a_batch_too(loop: BackgroundEventLoop) -> None:
    class Batched:
        def __call__(self, _query: str, k: int) -> list[dict[str, str]]:
            return [{"id": name} for name in ("q1", "d1", "d2")[:k]]

        def retrieve_many(self, queries: list[str], k: int) -> list[list[dict[str, str]]]:
            return [self("", k) for _ in queries]

    retriever = adapt_retriever(Batched(), loop)
    example = Example("q1", "Where?", extra={"exclude_ids": ["q1"]})
    retriever.expect([example, Example("q2", "Who?")], 2)
    assert list(loop.run(retriever.retrieve(example, 2)).ids) == ["d1", "d2"]
    assert list(loop.run(retriever.retrieve(Example("q2", "Who?"), 2)).ids) == ["q1", "d1"]


def test_a_coroutine_that_is_refused_is_closed(loop: BackgroundEventLoop) -> None:
    """Python would warn, at some later test, that it was never awaited."""

    async def search(_query: str, _k: int) -> list[str]:
        return []

    coroutine = search("a", 1)
    with pytest.raises(CallableError, match="is a coroutine"):
        adapt_retriever(coroutine, loop)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
