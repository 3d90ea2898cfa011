"""Refuses objects that a retriever is made of: the client or the index of a store, a language model, a tool.

They have methods such as `retrieve` and `search`, but a question alone is not what these expect. The error shows the
line that makes a retriever of the object.
"""

from collections.abc import Mapping
from typing import Final, NoReturn

from pytest_rageval.core.errors import CallableError
from pytest_rageval.lib.foreign_values import modules_of

FUNCTION: Final = "lambda query, k: "
SQL: Final = f"{FUNCTION}connection.execute(sql, (embed(query), k))"
SQL_CURSOR: Final = "a function (query, k) that executes a query and returns the cursor"

LINES: Final[Mapping[str, str]] = {
    "bm25s": f"{FUNCTION}index.retrieve(bm25s.tokenize(query), corpus=passages, k=k)",
    "chromadb": f"{FUNCTION}collection.query(query_texts=[query], n_results=k)",
    "duckdb": SQL,
    "_duckdb": SQL,
    "elasticsearch": f'{FUNCTION}client.search(index="passages", query={{"match": {{"text": query}}}}, size=k)',
    "faiss": (
        f"{FUNCTION}[passages[row] for row in index.search(np.array([embed(query)]), k)[1][0] if row >= 0]"
    ),
    "haystack.document_stores": "a retriever component over it, such as InMemoryBM25Retriever(store)",
    "haystack_integrations.document_stores": "a retriever component over it",
    "lancedb": f"{FUNCTION}table.search(embed(query)).limit(k)",
    "langchain_core.language_models": "the retriever that the model answers from",
    "langchain_core.tools": "the retriever that the tool calls",
    "llama_index.core.storage": "the retriever of an index: index.as_retriever()",
    "llama_index.core.tools": "the retriever that the tool calls",
    "llama_index.core.vector_stores": (
        "the retriever of an index: VectorStoreIndex.from_vector_store(store).as_retriever()"
    ),
    "opensearchpy": (
        f'{FUNCTION}client.search(index="passages", body={{"query": {{"match": {{"text": query}}}}, "size": k}})'
    ),
    "pinecone": f"{FUNCTION}index.query(vector=embed(query), top_k=k, include_metadata=True)",
    "psycopg": SQL,
    "pydantic_ai": "the function of its search tool",
    "pymilvus": f'{FUNCTION}client.search("passages", data=[embed(query)], limit=k, output_fields=["text"])',
    "qdrant_client": f'{FUNCTION}client.query_points("passages", query=embed(query), limit=k)',
    "sqlite3": SQL,
    "sqlalchemy": SQL_CURSOR,
    "psycopg2": SQL_CURSOR,
    "tantivy": (
        f"{FUNCTION}[searcher.doc(hit) for _, hit in "
        'searcher.search(index.parse_query_lenient(query, ["text"])[0], k).hits]'
    ),
    "weaviate": f"{FUNCTION}collection.query.near_text(query, limit=k)",
}  # fmt: skip
"""What the fixture returns in place of an object of a class, by the module of the class or of one of its bases."""


def is_store(value: object) -> bool:
    """Whether an object is of one of the classes in `LINES`."""
    return _line(value) is not None


def refuse(value: object) -> NoReturn:
    """Raise CallableError with the line that makes a retriever of the object."""
    kind = type(value)
    line = _line(value) or "its retriever: index.as_retriever()"
    raise CallableError(
        f"The retriever is {kind.__name__} of {kind.__module__.partition('.')[0].lstrip('_')}, which is not searched "
        f"with a question alone.\nReturn from the fixture {line}"
    )


def _line(value: object) -> str | None:
    for module in modules_of(value):
        package = module
        while package:
            if package in LINES:
                return LINES[package]
            package = package.rpartition(".")[0]
    return None
