"""Unmodified retrievers of LangChain, LlamaIndex and Haystack: all pass the same test."""

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

class OwnWithContext(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager, filters=None, history=()):
        assert len(history) == 2
        return [each for each in ranked(query) if not filters or each.metadata["shelf"] in filters["shelf"]]

class OwnAsyncWithContext(OwnWithContext):
    async def _aget_relevant_documents(self, query, *, run_manager, filters=None, history=()):
        return self._get_relevant_documents(query, run_manager=None, filters=filters, history=history)

class FilteringStore(InMemoryVectorStore):
    # Takes `filter` as a dict, as most stores do.

    def similarity_search_with_score(self, query, k=4, filter=None, **kwargs):
        def holds(document):
            return not filter or document.metadata["shelf"] in filter["shelf"]
        return super().similarity_search_with_score(query, k=k, filter=holds, **kwargs)
    def similarity_search(self, query, k=4, filter=None, **kwargs):
        return [document for document, _ in self.similarity_search_with_score(query, k=k, filter=filter)]

def store(kind=InMemoryVectorStore):
    return kind.from_documents(DOCUMENTS, ByNumber())

def configurable():
    from langchain_core.runnables import ConfigurableField
    retriever = store(FilteringStore).as_retriever(search_kwargs={"k": 4})
    return retriever.configurable_fields(search_kwargs=ConfigurableField(id="search_kwargs"))
"""

LLAMA_INDEX = """
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
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

def filtered(**words):
    from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
    own = MetadataFilters(filters=[MetadataFilter(key="shelf", value=10, operator=">")])
    return index().as_retriever(filters=own, **words)

class AsyncFiltered(BaseRetriever):
    # Wraps a retriever that has filters.

    def __init__(self):
        self._filters, self.similarity_top_k = None, 4
        super().__init__()
    def _retrieve(self, query_bundle):
        raise NotImplementedError("asynchronous alone")
    async def _aretrieve(self, query_bundle):
        inner = index().as_retriever(filters=self._filters, similarity_top_k=self.similarity_top_k)
        return await inner.aretrieve(query_bundle)

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

class ReadsQuery(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes, query_bundle=None):
        return sorted(nodes, key=lambda node: node.text[15:25].split()[0] not in query_bundle.query_str)

def engine():
    postprocessors = [ReadsQuery()]
    return index().as_query_engine(similarity_top_k=6, llm=MockLLM(), node_postprocessors=postprocessors)
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

@component
class InContext:
    @component.output_types(documents=list[Document])
    def run(self, query: str, history: list, metadata: dict, filters: dict | None = None, top_k: int = 3):
        assert [message["content"] for message in history] == ["Hello", "Hello!"]
        assert metadata == {"lang": "en"}
        return InMemoryBM25Retriever(store()).run(query=query, filters=filters, top_k=top_k)

def alone():
    pipeline = Pipeline()
    pipeline.add_component("retriever", InContext())
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
    """Import the frameworks once for all tests of this module, with telemetry disabled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
        patch.setenv("LANGSMITH_TRACING", "false")
        # Import each name itself, because some of these modules load their names on first access.
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
    ("framework", "expression", "scored"),
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
        (LLAMA_INDEX, "engine()", True),
        (HAYSTACK, "InMemoryBM25Retriever(store())", True),
        (HAYSTACK, "dense()", True),
        (HAYSTACK, "hybrid()", True),
        (HAYSTACK, "SuperComponent(pipeline=dense())", True),
    ],
)
def test_a_retriever_of_a_framework_works_unmodified(project, framework, expression, scored):
    project.pytester.makeconftest(f"{CORPUS}{framework}\ndef make():\n    return {expression}\n")
    project.test(f"scored = {scored}\n{TEST}")
    project.run(passed=1)


FILTERED = """
@pytest.mark.rageval_threshold("recall@2", min=1.0)
def test_gate(rageval):
    example = rageval.examples[0]
    assert {document.metadata["shelf"] for document in rageval.retrieve(example, k=4)} == shelves
