"""Calls of the user's retrievers, generators and judges; and the names of functions in fingerprints and request keys.

- `user_code`: calls of the user's functions, with checks of what they return.
- `event_loop`: an event loop in a thread of its own, for evaluations that wait for models or for the user's async code.
  `threads`: that thread, and a pool of threads. `gathering`: runs many coroutines at once, and without an event loop.
"""

import inspect
import sys
from functools import partial
from typing import Any, Final

STORED_AS: Final = "STORED_AS"
"""The constant of a module of this package whose public classes have another module name in fingerprints and request
keys, since those names never change: that name."""


def identity_of(function: Any) -> str:
    """Return the text that identifies a function in a baseline: its qualified name, with bound arguments.

    If the function or its object has an attribute `fingerprint`, it is that: users change it with the function.
    """
    owner = getattr(function, "__self__", None)
    for fingerprint in (getattr(function, "fingerprint", None), getattr(owner, "fingerprint", None)):
        if isinstance(fingerprint, str):
            return fingerprint
    if isinstance(function, partial):
        arguments = [_stable_repr(value) for value in function.args]
        arguments += [f"{name}={_stable_repr(value)}" for name, value in sorted(function.keywords.items())]
        return f"{identity_of(function.func)}({', '.join(arguments)})"
    if inspect.ismethod(function):
        # The class of the object, not of the method: two judges may inherit the method from one base class.
        return f"{qualified_name(owner if isinstance(owner, type) else type(owner))}.{function.__name__}"
    return qualified_name(function)


def qualified_name(thing: Any) -> str:
    """Return module and qualified name of a function or class; for another object those of its class.

    >>> qualified_name(print), qualified_name(1)
    ('builtins.print', 'builtins.int')
    """
    function_or_class = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{stored_module(function_or_class)}.{function_or_class.__qualname__}"


def stored_module(function_or_class: Any) -> str:
    """Return the module of a function or class, as fingerprints and request keys name it."""
    name = str(function_or_class.__module__)
    return getattr(sys.modules[name], STORED_AS, name) if name.startswith("pytest_rageval.") else name


def _stable_repr(value: object) -> str:
    """Return the repr of a value if it is the same in every process; else the name of its type."""
    return repr(value) if isinstance(value, str | int | float | bool | None) else qualified_name(type(value))
