"""Adapters from retrievers of every known shape to a `Search`; no framework is imported before one is met."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from pytest_rageval.late import Late
from pytest_rageval.retrievers.adapters import callables

__all__ = ["ADAPTERS", "Adapter"]

Adapter = tuple[Callable[[Any], bool], Callable[[Any], Callable[..., Any]]]
"""A function that recognises a retriever, and one that makes a `Search` of it, or a function `(query, k)`."""


def _has(*methods: str) -> Callable[[Any], bool]:
    """Whether a retriever has all of these methods."""
    return lambda retriever: all(callable(getattr(retriever, name, None)) for name in methods)


ADAPTERS: Final[Sequence[Adapter]] = (
    # Callables come first: a mock has every method.
    (callable, callables.adapt),
    (_has("invoke"), Late("retrievers.adapters.langchain", "adapt_retriever")),
    (_has("retrieve"), Late("retrievers.adapters.llama_index", "adapt")),
    (_has("run", "inputs", "outputs"), Late("retrievers.adapters.haystack", "adapt_pipeline")),
    (_has("run"), Late("retrievers.adapters.haystack", "adapt_component")),
    (_has("similarity_search"), Late("retrievers.adapters.langchain", "adapt_store")),
)
"""In the order in which they are tried."""
