"""Real clients, indexes and frameworks: what they return is read, and what is no retriever is refused."""

import threading
from typing import Any

import numpy as np
import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.retrievers import adapt_retriever

pytestmark = pytest.mark.slow

TEXTS = {
    "kb-1": "refunds take five working days",
    "kb-2": "passwords are reset on the sign in page",
    "kb-3": "parcels to norway take four days",
}
WORDS = sorted({word for text in TEXTS.values() for word in text.split()})
QUESTION = "how long do refunds take"


def _embed(text: str) -> list[float]:
    return [0.01 + text.split().count(word) for word in WORDS]


def _retrieve(loop: BackgroundEventLoop, retriever: object, **keywords: Any) -> Ranking:
    return loop.run(adapt_retriever(retriever, loop, **keywords).retrieve(QUESTION, 2))


def _refusal(loop: BackgroundEventLoop, retriever: object) -> str:
    with pytest.raises(CallableError) as caught:
        adapt_retriever(retriever, loop)
    return str(caught.value)


def _check(ranking: Ranking, *, ids: bool = True) -> None:
    assert [document.text for document in ranking] == [TEXTS["kb-1"], TEXTS["kb-3"]]
    assert not ids or ranking.ids == ("kb-1", "kb-3")


def test_qdrant(loop: BackgroundEventLoop) -> None:
    """A response of Qdrant is read; its client has a method `retrieve`, which expects other arguments."""
    qdrant = pytest.importorskip("qdrant_client")
    client, models = qdrant.QdrantClient(":memory:"), qdrant.models
    client.create_collection(
        "passages", vectors_config=models.VectorParams(size=len(WORDS), distance=models.Distance.COSINE)
    )
    points = [
        models.PointStruct(id=number, vector=_embed(text), payload={"doc_id": name, "text": text})
        for number, (name, text) in enumerate(TEXTS.items())
    ]
    client.upsert("passages", points)

    def search(query: str, k: int) -> Any:
        return client.query_points("passages", query=_embed(query), limit=k)

    _check(_retrieve(loop, search, id_path="payload.doc_id"))
    ranking = _retrieve(loop, search)
    _check(ranking, ids=False)
    assert ranking.ids == ("0", "2")
    assert ranking[0].metadata == {"doc_id": "kb-1"}
    assert [document.score for document in ranking] == [point.score for point in search(QUESTION, 2).points]
    _check(_retrieve(loop, lambda query, k: search(query, k).points, id_path="payload.doc_id"))
    assert "client.query_points(" in _refusal(loop, client)


def test_bm25s(loop: BackgroundEventLoop) -> None:
    """A result of bm25s is read if it has a corpus, and is an error of positions if it has none."""
    bm25s = pytest.importorskip("bm25s")
    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(TEXTS.values()), show_progress=False), show_progress=False)
    corpus = [{"id": name, "text": text} for name, text in TEXTS.items()]

    def search(query: str, k: int = 2, **keywords: Any) -> Any:
        tokens = bm25s.tokenize(query, show_progress=False)
        return index.retrieve(tokens, k=k, show_progress=False, **keywords)

    _check(_retrieve(loop, lambda query, k: search(query, k, corpus=corpus)))
    _check(_retrieve(loop, lambda query, k: search(query, k, corpus=corpus, return_as="documents")))
    _check(_retrieve(loop, lambda query, k: search(query, k, corpus=list(TEXTS.values()))), ids=False)
    with pytest.raises(CallableError, match=r"numbers as documents for .*\n.*If these are positions"):
        _retrieve(loop, search)
    assert "index.retrieve(bm25s.tokenize(query)" in _refusal(loop, index)


def test_chroma(loop: BackgroundEventLoop) -> None:
    chromadb = pytest.importorskip("chromadb")
    client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
    collection = client.create_collection("passages", embedding_function=None)
    collection.add(
        ids=list(TEXTS),
        documents=list(TEXTS.values()),
        embeddings=[_embed(text) for text in TEXTS.values()],
        metadatas=[{"source": f"{name}.md"} for name in TEXTS],
    )

    def search(query: str, k: int, **keywords: Any) -> Any:
        return collection.query(query_embeddings=[_embed(query)], n_results=k, **keywords)

    ranking = _retrieve(loop, search)
    _check(ranking)
    assert ranking[0].metadata == {"source": "kb-1.md"}
    assert ranking[0].score is not None
    assert _retrieve(loop, lambda query, k: search(query, k, include=[])).ids == ("kb-1", "kb-3")
    assert "collection.query(" in _refusal(loop, collection)


