"""Code that users' typed tests may contain; it is checked by mypy and never run."""

from collections.abc import Sequence
from typing import assert_type

from pytest_rageval import (
    LLM,
    BM25Retriever,
    CachedEncoder,
    DenseRetriever,
    Document,
    EvalSet,
    Example,
    FeedbackRetriever,
    FusionRetriever,
    Gold,
    HyDERetriever,
    PooledRetriever,
    Rageval,
    Ranking,
    RewriteRetriever,
    Score,
    SentenceEncoder,
    TraceRun,
    TrecRun,
    load,
    reciprocal_rank_fusion,
)


def uses_the_fixture(rageval: Rageval) -> None:
    score = rageval.score("recall@5", where={"topic": "billing"})
    assert_type(score, Score)
    assert_type(score.where(topic="billing"), Score)
    assert_type(score >= 0.5, bool)
    assert_type(score.ci95, tuple[float, float] | None)
    assert_type(rageval.retrieve("query", k=3), Ranking)
    assert_type(rageval.retrieve("query", k=3)[0], Document)
    assert_type("doc-1" in rageval.retrieve("query", k=3), bool)
    assert_type(rageval.answer("question", k=3), str)
    assert_type(rageval.examples, tuple[Example, ...])


def is_a_retriever(query: str, k: int) -> Sequence[Document]:
    return BM25Retriever(["a text", {"id": "1", "text": "another"}])(query, k)


async def are_retrievers(query: str, k: int, rageval_llm: LLM) -> Sequence[Document]:
    dense = DenseRetriever(["a text"], encoder=CachedEncoder(SentenceEncoder("a/model"), ".cache"))
    PooledRetriever({"a query": ["a text"]}, lambda pool: HyDERetriever(DenseRetriever(pool), rageval_llm))
    rankings = [
        dense(query, k),
        await HyDERetriever(dense, rageval_llm)(query, k),
        await FeedbackRetriever(dense, rageval_llm, passages=3)(query, k),
        await FusionRetriever(BM25Retriever(["a text"]), rageval_llm, n=4, rrf_k=60)(query, k),
        (await RewriteRetriever(dense, rageval_llm, temperature=0.3)(query, k)).documents,
        *dense.search_many([query], k),
    ]
    return reciprocal_rank_fusion(rankings, k=60)


def is_a_recorded_run(query: str, k: int) -> Sequence[Document]:
    return TrecRun("bm25.run", load("evals/trec", question="desc", sample=200))(query, k)


def is_yesterday(query: str, k: int) -> Sequence[Document]:
    return TraceRun("monday.jsonl", "tuesday.jsonl")(
        query, k, history=[{"role": "user", "content": "Hi"}]
    ).documents


def is_an_eval_set() -> EvalSet:
    example = Example("q1", "question?", answers=("yes",), gold=(Gold(id="doc-1", grade=2),), tags={"a": 1})
    return EvalSet("mine", (example,))
