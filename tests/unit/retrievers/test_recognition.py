"""Which objects are recognised as a retriever: by the module of the class or of its bases, then by a method.

The classes are named as those of the packages; test_real_stores.py has the packages themselves.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.retrievers.adapters import ADAPTERS
from pytest_rageval.retrievers.adapters.frameworks import LINES


def _class(module: str, name: str, *bases: type, **methods: Any) -> type:
    return type(name, bases, {"__module__": module, **methods})


def _texts(loop: BackgroundEventLoop, retriever: object, k: int = 3) -> list[str]:
    return [document.text for document in loop.run(adapt_retriever(retriever, loop).retrieve("q", k))]


def _retrieve_by_id(self: object, collection_name: str, ids: list[int], limit: int = 10) -> list[str]:
    return [f"{self} {collection_name} {ids} {limit}"]


def _retrieve_by_tokens(
    self: object, query_tokens: list[str], corpus: object = None, k: int = 10
) -> list[str]:
    return [f"{self} {query_tokens} {corpus} {k}"]


@pytest.mark.parametrize(
    ("store", "start", "line"),
    [
        (
            _class("qdrant_client.qdrant_client", "QdrantClient", retrieve=_retrieve_by_id),
            "The retriever is QdrantClient of qdrant_client, which is not searched with a question alone.",
            'lambda query, k: client.query_points("passages", query=embed(query), limit=k)',
        ),
        (
            _class("bm25s", "BM25", retrieve=_retrieve_by_tokens),
            "The retriever is BM25 of bm25s, ",
            "lambda query, k: index.retrieve(bm25s.tokenize(query), corpus=passages, k=k)",
        ),
        (
            _class("my_app", "Client", _class("qdrant_client.client", "QdrantClient", retrieve=_retrieve_by_id)),
            "The retriever is Client of my_app, ",
            "client.query_points(",
        ),
        (_class("chromadb.api.models", "Collection"), "The retriever is Collection of chromadb, ", "n_results=k"),
        (
            _class("pydantic_ai.agent", "Agent", run=print),
            "The retriever is Agent of pydantic_ai, ",
            "the function of its search tool",
        ),
        (_class("_duckdb", "Connection"), "The retriever is Connection of duckdb, ", "connection.execute("),
        (
            _class("haystack.document_stores.in_memory.document_store", "InMemoryDocumentStore"),
            "The retriever is InMemoryDocumentStore of haystack, ",
            "a retriever component over it, such as InMemoryBM25Retriever(store)",
        ),
        (
            _class("llama_index.core.indices.vector_store.base", "VectorStoreIndex", as_retriever=lambda self: self),
            "The retriever is VectorStoreIndex of llama_index, ",
            "Return from the fixture its retriever: index.as_retriever()",
        ),
        (
            _class("llama_index.core.tools.retriever_tool", "RetrieverTool", __call__=lambda self, *_: self),
            "The retriever is RetrieverTool of llama_index, ",
            "the retriever that the tool calls",
        ),
        (
            _class("my_app", "Chat", _class("langchain_core.language_models.base", "Base"), invoke=print),
            "The retriever is Chat of my_app, ",
            "the retriever that the model answers from",
        ),
    ],
)  # fmt: skip
def test_a_store_is_refused_with_the_line_that_searches_it(loop, store, start, line):
    with pytest.raises(CallableError) as caught:
        adapt_retriever(store(), loop)
    first, remedy = str(caught.value).split("\n")
    assert first.startswith(start)
    assert remedy.startswith("Return from the fixture ")
    assert line in remedy


@pytest.mark.parametrize("line", [line for line in LINES.values() if line.startswith("lambda")])
def test_every_line_is_a_function_of_query_and_k(line: str) -> None:
    function = eval(line)  # noqa: S307
    assert function.__code__.co_varnames[:2] == ("query", "k")


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (_retrieve_by_id, "whose _retrieve_by_id requires collection_name; rageval passes the question as text"),
        (_retrieve_by_tokens, "whose _retrieve_by_tokens requires query_tokens; rageval passes"),
        (lambda self, query, tenant, region: [self, query, tenant, region], "requires query, tenant, region; rageval"),
        (lambda self, embedding: [self, embedding], "requires embedding; rageval"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["retrieve", "invoke"])
def test_a_method_that_takes_something_else_is_refused(loop, method, message, name):
    """A method that takes no question, or more than a question and k, is an error before the first call."""
    with pytest.raises(CallableError, match=message) as caught:
        adapt_retriever(_class("my_app", "Index", **{name: method})(), loop)
    assert "Return a function (query, k) -> documents that calls it." in str(caught.value)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (lambda self, query: [query], "q"),  # noqa: ARG005
        (lambda self, query, k: [f"{query} {k}"], "q 3"),  # noqa: ARG005
        (lambda self, bundle, *, limit=5: [f"{bundle} {limit}"], "q 3"),  # noqa: ARG005
        (lambda self, query, filters=None: [f"{query} {filters}"], "q None"),  # noqa: ARG005
    ],
)
@pytest.mark.parametrize("name", ["retrieve", "invoke"])
def test_a_class_of_the_users_own_is_called_by_its_signature(loop, method, expected, name):
    assert _texts(loop, _class("my_app", "Index", **{name: method})()) == [expected]


def test_another_method_that_searches_is_named(loop: BackgroundEventLoop) -> None:
    index = _class("my_app", "Index", search=lambda self, query: [query])()  # noqa: ARG005
    with pytest.raises(CallableError, match=r"It has search: return the method, Index\(…\)\.search\."):
        adapt_retriever(index, loop)


class _Passes:
    """A module of DSPy or a tool of smolagents: calls accept anything and go to `forward`."""

    def __call__(self, *args: Any, **kwargs: Any) -> list[str]:
        return self.forward(*args, **kwargs)


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        (lambda self, query: [query], "q"),  # noqa: ARG005
        (lambda self, question, k=5: [f"{question} {k}"], "q 3"),  # noqa: ARG005
        (lambda self, query, *, top_k=5: [f"{query} {top_k}"], "q 3"),  # noqa: ARG005
    ],
)
def test_a_module_is_called_as_its_forward_requires(loop, forward, expected):
    assert _texts(loop, _class("my_app", "Search", _Passes, forward=forward)()) == [expected]


LLAMA_INDEX = _class("llama_index.core", "Base", retrieve=lambda self, query: [query])  # noqa: ARG005
FRAMEWORK = _class("langchain_core.retrievers", "BaseRetriever", invoke=lambda self, query: [query])  # noqa: ARG005


@pytest.mark.parametrize(
    ("retriever", "description"),
    [
        (lambda query: [query], ""),
        (_class("my_app", "Own", FRAMEWORK)(), "Own, a class of LangChain, by its method invoke"),
        (
            _class("my_app", "Both", FRAMEWORK, retrieve=lambda self, query: [query])(),  # noqa: ARG005
            "Both, a class of LangChain, by its method invoke",
        ),
        (
            _class("my_app", "Both", LLAMA_INDEX, invoke=print)(),
            "Both, a class of LlamaIndex, by its method retrieve",
        ),
        (SimpleNamespace(run=lambda query: {"documents": [query]}), "SimpleNamespace, by its method run"),
    ],
)  # fmt: skip
def test_what_was_recognised_is_said(loop: BackgroundEventLoop, retriever: object, description: str) -> None:
    """The class of a framework decides before the methods; a retriever says by what it was recognised."""
    assert adapt_retriever(retriever, loop).description == description
    assert _texts(loop, retriever) == ["q"]


def test_an_adapter_of_a_plugin_comes_first(loop: BackgroundEventLoop) -> None:
    """A plugin can adapt a client that is refused otherwise, and is named in the description."""
    client = _class("qdrant_client", "QdrantClient")()
    recognises = lambda retriever: type(retriever).__name__ == "QdrantClient"  # noqa: E731
    adapters = [(recognises, _adapt_client), *ADAPTERS]
    assert adapt_retriever(client, loop, adapters).description == f"QdrantClient, by {__name__}._adapt_client"


def _adapt_client(_client: object) -> Any:
    return lambda query, _k: [query]
