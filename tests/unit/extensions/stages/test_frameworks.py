"""Stages that are read from real retrievers of LangChain, LlamaIndex and Haystack."""

import asyncio
import pickle
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.retrievers.adapters import ADAPTERS, search_of
from pytest_rageval.run.registry import Registry

pytestmark = pytest.mark.slow  # importing LlamaIndex takes seconds

PASSAGES = {"a": "reset password", "b": "reset tablet", "c": "return tablet", "d": "password rules"}


def _names(word: str) -> list[str]:
    return [name for name, text in PASSAGES.items() if word in text]


@pytest.fixture(scope="module")
def langchain() -> SimpleNamespace:
    """Searches by the word at a place of the question; compressors; and the classes that join them."""
    pytest.importorskip(
        "langchain_classic", reason="the retrievers that join others are in langchain-classic"
    )
    from langchain_classic import retrievers
    from langchain_classic.retrievers import document_compressors
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever

    class Word(BaseRetriever):
        at: int = 0

        def _get_relevant_documents(self, query: str, **_: object) -> list[Document]:
            words = query.split()
            return [Document(PASSAGES[name], id=name) for name in _names(words[self.at])]

    class Reverse(BaseDocumentCompressor):
        def compress_documents(self, documents: Any, *_: object, **__: object) -> Any:
            return documents[::-1]

    class Shorten(BaseDocumentCompressor):
        def compress_documents(self, documents: Any, *_: object, **__: object) -> Any:
            return documents[:1]

    class Closed(retrievers.EnsembleRetriever):
        """A class that asks other objects than those in its fields."""

        async def ainvoke(self, query: str, *_: object, **__: object) -> list[Document]:
            return [Document(query)]

    def compression(base: Any, *compressors: Any) -> Any:
        one, *more = compressors
        joined = document_compressors.DocumentCompressorPipeline(transformers=compressors) if more else one
        return retrievers.ContextualCompressionRetriever(base_retriever=base, base_compressor=joined)

    def ensemble(*parts: Any, kind: Any = retrievers.EnsembleRetriever) -> Any:
        return kind(retrievers=list(parts))

    return SimpleNamespace(
        Word=Word,
        Reverse=Reverse,
        Shorten=Shorten,
        Closed=Closed,
        Merger=retrievers.MergerRetriever,
        compression=compression,
        ensemble=ensemble,
    )


@pytest.fixture(scope="module")
def llama_index() -> SimpleNamespace:
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import MockLLM
    from llama_index.core.postprocessor import SimilarityPostprocessor
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class Word(BaseRetriever):
        def __init__(self, at: int = 0) -> None:
            self.at = at
            super().__init__()

        def _retrieve(self, query_bundle: Any) -> list[Any]:
            names = _names(query_bundle.query_str.split()[self.at])
            return [
                NodeWithScore(node=TextNode(id_=name, text=PASSAGES[name]), score=1 / rank)
                for rank, name in enumerate(names, 1)
            ]

    class Reranker(BaseNodePostprocessor):
        """The nodes without the first word of the question first."""

        def _postprocess_nodes(self, nodes: list[Any], query_bundle: Any = None) -> list[Any]:
            word = query_bundle.query_str.split()[0]
            return sorted(nodes, key=lambda node: word in node.node.text)

    def engine(retriever: Any, *postprocessors: Any) -> Any:
        return RetrieverQueryEngine.from_args(
            retriever, llm=MockLLM(), node_postprocessors=list(postprocessors)
        )

    def fusion(*, use_async: bool = False) -> Any:
        return QueryFusionRetriever(
            [Word(), Word(1)], llm=MockLLM(), num_queries=1, use_async=use_async, similarity_top_k=4
        )

    return SimpleNamespace(
        Word=Word, Reranker=Reranker, Cutoff=SimilarityPostprocessor, engine=engine, fusion=fusion
    )


@pytest.fixture(scope="module")
def haystack() -> SimpleNamespace:
    pytest.importorskip("haystack")
    from haystack import Document, Pipeline, component
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.rankers import MetaFieldRanker
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    @component
    class Word:
        @component.output_types(documents=list[Document])
        def run(self, query: str, at: int = 0) -> dict[str, Any]:
            names = _names(query.split()[at])
            return {
                "documents": [
                    Document(id=name, content=PASSAGES[name], meta={"name": name}, score=1 / rank)
                    for rank, name in enumerate(names, 1)
                ]
            }

    def pipeline(**components: Any) -> Any:
        """Return a pipeline in which each component gives its documents to the next, but two searches to a joiner."""
        made = Pipeline()
        for name, each in components.items():
            made.add_component(name, each)
        if "joiner" in components:
            made.connect("first", "joiner")
        names = [name for name in components if name != "first" or "joiner" not in components]
        for sender, receiver in pairwise(names):
            made.connect(sender, receiver)
        return made

    def bm25(top_k: int = 4) -> Any:
        store = InMemoryDocumentStore()
        store.write_documents(
            [Document(id=name, content=text, meta={"name": name}) for name, text in PASSAGES.items()]
        )
        return InMemoryBM25Retriever(store, top_k=top_k)

    return SimpleNamespace(
        pipeline=pipeline,
        Word=Word,
        bm25=bm25,
        joiner=lambda: DocumentJoiner(sort_by_score=False),
        ranker=lambda: MetaFieldRanker("name", sort_order="descending"),
    )


