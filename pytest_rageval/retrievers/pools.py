"""Retrieval in which each query has passages of its own, as in MS MARCO."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pytest_rageval.errors import InputError
from pytest_rageval.retrievers.documents import listed

__all__ = ["PooledRetriever"]


class PooledRetriever:
    """Searches the pool of the query, by a retriever that is made for it when it is first asked for.

    Args:
        pools: for each query its documents, as a retriever may return them.
        make: from documents to a retriever over them, sync or async, such as `BM25Retriever`, or
            `lambda documents: HyDERetriever(DenseRetriever(documents), llm)`.

    >>> from pytest_rageval import BM25Retriever
    >>> search = PooledRetriever({"cats?": ["a cat sat", "cats and dogs"], "dogs?": ["a dog ran"]}, BM25Retriever)
    >>> [document.text for document in search("dogs?", 3)]
    ['a dog ran']
    """

    def __init__(
        self,
        pools: Mapping[str, Iterable[object]],
        make: Callable[[Sequence[object]], Callable[[str, int], Any]],
    ) -> None:
        self._pools = pools
        self._make = make
        self._made: dict[str, Callable[[str, int], Any]] = {}

    def __call__(self, query: str, k: int) -> Any:
        """What the retriever of the query's pool gives, awaitable where it is async; nothing from an empty pool.

        Raises:
            InputError: the query has no pool, or its pool is no list of documents.
        """
        if query not in self._made:
            self._made[query] = self._of(query)
        return self._made[query](query, k)

    def _of(self, query: str) -> Callable[[str, int], Any]:
        if query not in self._pools:
            raise InputError(
                f"There is no pool of passages for the query {query!r}, among {len(self._pools)} pools.\n"
                "Give each question of the eval set its pool, under exactly its text."
            )
        documents = listed(self._pools[query])
        return self._make(documents) if documents else _nothing


def _nothing(query: str, k: int) -> list[object]:  # noqa: ARG001 - a retriever
    return []
