"""LlamaIndex: a `BaseRetriever`, or any object with `retrieve`.

Its API takes neither k nor filters. Where the retriever has the setting `similarity_top_k`, a copy with k in it is
called. Where it has metadata filters, a copy is called that has those of the example too: an object of names and
values, all of which a node must have; or the fields of `MetadataFilters` itself.
"""

from collections.abc import Callable, Mapping
from copy import copy
from importlib import import_module
from itertools import chain
from typing import Any, Final

from pytest_rageval.retrievers.adapters.callables import Search, as_count, has_own
from pytest_rageval.retrievers.adapters.callables import adapt as adapt_callable
from pytest_rageval.user_code import is_async

__all__ = ["adapt"]

SETTING: Final = "similarity_top_k"
FILTERS: Final = "_filters"


def adapt(retriever: Any) -> Search:
    """Return `aretrieve` where the retriever itself is asynchronous, else `retrieve`; with k and filters if it can."""
    method = "aretrieve" if has_own(retriever, "_aretrieve") else "retrieve"
    has_k, has_filters = isinstance(getattr(retriever, SETTING, None), int), hasattr(retriever, FILTERS)
    ask = getattr(retriever, method)
    if not has_k and not has_filters:
        return adapt_callable(ask)

    def asking_for(k: int | None, filters: Mapping[str, Any] | None) -> Callable[..., Any]:
        retrieves = copy(retriever)
        if has_k and k is not None:
            setattr(retrieves, SETTING, k)
        if filters:
            setattr(retrieves, FILTERS, _joined(getattr(retriever, FILTERS), filters))
        asking: Callable[..., Any] = getattr(retrieves, method)
        return asking

    def search(query: str, k: int | None, *, filters: Mapping[str, Any] | None = None) -> Any:
        return asking_for(k, filters)(query)

    async def searched(query: str, k: int | None, *, filters: Mapping[str, Any] | None = None) -> Any:
        return await asking_for(k, filters)(query)

    own_k = as_count(getattr(retriever, SETTING)) if has_k else None
    return Search(searched if is_async(ask) else search, {"filters": False} if has_filters else {}, own_k)


def _joined(own: Any, given: Mapping[str, Any]) -> Any:
    types = import_module("llama_index.core.vector_stores.types")
    if isinstance(given.get("filters"), list):
        filters = types.MetadataFilters(**given)
    else:
        filters = types.MetadataFilters(
            filters=[types.MetadataFilter(key=key, value=value) for key, value in given.items()]
        )
    if own is None:
        return filters
    # Not every store supports nested filters.
    both = [each.filters if each.condition == "and" else [each] for each in (own, filters)]
    return types.MetadataFilters(filters=list(chain.from_iterable(both)), condition="and")
