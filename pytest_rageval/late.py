"""Functions that are imported when they are first called.

The registries of eval-set formats, retriever adapters, answer measures and reports hold them, so that a run imports
only what it uses. (The registry of scores imports a method's module when one of its scores is asked for.)
"""

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

__all__ = ["Late"]


class Late:
    """A function of this package, by its module and name.

    >>> Late("measures.near_duplicates", "words")("To be, or not?")
    ('to', 'be', 'or', 'not')
    """

    def __init__(self, module: str, name: str) -> None:
        self.__module__ = f"{__package__}.{module}"
        self.__name__ = self.__qualname__ = name

    @cached_property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, where `inspect.signature` finds it too."""
        function: Callable[..., Any] = getattr(import_module(self.__module__), self.__name__)
        return function

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Import the function, and call it."""
        return self.__wrapped__(*args, **named)