def test_lancedb(loop: BackgroundEventLoop, tmp_path: Any) -> None:
    lancedb = pytest.importorskip("lancedb")
    rows = [{"id": name, "text": text, "vector": _embed(text)} for name, text in TEXTS.items()]
    table = lancedb.connect(tmp_path).create_table("passages", rows)

    def query(text: str, k: int) -> Any:
        return table.search(_embed(text)).limit(k)

    for read in ("to_list", "to_arrow", "to_pandas", "to_polars"):
        ranking = _retrieve(loop, lambda text, k, read=read: getattr(query(text, k), read)())
        _check(ranking)
        assert ranking[0].score is not None
    _check(_retrieve(loop, query))
    assert "table.search(" in _refusal(loop, table)


def test_milvus(loop: BackgroundEventLoop, tmp_path: Any) -> None:
    """A result of Milvus is read: it has the text in a part called entity."""
    pymilvus = pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    client = pymilvus.MilvusClient(str(tmp_path / "milvus.db"))
    client.create_collection("passages", dimension=len(WORDS))
    rows = [
        {"id": number, "vector": _embed(text), "doc_id": name, "text": text}
        for number, (name, text) in enumerate(TEXTS.items())
    ]
    client.insert("passages", rows)

    def search(query: str, k: int) -> Any:
        return client.search("passages", data=[_embed(query)], limit=k, output_fields=["doc_id", "text"])

    _check(_retrieve(loop, search, id_path="entity.doc_id"))
    assert _retrieve(loop, search).ids == ("0", "2")
    assert "client.search(" in _refusal(loop, client)
    client.close()


def test_faiss(loop: BackgroundEventLoop) -> None:
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatL2(len(WORDS))
    index.add(np.array([_embed(text) for text in TEXTS.values()], dtype="float32"))

    def search(query: str, k: int) -> Any:
        return index.search(np.array([_embed(query)], dtype="float32"), k)

    with pytest.raises(
        CallableError, match=r"tuple of 2 lists \(decimals and integers\).*\n.*\[corpus\[position\]"
    ):
        _retrieve(loop, search)
    passages = [{"id": name, "text": text} for name, text in TEXTS.items()]
    _check(_retrieve(loop, lambda query, k: [passages[row] for row in search(query, k)[1][0]]))
    assert "passages[row] for row in index.search(" in _refusal(loop, index)


def test_tantivy(loop: BackgroundEventLoop) -> None:
    tantivy = pytest.importorskip("tantivy")
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("doc_id", stored=True, tokenizer_name="raw")
    builder.add_text_field("text", stored=True)
    index = tantivy.Index(builder.build())
    writer = index.writer()
    for name, text in TEXTS.items():
        writer.add_document(tantivy.Document(doc_id=[name], text=[text]))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(query: str, k: int) -> list[Any]:
        hits = searcher.search(index.parse_query(query, ["text"]), k).hits
        return [searcher.doc(address) for _, address in hits]

    _check(_retrieve(loop, search))
    _check(_retrieve(loop, lambda query, k: [document.to_dict() for document in search(query, k)]))
    assert "searcher.search(" in _refusal(loop, searcher)


@pytest.mark.parametrize("package", ["sqlite3", "duckdb"])
def test_sql(loop: BackgroundEventLoop, package: str) -> None:
    database: Any = pytest.importorskip(package)
    connection = database.connect(":memory:")
    connection.execute("CREATE TABLE passages (id VARCHAR, text VARCHAR)")
    connection.executemany("INSERT INTO passages VALUES (?, ?)", list(TEXTS.items()))
    sql = "SELECT id, text FROM passages WHERE text LIKE '% take %' ORDER BY id LIMIT ?"
    _check(_retrieve(loop, lambda _query, k: connection.execute(sql, [k])))
    assert "connection.execute(" in _refusal(loop, connection)
    if package == "sqlite3":
        connection.row_factory = database.Row
        _check(_retrieve(loop, lambda _query, k: connection.execute(sql, [k]).fetchall()))
        connection.row_factory = None
    rows = connection.execute(sql, [2]).fetchall()
    with pytest.raises(CallableError, match="at rank 1, a document that has no text: tuple"):
        _retrieve(loop, lambda _query: rows)


