"""Functions, methods and callable objects, which take k by position, by name or not at all, and context by name."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from pytest_rageval.errors import CallableError
from pytest_rageval.user_code import is_async, signature_of

__all__ = [
    "CONTEXT_NAMES",
    "K_NAMES",
    "Search",
    "adapt",
    "as_count",
    "context_of",
    "default_of",
    "has_own",
    "name_of_k",
    "required",
]

K_NAMES: Final = (
    "k", "top_k", "topk", "n", "limit", "n_results", "num_results", "max_results", "similarity_top_k",
)  # fmt: skip
"""Names of the number of documents, the likeliest first."""

CONTEXT_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "history": ("history",),
    "filters": ("filters", "filter"),
    "metadata": ("metadata",),
    "example": ("example",),
}
"""What a retriever may receive beside query and k, each with the names of its parameter, the likeliest first."""

ALL_CONTEXT_NAMES: Final = frozenset(chain.from_iterable(CONTEXT_NAMES.values()))

POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def has_own(retriever: object, method: str) -> bool:
    """Whether a class other than the framework's base class defines this asynchronous method.

    The base class only calls the synchronous one: in a thread, where some retrievers must not be used, or in the loop.
    """
    definers = [definer for definer in type(retriever).__mro__ if method in vars(definer)]
    if not definers:
        return False
    defined_in = (getattr(type(retriever), method).__module__, definers[-1].__module__)
    own, base = (module.partition(".")[0] for module in defined_in)
    return own != base


@dataclass(frozen=True, slots=True)
class Search:
    """A retriever in the form in which it is called.

    Attributes:
        ask: called as `(query, k, **context)`, sync or async. With `own_k`, k may be None for the retriever's own.
        context: of `CONTEXT_NAMES`, what `ask` takes by keyword, and whether it is required.
        own_k: the number of documents that the retriever is configured to return; None if it has none.
        many: called as `(queries, k)` for questions without context, sync or async; returns one result per query.
            None if the retriever takes only one at a time.
    """

    ask: Callable[..., Any]
    context: Mapping[str, bool] = field(default_factory=dict)
    own_k: int | None = None
    many: Callable[..., Any] | None = None

    def __call__(self, query: str, k: int | None, **context: Any) -> Any:
        """Ask."""
        return self.ask(query, k, **context)


def adapt(function: Callable[..., Any]) -> Search:
    """Return a search that calls a function with the query as its first argument, and with k.

    k is, by the first rule that fits:

    1. the second argument, where that has a name of `K_NAMES`, or is required, or has an integer default, or is one
       of `*args`, or where the signature is not known; not where it has a name of `CONTEXT_NAMES`;
    2. a later argument with a name of `K_NAMES`, by that name;
    3. left out. The caller cuts the result at k.

    Context is given by name, to the arguments with one of `CONTEXT_NAMES`.

    Raises:
        CallableError: it is a class: calling it makes an object, and retrieves nothing.

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
    context = context_of(function)
    second = parameters is None or _second_is_k(parameters)
    if second and all(name == parameter.name for name, parameter in context.items()):
        return Search(function, required(context))
    by_name = None if second else name_of_k(function)

    def ask(query: str, k: int, **given: Any) -> Any:
        named = {context[name].name: value for name, value in given.items()}
        if by_name is not None:
            named[by_name] = k
        return function(query, k, **named) if second else function(query, **named)

    return Search(_sync_or_async(ask, function), required(context))


def _sync_or_async(ask: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `ask`, as an async function where the function is one: it is then called for all questions at once."""
    if not is_async(function):
        return ask

    async def awaited(query: str, k: int, **given: Any) -> Any:
        return await ask(query, k, **given)

    return awaited


def context_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters after the first that are named as context, by the name of the context."""
    named = {
        parameter.name: parameter
        for parameter in (_parameters(function) or ())[1:]
        if parameter.kind in NAMED
    }
    found = {name: next(filter(None, map(named.get, names)), None) for name, names in CONTEXT_NAMES.items()}
    return {name: parameter for name, parameter in found.items() if parameter is not None}


def required(context: Mapping[str, inspect.Parameter]) -> dict[str, bool]:
    """Return whether each of these parameters is required."""
    return {name: parameter.default is parameter.empty for name, parameter in context.items()}


def name_of_k(function: Callable[..., Any]) -> str | None:
    """Return the first name of `K_NAMES` among the parameters after the first; None without one."""
    named = {parameter.name for parameter in (_parameters(function) or ())[1:] if parameter.kind in NAMED}
    return next((name for name in K_NAMES if name in named), None)


def default_of(function: Callable[..., Any], name: str) -> int | None:
    """Return the default of a parameter where it is an integer; else None."""
    defaults = {parameter.name: parameter.default for parameter in _parameters(function) or ()}
    return as_count(defaults.get(name))


def as_count(value: object) -> int | None:
    """Return a number of documents, an integer of at least 1; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    signature = signature_of(function)
    return None if signature is None else list(signature.parameters.values())


def _second_is_k(parameters: list[inspect.Parameter]) -> bool:
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters[:2]):
        return True
    second = next(iter(parameters[1:]), None)
    if second is None or second.kind not in POSITIONAL or second.name in ALL_CONTEXT_NAMES:
        return False
    required = second.default is second.empty
    counts = isinstance(second.default, int) and not isinstance(second.default, bool)
    return required or counts or second.name in K_NAMES
