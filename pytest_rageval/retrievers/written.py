"""What a model writes so that it can be searched with, and the documents found with it."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from pytest_rageval.errors import InputError, Unscored
from pytest_rageval.llm.complete import LLM
from pytest_rageval.llm.plan import is_mark
from pytest_rageval.llm.reply import silence
from pytest_rageval.model import Document
from pytest_rageval.retrievers.adapters import callables
from pytest_rageval.retrievers.documents import corpus_from

__all__ = ["MAX_TOKENS", "Search", "search_each", "searching", "unsettled", "write"]

Search = Callable[..., Any]
"""A retriever `(query, k)`, such as `DenseRetriever`; a sync one is called in a thread of its own."""

MAX_TOKENS: Final = 96
"""Of what is written: a short paragraph. The packaged encoder reads 256 tokens in all."""


async def write(llm: LLM, prompt: str, *, temperature: float, max_tokens: int | None) -> str:
    """A model's continuation of a prompt up to the first blank line.

    Raises:
        Unscored: the request failed, or the model wrote nothing.
    """
    limit: dict[str, Any] = {} if max_tokens is None else {"max_tokens": max_tokens}
    reply = await llm.acomplete(prompt, temperature=temperature, stop=["\n\n"], **limit)
    if not reply.answer:
        raise Unscored(f"the model wrote nothing to search with{silence(reply)}")
    return reply.answer


def searching(search: object) -> Search:
    """A retriever to search with, told k as it wants to be told.

    Raises:
        InputError: it cannot be called.
        CallableError: it is a class.
    """
    if not callable(search):
        raise InputError(
            f"The retriever to search with is {type(search).__name__}, which cannot be called.\n"
            "Give a function (query, k) -> documents, sync or async, such as DenseRetriever(corpus)."
        )
    return callables.adapt(search)


async def search_each(search: Search, queries: Sequence[str], k: int) -> list[list[Document]]:
    """The first k documents of each query; the event loop goes on meanwhile.

    Raises:
        InputError: what came back is no list of documents.
        CallableError: a document has neither text nor id.
    """

    def called() -> list[Awaitable[object] | list[Document]]:
        return [_read(search(query, k)) for query in queries]

    async def awaited(found: Awaitable[object] | list[Document]) -> list[Document]:
        return found if isinstance(found, list) else list(corpus_from(await found))

    return list(await asyncio.gather(*map(awaited, await asyncio.to_thread(called))))


def _read(found: Any) -> Awaitable[object] | list[Document]:
    """The documents, read where the search was called; of an async search what is to be awaited."""
    return found if inspect.isawaitable(found) else list(corpus_from(found))


def unsettled(documents: Sequence[Document], text: str) -> list[Document]:
    """The documents found by a text; in a plan, where it is a mark, with that mark in each of theirs.

    Nobody knows yet which documents it will be, so whatever is asked about
    them is counted as depending on the reply, and never as cached.
    """
    if not is_mark(text):
        return list(documents)
    return [replace(document, text=f"{document.text} {text}") for document in documents]
