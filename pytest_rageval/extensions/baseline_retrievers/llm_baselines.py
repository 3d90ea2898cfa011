"""Baseline retrievers that use a model: HyDE, pseudo-relevance feedback, query rewriting, and RAG-fusion.

In each of them, a model writes a text that is then searched for.

- `search` is a retriever `(query, k)`, sync or async. A sync one is called in a separate thread.
- `llm` is the fixture `rageval_llm`. Its prompts may be replaced with `rageval_prompts`.
- `temperature` and `max_tokens` are those of the text that the model writes. None is the server's default, and a
  reasoning model needs more tokens than the package's default.

InputError is raised if `search` is not callable. A call raises Unscored if the request failed or no text was written.
"""

import asyncio
import inspect
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from pytest_rageval.calls.user_code import InvalidResult, read_to_end
from pytest_rageval.core.errors import CallableError, InputError, Unscored
from pytest_rageval.core.ranking import Document, Ranking, Retrieval
from pytest_rageval.models.api import LLM
from pytest_rageval.models.messages import empty_reason, is_placeholder
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, Prompts
from pytest_rageval.retrievers.adapters import callables
from pytest_rageval.retrievers.results import retrieval_from

MAX_TOKENS: Final = 96  # enough for a short paragraph; the packaged encoder reads 256 tokens in all
SEPARATOR: Final = " [SEP] "  # BERT encoders read it as the end of a text
RRF_K: Final = 60  # as in Cormack et al.; a larger constant gives first ranks less weight
DEPTH: Final = 100  # documents of each search; fixed, so that the result for k=3 begins like that for k=5
TEMPERATURE: Final = 0.7  # for the queries: at 0 a small model repeats the question four times
_BULLET: Final = re.compile(r"\s*(?:\*{0,2}\d+[.):](?!\d)\*{0,2}|[-*•])?\s*")
_FIRST_NUMBER: Final = re.compile(r"\*{0,2}1[.):](?!\d)")


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
        """Return the model's continuation of a prompt up to the first blank line; Unscored if it is empty."""
        limit: dict[str, Any] = {} if self._max_tokens is None else {"max_tokens": self._max_tokens}
        reply = await self._llm.acomplete(prompt, temperature=self._temperature, stop=["\n\n"], **limit)
        if not reply.answer:
            raise Unscored(f"the model wrote nothing to search with{empty_reason(reply)}")
        return reply.answer

    async def _search_each(self, queries: Sequence[str], k: int) -> list[list[Document]]:
        """Return the first k documents of each query. A sync search runs in a thread, which also reads documents."""

        def search_all() -> list[Awaitable[object] | list[Document]]:
            return [
                result if inspect.isawaitable(result := self._search(query, k)) else _documents(result)
                for query in queries
            ]

        async def finish(result: Awaitable[object] | list[Document]) -> list[Document]:
            return result if isinstance(result, list) else _documents(await result)

        return list(await asyncio.gather(*map(finish, await asyncio.to_thread(search_all))))


