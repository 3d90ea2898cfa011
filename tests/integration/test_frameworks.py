"""Retrievers of LangChain, LlamaIndex and Haystack, as they are: one and the same test for all of them."""

from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.slow

TEST = """
@pytest.mark.rageval_threshold("recall@2", min=1.0)
@pytest.mark.rageval_threshold("mrr@3", min=1.0)
def test_gate(rageval):
    ranking = rageval.retrieve("What is the code of item-3?", k=6)
    assert len(ranking) == 6
    assert ranking.ids[0] == "doc-3"
    assert ranking[0].text == "Of all things, item-3 has the code c3x."
    assert ranking[0].metadata["shelf"] == 3
    assert (ranking[0].score is not None) == scored
"""

CORPUS = '''
import pytest

CORPUS = {f"doc-{n}": (f"Of all things, item-{n} has the code c{n}x.", {"shelf": n}) for n in range(1, 21)}

def embed(text):
    """By the number of the item, so that the nearest is the right one and no two are equally near."""
    n = int(text.split("item-")[1].split()[0].rstrip("?"))
    return [1.0, n / 10, n * n / 100]

@pytest.fixture(scope="session")
def rageval_retriever():
    return make()
'''

LANGCHAIN = """
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

DOCUMENTS = [Document(id=name, page_content=text, metadata=meta) for name, (text, meta) in CORPUS.items()]

class ByNumber(Embeddings):
    def embed_documents(self, texts):
        return [embed(text) for text in texts]
    def embed_query(self, text):
        return embed(text)

def ranked(query):
    return sorted(DOCUMENTS, key=lambda document: document.page_content[17:25].split()[0] not in query)

class Own(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return ranked(query)

class OwnWithK(BaseRetriever):
    k: int = 2
    def _get_relevant_documents(self, query):
        return ranked(query)[: self.k]

class OwnAsync(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        raise NotImplementedError("asynchronous alone")
    async def _aget_relevant_documents(self, query, *, run_manager):
        return ranked(query)

def store():
    return InMemoryVectorStore.from_documents(DOCUMENTS, ByNumber())
"""

LLAMA_INDEX = """
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import Document, NodeWithScore, TextNode

class ByNumber(BaseEmbedding):
    def _get_text_embedding(self, text):
        return embed(text)
    def _get_query_embedding(self, query):
        return embed(query)
    async def _aget_query_embedding(self, query):
        return embed(query)

def index():
    nodes = [TextNode(id_=name, text=text, metadata=meta) for name, (text, meta) in CORPUS.items()]
    return VectorStoreIndex(nodes, embed_model=ByNumber())

def ranked(query):
    order = sorted(CORPUS, key=lambda name: CORPUS[name][0][15:25].split()[0] not in query)
    nodes = [Document(id_=name, text=CORPUS[name][0], metadata=CORPUS[name][1]) for name in order]
    return [NodeWithScore(node=node, score=1 / rank) for rank, node in enumerate(nodes, 1)]

class Own(BaseRetriever):
    def _retrieve(self, query_bundle):
        return ranked(query_bundle.query_str)

class OwnAsync(BaseRetriever):
    def _retrieve(self, query_bundle):
        raise NotImplementedError("asynchronous alone")
    async def _aretrieve(self, query_bundle):
        return ranked(query_bundle.query_str)
"""

HAYSTACK = """
from haystack import Document, Pipeline, SuperComponent, component
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

@component
class ByNumber:
    @component.output_types(embedding=list[float])
    def run(self, text: str):
        return {"embedding": embed(text)}

def store():
    found = InMemoryDocumentStore(embedding_similarity_function="cosine")
    found.write_documents(
        [Document(id=name, content=text, meta=meta, embedding=embed(text)) for name, (text, meta) in CORPUS.items()]
    )
    return found

def dense():
    pipeline = Pipeline()
    pipeline.add_component("embedder", ByNumber())
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store(), top_k=2))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    return pipeline

def hybrid():
    pipeline = dense()
    pipeline.add_component("bm25", InMemoryBM25Retriever(store()))
    pipeline.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion"))
    pipeline.connect("bm25", "joiner")
    pipeline.connect("retriever", "joiner")
    return pipeline
"""


@pytest.fixture(scope="module", autouse=True)
def _imported() -> Iterator[None]:
    """Import the frameworks once for all tests here, and let none of them report what it is used for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
        patch.setenv("LANGSMITH_TRACING", "false")
        # Each name itself: some of these modules load theirs when they are first asked for.
        from haystack import Pipeline, SuperComponent, component  # noqa: F401
        from haystack.components.joiners import DocumentJoiner  # noqa: F401
        from haystack.components.retrievers.in_memory import (  # noqa: F401
            InMemoryBM25Retriever,
            InMemoryEmbeddingRetriever,
        )
        from langchain_core.retrievers import BaseRetriever  # noqa: F401
        from langchain_core.runnables import RunnableLambda  # noqa: F401
        from langchain_core.vectorstores import InMemoryVectorStore  # noqa: F401
        from llama_index.core import VectorStoreIndex  # noqa: F401

        yield


@pytest.mark.parametrize(
    ("framework", "made", "scored"),
    [
        (LANGCHAIN, "store().as_retriever()", False),
        (
            LANGCHAIN,
            "store().as_retriever(search_type='mmr', search_kwargs={'k': 1, 'lambda_mult': 1.0})",
            False,
        ),
        (LANGCHAIN, "store()", True),
        (LANGCHAIN, "Own()", False),
        (LANGCHAIN, "OwnWithK()", False),
        (LANGCHAIN, "OwnAsync()", False),
        (LANGCHAIN, "store().as_retriever(search_kwargs={'k': 6}).ainvoke", False),
        (LANGCHAIN, "RunnableLambda(str) | store().as_retriever(search_kwargs={'k': 6})", False),
        (LLAMA_INDEX, "index().as_retriever()", True),
        (LLAMA_INDEX, "Own()", True),
        (LLAMA_INDEX, "OwnAsync()", True),
        (HAYSTACK, "InMemoryBM25Retriever(store())", True),
        (HAYSTACK, "dense()", True),
        (HAYSTACK, "hybrid()", True),
        (HAYSTACK, "SuperComponent(pipeline=dense())", True),
    ],
)
def test_a_retriever_of_a_framework_goes_in_unmodified(project, framework, made, scored):
    """It finds what it finds for k documents; ids, texts, metadata and scores are where the framework keeps them."""
    project.pytester.makeconftest(f"{CORPUS}{framework}\ndef make():\n    return {made}\n")
    project.test(f"scored = {scored}\n{TEST}")
    project.run().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            "InMemoryEmbeddingRetriever(store())",
            "rageval_retriever is InMemoryEmbeddingRetriever, whose run wants query_embedding, an embedding, *",
        ),
        (
            "two()",
            "rageval_retriever is a Pipeline that has 2 open outputs named documents, *: a.documents, b.documents.",
        ),
    ],
)
def test_what_cannot_be_asked_by_a_text_is_an_error_with_a_remedy(project, made, said):
    """An embedding retriever alone, and a pipeline that gives documents twice."""
    two = """
def two():
    pipeline = Pipeline()
    pipeline.add_component("a", InMemoryBM25Retriever(store()))
    pipeline.add_component("b", InMemoryBM25Retriever(store()))
    return pipeline
"""
    project.pytester.makeconftest(f"{CORPUS}{HAYSTACK}{two}\ndef make():\n    return {made}\n")
    project.test(f"scored = True\n{TEST}")
    result = project.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])
    result.stdout.no_fnmatch_line("*Traceback*")
