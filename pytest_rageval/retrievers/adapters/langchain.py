"""LangChain: a `BaseRetriever`, or any object with `invoke`; a vector store, or any object with `similarity_search`.

The API of retrievers has no k. Where the retriever has one of these, k goes to the first of them:

1. a parameter of `_get_relevant_documents` with a usual name, to which `invoke` hands its keywords;
2. `search_kwargs`, as a retriever over a vector store has them: a keyword of `invoke` overrides them;
3. a field with a usual name, such as `k`: a copy with that number is called.

Filters and other context go to the parameters of `_get_relevant_documents` that are named so; with `search_kwargs`
filters go to the vector store as `filter`, joined with those that the retriever has there. A retriever with
configurable fields (`configurable_fields`) receives what these are named, in `config`.

A retriever with a `batch` of its own is given many questions at once. That of LangChain's base class is not used: it
calls `invoke` in threads, where some retrievers must not be used.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from pytest_rageval.errors import CallableError
from pytest_rageval.retrievers.adapters.callables import (
    CONTEXT_NAMES,
    K_NAMES,
    Search,
    as_count,
    context_of,
    default_of,
    has_own,
    name_of_k,
    required,
)
from pytest_rageval.retrievers.adapters.callables import adapt as adapt_callable
from pytest_rageval.user_code import is_async

__all__ = ["adapt_retriever", "adapt_store"]

FILTER: Final = "filter"
"""The keyword of most vector stores."""

SEARCH_KWARGS: Final = "search_kwargs"

BATCH: Final = {"invoke": "batch", "ainvoke": "abatch"}
"""The method for many questions, by that for one."""


def adapt_retriever(retriever: Any) -> Search:
    """Return `ainvoke` where the retriever itself is asynchronous, else `invoke`; with k and context where it can."""
    configurable = _configurable(retriever)
    if configurable:
        return _configured(retriever, configurable)
    method = "ainvoke" if has_own(retriever, "_aget_relevant_documents") else "invoke"
    ask = getattr(retriever, method)
    search = getattr(retriever, "_get_relevant_documents", None)
    many = BATCH[method] if has_own(retriever, BATCH[method]) else None
    if search is None:
        return adapt_callable(ask)
    over_store = _searches_with_keywords(retriever, search)
    parameters = context_of(search)
    context, names = required(parameters), {name: each.name for name, each in parameters.items()}
    if over_store and "filters" not in names:
        context, names = {**context, "filters": False}, {**names, "filters": FILTER}
    keyword = name_of_k(search) or ("k" if over_store else None)
    own = dict(retriever.search_kwargs) if over_store else {}

    def named(given: Mapping[str, Any]) -> dict[str, Any]:
        found = {names[name]: value for name, value in given.items()}
        return {
            name: _joined(own.get(name), value) if name == FILTER else value for name, value in found.items()
        }

    if keyword is not None:

        def by_keyword(query: str, k: int | None, **given: Any) -> Any:
            return ask(query, **({} if k is None else {keyword: k}), **named(given))

        def batch(queries: list[str], k: int | None) -> Any:
            return getattr(retriever, str(many))(queries, **({} if k is None else {keyword: k}))

        own_k = as_count(own.get(keyword)) or default_of(search, keyword)
        return Search(_like(ask, by_keyword), context, own_k, _like(ask, batch) if many else None)
    field = next((name for name in K_NAMES if type(getattr(retriever, name, None)) is int), None)
    if field is None:
        alone = _like(ask, lambda query, _k, **given: ask(query, **named(given)))
        together = _like(ask, lambda queries, _k: getattr(retriever, str(many))(queries))
        return Search(alone, context, many=together if many else None)

    @cache
    def asking_for(k: int | None, method: str = method) -> Callable[..., Any]:
        asked = retriever if k is None else retriever.model_copy(update={field: k})
        asking: Callable[..., Any] = getattr(asked, method)
        return asking

    own_k = as_count(getattr(retriever, field))
    alone = _like(ask, lambda query, k, **given: asking_for(k)(query, **named(given)))
    together = _like(ask, lambda queries, k: asking_for(k, str(many))(queries))
    return Search(alone, context, own_k, together if many else None)


def _like(ask: Callable[..., Any], search: Callable[..., Any]) -> Callable[..., Any]:
    """Return the search, as an async function where LangChain's method is one."""
    if not is_async(ask):
        return search

    async def awaited(query: Any, k: int | None, **given: Any) -> Any:
        return await search(query, k, **given)

    return awaited


def _joined(own: object, given: Mapping[str, Any]) -> Any:
    """Return the filters of the retriever and of the example together."""
    if not own:
        return given
    if not isinstance(own, Mapping) or any(name in own and own[name] != given[name] for name in given):
        raise CallableError(
            f"rageval_retriever has a filter of its own in search_kwargs, {own!r:.80}, and an example has the filters "
            f"{given!r:.80}, which cannot be joined to it.\nReturn a function (query, k, filters) that joins them."
        )
    return {**own, **given}


def _searches_with_keywords(retriever: Any, search: Callable[..., Any]) -> bool:
    kinds = {parameter.kind for parameter in inspect.signature(search).parameters.values()}
    has_keywords = isinstance(getattr(retriever, SEARCH_KWARGS, None), Mapping)
    return has_keywords and inspect.Parameter.VAR_KEYWORD in kinds


def _configurable(retriever: Any) -> dict[str, str]:
    """The ids of configurable fields by what they take: "search_kwargs", or the name of a context."""
    specs = getattr(retriever, "config_specs", None)
    ids = {getattr(spec, "id", None) for spec in specs} if isinstance(specs, list) else set()
    wanted = {SEARCH_KWARGS: (SEARCH_KWARGS,), **CONTEXT_NAMES}
    found = {name: next((each for each in names if each in ids), None) for name, names in wanted.items()}
    return {name: each for name, each in found.items() if each is not None}


def _configured(retriever: Any, ids: Mapping[str, str]) -> Search:
    """Ask with `config`, which replaces the whole value of a configurable field."""
    keywords = getattr(getattr(retriever, "default", None), SEARCH_KWARGS, None)
    own = dict(keywords) if isinstance(keywords, Mapping) else {}
    method = (
        "ainvoke" if has_own(getattr(retriever, "default", None), "_aget_relevant_documents") else "invoke"
    )
    ask = getattr(retriever, method)
    over_store = SEARCH_KWARGS in ids
    taken = {name for name in ids if name != SEARCH_KWARGS} | ({"filters"} if over_store else set())

    def search(query: str, k: int | None, **given: Any) -> Any:
        values = {ids[name]: value for name, value in given.items() if name in ids}
        if over_store:
            found = dict(own) if k is None else {**own, "k": k}
            if "filters" in given and "filters" not in ids:
                found[FILTER] = _joined(own.get(FILTER), given["filters"])
            values[ids[SEARCH_KWARGS]] = found
        return ask(query, config={"configurable": values})

    own_k = as_count(own.get("k")) if over_store else None
    return Search(_like(ask, search), dict.fromkeys(taken, False), own_k)


def adapt_store(retriever: Any) -> Search:
    """Return `similarity_search_with_score` where it works, else `similarity_search`.

    LangChain's base class has one for all stores, which takes `*args` and raises; one that works names its k.
    """
    scored = getattr(retriever, "similarity_search_with_score", None)
    if callable(scored) and name_of_k(scored) is not None:
        return adapt_callable(scored)
    return adapt_callable(retriever.similarity_search)