"""
IN = {"shelf": [3, 12, 15]}
HAYSTACK_IN = {"field": "meta.shelf", "operator": "in", "value": [3, 12, 15]}
LLAMA_IN = {"filters": [{"key": "shelf", "value": [3, 12, 15], "operator": "in"}]}
HISTORY = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]


@pytest.mark.parametrize(
    ("framework", "expression", "filters", "shelves"),
    [
        (LANGCHAIN, "store(FilteringStore).as_retriever(search_kwargs={'k': 1})", IN, {3, 12, 15}),
        (LANGCHAIN, "store(FilteringStore)", IN, {3, 12, 15}),
        (LANGCHAIN, "configurable()", IN, {3, 12, 15}),
        (LANGCHAIN, "OwnWithContext()", IN, {3, 12, 15}),
        (LANGCHAIN, "OwnAsyncWithContext()", IN, {3, 12, 15}),
        (LLAMA_INDEX, "index().as_retriever()", LLAMA_IN, {3, 12, 15}),
        (LLAMA_INDEX, "index().as_retriever(similarity_top_k=8)", {"shelf": 12}, {12}),
        (LLAMA_INDEX, "filtered()", LLAMA_IN, {12, 15}),
        (LLAMA_INDEX, "AsyncFiltered()", LLAMA_IN, {3, 12, 15}),
        (HAYSTACK, "InMemoryBM25Retriever(store())", HAYSTACK_IN, {3, 12, 15}),
        (HAYSTACK, "InContext()", HAYSTACK_IN, {3, 12, 15}),
        (HAYSTACK, "alone()", HAYSTACK_IN, {3, 12, 15}),
        (HAYSTACK, "dense()", HAYSTACK_IN, {3, 12, 15}),
        (HAYSTACK, "hybrid()", HAYSTACK_IN, {3, 12, 15}),
        (HAYSTACK, "SuperComponent(pipeline=dense())", HAYSTACK_IN, {3, 12, 15}),
    ],
)
def test_filters_reach_the_retriever_of_a_framework(project, framework, expression, filters, shelves):
    context = {"filters": filters, "history": HISTORY, "metadata": {"lang": "en"}}
    project.evalset(1, gold=[{"id": "doc-12"}], question="What of item-12?", **context)
    project.pytester.makeconftest(f"{CORPUS}{framework}\ndef make():\n    return {expression}\n")
    project.test(f"shelves = {shelves}\n{FILTERED}")
    project.run(passed=1)


@pytest.mark.parametrize(
    ("framework", "expression"),
    [
        (LANGCHAIN, "RunnableLambda(str) | store().as_retriever()"),
        (LANGCHAIN, "Own()"),
        (LLAMA_INDEX, "Own()"),
    ],
)
def test_filters_that_a_framework_would_drop_are_an_error(project, framework, expression):
    """If a retriever would ignore filters, as LangChain drops unknown arguments, the test is an error."""
    project.evalset(1, filters=IN)
    project.pytester.makeconftest(f"{CORPUS}{framework}\ndef make():\n    return {expression}\n")
    project.gate("recall@2 min=0.0")
    project.run(errors=1, shows="*The eval set has filters, and rageval_retriever does not take them*")


@pytest.mark.parametrize(
    ("framework", "expression"),
    [
        (LANGCHAIN, "store().as_retriever(search_kwargs={'k': 4})"),
        (LLAMA_INDEX, "index().as_retriever(similarity_top_k=4)"),
        (HAYSTACK, "InMemoryBM25Retriever(store(), top_k=4)"),
        (HAYSTACK, "hybrid_of_4()"),
    ],
)
def test_a_retriever_as_it_ships_keeps_its_own_k(project, framework, expression):
    own = "\ndef hybrid_of_4():\n    found = hybrid()\n    found.get_component('joiner').top_k = 4\n    return found\n"
    project.pytester.makeconftest(f"{CORPUS}{framework}{own}\ndef make():\n    return {expression}\n")
    project.test(
        "@pytest.mark.rageval_threshold('recall@2', min=0.0)\n"
        "@pytest.mark.rageval_threshold('recall@5', min=0.0)\n"
        "def test_gate(rageval):\n    assert rageval.retrieve('item-3 ?', k=2).surplus == 2\n"
    )
    project.run(
        "-v",
        passed=1,
        shows=[
            "*recall@2: 4 rankings cut at @k: the retriever's own k is larger, and was kept",
            "*recall@5: 4 rankings asked for @k: the retriever's own k is smaller, and was replaced",
        ],
    )


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "InMemoryEmbeddingRetriever(store())",
            "rageval_retriever is InMemoryEmbeddingRetriever, whose run requires query_embedding, an embedding; *",
        ),
        (
            "two()",
            "rageval_retriever is a Pipeline that has 2 open outputs named documents, *: a.documents, b.documents.",
        ),
    ],
)
def test_what_cannot_be_asked_by_a_text_is_an_error_with_a_remedy(project, expression, message):
    two = """
def two():
    pipeline = Pipeline()
    pipeline.add_component("a", InMemoryBM25Retriever(store()))
    pipeline.add_component("b", InMemoryBM25Retriever(store()))
    return pipeline
"""
    project.pytester.makeconftest(f"{CORPUS}{HAYSTACK}{two}\ndef make():\n    return {expression}\n")
    project.test(f"scored = True\n{TEST}")
    result = project.run(errors=1, shows=message)
    result.stdout.no_fnmatch_line("*Traceback*")
