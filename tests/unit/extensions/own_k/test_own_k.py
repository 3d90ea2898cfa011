"""`--rageval k=own`: the retriever is called without k."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.event_loop import BackgroundEventLoop
from pytest_rageval.extensions.own_k.retriever import OwnKPlugin
from pytest_rageval.retrievers import Retriever
from pytest_rageval.retrievers.adapters import ADAPTERS

PASSAGES = [{"id": f"d{n}"} for n in range(9)]


def _adapted(loop: BackgroundEventLoop, retriever: object, **added: object) -> Retriever | None:
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
    assert adapted is not None
    assert adapted.own_k == 3
    filters = {"lang": "en"} if retriever is _with_filter else {}
    ranking = loop.run(adapted.retrieve(Example("q1", "Where?", filters=filters), k))
    assert (len(ranking), ranking.k, ranking.own_k, ranking.without_k) == (found, k, 3, True)


def test_a_function_without_k_is_called_as_always(loop: BackgroundEventLoop) -> None:
    adapted = _adapted(loop, lambda _query: PASSAGES)
    assert adapted is not None
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
