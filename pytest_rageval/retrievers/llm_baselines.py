"""Baseline retrievers that use a model: HyDE, pseudo-relevance feedback, query rewriting, and RAG-fusion.

In each, a model writes a text to search with. `search` is a retriever `(query, k)`, sync or async; a sync
one is called in a thread of its own. `llm` is the fixture `rageval_llm`, whose prompts `rageval_prompts` may replace.
`temperature` and `max_tokens` are those of the written text; None is the server's default, and a reasoning model
needs more than the package's. InputError is raised where `search` cannot be called; a call raises Unscored where the
request failed or the model wrote nothing.
"""

import asyncio
import inspect
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from pytest_rageval.datatypes import Document, Ranking, Retrieval
from pytest_rageval.errors import InputError, Unscored, is_placeholder
from pytest_rageval.llm.api import LLM
from pytest_rageval.llm.messages import empty_reason
from pytest_rageval.prompts.rendering import DEFAULT_PROMPTS, Prompts
from pytest_rageval.retrievers.adapters import callables
from pytest_rageval.retrievers.documents import corpus_from

__all__ = [
    "RRF_K",
    "FeedbackRetriever",
    "FusionRetriever",
    "HyDERetriever",
    "RewriteRetriever",
    "reciprocal_rank_fusion",
]

MAX_TOKENS: Final = 96  # enough for a short paragraph; the packaged encoder reads 256 tokens in all
SEPARATOR: Final = " [SEP] "  # encoders of BERT's kind read it as the end of a text
RRF_K: Final = 60  # as in Cormack et al.; the larger, the less a first rank stands out
DEPTH: Final = 100  # documents of each search; with k, the first three of five would differ from three
TEMPERATURE: Final = 0.7  # of the queries: at 0 a small model repeats the question four times
_BULLET: Final = re.compile(r"\s*(?:\*{0,2}\d+[.):](?!\d)\*{0,2}|[-*•])?\s*")
_FIRST: Final = re.compile(r"\*{0,2}1[.):](?!\d)")


class _LLMRetriever:
    def __init__(self, search: object, llm: LLM, max_tokens: int | None, temperature: float) -> None:
        if not callable(search):
            raise InputError(
                f"The retriever to search with is {type(search).__name__}, which cannot be called.\n"
                "Give a function (query, k) -> documents, sync or async, such as DenseRetriever(corpus)."
            )
        self._search = callables.adapt(search)
        self._llm = llm
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._prompts: Prompts = getattr(llm, "prompts", DEFAULT_PROMPTS)

    async def _write(self, prompt: str) -> str:
        """The model's continuation of a prompt up to the first blank line."""
        limit: dict[str, Any] = {} if self._max_tokens is None else {"max_tokens": self._max_tokens}
        reply = await self._llm.acomplete(prompt, temperature=self._temperature, stop=["\n\n"], **limit)
        if not reply.answer:
            raise Unscored(f"the model wrote nothing to search with{empty_reason(reply)}")
        return reply.answer

    async def _search_each(self, queries: Sequence[str], k: int) -> list[list[Document]]:
        """The first k documents of each query. The search runs in a thread, and documents are read there."""

        def search_all() -> list[Awaitable[object] | list[Document]]:
            return [_read(self._search(query, k)) for query in queries]

        async def awaited(found: Awaitable[object] | list[Document]) -> list[Document]:
            return found if isinstance(found, list) else _documents(await found)

        return list(await asyncio.gather(*map(awaited, await asyncio.to_thread(search_all))))


