"""Adapts LangChain's `BaseRetriever` and vector stores, and other objects with `invoke` or `similarity_search`.

The API of retrievers has no k. If the retriever has one of the following, k is passed to the first of them:

1. a parameter of `_get_relevant_documents` with a usual name: `invoke` passes its keywords on to that method;
2. `search_kwargs`, which a retriever over a vector store has: a keyword of `invoke` overrides them;
3. a field with a usual name, such as `k`: a copy of the retriever with that number is called.

Filters and other context are passed to the parameters of `_get_relevant_documents` with their names. With
`search_kwargs`, filters are passed to the vector store as `filter`, merged with the retriever's own filter. A retriever
with configurable fields (`configurable_fields`) receives the values of these fields in `config`.

A retriever with its own `batch` is called for many questions at once. The `batch` of LangChain's base class is not
used: it calls `invoke` in threads, in which some retrievers must not be used.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from pytest_rageval.core.errors import CallableError
from pytest_rageval.retrievers.adapters.callables import (
    CONTEXT_NAMES,
    K_NAMES,
    Search,
    adapt_method,
    as_count,
    async_if,
    context_of,
    default_of,
    name_of_k,
    overrides_method,
    required,
)
from pytest_rageval.retrievers.adapters.callables import adapt as adapt_callable

FILTER: Final = "filter"
"""The keyword for filters of most vector stores."""

SEARCH_KWARGS: Final = "search_kwargs"

BATCH_METHODS: Final = {"invoke": "batch", "ainvoke": "abatch"}
"""The methods for many questions, by the method for one question."""


def adapt_retriever(retriever: Any) -> Search:
    """Return a search that calls `ainvoke` if the retriever itself is async, else `invoke`."""
    ids = _configurable_ids(retriever)
    if ids:
        return _adapt_configurable(retriever, ids)
    method = "ainvoke" if overrides_method(retriever, "_aget_relevant_documents") else "invoke"
    invoke = getattr(retriever, method)
    search = getattr(retriever, "_get_relevant_documents", None)
    batch_method = BATCH_METHODS[method] if overrides_method(retriever, BATCH_METHODS[method]) else None
    if search is None:
        return adapt_method(invoke)
    over_store = _searches_with_keywords(retriever, search)
    parameters = context_of(search)
    context, names = required(parameters), {name: parameter.name for name, parameter in parameters.items()}
    if over_store and "filters" not in names:
        context, names = {**context, "filters": False}, {**names, "filters": FILTER}
    k_keyword = name_of_k(search) or ("k" if over_store else None)
    own = dict(retriever.search_kwargs) if over_store else {}

    def keywords(values: Mapping[str, Any]) -> dict[str, Any]:
        by_keyword = {names[name]: value for name, value in values.items()}
        return {
            name: _merge_filters(own.get(name), value) if name == FILTER else value
            for name, value in by_keyword.items()
        }

    if k_keyword is not None:

        def retrieve(query: str, k: int | None, **context: Any) -> Any:
            return invoke(query, **({} if k is None else {k_keyword: k}), **keywords(context))

        def retrieve_many(queries: list[str], k: int | None) -> Any:
            return getattr(retriever, str(batch_method))(queries, **({} if k is None else {k_keyword: k}))

        own_k = as_count(own.get(k_keyword)) or default_of(search, k_keyword)
        batch = async_if(invoke, retrieve_many) if batch_method else None
        return Search(async_if(invoke, retrieve), context, own_k, batch)
    field = next((name for name in K_NAMES if type(getattr(retriever, name, None)) is int), None)
    if field is None:
        single = async_if(invoke, lambda query, _k, **context: invoke(query, **keywords(context)))
        batch = async_if(invoke, lambda queries, _k: getattr(retriever, str(batch_method))(queries))
        return Search(single, context, retrieve_many=batch if batch_method else None)

    @cache
    def method_for(k: int | None, method: str = method) -> Callable[..., Any]:
        """Return a method of the retriever, or of a copy that returns k documents."""
        configured = retriever if k is None else retriever.model_copy(update={field: k})
        bound: Callable[..., Any] = getattr(configured, method)
        return bound

    own_k = as_count(getattr(retriever, field))
    single = async_if(invoke, lambda query, k, **context: method_for(k)(query, **keywords(context)))
    batch = async_if(invoke, lambda queries, k: method_for(k, str(batch_method))(queries))
    return Search(single, context, own_k, batch if batch_method else None)


def _merge_filters(own: object, given: Mapping[str, Any]) -> Any:
    """Return the filters of the retriever and of the example, merged; CallableError if they contradict each other."""
    if not own:
        return given
    if not isinstance(own, Mapping) or any(name in own and own[name] != given[name] for name in given):
        raise CallableError(
            f"rageval_retriever has a filter of its own in search_kwargs, {own!r:.80}, and an example has the filters "
            f"{given!r:.80}, which cannot be joined to it.\nReturn a function (query, k, filters) that joins them."
        )
    return {**own, **given}


def _searches_with_keywords(retriever: Any, search: Callable[..., Any]) -> bool:
    """Whether the retriever has `search_kwargs`, and its search method accepts any keyword."""
    kinds = {parameter.kind for parameter in inspect.signature(search).parameters.values()}
    has_keywords = isinstance(getattr(retriever, SEARCH_KWARGS, None), Mapping)
    return has_keywords and inspect.Parameter.VAR_KEYWORD in kinds


def _configurable_ids(retriever: Any) -> dict[str, str]:
    """Return the ids of the configurable fields, by their meaning: "search_kwargs", or the name of a context part."""
    specs = getattr(retriever, "config_specs", None)
    ids = {getattr(spec, "id", None) for spec in specs} if isinstance(specs, list) else set()
    wanted = {SEARCH_KWARGS: (SEARCH_KWARGS,), **CONTEXT_NAMES}
    matches = {name: next((other for other in names if other in ids), None) for name, names in wanted.items()}
    return {name: match for name, match in matches.items() if match is not None}


def _adapt_configurable(retriever: Any, ids: Mapping[str, str]) -> Search:
    """Return a search that passes `config`, which replaces the whole values of configurable fields."""
    keywords = getattr(getattr(retriever, "default", None), SEARCH_KWARGS, None)
    own = dict(keywords) if isinstance(keywords, Mapping) else {}
    method = (
        "ainvoke"
        if overrides_method(getattr(retriever, "default", None), "_aget_relevant_documents")
        else "invoke"
    )
    invoke = getattr(retriever, method)
    over_store = SEARCH_KWARGS in ids
    accepted = {name for name in ids if name != SEARCH_KWARGS} | ({"filters"} if over_store else set())

    def search(query: str, k: int | None, **context: Any) -> Any:
        values = {ids[name]: value for name, value in context.items() if name in ids}
        if over_store:
            search_kwargs = dict(own) if k is None else {**own, "k": k}
            if "filters" in context and "filters" not in ids:
                search_kwargs[FILTER] = _merge_filters(own.get(FILTER), context["filters"])
            values[ids[SEARCH_KWARGS]] = search_kwargs
        return invoke(query, config={"configurable": values})

    own_k = as_count(own.get("k")) if over_store else None
    return Search(async_if(invoke, search), dict.fromkeys(accepted, False), own_k)


def adapt_store(retriever: Any) -> Search:
    """Return a search that calls `similarity_search_with_score` if the store has it, else `similarity_search`.

    The method of LangChain's base class accepts `*args` and raises an error. A method that works has a parameter for k.
    """
    scored = getattr(retriever, "similarity_search_with_score", None)
    if callable(scored) and name_of_k(scored) is not None:
        return adapt_callable(scored)
    return adapt_callable(retriever.similarity_search)
