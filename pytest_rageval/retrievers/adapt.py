"""The retriever under test: the user's callable, asked and checked."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_rageval.errors import CallableError
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.model import Ranking
from pytest_rageval.retrievers.documents import document_from

__all__ = ["Retriever", "adapt_retriever"]


@dataclass(frozen=True)
class Retriever:
    """A callable `(query, k)`, sync or async.

    A sync one is called from the test's own thread, one query at a time: many
    are not thread-safe, and some may be used only where they were made. An
    async one is called for all queries at once, in the event loop of the run.
    """

    function: Callable[[str, int], Any]
    loop: PrivateLoop

    async def retrieve(self, query: str, k: int) -> Ranking:
        """The first k documents for a query, each once; fewer where fewer came back.

        Raises:
            CallableError: the callable raised, or returned no list of documents.
        """
        try:
            found = (
                self.function(query, k)
                if _is_async(self.function)
                else await self.loop.call(self.function, query, k)
            )
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:
            raise CallableError.raised(f"rageval_retriever raised for {query!r}", error) from error
        if not isinstance(found, Iterable) or isinstance(found, str | bytes | Mapping):
            message = (
                f"rageval_retriever returned {type(found).__name__} for {query!r}.\n"
                "Return a list of documents, best first: strings, dicts or Documents."
            )
            raise CallableError(message)
        documents = []
        for rank, item in enumerate(found, 1):
            try:
                documents.append(document_from(item))
            except CallableError as error:
                message = f"rageval_retriever, for {query!r}: the document at rank {rank} {error}"
                raise CallableError(message) from None
        return Ranking.of(query, documents, k)


def adapt_retriever(retriever: object, loop: PrivateLoop) -> Retriever:
    """What `rageval_retriever` gave, as a `Retriever`.

    Raises:
        CallableError: it cannot be called.
    """
    if callable(retriever):
        return Retriever(retriever, loop)
    message = (
        f"rageval_retriever is {type(retriever).__name__}, which cannot be called.\n"
        "Return a function (query, k) -> documents from the fixture, sync or async."
    )
    raise CallableError(message)


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it makes a coroutine: for functions and for objects with such a `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - its kind is asked, not whether it is there
    )