def test_dspy(loop: BackgroundEventLoop) -> None:
    """A prediction of DSPy is read; a module is called with the question alone if its `forward` takes no k."""
    dspy = pytest.importorskip("dspy")
    encode = dspy.Embedder(lambda texts: np.array([_embed(text) for text in texts], dtype="float32"))
    search = dspy.Embeddings(corpus=list(TEXTS.values()), embedder=encode, k=2)

    class Module(dspy.Module):
        def forward(self, query: str) -> Any:
            return dspy.Prediction(passages=search(query).passages, reasoning="by words")

    class ModuleWithK(dspy.Module):
        def forward(self, question: str, k: int = 1) -> Any:
            found = ["kb-1", "kb-3"] if question == QUESTION else []
            return dspy.Prediction(context=[{"id": name, "text": TEXTS[name]} for name in found[:k]])

    _check(_retrieve(loop, search), ids=False)
    _check(_retrieve(loop, Module()), ids=False)
    _check(_retrieve(loop, ModuleWithK()))


def test_smolagents(loop: BackgroundEventLoop) -> None:
    smolagents = pytest.importorskip("smolagents")

    class Tool(smolagents.Tool):
        name, description, output_type = "search", "Searches the handbook.", "array"
        inputs = {"query": {"type": "string", "description": "the question"}}  # noqa: RUF012

        def forward(self, query: str) -> Any:
            return [{"id": name, "text": TEXTS[name]} for name in ("kb-1", "kb-3")] if query else ""

    class TextTool(Tool):
        output_type = "string"

        def forward(self, query: str) -> Any:
            return "\n".join(TEXTS.values()) if query else ""

    _check(_retrieve(loop, Tool()))
    with pytest.raises(CallableError, match=r"returned str for .*\n.*This is one text"):
        _retrieve(loop, TextTool())


