"""Vector stores: any object with `similarity_search(query, k)`; with scores where it gives them."""

from collections.abc import Callable
from typing import Any

from pytest_rageval.retrievers.adapters.callables import adapt as adapt_callable
from pytest_rageval.retrievers.adapters.callables import name_of_k

__all__ = ["adapt"]


def adapt(retriever: Any) -> Callable[..., Any]:
    """Return `similarity_search_with_score` where it works, else `similarity_search`.

    LangChain's base class has one for all stores, which takes `*args` and raises; one that works names its k.
    """
    scored = getattr(retriever, "similarity_search_with_score", None)
    if callable(scored) and name_of_k(scored) is not None:
        return adapt_callable(scored)
    return adapt_callable(retriever.similarity_search)
