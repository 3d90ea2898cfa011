"""Functions, methods and callable objects, given k in the way their signature asks for."""

import inspect
from collections.abc import Callable
from typing import Any, Final

from pytest_rageval.errors import CallableError

__all__ = ["K_NAMES", "adapt", "has_own", "name_of_k"]


def has_own(retriever: object, method: str) -> bool:
    """Whether a class that is not the framework's defines this asynchronous method.

    A framework's base class has one for every retriever, which calls the synchronous method: in another thread,
    where some retrievers must not be used, or in the event loop, where it holds up the others. Such a retriever
    is rather asked synchronously.
    """
    definers = [definer for definer in type(retriever).__mro__ if method in vars(definer)]
    if not definers:
        return False
    defined_in = (getattr(type(retriever), method).__module__, definers[-1].__module__)
    own, base = (module.partition(".")[0] for module in defined_in)
    return own != base


K_NAMES: Final = (
    "k",
    "top_k",
    "topk",
    "n",
    "limit",
    "n_results",
    "num_results",
    "max_results",
    "similarity_top_k",
)
"""What the number of documents is called, the likeliest first."""

POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def adapt(function: Callable[..., Any]) -> Callable[..., Any]:
    """A callable `(query, k)` of one that takes k in a way of its own, or not at all.

    The query is its first argument. k is, by the first rule that fits:

    1. the second, where that has a name of `K_NAMES`, or is required, or has an integer as its default, or is
       one of `*args`; so too where nothing is known of the signature;
    2. a later one with a name of `K_NAMES`, by that name;
    3. not told: the function is asked as it is, and what is beyond k is cut.

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
    """The parameter behind the first that stands for k by its name; None where there is none."""
    named = {parameter.name for parameter in (_parameters(function) or ())[1:] if parameter.kind in NAMED}
    return next((name for name in K_NAMES if name in named), None)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # As of some that are written in C.
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