def _llama_index() -> Any:
    from llama_index.core import Document, VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding

    class Words(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return _embed(text)

        def _get_query_embedding(self, query: str) -> list[float]:
            return _embed(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return _embed(query)

    documents = [Document(id_=name, text=text, metadata={"shelf": name}) for name, text in TEXTS.items()]
    return VectorStoreIndex.from_documents(documents, embed_model=Words())


def test_llama_index(loop: BackgroundEventLoop) -> None:
    from llama_index.core.llms import MockLLM
    from llama_index.core.tools import RetrieverTool

    index = _llama_index()
    retriever = index.as_retriever()
    ranking = _retrieve(loop, retriever)
    _check(ranking)
    assert all(document.chunk_id in ranking for document in ranking)
    _check(_retrieve(loop, index.as_query_engine(llm=MockLLM())))
    _check(_retrieve(loop, lambda query: index.as_query_engine(llm=MockLLM()).query(query)))
    _check(_retrieve(loop, retriever, id_path="metadata.shelf"))
    assert "its retriever: index.as_retriever()" in _refusal(loop, index)
    assert "VectorStoreIndex.from_vector_store(store)" in _refusal(loop, index.vector_store)
    assert "index.as_retriever()" in _refusal(loop, index.docstore)
    assert "the retriever that the tool calls" in _refusal(loop, RetrieverTool.from_defaults(retriever))


def test_langchain(loop: BackgroundEventLoop) -> None:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.tools import create_retriever_tool
    from langchain_core.vectorstores import InMemoryVectorStore

    class Words(Embeddings):
        def embed_query(self, text: str) -> list[float]:
            return _embed(text)

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return list(map(_embed, texts))

    documents = [Document(page_content=text, metadata={"source": name}) for name, text in TEXTS.items()]
    store = InMemoryVectorStore.from_documents(documents, Words())
    for retriever in (store, store.as_retriever()):
        _check(_retrieve(loop, retriever, id_path="metadata.source"))
        _check(_retrieve(loop, retriever), ids=False)
    tool = create_retriever_tool(store.as_retriever(), "search", "Searches the handbook.")
    assert "the retriever that the tool calls" in _refusal(loop, tool)
    assert "the retriever that the model answers from" in _refusal(loop, FakeListChatModel(responses=["yes"]))


def _async_chains() -> dict[str, Any]:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import (
        ConfigurableField,
        Runnable,
        RunnableBranch,
        RunnableGenerator,
        RunnableLambda,
        RunnableParallel,
        RunnablePassthrough,
    )

    class Own(BaseRetriever):
        language: str = "en"

        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [Document(id=name, page_content=TEXTS[name]) for name in ("kb-1", "kb-3") if query]

    async def rewrite(query: str) -> str:
        return query.upper()

    async def search(query: str) -> list[Document]:
        return await Own().ainvoke(query)

    async def stream(parts: Any) -> Any:
        async for part in parts:
            yield part

    first: Runnable[Any, Any] = RunnableLambda(rewrite)
    by_name: Runnable[Any, Any] = RunnableParallel(found=first | Own())
    field = ConfigurableField(id="language")
    return {
        "alone": RunnableLambda(search),
        "first step": first | Own(),
        "middle step": RunnableLambda(str) | first | Own(),
        "last step": RunnableLambda(str) | search,
        "generator": RunnableGenerator(stream) | Own(),
        "parallel": by_name | (lambda found: found["found"]),
        "assign": RunnableLambda(lambda query: {"query": query})
        | RunnablePassthrough.assign(found=RunnableLambda(lambda given: given["query"]) | first | Own())
        | (lambda found: found["found"]),
        "branch": RunnableBranch((bool, first | Own()), Own()),
        "retry": (first | Own()).with_retry(),
        "fallbacks": (first | Own()).with_fallbacks([RunnableLambda(search)]),
        "config": (first | Own()).with_config(tags=["a"]),
        "configurable": first | Own().configurable_fields(language=field),
    }


def test_a_chain_of_langchain_with_an_async_function(loop: BackgroundEventLoop) -> None:
    """`invoke` of such a chain raises TypeError: only `ainvoke` can call it."""
    failed = {}
    for name, chain in _async_chains().items():
        with pytest.raises((TypeError, NotImplementedError)):
            chain.invoke(QUESTION)
        try:
            _check(_retrieve(loop, chain))
        except Exception as error:  # noqa: BLE001 - all chains are listed that fail
            failed[name] = error
    assert not failed


def test_a_sync_chain_of_langchain_stays_in_its_thread(loop: BackgroundEventLoop) -> None:
    """`ainvoke` would call a sync function in a thread of LangChain's executor."""
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    threads = []

    def search(_: str) -> list[Document]:
        threads.append(threading.current_thread().name)
        return [Document(id=name, page_content=TEXTS[name]) for name in ("kb-1", "kb-3")]

    async def asearch(query: str) -> list[Document]:
        return search(query)

    chains: list[Any] = [RunnableLambda(search), RunnablePassthrough() | RunnableLambda(search, asearch)]
    for chain in chains:
        _check(_retrieve(loop, chain))
    direct = adapt_retriever(
        lambda query, k: search(query)[:k], loop
    )  # in whatever thread a function is called
    _check(loop.run(direct.retrieve(QUESTION, 2)))
    assert len(set(threads)) == 1


def test_haystack(loop: BackgroundEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    from haystack import Document, component
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    @component
    class Own:
        @component.output_types(documents=list[Document])
        def run(self, query: str, top_k: int = 3) -> Any:
            return InMemoryBM25Retriever(store).run(query=query, top_k=top_k)

    store = InMemoryDocumentStore()
    store.write_documents([Document(id=name, content=text) for name, text in TEXTS.items()])
    _check(_retrieve(loop, InMemoryBM25Retriever(store)))
    own = Own()
    _check(_retrieve(loop, own))
    assert adapt_retriever(own, loop).description == "Own, a class of Haystack, by its method run"
    assert "InMemoryBM25Retriever(store)" in _refusal(loop, store)