class HyDERetriever(_LLMRetriever):
    """Hypothetical document embeddings: a model writes a passage that might answer the question, and it is searched.

    The query is only this passage, which may be wrong, but is closer to relevant passages than the question is. If the
    search has a method `nearest(passage, k)`, as `DenseRetriever` has, that method is called: an encoder that treats
    questions differently then encodes a passage.

    Args:
        search: a retriever `(query, k)`, sync or async.
        llm: the model that writes.
        zero_shot: omit the worked examples from the prompt, for an instruction-tuned model.
        temperature: the temperature with which the passage is written.
        max_tokens: the token limit of the passage; None for the server's default.

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
        return _with_placeholder(found, passage)


class _PassagesRetriever(_LLMRetriever):
    _min_passages: int

    def __init__(
        self,
        search: Callable[..., Any],
        llm: LLM,
        *,
        passages: int = 3,
        temperature: float = 0.0,
        max_tokens: int | None = MAX_TOKENS,
    ) -> None:
        if passages < self._min_passages:
            raise InputError(
                f"passages is {passages}: expected {self._min_passages} or more, the first that are read."
            )
        super().__init__(search, llm, max_tokens, temperature)
        self._passages = passages


class FeedbackRetriever(_PassagesRetriever):
    """Pseudo-relevance feedback: question, a model's passage and the first passages found are joined into one query.

    The joined text is `question [SEP] knowledge [SEP] d1 [SEP] … [SEP] dn`. An encoder truncates it at its limit, 256
    tokens for the packaged one. The knowledge is the passage of `HyDERetriever`, so that both together pay for it once.

    Args:
        search: a retriever `(query, k)`, sync or async.
        llm: the model that writes.
        passages: the number of first passages that are assumed to be relevant.
        temperature: the temperature with which the passage is written.
        max_tokens: the token limit of the passage; None for the server's default.

    Raises:
        InputError: also if `passages` is below 0.
    """

    _min_passages = 0

    async def __call__(self, query: str, k: int) -> list[Document]:
        """Return the k documents that the joined query finds, best first."""
        knowledge = await self._write(self._prompts.hypothetical_passage(query))
        (first,) = await self._search_each([query], self._passages)
        joined = SEPARATOR.join([query, knowledge, *(document.text for document in first)])
        (found,) = await self._search_each([joined], k)
        return _with_placeholder(found, knowledge)


class RewriteRetriever(_PassagesRetriever):
    """Query rewriting: a model reads the question and the first passages, and writes a better query.

    The query is searched and answered in place of the question. The judge compares the answer with the references of
    the question.

    Args:
        search: a retriever `(query, k)`, sync or async.
        llm: the model that writes.
        passages: the number of first passages that the model reads.
        temperature: the temperature with which the query is written.
        max_tokens: the token limit of the query; None for the server's default.

    Raises:
        InputError: also if `passages` is below 1.

    Source: the code of Gülsøy, who describes `FeedbackRetriever`.
    """

    _min_passages = 1

    async def __call__(self, query: str, k: int) -> Retrieval:
        """Return the k documents that the rewritten query finds, best first, with that query."""
        (first,) = await self._search_each([query], self._passages)
        written = await self._write(
            self._prompts.fill("better_query", query, [document.text for document in first])
        )
        better = written if is_placeholder(written) else _read_queries(written, 1)[0]
        (found,) = await self._search_each([better], k)
        return Retrieval(_with_placeholder(found, written), question=better)


class FusionRetriever(_LLMRetriever):
    """RAG-fusion: the question and queries that a model writes for it are searched, and the rankings are fused.

    Args:
        search: a retriever `(query, k)`, sync or async.
        llm: the model that writes.
        n: the number of queries that the model writes. The embedded model writes at most four.
        rrf_k: the constant of `reciprocal_rank_fusion`.
        depth: the number of documents of each search that are fused; k if that is larger.
        temperature: the temperature with which the queries are written.
        max_tokens: the token limit of all queries together; None for the server's default.

    Raises:
        InputError: also if n or the constant is out of range.

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
        return _with_placeholder(reciprocal_rank_fusion(rankings, k=self._rrf_k)[:k], reply)


def reciprocal_rank_fusion(rankings: Iterable[Sequence[Document]], k: float = RRF_K) -> list[Document]:
    """Rank the documents of several rankings by the sum of `1 / (k + rank)` over the rankings that contain them.

    Args:
        rankings: lists of documents, best first. Documents are the same if their ids are equal, or without ids their
            texts. A document that occurs twice in a ranking counts at its best rank; ranks start at 1.
        k: the constant, at least 0.

    Returns:
        Each document once, best first, with the sum as its score, in (0, number of rankings / (k + 1)]. Documents with
        equal scores are in the order of their first occurrence in the rankings.

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


def _documents(result: object) -> list[Document]:
    try:
        return list(retrieval_from(read_to_end(result)).documents)
    except InvalidResult as unusable:
        raise CallableError(f"The search {unusable.message.replace(' for {question}', '')}") from None


def _read_queries(reply: str, n: int) -> list[str]:
    if is_placeholder(reply):
        return []
    lines = [line.strip() for line in reply.splitlines() if any(map(str.isalnum, line))]
    # The prompt ends in "1.", so that the first line is the first query. If a line begins with "1." again, the lines
    # before it are an introduction, and so is a first line that ends with a colon.
    first = next((index for index, line in enumerate(lines) if _FIRST_NUMBER.match(line)), None)
    if first is None:
        first = int(len(lines) > 1 and lines[0].rstrip("* ").endswith(":"))
    texts = (_BULLET.sub("", line, count=1).strip().strip("\"'“”") for line in lines[first:])
    queries = [text for text in texts if any(map(str.isalnum, text))][:n]
    if not queries:
        raise Unscored(f"the model wrote no query to search with: {reply[:80]!r}")
    return queries


def _with_placeholder(documents: Sequence[Document], text: str) -> list[Document]:
    """Return the documents that a text found. If the text is the placeholder of a reply, each document contains it.

    Then requests that have such a document in their prompt are known to depend on the reply.
    """
    if not is_placeholder(text):
        return list(documents)
    return [replace(document, text=f"{document.text} {text}") for document in documents]
