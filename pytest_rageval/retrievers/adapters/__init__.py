"""Adapters from retrievers of every known shape to callables `(query, k)`; no framework is imported."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from pytest_rageval.retrievers.adapters import callables, haystack, langchain, llama_index

__all__ = ["ADAPTERS", "Adapter"]

Adapter = tuple[Callable[[Any], bool], Callable[[Any], Callable[..., Any]]]
"""A function that recognises a retriever, and one that makes a callable `(query, k)` of it."""

ADAPTERS: Final[Sequence[Adapter]] = (
    # Callables come first: a mock has every method.
    (callable, callables.adapt),
    (langchain.recognises_retriever, langchain.adapt_retriever),
    (llama_index.recognises, llama_index.adapt),
    (haystack.recognises_pipeline, haystack.adapt_pipeline),
    (haystack.recognises_component, haystack.adapt_component),
    (langchain.recognises_store, langchain.adapt_store),
)
"""In the order in which they are tried."""
