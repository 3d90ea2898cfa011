"""Adapts functions, methods and callable objects: k by position, by keyword or not at all, and context by keyword."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal

from pytest_rageval.core.errors import CallableError
from pytest_rageval.lib.foreign_values import is_async, signature_of

K_NAMES: Final = (
    "k", "top_k", "topk", "n", "limit", "n_results", "num_results", "max_results", "top", "similarity_top_k",
)  # fmt: skip
"""Usual names of the parameter for the number of documents, the likeliest first."""

NO_COUNT: Final = frozenset({
    "candidates", "characters", "chars", "length", "offset", "page", "retries", "seed", "skip", "start", "timeout",
    "tokens", "words",
})  # fmt: skip
"""Words in the name of an argument that is no number of documents."""

CONTEXT_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "history": ("history",),
    "filters": ("filters", "filter"),
    "metadata": ("metadata",),
    "example": ("example",),
}
"""The parts of the context that a retriever may accept besides query and k, with the names of their parameters, the
likeliest first."""

ALL_CONTEXT_NAMES: Final = frozenset(chain.from_iterable(CONTEXT_NAMES.values()))

POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
BY_KEYWORD: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def overrides_method(retriever: object, method: str) -> bool:
    """Whether a class outside of the base class's package defines this asynchronous method.

    The method of a framework's base class only calls the synchronous method: in a thread, in which some retrievers must
    not be used, or in the event loop.
    """
    definers = [definer for definer in type(retriever).__mro__ if method in vars(definer)]
    if not definers:
        return False
    modules = (getattr(type(retriever), method).__module__, definers[-1].__module__)
    own, base = (module.partition(".")[0] for module in modules)
    return own != base


KUse = Literal["required", "optional", "ignored"]


@dataclass(frozen=True, slots=True)
class Search:
    """A retriever in the common form in which this package calls it, sync or async.

    It is called as `retrieve(query, k, **context)`. `k_use` says whether k is "required"; "optional", so that k may be
    None for as many documents as it returns when it ships; or "ignored": it returns the same, whatever k is. `own_k` is
    the number that it is configured to return. A function is passed k, whatever its `default_k`. If it accepts several
    questions without context in one call, `retrieve_many(queries, k)` returns one result per query.
    """

    retrieve: Callable[..., Any]
    context: Mapping[str, bool] = field(
        default_factory=dict
    )  # names in `CONTEXT_NAMES`; whether each is required
    own_k: int | None = None
    default_k: int | None = None
    retrieve_many: Callable[..., Any] | None = None
    description: str = ""  # its class, and by what it was recognised; empty for a function
    k_use: KUse = "required"

    def __call__(self, query: str, k: int | None, **context: Any) -> Any:
        return self.retrieve(query, k, **context)


def adapt(function: Callable[..., Any]) -> Search:
    """Return a search that calls a function with the query as its first argument, and with k.

    The argument for k is, by the first rule that applies:

    1. the second argument, if its name is in `K_NAMES`, or it is required, or its default is an integer, or it is part
       of `*args`, or the signature is unknown; but not if its name is in `CONTEXT_NAMES`, or has a word of `NO_COUNT`;
    2. a later argument whose name is in `K_NAMES`, by keyword;
    3. none. The caller cuts the result at k.

    Context is passed by keyword, to the arguments whose names are in `CONTEXT_NAMES`. A class is refused, since a call
    creates an object, and retrieves nothing.

    >>> adapt(lambda query, *, top_k=10: [query] * top_k)("why?", 2)
    ['why?', 'why?']
    >>> adapt(lambda query, filters=None: [query, filters])("why?", 2, filters={"lang": "en"})
    ['why?', {'lang': 'en'}]
    """
    if isinstance(function, type):
        kind = function.__name__
        raise CallableError(
            f"The retriever is the class {kind} itself, not an object of it.\nGive an object: {kind}(…)."
        )
    parameters = _parameters(function)
    _refuse_k_first(function, parameters or ())
    context = context_of(function)
    k_is_second = parameters is None or _second_is_k(parameters)
    keyword_of_k = None if k_is_second else name_of_k(function)
    k_use = _use_of_k(function, parameters)
    if k_use == "required" and k_is_second and all(name == item.name for name, item in context.items()):
        return Search(function, required(context))

    def retrieve(query: str, k: int | None, **values: Any) -> Any:
        kwargs = {context[name].name: value for name, value in values.items()}
        if k is None:
            return function(query, **kwargs)
        if keyword_of_k is not None:
            kwargs[keyword_of_k] = k
        return function(query, k, **kwargs) if k_is_second else function(query, **kwargs)

    return Search(async_if(function, retrieve), required(context), default_k=default_k(function), k_use=k_use)


def _use_of_k(function: Callable[..., Any], parameters: list[inspect.Parameter] | None) -> KUse:
    parameter = parameter_of_k(function)
    if parameter is not None:
        return "required" if parameter.default is parameter.empty else "optional"
    if parameters is None:
        return "required"
    return "optional" if _second_is_k(parameters) else "ignored"  # *args


def _refuse_k_first(function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> None:
    """Raise CallableError for a function (k, query): it would search for a number."""
    positional = [parameter for parameter in parameters if parameter.kind in POSITIONAL]
    needed = [parameter.name for parameter in positional if parameter.default is parameter.empty]
    if len(needed) > 1 and needed[0] in K_NAMES and needed[1] not in K_NAMES:
        name = getattr(function, "__name__", type(function).__name__)
        raise CallableError(
            f"The retriever {name}({', '.join(needed)}) has the number of documents first, and is called with the "
            f"question first.\nReturn a function (query, k) -> documents: lambda query, k: {name}(k, query)"
        )


def adapt_method(method: Callable[..., Any]) -> Search:
    """Return a search that calls a method that was found by its name, as `adapt` does.

    It is refused if its first argument is named after a vector, an id or another object, or if more than one further
    argument is required.
    """
    parameters = _parameters(method) or []
    first = parameters[0].name if parameters else ""
    others = [
        parameter.name
        for parameter in parameters[1:]
        if parameter.default is parameter.empty
        and parameter.kind in (*POSITIONAL, inspect.Parameter.KEYWORD_ONLY)
        and parameter.name not in {*K_NAMES, *ALL_CONTEXT_NAMES}
    ]
    if len(others) > 1 or not NO_QUESTION.isdisjoint(first.lower().split("_")):
        owner = type(getattr(method, "__self__", method)).__name__
        wanted = [first, *others] if len(others) > 1 else [first]
        raise CallableError(
            f"The retriever is {owner}, whose {method.__name__} requires {', '.join(wanted)}; rageval passes the "
            "question as text, and k.\nReturn a function (query, k) -> documents that calls it."
        )
    return adapt(method)


NO_QUESTION: Final = frozenset({
    "collection", "embedding", "embeddings", "id", "ids", "index", "table", "token", "tokens", "vector", "vectors",
})  # fmt: skip
"""Words in the name of an argument that is no question."""


def async_if(function: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Return the wrapper of a function, as an async function if the function is async.

    An async search is called for all questions at once.
    """
    if not is_async(function):
        return wrapper

    async def awaiting(*args: Any, **kwargs: Any) -> Any:
        return await wrapper(*args, **kwargs)

    return awaiting


