"""`--rageval k=own`: the retriever is called without k."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.extensions.own_k.own_k import OwnKPlugin
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.retrievers.adapters import ADAPTERS

PASSAGES = [{"id": f"d{n}"} for n in range(9)]


def _adapted(loop: BackgroundEventLoop, retriever: object, **added: object) -> Any:
    components: Any = SimpleNamespace(added=added)
    return OwnKPlugin().pytest_rageval_adapt_retriever(
        retriever, components, "rageval_retriever", loop, ADAPTERS, ""
    )


def _search(query: str, k: int = 3) -> list[dict[str, str]]:
    assert query
    return PASSAGES[:k]


async def _async(query: str, *, top_k: int = 3) -> list[dict[str, str]]:
    return _search(query, top_k)


def _with_filter(query: str, limit: int = 3, filter: dict[str, str] | None = None) -> list[dict[str, str]]:  # noqa: A002
    assert filter == {"lang": "en"}
    return _search(query, limit)


class _LangChain:
    """An object with the signatures of LangChain."""

    def __init__(self) -> None:
        self.search_kwargs = {"k": 3}

    def invoke(self, query: str, **kwargs: Any) -> list[dict[str, str]]:
        return self._get_relevant_documents(query, **kwargs)

    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[dict[str, str]]:
        return _search(query, kwargs.get("k", self.search_kwargs["k"]))


@pytest.mark.parametrize("retriever", [_search, _async, _with_filter, _LangChain()])
@pytest.mark.parametrize(("k", "found"), [(2, 2), (5, 3)])
def test_a_retriever_returns_as_many_as_it_ships(
    loop: BackgroundEventLoop, retriever: object, k: int, found: int
) -> None:
    adapted = _adapted(loop, retriever)
    assert adapted.own_k == 3
    filters = {"lang": "en"} if retriever is _with_filter else {}
    ranking = loop.run(adapted.retrieve(Example("q1", "Where?", filters=filters), k))
    assert (len(ranking), ranking.k, ranking.own_k, ranking.without_k) == (found, k, 3, True)


def test_a_function_without_k_is_called_as_always(loop: BackgroundEventLoop) -> None:
    adapted = _adapted(loop, lambda _query: PASSAGES)
    assert adapted.own_k is None
    assert len(loop.run(adapted.retrieve("Where?", 5))) == 5
    assert adapted.description == "a function; called without k"


def test_a_required_k_is_an_error(loop: BackgroundEventLoop) -> None:
    with pytest.raises(CallableError, match="requires k, and so has no number of documents of its own"):
        _adapted(loop, lambda _query, k: PASSAGES[:k])


def test_an_executor_is_an_error_and_a_recorded_ranking_is_left_alone(loop: BackgroundEventLoop) -> None:
    with pytest.raises(InputError, match="Leave one out"):
        _adapted(loop, _search, rageval_executor=object())

    def recorded(_query: str, k: int) -> list[dict[str, str]]:
        return PASSAGES[:k]

    recorded.replays = True  # type: ignore[attr-defined]
    assert _adapted(loop, recorded) is None


LANGCHAIN = {
    "of a store": "store.as_retriever(search_kwargs={'k': 5})",
    "without a number": "store.as_retriever()",
    "with a field": "Own()",
    "in a chain": "RunnableLambda(str) | store.as_retriever(search_kwargs={'k': 5})",
    "in a function": "RunnableLambda(store.as_retriever(search_kwargs={'k': 5}).invoke)",
    "bound": "store.as_retriever(search_kwargs={'k': 5}).bind(k=2)",
    "with a config": "store.as_retriever(search_kwargs={'k': 5}).with_config(tags=['a'])",
    "configurable": "configurable",
    "configured": "configurable.with_config(configurable={'own': {'k': 2}})",
    "configured, and bound": "configurable.with_config(configurable={'own': {'k': 2}}).bind()",
    "configurable in a chain": "RunnableLambda(str) | configurable",
    "a configured field": "Own().configurable_fields(k=field).with_config(configurable={'own': 2})",
    "tried again": "store.as_retriever(search_kwargs={'k': 5}).with_retry()",
    "with a fallback": "store.as_retriever(search_kwargs={'k': 5}).with_fallbacks([Own()])",
    "with an alternative": "Own().configurable_alternatives(field, other=Own(k=1))",
}


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    retrievers = pytest.importorskip("langchain_core.retrievers")
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.runnables import ConfigurableField, RunnableLambda
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    store.add_documents([Document(id=f"d{n}", page_content=f"{n}") for n in range(9)])

    class Own(retrievers.BaseRetriever):  # type: ignore[misc, name-defined]
        k: int = 3

        def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:  # noqa: ARG002
            return store.similarity_search(query, k=self.k)

    field = ConfigurableField(id="own")
    configurable = store.as_retriever(search_kwargs={"k": 5}).configurable_fields(search_kwargs=field)
    return {
        "store": store,
        "Own": Own,
        "RunnableLambda": RunnableLambda,
        "configurable": configurable,
        "field": field,
    }


@pytest.mark.parametrize("kind", LANGCHAIN)
def test_a_retriever_of_langchain_returns_as_many_as_it_ships(
    loop: BackgroundEventLoop, names: dict[str, Any], kind: str
) -> None:
    """What wraps a retriever may bind another number than the retriever itself declares."""
    retriever = eval(LANGCHAIN[kind], names)  # noqa: S307 - our own text
    ships = len(retriever.invoke("Where?"))
    adapted = _adapted(loop, retriever)
    assert adapted.own_k in {None, ships}
    assert len(loop.run(adapted.retrieve("Where?", 9))) == ships
    plain = adapt_retriever(retriever, loop)
    assert plain.own_k in {None, ships}
    # A number that is not declared is seen in the rankings if k is ignored, else in a search without k.
    if plain.k_use == "optional":
        assert loop.run(plain.count_unasked(Example("q1", "Where?"))) == ships
    else:
        ranking = loop.run(plain.retrieve("Where?", 1))
        assert (plain.k_use, len(ranking) + ranking.surplus) == ("ignored", ships)
