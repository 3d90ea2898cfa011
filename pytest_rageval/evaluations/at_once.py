"""Awaiting many at once."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar, cast

__all__ = ["all_of", "both"]

T = TypeVar("T")
U = TypeVar("U")


async def all_of(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Await all at once; an exception is raised when all have come to their end."""
    ended = await asyncio.gather(*awaitables, return_exceptions=True)
    results = []
    for result in ended:
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results


async def both(one: Awaitable[T], other: Awaitable[U]) -> tuple[T, U]:
    """`all_of` for two of different types."""
    first, second = await all_of([cast("Awaitable[Any]", one), cast("Awaitable[Any]", other)])
    return first, second
