"""Adapters: create a `Search` from each supported kind of retriever.

The adapter of a framework is imported only for a retriever of that framework.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from pytest_rageval.errors import CallableError, RagevalError
from pytest_rageval.lazy import Lazy
from pytest_rageval.retrievers.adapters import callables
from pytest_rageval.retrievers.adapters.callables import Search
from pytest_rageval.user_code import qualified_name

__all__ = ["ADAPTERS", "Adapter", "RetrieverFactory", "search_of"]

Adapter = tuple[Callable[[Any], bool], Callable[[Any], Callable[..., Any]]]
"""A function that recognises a retriever, and one that returns a `Search`, or a function `(query, k)`, for it."""


def _has_methods(*methods: str) -> Callable[[Any], bool]:
    """Return a function that tells whether a retriever has all of these methods."""
    return lambda retriever: all(callable(getattr(retriever, name, None)) for name in methods)


ADAPTERS: Final[Sequence[Adapter]] = (
    # Callables are first, since a mock has every method.
    (callable, callables.adapt),
    (_has_methods("invoke"), Lazy("retrievers.adapters.langchain", "adapt_retriever")),
    (_has_methods("retrieve"), Lazy("retrievers.adapters.llama_index", "adapt")),
    (_has_methods("run", "inputs", "outputs"), Lazy("retrievers.adapters.haystack", "adapt_pipeline")),
    (_has_methods("run"), Lazy("retrievers.adapters.haystack", "adapt_component")),
    (_has_methods("similarity_search"), Lazy("retrievers.adapters.langchain", "adapt_store")),
)
"""The adapters in the order in which they are tried."""


BATCH_METHOD: Final = "retrieve_many"
"""The method `(queries, k)` of a retriever that accepts several questions in one call. Any retriever may have it."""


class RetrieverFactory:
    """Builds a retriever: once in each process of the fixture `rageval_executor`, or in this process without one.

    Only the function and its arguments are sent to the processes, so that an index need not be pickled.

    Args:
        make: a function or a class at the top level of a module; it returns a retriever of any kind.
        *args: positional arguments of `make`.
        **kwargs: keyword arguments of `make`.

    >>> RetrieverFactory(dict, a=1).made()
    {'a': 1}
    """

    def __init__(self, make: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        self._make = make
        self._args = args
        self._kwargs = kwargs

    def made(self) -> Any:
        """Build and return a retriever."""
        return self._make(*self._args, **self._kwargs)


def search_of(retriever: object, adapters: Sequence[Adapter], name: str) -> Search:
    """Return the `Search` of a retriever or of a factory's retriever, from the first adapter that recognises it.

    Raises:
        CallableError: no adapter recognises the retriever, the adapter cannot use it, or an adapter of a plugin raised
            or did not return a callable.
    """
    if isinstance(retriever, RetrieverFactory):
        retriever = retriever.made()
    adapt = next((adapt for recognises, adapt in adapters if _call(recognises, retriever)), None)
    if adapt is None:
        raise CallableError(
            f"{name} is {type(retriever).__name__}, which cannot be called.\n"
            "Return a function (query, k) -> documents from the fixture, sync or async, or an object with "
            "invoke (LangChain), retrieve (LlamaIndex), run (Haystack) or similarity_search."
        )
    search = _call(adapt, retriever)
    if not callable(search):
        raise CallableError(
            f"{_adapter_name(adapt)} gave {type(search).__name__} for {type(retriever).__name__}.\n"
            "It gives a function (query, k) -> documents, sync or async."
        )
    if not isinstance(search, Search):
        context = callables.context_of(search)
        search = Search(
            search,
            callables.required(
                {name: parameter for name, parameter in context.items() if parameter.name == name}
            ),
        )
    # The class is inspected, since a mock object has every method.
    if BATCH_METHOD in dir(type(retriever)):
        search = replace(search, retrieve_many=callables.adapt(getattr(retriever, BATCH_METHOD)).retrieve)
    return search


def _call(part: Callable[[Any], Any], retriever: object) -> Any:
    try:
        return part(retriever)
    except RagevalError:
        raise
    except Exception as error:
        what = f"{_adapter_name(part)} raised for {type(retriever).__name__}"
        raise CallableError.from_exception(what, error) from error


def _adapter_name(part: Callable[[Any], Any]) -> str:
    return f"The retriever adapter {qualified_name(part)}"
