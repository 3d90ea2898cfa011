"""Retrievers that a model helps: HyDE, pseudo-relevance feedback and RAG-fusion."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from pytest_rageval.errors import InputError, Unscored
from pytest_rageval.llm.api import LLM
from pytest_rageval.llm.messages import empty_reason
from pytest_rageval.llm.plan import is_plan_mark
from pytest_rageval.model import Document, Ranking
from pytest_rageval.prompts.few_shot import passage_prompt, searches_prompt
from pytest_rageval.retrievers.adapters import callables
from pytest_rageval.retrievers.documents import corpus_from

__all__ = [
    "MAX_TOKENS",
    "RRF_K",
    "FeedbackRetriever",
    "FusionRetriever",
    "HyDERetriever",
    "Search",
    "reciprocal_rank_fusion",
    "search_each",
    "searching",
    "unsettled",
    "write",
]

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
        raise Unscored(f"the model wrote nothing to search with{empty_reason(reply)}")
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
    if not is_plan_mark(text):
        return list(documents)
    return [replace(document, text=f"{document.text} {text}") for document in documents]


class HyDERetriever:
    """Hypothetical document embeddings: a written passage that might answer is nearer to real ones.

    What it says may be wrong; it is only searched with. One passage a question,
    and the question itself is not searched with.

    Args:
        search: a retriever, sync or async. One with a method `nearest(passage, k)`, as `DenseRetriever`,
            is asked by that: an encoder that reads questions otherwise then reads a passage.
        llm: the fixture `rageval_llm`; so each passage is paid once.
        max_tokens: of the passage; None leaves it to the server. A model that thinks before it
            writes needs more than the default.

    Raises:
        InputError: `search` cannot be called.

    Source: Gao et al. (2023), with one passage at temperature 0.
    """

    def __init__(self, search: Search, llm: LLM, *, max_tokens: int | None = MAX_TOKENS) -> None:
        self._search = searching(getattr(search, "nearest", search))
        self._llm = llm
        self._max_tokens = max_tokens

    async def __call__(self, query: str, k: int) -> list[Document]:
        """The k documents that the written passage finds, best first.

        Raises:
            Unscored: there is no such passage: its request failed, or the model wrote nothing.
        """
        passage = await write(self._llm, passage_prompt(query), temperature=0.0, max_tokens=self._max_tokens)
        (found,) = await search_each(self._search, [passage], k)
        return unsettled(found, passage)


SEPARATOR: Final = " [SEP] "
"""Which encoders of BERT's kind read as the end of a text."""


class FeedbackRetriever:
    """The question, a model's passage on it, and the first passages that it finds, joined into one query.

    The joined text is `question [SEP] knowledge [SEP] d1 [SEP] … [SEP] dn`. An
    encoder cuts it where it stops reading, after 256 tokens in the packaged one:
    then the last passages count in part or not at all.

    The knowledge is the passage that `HyDERetriever` writes too: who uses both pays once.

    Args:
        search: a retriever, sync or async, such as a `DenseRetriever`.
        llm: the fixture `rageval_llm`.
        passages: how many of the first passages are taken for relevant.
        max_tokens: of the model's passage; None leaves it to the server. A model that thinks
            before it writes needs more than the default.

    Raises:
        InputError: `search` cannot be called, or `passages` is below 0.
    """

    def __init__(
        self, search: Search, llm: LLM, *, passages: int = 3, max_tokens: int | None = MAX_TOKENS
    ) -> None:
        if passages < 0:
            raise InputError(f"passages is {passages}: feedback takes the first 0 or more passages.")
        self._search = searching(search)
        self._llm = llm
        self._passages = passages
        self._max_tokens = max_tokens

    async def __call__(self, query: str, k: int) -> list[Document]:
        """The k documents that the joined query finds, best first.

        Raises:
            Unscored: there is no knowledge: its request failed, or the model wrote nothing.
        """
        knowledge = await write(
            self._llm, passage_prompt(query), temperature=0.0, max_tokens=self._max_tokens
        )
        (first,) = await search_each(self._search, [query], self._passages)
        joined = SEPARATOR.join([query, knowledge, *(document.text for document in first)])
        (found,) = await search_each(self._search, [joined], k)
        return unsettled(found, knowledge)


RRF_K: Final = 60
"""The constant of the fusion, as Cormack et al. set it: the larger, the less a first rank stands out."""

