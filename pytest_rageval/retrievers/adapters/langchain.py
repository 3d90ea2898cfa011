"""LangChain: a `BaseRetriever`, or any object with `invoke`; a vector store, or any object with `similarity_search`.

The API of retrievers has no k. Where the retriever has one of these, k goes to the first of them:

1. a parameter of `_get_relevant_documents` with a usual name, to which `invoke` hands its keywords;
2. `search_kwargs`, as a retriever over a vector store has them: a keyword of `invoke` overrides them;
3. a field with a usual name, such as `k`: a copy with that number is called.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pytest_rageval.retrievers.adapters.callables import K_NAMES, has_own, name_of_k
from pytest_rageval.retrievers.adapters.callables import adapt as adapt_callable

__all__ = ["adapt_retriever", "adapt_store"]


def adapt_retriever(retriever: Any) -> Callable[..., Any]:
    """Return `ainvoke` where the retriever itself is asynchronous, else `invoke`, with k where it takes one."""
    method = "ainvoke" if has_own(retriever, "_aget_relevant_documents") else "invoke"
    ask = getattr(retriever, method)
    search = getattr(retriever, "_get_relevant_documents", None)
    if search is None:
        return adapt_callable(ask)
    keyword = name_of_k(search) or ("k" if _searches_with_keywords(retriever, search) else None)
    if keyword is not None:
        return lambda query, k: ask(query, **{keyword: k})
    field = next((name for name in K_NAMES if type(getattr(retriever, name, None)) is int), None)
    if field is None:
        return lambda query, _k: ask(query)

    asking_for = cache(lambda k: getattr(retriever.model_copy(update={field: k}), method))
    return lambda query, k: asking_for(k)(query)


def _searches_with_keywords(retriever: Any, search: Callable[..., Any]) -> bool:
    kinds = {parameter.kind for parameter in inspect.signature(search).parameters.values()}
    has_keywords = isinstance(getattr(retriever, "search_kwargs", None), Mapping)
    return has_keywords and inspect.Parameter.VAR_KEYWORD in kinds


def adapt_store(retriever: Any) -> Callable[..., Any]:
    """Return `similarity_search_with_score` where it works, else `similarity_search`.

    LangChain's base class has one for all stores, which takes `*args` and raises; one that works names its k.
    """
    scored = getattr(retriever, "similarity_search_with_score", None)
    if callable(scored) and name_of_k(scored) is not None:
        return adapt_callable(scored)
    return adapt_callable(retriever.similarity_search)
