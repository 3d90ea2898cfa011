"""Functions, methods and callable objects, which take k by position, by name or not at all."""

import inspect
from collections.abc import Callable
from typing import Any, Final

from pytest_rageval.errors import CallableError

__all__ = ["K_NAMES", "adapt", "has_own", "name_of_k"]

K_NAMES: Final = (
    "k", "top_k", "topk", "n", "limit", "n_results", "num_results", "max_results", "similarity_top_k",
)  # fmt: skip
"""Names of the number of documents, the likeliest first."""

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


def adapt(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable `(query, k)` that calls a function with the query as its first argument, and with k.

    k is, by the first rule that fits:

    1. the second argument, where that has a name of `K_NAMES`, or is required, or has an integer default, or is one
       of `*args`, or where the signature is not known;
    2. a later argument with a name of `K_NAMES`, by that name;
    3. left out. The caller cuts the result at k.

    Raises:
        CallableError: it is a class: calling it makes an object, and retrieves nothing.

    >>> adapt(lambda query, *, top_k=10: [query] * top_k)("why?", 2)
    ['why?', 'why?']
    >>> adapt(lambda query, filters=None: [query, filters])("why?", 2)
    ['why?', None]
    """
    if isinstance(function, type):
        kind = function.__name__
        raise CallableError(
            f"The retriever is the class {kind} itself, not an object of it.\nGive an object: {kind}(…)."
        )
    parameters = _parameters(function)
    if parameters is None or _second_is_k(parameters):
        return function
    name = name_of_k(function)
    if name is None:
        return lambda query, _k: function(query)
    return lambda query, k: function(query, **{name: k})


def name_of_k(function: Callable[..., Any]) -> str | None:
    """Return the first name of `K_NAMES` among the parameters after the first; None without one."""
    named = {parameter.name for parameter in (_parameters(function) or ())[1:] if parameter.kind in NAMED}
    return next((name for name in K_NAMES if name in named), None)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # Some functions in C have no signature.
        return None


def _second_is_k(parameters: list[inspect.Parameter]) -> bool:
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters[:2]):
        return True
    second = next(iter(parameters[1:]), None)
    if second is None or second.kind not in POSITIONAL:
        return False
    required = second.default is second.empty
    counts = isinstance(second.default, int) and not isinstance(second.default, bool)
    return required or counts or second.name in K_NAMES
