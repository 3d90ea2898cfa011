"""Retrievers of every shape as callables `(query, k)`: one file a shape, and none of the frameworks imported."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from pytest_rageval.retrievers.adapters import callables, haystack, langchain, llama_index, vector_store

__all__ = ["ADAPTERS", "Adapter"]

Adapter = tuple[Callable[[Any], bool], Callable[[Any], Callable[..., Any]]]
"""What recognises a retriever of a kind, and what makes a callable of it."""

ADAPTERS: Final[Sequence[Adapter]] = (
    # What can be called is called, whatever methods it has: a mock has them all.
    (callable, callables.adapt),
    (langchain.recognises, langchain.adapt),
    (llama_index.recognises, llama_index.adapt),
    (haystack.recognises_pipeline, haystack.adapt_pipeline),
    (haystack.recognises_component, haystack.adapt_component),
    (vector_store.recognises, vector_store.adapt),
)
"""The kinds that are known, in the order in which they are tried."""
