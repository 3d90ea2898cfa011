"""Retrieval from pools, one per query."""

import asyncio
import inspect
from collections.abc import Sequence

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.embeddings.dense import PooledRetriever
from pytest_rageval.retrievers.bm25 import BM25Retriever

POOLS = {"cats?": ["a dog ran", "a cat sat", "cats and dogs"], "dogs?": ["a bird sang"], "none?": []}


def test_each_query_searches_its_own_pool() -> None:
    search = PooledRetriever(POOLS, BM25Retriever)
    assert [document.text for document in search("cats?", 2)] == ["cats and dogs", "a dog ran"]
    assert [document.text for document in search("dogs?", 2)] == ["a bird sang"]


def test_a_retriever_is_made_when_its_pool_is_first_searched() -> None:
    indexed: list[Sequence[object]] = []

    def make(documents: Sequence[object]) -> BM25Retriever:
        indexed.append(documents)
        return BM25Retriever(documents)

    search = PooledRetriever(POOLS, make)
    assert not indexed
    assert [len(search(query, 5)) for query in ("dogs?", "none?", "dogs?")] == [1, 0, 1]
    assert indexed == [["a bird sang"]]


def test_an_async_retriever_of_a_pool_is_awaited() -> None:
    async def last(query: str, k: int) -> list[str]:
        return [f"{query} {k}"]

    awaitable = PooledRetriever(POOLS, lambda _: last)("cats?", 4)
    assert inspect.isawaitable(awaitable)
    assert asyncio.run(awaitable) == ["cats? 4"]


@pytest.mark.parametrize(
    ("pool", "question", "message"),
    [
        (
            ["a cat sat"],
            "Cats?",
            r"(?s)no pool of passages for the query 'Cats\?', among 1 pool\..*exactly its text",
        ),
        # The characters of a text would be searched as passages.
        ("a cat sat", "cats?", "Passages are given as a list, found str: 'a cat sat'"),
    ],
)
def test_another_question_and_a_pool_that_is_no_list_are_errors(pool, question, message):
    with pytest.raises(InputError, match=message):
        PooledRetriever({"cats?": pool}, BM25Retriever)(question, 1)
