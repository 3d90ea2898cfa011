"""A retriever that is built where it runs."""

from collections.abc import Callable
from typing import Any

__all__ = ["RetrieverFactory"]


class RetrieverFactory:
    """Builds the retriever: once in each process of the fixture `rageval_executor`, or here where there is none.

    Only the function and its arguments are sent to the processes, so that an index need not be pickled.

    Args:
        make: a function or a class at the top level of a module; what it returns is a retriever of any form.
        *args: its arguments.
        **named: its arguments by name.

    >>> RetrieverFactory(dict, a=1).made()
    {'a': 1}
    """

    def __init__(self, make: Callable[..., Any], /, *args: Any, **named: Any) -> None:
        self._make = make
        self._args = args
        self._named = named

    def made(self) -> Any:
        """Build a retriever."""
        return self._make(*self._args, **self._named)