def context_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters after the first whose names are in `CONTEXT_NAMES`, by the name of the context part."""
    named = _keywords(function)
    matches = {name: next(filter(None, map(named.get, names)), None) for name, names in CONTEXT_NAMES.items()}
    return {name: parameter for name, parameter in matches.items() if parameter is not None}


def _keywords(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    later = (_parameters(function) or ())[1:]
    return {parameter.name: parameter for parameter in later if parameter.kind in BY_KEYWORD}


def required(context: Mapping[str, inspect.Parameter]) -> dict[str, bool]:
    return {name: parameter.default is parameter.empty for name, parameter in context.items()}


def name_of_k(function: Callable[..., Any]) -> str | None:
    named = _keywords(function)
    return next((name for name in K_NAMES if name in named), None)


def parameter_of_k(function: Callable[..., Any]) -> inspect.Parameter | None:
    """Return the parameter that `adapt` passes k to; None if there is none, or its name is not known."""
    parameters = _parameters(function) or []
    if _second_is_k(parameters):
        second = next(iter(parameters[1:]), None)
        return second if second is not None and second.kind in POSITIONAL else None
    return _keywords(function).get(name_of_k(function) or "")


def default_k(function: Callable[..., Any]) -> int | None:
    """Return the number of documents that a function returns when it is called without k, as far as is known."""
    parameter = parameter_of_k(function)
    return None if parameter is None else as_count(parameter.default)


def default_of(function: Callable[..., Any], name: str) -> int | None:
    """Return the default of a parameter if it is a number of documents; else None."""
    defaults = {parameter.name: parameter.default for parameter in _parameters(function) or ()}
    return as_count(defaults.get(name))


def as_count(value: object) -> int | None:
    """Return a number of documents, which is an integer of at least 1; None for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters of a function; of a module of DSPy or a tool of smolagents, those of its `forward`.

    Calls of such an object accept any arguments, and pass them on to `forward`.
    """
    signature = signature_of(function)
    if signature is None:
        return None
    parameters = list(signature.parameters.values())
    passes_on = parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL
    # The class is inspected, since a mock object has every method.
    if passes_on and callable(getattr(type(function), "forward", None)):
        return _parameters(function.forward)  # type: ignore[attr-defined]
    return parameters


def _second_is_k(parameters: list[inspect.Parameter]) -> bool:
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters[:2]):
        return True
    second = next(iter(parameters[1:]), None)
    if second is None or second.kind not in POSITIONAL or second.name in ALL_CONTEXT_NAMES:
        return False
    if second.name in K_NAMES:
        return True
    is_integer = isinstance(second.default, int) and not isinstance(second.default, bool)
    may_be_k = second.default is second.empty or is_integer
    return may_be_k and NO_COUNT.isdisjoint(second.name.lower().split("_"))
