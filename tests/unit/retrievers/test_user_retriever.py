"""A retriever that raises for some queries is called for the others, and is not called again for the failed ones."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.user_code import MAX_FAILURES
from pytest_rageval.core.errors import QueryError
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.retrievers import Retriever, adapt_retriever


class _Search:
    """A retriever that fails for some queries, in one of several ways, and counts its calls."""

    def __init__(self, bad: Callable[[str], bool], returned: object = LookupError("no index")) -> None:
        self.asked: Counter[str] = Counter()
        self._bad = bad
        self._returned = returned

    def __call__(self, query: str, k: int) -> object:
        self.asked[query] += 1
        if not self._bad(query):
            return ["d"] * k
        if isinstance(self._returned, Exception):
            raise self._returned
        return self._returned


def _all(loop: BackgroundEventLoop, retriever: Retriever, queries: list[str], *again: str) -> list[Any]:
    async def gathered(queries: Iterable[str]) -> list[Any]:
        return await asyncio.gather(
            *(retriever.retrieve(query, 1) for query in queries), return_exceptions=True
        )

    async def both() -> list[Any]:
        return [*await gathered(queries), *await gathered(again)]

    return loop.run(both())


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (LookupError("no index"), "raised LookupError: no index"),
        (LookupError("no\nindex"), "raised LookupError: no"),
        (None, "returned NoneType"),
        ({"answer": "yes"}, "returned dict"),
        (["d", 7], "returned a document that has no text"),
    ],
)
def test_a_failure_is_that_of_its_query(loop: BackgroundEventLoop, returned: object, reason: str) -> None:
    search = _Search(lambda query: query == "q1", returned)
    results = _all(loop, adapt_retriever(search, loop), ["q0", "q1", "q2"], "q1")
    assert [type(result) for result in results] == [Ranking, QueryError, Ranking, QueryError]
    reason_given, _, place = results[1].reason.partition(" (test_user_retriever.py:")
    assert reason_given == f"rageval_retriever {reason}"
    assert bool(place) == isinstance(returned, Exception)
    assert results[1].cause == "retriever"
    assert "'q1'" in str(results[1])
    assert results[3] is results[1]
    assert search.asked == {"q0": 1, "q1": 1, "q2": 1}


def test_a_retriever_that_answers_nothing_is_soon_asked_no_more(loop: BackgroundEventLoop) -> None:
    """If the first MAX_FAILURES queries all fail, the retriever is not called again: the rest have the first error."""
    search = _Search(lambda _: True)
    queries = [f"q{n}" for n in range(20)]
    results = _all(loop, adapt_retriever(search, loop), queries)
    assert list(search.asked) == queries[:MAX_FAILURES]
    assert [str(result) for result in results[MAX_FAILURES:]] == [str(results[0])] * (20 - MAX_FAILURES)


def test_a_retriever_that_has_answered_is_asked_them_all(loop: BackgroundEventLoop) -> None:
    search = _Search(lambda query: query != "q0")
    results = _all(loop, adapt_retriever(search, loop), [f"q{n}" for n in range(20)])
    assert [isinstance(result, QueryError) for result in results] == [False] + [True] * 19
    assert len(search.asked) == 20


def test_an_answer_counts_before_the_loop_has_seen_it(loop: BackgroundEventLoop) -> None:
    """A successful call counts at once, even if the loop is too busy to process its result."""

    class Ahead(_Search):
        def __call__(self, query: str, k: int) -> object:
            if query == "q0":
                loop.submit(_busy())
            return super().__call__(query, k)

    async def _busy() -> None:
        time.sleep(0.2)  # noqa: ASYNC251 - blocks the loop on purpose

    search = Ahead(lambda query: query != "q0")
    _all(loop, adapt_retriever(search, loop), [f"q{n}" for n in range(20)])
    assert len(search.asked) == 20
