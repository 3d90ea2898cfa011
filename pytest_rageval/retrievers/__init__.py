"""Retrievers: the user's own, adapted and called query by query, and those of this package.

`adapters` makes a callable of every known shape of retriever, and `documents` reads what it returns. `bm25`, `dense`
and `llm_baselines` are baselines; `trec_run` replays a recorded run.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pytest_rageval.errors import CallableError, RagevalError
from pytest_rageval.event_loop import PrivateLoop
from pytest_rageval.model import Document, Ranking
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter
from pytest_rageval.retrievers.documents import document_from, is_list
from pytest_rageval.user_code import Unusable, UserCallable

__all__ = ["Retriever", "adapt_retriever"]


class Retriever:
    """A callable `(query, k)`, sync or async, as `UserCallable` calls it."""

    def __init__(self, search: UserCallable) -> None:
        self._search = search

    async def retrieve(self, query: str, k: int) -> Ranking:
        """Return the first k documents for a query, each once; fewer where fewer were returned.

        QueryError if the callable raised for this query, or returned no list: [] means that nothing was found.
        """
        return Ranking.of(query, await self._search.call(query, k), k)


def adapt_retriever(
    retriever: object, loop: PrivateLoop, adapters: Sequence[Adapter] = ADAPTERS
) -> Retriever:
    """Return the object of the fixture `rageval_retriever` as a `Retriever`, by the first adapter that recognises it.

    CallableError if none does, the adapter cannot use it, or a plugin's raised or returned what cannot be called.
    """
    adapt = next((adapt for recognises, adapt in adapters if _call(recognises, retriever)), None)
    if adapt is None:
        raise CallableError(
            f"rageval_retriever is {type(retriever).__name__}, which cannot be called.\n"
            "Return a function (query, k) -> documents from the fixture, sync or async, or an object with "
            "invoke (LangChain), retrieve (LlamaIndex), run (Haystack) or similarity_search."
        )
    search = _call(adapt, retriever)
    if not callable(search):
        raise CallableError(
            f"{_name(adapt)} gave {type(search).__name__} for {type(retriever).__name__}.\n"
            "It gives a function (query, k) -> documents, sync or async."
        )
    return Retriever(UserCallable("rageval_retriever", search, loop, cause="retriever", read=_documents))


def _call(part: Callable[[Any], Any], retriever: object) -> Any:
    try:
        return part(retriever)
    except RagevalError:
        raise
    except Exception as error:
        what = f"{_name(part)} raised for {type(retriever).__name__}"
        raise CallableError.raised(what, error) from error


def _name(part: Callable[[Any], Any]) -> str:
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"The retriever adapter {named.__module__}.{named.__qualname__}"


def _documents(found: object) -> list[Document]:
    if not is_list(found):
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
