"""RAG-fusion: several searches for one question, their rankings fused."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from pytest_rageval.errors import InputError, Unscored
from pytest_rageval.llm.complete import LLM
from pytest_rageval.llm.plan import is_mark
from pytest_rageval.model import Document, Ranking
from pytest_rageval.prompts.continuing import searches_prompt
from pytest_rageval.retrievers.written import MAX_TOKENS, Search, search_each, searching, unsettled, write

__all__ = ["RRF_K", "FusionRetriever", "reciprocal_rank_fusion"]

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
    if is_mark(written):
        return []
    lines = [_BULLET.sub("", line, count=1).strip().strip("\"'“”") for line in written.splitlines()]
    queries = [line for line in lines if any(map(str.isalnum, line))][:n]
    if not queries:
        raise Unscored(f"the model wrote no query to search with: {written[:80]!r}")
    return queries


def _check(rrf_k: float) -> None:
    if not rrf_k >= 0:
        raise InputError(f"The constant of reciprocal rank fusion is {rrf_k}: it is at least 0, mostly 60.")
