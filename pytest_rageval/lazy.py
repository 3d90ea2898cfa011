"""Lazy imports and patterns: functions imported at their first call, patterns compiled at their first use.

The registries of eval-set formats, retriever adapters, answer measures and reports hold them, so that a run imports
only what it uses. (The registry of scores imports a method's module when one of its scores is asked for.)
"""

import re
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, cast

__all__ = ["Lazy", "lazy_pattern"]


class Lazy:
    """A function of this package, by its module and name.

    >>> Lazy("measures.near_duplicates", "words")("To be, or not?")
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


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use: few runs use all that they import.

    >>> lazy_pattern("[a-z]+").findall("to be")
    ['to', 'be']
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        # It is kept, so that the next use finds it as quickly as that of any object.
        self.__dict__[name] = found = getattr(re.compile(*self._source), name)
        return found