@pytest.fixture
def ask(loop: BackgroundEventLoop) -> Callable[..., Ranking]:
    def ranking_of(retriever: object, question: str = "reset tablet", k: int = 2) -> Ranking:
        return loop.run(adapt_retriever(retriever, loop, Registry().adapters).retrieve(question, k))

    return ranking_of


def _stages(ranking: Ranking) -> Mapping[str, str] | None:
    if ranking.stages is None:
        return None
    return {stage.query: "".join(str(document.id) for document in stage) for stage in ranking.stages}


def test_the_stages_of_langchain(langchain: SimpleNamespace, ask: Callable[..., Ranking]) -> None:
    hybrid = langchain.ensemble(langchain.Word(), langchain.Word(at=1, name="last word"))
    searches = {"Word": "ab", "last word": "bc", "EnsembleRetriever": "bac"}
    assert _stages(ask(hybrid)) == searches
    reranked = langchain.compression(hybrid, langchain.Reverse())
    assert _stages(ask(reranked)) == {**searches, "Reverse": "cab"}
    assert ask(reranked).ids == ("c", "a")
    compressed = langchain.compression(langchain.Word(), langchain.Reverse(), langchain.Shorten())
    assert _stages(ask(compressed)) == {"Word": "ab", "Reverse": "ba", "Shorten": "b"}
    nested = langchain.ensemble(compressed, langchain.Word(at=1), kind=langchain.Merger)
    assert _stages(ask(nested)) == {
        "Word": "ab", "Reverse": "ba", "Shorten": "b", "Word #2": "bc", "MergerRetriever": "bc",
    }  # fmt: skip
    # It has no parts that work on what it found.
    assert _stages(ask(langchain.Word())) is None


def test_a_part_that_is_not_called_is_no_stage(langchain, ask):
    compressed = langchain.compression(langchain.Word(), langchain.Reverse())
    assert _stages(ask(compressed, "unknown word")) == {"Word": ""}
    ranking = ask(langchain.Closed(retrievers=[langchain.Word(), langchain.Word()]))
    assert ([document.text for document in ranking], ranking.stages) == (["reset tablet"], None)


@pytest.mark.parametrize("use_async", [False, True])
def test_the_stages_of_llama_index(llama_index, ask, *, use_async):
    fusion = llama_index.fusion(use_async=use_async)
    searches = {"Word": "ab", "Word #2": "bc", "QueryFusionRetriever": "abc"}
    assert _stages(ask(fusion)) == searches
    reranker, cutoff = llama_index.Reranker(), llama_index.Cutoff(similarity_cutoff=0.7)
    engine = llama_index.engine(fusion, reranker, cutoff)
    assert _stages(ask(engine)) == {**searches, "Reranker": "cab", "SimilarityPostprocessor": "ab"}
    assert ask(engine, k=1).ids == ("a",)
    assert ask(llama_index.engine(llama_index.Word())).stages is None


def test_the_stages_of_haystack(haystack: SimpleNamespace, ask: Callable[..., Ranking]) -> None:
    hybrid = haystack.pipeline(
        first=haystack.Word(), bm25=haystack.bm25(), joiner=haystack.joiner(), ranker=haystack.ranker()
    )
    ranking = ask(hybrid)
    assert _stages(ranking) == {"bm25": "bac", "first": "ab", "joiner": "bac", "ranker": "cb"}
    assert ranking.ids == ("c", "b")
    assert ask(haystack.pipeline(bm25=haystack.bm25())).stages is None


def test_questions_at_the_same_time_are_not_mixed(langchain, loop):
    hybrid = langchain.ensemble(langchain.Word(), langchain.Word(at=1, name="last word"))
    before = dict(vars(hybrid))
    retriever = adapt_retriever(hybrid, loop, Registry().adapters)

    async def ask_all() -> list[Ranking]:
        return await asyncio.gather(*(retriever.retrieve(text, 2) for text in PASSAGES.values()))

    for text, ranking in zip(PASSAGES.values(), loop.run(ask_all()), strict=True):
        first, last = ("".join(_names(word)) for word in text.split())
        stages = _stages(ranking)
        assert (stages["Word"], stages["last word"]) == (first, last)
    assert vars(hybrid) == before


def test_the_search_is_that_of_the_built_in_adapter(llama_index: SimpleNamespace) -> None:
    """It can be sent to the processes of an executor, and other plugins have the first word."""
    engine = llama_index.engine(llama_index.fusion(), llama_index.Reranker())
    adapters = Registry().adapters
    description = search_of(engine, adapters, "").description
    assert description == search_of(engine, ADAPTERS, "").description
    assert description == "RetrieverQueryEngine, a class of LlamaIndex, by its method retrieve"
    pickled = pickle.dumps([each for each in adapters if each not in ADAPTERS])
    [(recognises, adapt)] = pickle.loads(pickled)  # noqa: S301 - pickled here
    assert recognises(engine)
    assert len(adapt(engine)("reset tablet", 2).stages) == 4

    registry = Registry()
    registry.add_retriever_adapter(lambda _: True, lambda _: lambda _query, _k: ["theirs"])
    assert search_of(engine, registry.adapters, "")("reset tablet", 2) == ["theirs"]