DEPTH: Final = 100
"""So many documents of each search are fused; not k, or the first three of five would differ from three."""

TEMPERATURE: Final = 0.7
"""Of the queries, which are to differ: at 0 a small model repeats the question four times."""

_BULLET: Final = re.compile(r"\s*(?:\d+[.):](?!\d)|[-*•])?\s*")


class FusionRetriever:
    """The question and the queries that a model writes for it, each searched; their ranks fused.

    A query that the model repeats counts once; where it writes fewer than it was
    asked for, those are all.

    Args:
        search: a retriever, sync or async, such as a `DenseRetriever`.
        llm: the fixture `rageval_llm`.
        n: how many queries the model writes. The embedded model writes four at the most.
        rrf_k: the constant of `reciprocal_rank_fusion`.
        depth: how many documents of each search are fused; k where that is more.
        max_tokens: of the queries together; None leaves it to the server. A model that thinks
            before it writes needs more than the default.

    Raises:
        InputError: `search` cannot be called, or n or the constant is out of range.

    Source: Rackauckas (2024), RAG-Fusion.
    """

    def __init__(  # noqa: PLR0913 - each with a default of the paper's
        self,
        search: Search,
        llm: LLM,
        *,
        n: int = 4,
        rrf_k: float = RRF_K,
        depth: int = DEPTH,
        max_tokens: int | None = MAX_TOKENS,
    ) -> None:
        if n < 1:
            raise InputError(f"n is {n}: RAG-fusion lets the model write at least one query.")
        _check(rrf_k)
        self._search = searching(search)
        self._llm = llm
        self._n = n
        self._rrf_k = rrf_k
        self._depth = depth
        self._max_tokens = max_tokens

    async def __call__(self, query: str, k: int) -> list[Document]:
        """The k documents with the highest fused score, best first.

        Raises:
            Unscored: there are no queries: the request failed, or the model wrote none.
        """
        prompt = searches_prompt(query, self._n)
        written = await write(self._llm, prompt, temperature=TEMPERATURE, max_tokens=self._max_tokens)
        queries = list(dict.fromkeys([query, *_queries(written, self._n)]))
        rankings = await search_each(self._search, queries, max(self._depth, k))
        return unsettled(reciprocal_rank_fusion(rankings, k=self._rrf_k)[:k], written)


def reciprocal_rank_fusion(rankings: Iterable[Sequence[Document]], k: float = RRF_K) -> list[Document]:
    """All documents of several rankings by the sum of `1 / (k + rank)` over those they are in.

    Args:
        rankings: documents, best first; ranks start at 1. Documents are the same where their ids
            are, or without ids their texts. One that comes twice in a ranking counts there at
            its best rank.
        k: the constant, at least 0.

    Returns:
        Each document once, best first, with the sum as its score, in (0, rankings / (k + 1)]; of equal
        ones the one that came first, in the order of the rankings.

    Raises:
        InputError: the constant is negative.

    Source: Cormack, Clarke and Büttcher (2009).

    >>> fused = reciprocal_rank_fusion([[Document("a"), Document("b")], [Document("b"), Document("c")]])
    >>> [(document.text, round(document.score, 5)) for document in fused]
    [('b', 0.03252), ('a', 0.01639), ('c', 0.01613)]
    """
    _check(k)
    documents: dict[str, Document] = {}
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, document in enumerate(Ranking.of("", ranking), 1):
            name = document.identity
            documents.setdefault(name, document)
            scores[name] = scores.get(name, 0.0) + 1 / (k + rank)
    best = sorted(documents, key=lambda name: -scores[name])
    return [replace(documents[name], score=scores[name]) for name in best]


def _queries(written: str, n: int) -> list[str]:
    """The first n lines of what the model wrote, without numbers or bullets.

    Raises:
        Unscored: no line says anything.
    """
    if is_plan_mark(written):
        return []
    lines = [_BULLET.sub("", line, count=1).strip().strip("\"'“”") for line in written.splitlines()]
    queries = [line for line in lines if any(map(str.isalnum, line))][:n]
    if not queries:
        raise Unscored(f"the model wrote no query to search with: {written[:80]!r}")
    return queries


def _check(rrf_k: float) -> None:
    if not rrf_k >= 0:
        raise InputError(f"The constant of reciprocal rank fusion is {rrf_k}: it is at least 0, mostly 60.")
