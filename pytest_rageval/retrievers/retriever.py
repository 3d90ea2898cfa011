"""The retriever under test: the user's callable, called and checked query by query."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from pytest_rageval.errors import CallableError, RagevalError
from pytest_rageval.event_loop import PrivateLoop
from pytest_rageval.model import Document, Ranking
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter
from pytest_rageval.retrievers.documents import document_from
from pytest_rageval.user_code import Unusable, UserCallable

__all__ = ["Retriever", "adapt_retriever"]


class Retriever:
    """A callable `(query, k)`, sync or async, as `UserCallable` calls it."""

    def __init__(self, search: UserCallable) -> None:
        self._search = search

    async def retrieve(self, query: str, k: int) -> Ranking:
        """The first k documents for a query, each once; fewer where fewer came back.

        Raises:
            QueryError: the callable raised for this query, or returned no list of documents. None is none: an
                empty list says that nothing was found, None that nothing was said.
        """
        return Ranking.of(query, await self._search.call(query, k), k)


def adapt_retriever(
    retriever: object, loop: PrivateLoop, adapters: Sequence[Adapter] = ADAPTERS
) -> Retriever:
    """What `rageval_retriever` gave, as a `Retriever`.

    Args:
        retriever: of any kind that one of the adapters recognises.
        loop: of the run.
        adapters: tried in this order.

    Raises:
        CallableError: none of them recognises it, or the one that does cannot tell how to ask it; or one that a
            plugin added raised, or gave nothing that can be called.
    """
    adapt = next((adapt for recognises, adapt in adapters if _asked(recognises, retriever)), None)
    if adapt is None:
        raise CallableError(
            f"rageval_retriever is {type(retriever).__name__}, which cannot be called.\n"
            "Return a function (query, k) -> documents from the fixture, sync or async, or an object with "
            "invoke (LangChain), retrieve (LlamaIndex), run (Haystack) or similarity_search."
        )
    search = _asked(adapt, retriever)
    if not callable(search):
        raise CallableError(
            f"{_part(adapt)} gave {type(search).__name__} for {type(retriever).__name__}.\n"
            "It gives a function (query, k) -> documents, sync or async."
        )
    return Retriever(UserCallable("rageval_retriever", search, loop, cause="retriever", read=_documents))


def _is_list(found: object) -> TypeGuard[Iterable[object]]:
    return isinstance(found, Iterable) and not isinstance(found, str | bytes | Mapping)


def _documents(found: object) -> list[Document]:
    """What the callable returned, as documents."""
    if not _is_list(found):
        what = f"returned {type(found).__name__}"
        advice = "Return a list of documents, best first: strings, dicts or Documents."
        raise Unusable(what, f"{what} for {{question}}.\n{advice}")
    documents = []
    for rank, item in enumerate(found, 1):
        try:
            documents.append(document_from(item))
        except CallableError as error:
            message = f"returned for {{question}}, at rank {rank}, a document that {error}"
            raise Unusable("returned a document that has neither text nor id", message) from None
    return documents


def _asked(part: Callable[[Any], Any], retriever: object) -> Any:
    """What a part of an adapter says of the retriever; most are ours, some are of a plugin."""
    try:
        return part(retriever)
    except RagevalError:
        raise
    except Exception as error:
        what = f"{_part(part)} raised for {type(retriever).__name__}"
        raise CallableError.raised(what, error) from error


def _part(part: Callable[[Any], Any]) -> str:
    """How errors name a part of an adapter: the module says whose it is."""
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"The retriever adapter {named.__module__}.{named.__qualname__}"