class HyDERetriever(_LLMRetriever):
    """Hypothetical document embeddings: a model writes a passage that might answer, which is nearer to real ones.

    The search uses only this passage, which may be wrong. A search with a method `nearest(passage, k)`, as
    `DenseRetriever` has, is called by that: an encoder that treats questions differently then reads a passage.

    Args:
        search: a retriever.
        llm: that writes.
        zero_shot: leaves the worked examples out of the prompt, for an instruction-tuned model.
        temperature: of the passage.
        max_tokens: of the passage.

    Source: Gao et al. (2023), with one passage.
    """

    def __init__(
        self,
        search: Callable[..., Any],
        llm: LLM,
        *,
        zero_shot: bool = False,
        temperature: float = 0.0,
        max_tokens: int | None = MAX_TOKENS,
    ) -> None:
        super().__init__(getattr(search, "nearest", search), llm, max_tokens, temperature)
        self._zero_shot = zero_shot

    async def __call__(self, query: str, k: int) -> list[Document]:
        """Return the k documents nearest to the passage, best first."""
        passage = await self._write(self._prompts.hypothetical_passage(query, worked=not self._zero_shot))
        (found,) = await self._search_each([passage], k)
        return _with_mark(found, passage)


class _PassagesRetriever(_LLMRetriever):
    """A retriever that reads the first passages of another search before its own; at least `_least` of them."""

    _least: int

    def __init__(
        self,
        search: Callable[..., Any],
        llm: LLM,
        *,
        passages: int = 3,
        temperature: float = 0.0,
        max_tokens: int | None = MAX_TOKENS,
    ) -> None:
        if passages < self._least:
            raise InputError(
                f"passages is {passages}: expected {self._least} or more, the first that are read."
            )
        super().__init__(search, llm, max_tokens, temperature)
        self._passages = passages


class FeedbackRetriever(_PassagesRetriever):
    """The question, a model's passage on it, and the first passages that it finds, joined into one query.

    The joined text is `question [SEP] knowledge [SEP] d1 [SEP] … [SEP] dn`, which an encoder cuts at its length, 256
    tokens in the packaged one. The knowledge is the passage of `HyDERetriever`, so both together pay once.

    Args:
        search: a retriever.
        llm: that writes.
        passages: how many of the first passages are taken to be relevant.
        temperature: of what the model writes.
        max_tokens: of what the model writes.

    Raises:
        InputError: also where `passages` is below 0.
    """

    _least = 0

    async def __call__(self, query: str, k: int) -> list[Document]:
        """Return the k documents that the joined query finds, best first."""
        knowledge = await self._write(self._prompts.hypothetical_passage(query))
        (first,) = await self._search_each([query], self._passages)
        joined = SEPARATOR.join([query, knowledge, *(document.text for document in first)])
        (found,) = await self._search_each([joined], k)
        return _with_mark(found, knowledge)


class RewriteRetriever(_PassagesRetriever):
    """Feedback in other form: a model reads the question and the first passages, and writes a better query.

    It is searched in place of the question, and the generator answers it in place of the question. The judge compares
    the answer with references of the question.

    Args:
        search: a retriever.
        llm: that writes.
        passages: how many of the first passages the model reads.
        temperature: of the query.
        max_tokens: of the query.

    Raises:
        InputError: also where `passages` is below 1.

    Source: the code of Gülsøy, who describes `FeedbackRetriever`.
    """

    _least = 1

    async def __call__(self, query: str, k: int) -> Retrieval:
        """Return the k documents that the rewritten query finds, best first, with that query."""
        (first,) = await self._search_each([query], self._passages)
        written = await self._write(self._prompts.better_query(query, [each.text for each in first]))
        better = _first_query(written)
        (found,) = await self._search_each([better], k)
        return Retrieval(_with_mark(found, written), question=better)


