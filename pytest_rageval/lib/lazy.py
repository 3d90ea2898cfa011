"""Lazy imports and patterns: a function is imported at its first call, a pattern is compiled at its first use.

The registries of eval-set formats, retriever adapters, answer measures and reports contain such functions, so that a
run imports only the modules that it uses. (The registry of scores imports a method's module when one of its scores is
requested.)
"""

import re
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, cast


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


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use: few runs use all patterns of the modules that they import.

    Compiling all of them takes 0.17 s of processor time, a quarter of a ranking run with two questions.

    >>> lazy_pattern("[a-z]+").findall("to be")
    ['to', 'be']
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        # Stored in the instance, so that the next access of the attribute does not call `__getattr__`.
        self.__dict__[name] = attribute = getattr(re.compile(*self._source), name)
        return attribute
