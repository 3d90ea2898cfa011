"""Adapters: create a `Search` from each supported kind of retriever."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import iscoroutine
from types import FunctionType, MethodType
from typing import Any, Final

from pytest_rageval.calls import qualified_name
from pytest_rageval.core.errors import CallableError, RagevalError
from pytest_rageval.lib.foreign_values import modules_of
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.retrievers.adapters import callables
from pytest_rageval.retrievers.adapters.callables import Search

Adapter = tuple[Callable[[Any], bool], Callable[[Any], Callable[..., Any]]]
"""A function that recognises a retriever, and one that returns a `Search`, or a function `(query, k)`, for it."""

FRAMEWORKS: Final = {"langchain_core": "LangChain", "llama_index": "LlamaIndex", "haystack": "Haystack"}
"""The names of frameworks by the package of their base classes."""


@dataclass(frozen=True)
class MethodTest:
    """Tells whether a retriever has all of these methods, the called one first, and a base class of a framework."""

    methods: Sequence[str]
    package: str = ""

    def __call__(self, retriever: Any) -> bool:
        if not all(callable(getattr(retriever, name, None)) for name in self.methods):
            return False
        return not self.package or self.package in {name.partition(".")[0] for name in modules_of(retriever)}

    @property
    def description(self) -> str:
        framework = f"a class of {FRAMEWORKS[self.package]}, " if self.package else ""
        return f"{framework}by its method {self.methods[0]}"


def _is_store(retriever: object) -> bool:
    # Most retrievers are functions, which need no table of stores.
    return not isinstance(retriever, FunctionType | MethodType) and is_store(retriever)


is_store: Final = Lazy("retrievers.adapters.frameworks", "is_store")
REFUSE: Final = Lazy("retrievers.adapters.frameworks", "refuse")
LANGCHAIN: Final = Lazy("retrievers.adapters.frameworks", "adapt_langchain")
STORE: Final = Lazy("retrievers.adapters.frameworks", "adapt_langchain_store")
LLAMA_INDEX: Final = Lazy("retrievers.adapters.frameworks", "adapt_llama_index")
PIPELINE: Final = Lazy("retrievers.adapters.frameworks", "adapt_pipeline")
COMPONENT: Final = Lazy("retrievers.adapters.frameworks", "adapt_component")

ADAPTERS: Final[Sequence[Adapter]] = (
    (_is_store, REFUSE),
    # Callables are before methods, since a mock has every method.
    (callable, callables.adapt),
    # The class decides: other classes of these frameworks have methods of the same names.
    (MethodTest(("invoke",), "langchain_core"), LANGCHAIN),
    (MethodTest(("similarity_search",), "langchain_core"), STORE),
    (MethodTest(("retrieve",), "llama_index"), LLAMA_INDEX),
    (MethodTest(("run", "inputs", "outputs"), "haystack"), PIPELINE),
    (MethodTest(("run",), "haystack"), COMPONENT),
    # Classes of the user's own, whose methods have the signatures of a framework.
    (MethodTest(("invoke",)), LANGCHAIN),
    (MethodTest(("retrieve",)), LLAMA_INDEX),
    (MethodTest(("run", "inputs", "outputs")), PIPELINE),
    (MethodTest(("run",)), COMPONENT),
    (MethodTest(("similarity_search",)), STORE),
    # An index of LlamaIndex makes its own retriever.
    (MethodTest(("as_retriever",)), REFUSE),
)
"""The adapters in the order in which they are tried."""


SEARCH_METHODS: Final = ("search", "query", "find", "get_relevant_documents", "retrieve_documents", "forward")
"""Usual names of methods that search. They are not called without being asked: their arguments are not known."""

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
    if isinstance(retriever, RetrieverFactory):
        retriever = retriever.made()
    found = next((adapter for adapter in adapters if _call(adapter[0], retriever)), None)
    if found is None:
        kind = type(retriever).__name__
        if kind in {"coroutine", "async_generator"}:
            if iscoroutine(retriever):
                retriever.close()  # else Python warns, in a later test, that it was never awaited
            raise CallableError(
                f"{name} is {'a coroutine' if kind == 'coroutine' else 'an async generator'}: the fixture is async, or "
                "calls the async function.\nWrite a fixture that is not async, and returns the function itself, "
                "(query, k) -> documents; it may be async."
            )
        methods = [method for method in SEARCH_METHODS if callable(getattr(retriever, method, None))]
        hint = f" It has {methods[0]}: return the method, {kind}(…).{methods[0]}." if methods else ""
        raise CallableError(
            f"{name} is {kind}, which cannot be called.\n"
            "Return a function (query, k) -> documents from the fixture, sync or async, or an object with "
            f"invoke (LangChain), retrieve (LlamaIndex), run (Haystack) or similarity_search.{hint}"
        )
    recognises, adapt = found
    search = _call(adapt, retriever)
    if not callable(search):
        raise CallableError(
            f"The retriever adapter {qualified_name(adapt)} gave {type(search).__name__} for "
            f"{type(retriever).__name__}.\nIt gives a function (query, k) -> documents, sync or async."
        )
    if not isinstance(search, Search):
        context = callables.context_of(search).items()
        named = {name: parameter for name, parameter in context if parameter.name == name}
        search = Search(search, callables.required(named), default_k=callables.default_k(search))
    if isinstance(recognises, MethodTest):
        search = replace(search, description=f"{type(retriever).__name__}, {recognises.description}")
    elif found not in ADAPTERS and not search.description:
        search = replace(search, description=f"{type(retriever).__name__}, by {qualified_name(adapt)}")
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
        what = f"The retriever adapter {qualified_name(part)} raised for {type(retriever).__name__}"
        raise CallableError.from_exception(what, error) from error
