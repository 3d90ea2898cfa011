"""Adapts LlamaIndex's `BaseRetriever`, and other objects with `retrieve`.

Its API accepts neither k nor filters. If the retriever has the setting `similarity_top_k`, a copy with that number is
called. If it has metadata filters, a copy is called whose filters include those of the example: an object of names and
values, all of which a node must have, or the fields of `MetadataFilters` itself.
"""

from collections.abc import Mapping
from copy import copy
from importlib import import_module
from itertools import chain
from typing import Any, Final

from pytest_rageval.retrievers.adapters.callables import (
    Search,
    adapt_method,
    as_count,
    async_if,
    overrides_method,
)

K_SETTING: Final = "similarity_top_k"
FILTERS: Final = "_filters"


def adapt(retriever: Any) -> Search:
    """Return a search that calls `aretrieve` if the retriever itself is async, else `retrieve`."""
    method = "aretrieve" if overrides_method(retriever, "_aretrieve") else "retrieve"
    has_k, has_filters = isinstance(getattr(retriever, K_SETTING, None), int), hasattr(retriever, FILTERS)
    retrieve = getattr(retriever, method)
    if not has_k and not has_filters:
        return adapt_method(retrieve)

    def search(query: str, k: int | None, *, filters: Mapping[str, Any] | None = None) -> Any:
        configured = copy(retriever)
        if has_k and k is not None:
            setattr(configured, K_SETTING, k)
        if filters:
            setattr(configured, FILTERS, _merge_filters(getattr(retriever, FILTERS), filters))
        return getattr(configured, method)(query)

    own_k = as_count(getattr(retriever, K_SETTING)) if has_k else None
    return Search(async_if(retrieve, search), {"filters": False} if has_filters else {}, own_k)


def _merge_filters(own: Any, given: Mapping[str, Any]) -> Any:
    """Return the filters of the retriever and of the example, joined by "and"."""
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
    both = [part.filters if part.condition == "and" else [part] for part in (own, filters)]
    return types.MetadataFilters(filters=list(chain.from_iterable(both)), condition="and")