class FusionRetriever(_LLMRetriever):
    """The question and the queries that a model writes for it, each searched; their ranks fused.

    Args:
        search: a retriever.
        llm: that writes.
        n: how many queries the model writes. The embedded model writes at most four.
        rrf_k: the constant of `reciprocal_rank_fusion`.
        depth: how many documents of each search are fused; k where that is more.
        temperature: of the queries.
        max_tokens: of all queries together.

    Raises:
        InputError: also where n or the constant is out of range.

    Source: Rackauckas (2024), RAG-Fusion.
    """

    def __init__(  # noqa: PLR0913 - the paper's parameters
        self,
        search: Callable[..., Any],
        llm: LLM,
        *,
        n: int = 4,
        rrf_k: float = RRF_K,
        depth: int = DEPTH,
        temperature: float = TEMPERATURE,
        max_tokens: int | None = MAX_TOKENS,
    ) -> None:
        if n < 1:
            raise InputError(f"n is {n}: RAG-fusion needs at least one query.")
        _require_constant(rrf_k)
        super().__init__(search, llm, max_tokens, temperature)
        self._n = n
        self._rrf_k = rrf_k
        self._depth = depth

    async def __call__(self, query: str, k: int) -> list[Document]:
        """Return the k documents with the highest fused score, best first."""
        reply = await self._write(self._prompts.search_queries(query, self._n))
        queries = list(dict.fromkeys([query, *_read_queries(reply, self._n)]))
        rankings = await self._search_each(queries, max(self._depth, k))
        return _with_mark(reciprocal_rank_fusion(rankings, k=self._rrf_k)[:k], reply)


def reciprocal_rank_fusion(rankings: Iterable[Sequence[Document]], k: float = RRF_K) -> list[Document]:
    """Rank the documents of several rankings by the sum of `1 / (k + rank)` over those they are in.

    Args:
        rankings: documents, best first. Documents are the same where their ids are, or without ids their texts; one
            that occurs twice in a ranking counts at its best rank, from 1.
        k: the constant, at least 0.

    Returns:
        Each document once, best first, with the sum as its score, in (0, rankings / (k + 1)]; of equal ones the first
        in the order of the rankings.

    Raises:
        InputError: the constant is negative.

    Source: Cormack, Clarke and Büttcher (2009).

    >>> fused = reciprocal_rank_fusion([[Document("a"), Document("b")], [Document("b"), Document("c")]])
    >>> [(document.text, round(document.score, 5)) for document in fused]
    [('b', 0.03252), ('a', 0.01639), ('c', 0.01613)]
    """
    _require_constant(k)
    documents: dict[str, Document] = {}
    scores: dict[str, float] = defaultdict(float)
    for ranking in rankings:
        for rank, document in enumerate(Ranking.of("", ranking), 1):
            documents.setdefault(document.identity, document)
            scores[document.identity] += 1 / (k + rank)
    best = sorted(documents, key=lambda name: -scores[name])
    return [replace(documents[name], score=scores[name]) for name in best]


def _require_constant(rrf_k: float) -> None:
    if not rrf_k >= 0:
        raise InputError(
            f"The constant of reciprocal rank fusion is {rrf_k}: it must be at least 0, usually 60."
        )


def _read(found: Any) -> Awaitable[object] | list[Document]:
    return found if inspect.isawaitable(found) else _documents(found)


def _documents(found: object) -> list[Document]:
    return list(corpus_from(found.documents if isinstance(found, Retrieval) else found))


def _read_queries(reply: str, n: int) -> list[str]:
    if is_placeholder(reply):
        return []
    lines = [line.strip() for line in reply.splitlines() if any(map(str.isalnum, line))]
    # The prompt ends in "1.", so that the first line is the first query; a model that numbers it again, or ends a line
    # with a colon, introduces the queries.
    first = next((at for at, line in enumerate(lines) if _FIRST.match(line)), None)
    if first is None:
        first = int(len(lines) > 1 and lines[0].rstrip("* ").endswith(":"))
    texts = (_BULLET.sub("", line, count=1).strip().strip("\"'“”") for line in lines[first:])
    queries = [text for text in texts if any(map(str.isalnum, text))][:n]
    if not queries:
        raise Unscored(f"the model wrote no query to search with: {reply[:80]!r}")
    return queries


def _first_query(reply: str) -> str:
    return reply if is_placeholder(reply) else _read_queries(reply, 1)[0]


def _with_mark(documents: Sequence[Document], text: str) -> list[Document]:
    """The documents found by a text. In a plan each gets its mark: requests about it depend on the reply."""
    if not is_placeholder(text):
        return list(documents)
    return [replace(document, text=f"{document.text} {text}") for document in documents]
