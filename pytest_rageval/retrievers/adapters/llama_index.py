"""LlamaIndex: a `BaseRetriever`, or any object with `retrieve`.

Its API takes no k. Where the retriever has the setting `similarity_top_k`, a copy with k in it is called.
"""

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any, Final

from pytest_rageval.retrievers.adapters.callables import adapt as adapt_callable
from pytest_rageval.retrievers.adapters.callables import has_own

__all__ = ["adapt"]

SETTING: Final = "similarity_top_k"


def adapt(retriever: Any) -> Callable[..., Any]:
    """Return `aretrieve` where the retriever itself is asynchronous, else `retrieve`, with k where it takes one."""
    method = "aretrieve" if has_own(retriever, "_aretrieve") else "retrieve"
    if not isinstance(getattr(retriever, SETTING, None), int):
        return adapt_callable(getattr(retriever, method))

    @cache
    def asking_for(k: int) -> Callable[..., Any]:
        retrieves = copy(retriever)
        setattr(retrieves, SETTING, k)
        asking: Callable[..., Any] = getattr(retrieves, method)
        return asking

    return lambda query, k: asking_for(k)(query)
