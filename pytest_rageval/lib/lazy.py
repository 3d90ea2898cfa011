"""Lazy imports: a function is imported at its first call, so that a run imports only the modules that it uses."""

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any


class Lazy:
    """A function of this package that is imported at its first call.

    >>> Lazy("scores.near_duplicates", "words")("To be, or not?")
    ('to', 'be', 'or', 'not')
    """

    def __init__(self, module: str, name: str) -> None:
        self.__module__ = f"pytest_rageval.{module}"
        self.__name__ = self.__qualname__ = name

    @cached_property
    def __wrapped__(self) -> Callable[..., Any]:
        """The imported function. `inspect.signature` reads this attribute too."""
        function: Callable[..., Any] = getattr(import_module(self.__module__), self.__name__)
        return function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)
