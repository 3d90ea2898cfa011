"""Adapters: make a `Search` of each supported kind of retriever.

A framework's adapter is imported only for a retriever of that framework.
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
"""A function that recognises a retriever, and one that makes a `Search` of it, or a function `(query, k)`."""


def _has(*methods: str) -> Callable[[Any], bool]:
    """Whether a retriever has all of these methods."""
    return lambda retriever: all(callable(getattr(retriever, name, None)) for name in methods)


ADAPTERS: Final[Sequence[Adapter]] = (
    # Callables come first: a mock has every method.
    (callable, callables.adapt),
    (_has("invoke"), Lazy("retrievers.adapters.langchain", "adapt_retriever")),
    (_has("retrieve"), Lazy("retrievers.adapters.llama_index", "adapt")),
    (_has("run", "inputs", "outputs"), Lazy("retrievers.adapters.haystack", "adapt_pipeline")),
    (_has("run"), Lazy("retrievers.adapters.haystack", "adapt_component")),
    (_has("similarity_search"), Lazy("retrievers.adapters.langchain", "adapt_store")),
)
"""In the order in which they are tried."""


MANY: Final = "retrieve_many"
"""The method `(queries, k)` of a retriever of any form that takes several questions at once."""


class RetrieverFactory:
    """Builds the retriever: once in each process of the fixture `rageval_executor`, or here where there is none.

    Only the function and its arguments are sent to the processes, so that an index need not be pickled.

    Args:
        make: a function or a class at the top level of a module; what it returns is a retriever of any form.
        *args: its arguments.
        **named: its arguments by name.

    >>> RetrieverFactory(dict, a=1).made()
    {'a': 1}
    """

    def __init__(self, make: Callable[..., Any], /, *args: Any, **named: Any) -> None:
        self._make = make
        self._args = args
        self._named = named

    def made(self) -> Any:
        """Build a retriever."""
        return self._make(*self._args, **self._named)


def search_of(retriever: object, adapters: Sequence[Adapter], name: str) -> Search:
    """Return the `Search` of a retriever or of a factory's retriever, from the first adapter that recognises it.

    CallableError if none does, if the adapter cannot use it, or if a plugin's adapter raises or returns no callable.
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
            f"{_name(adapt)} gave {type(search).__name__} for {type(retriever).__name__}.\n"
            "It gives a function (query, k) -> documents, sync or async."
        )
    if not isinstance(search, Search):
        context = callables.context_of(search)
        search = Search(
            search, callables.required({name: each for name, each in context.items() if each.name == name})
        )
    # Not of a mock, which has every method.
    if MANY in dir(type(retriever)):
        search = replace(search, many=callables.adapt(getattr(retriever, MANY)).ask)
    return search


def _call(part: Callable[[Any], Any], retriever: object) -> Any:
    try:
        return part(retriever)
    except RagevalError:
        raise
    except Exception as error:
        what = f"{_name(part)} raised for {type(retriever).__name__}"
        raise CallableError.from_exception(what, error) from error


def _name(part: Callable[[Any], Any]) -> str:
    return f"The retriever adapter {qualified_name(part)}"
