"""Retrievers for `test_executor.py`, at the top level of a module, so that other processes can import them."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_rageval.core.errors import InputError, Unscored
from pytest_rageval.core.ranking import Document, Retrieval, Step

built: list[int] = []


def where(query: str, k: int) -> list[str]:
    return [f"{query} {os.getpid()} {n}" for n in range(k)]


def with_context(
    query: str,
    *,
    top_k: int = 3,
    history: Sequence[Mapping[str, str]] = (),
    filter: Mapping[str, Any] | None = None,  # noqa: A002 - as vector stores name it
    metadata: Mapping[str, Any] | None = None,
) -> list[str]:
    return [repr((query, top_k, [dict(message) for message in history], filter, metadata))] * top_k


def stepped(query: str, k: int) -> Retrieval:
    documents = [Document(query, "d1", metadata={"page": 1})]
    return Retrieval(documents[:k], steps=[Step(f"{query}!", documents)], tokens=3, cost=0.5, seconds=0.25)


def lazily(query: str, k: int) -> Iterator[str]:
    return (f"{query} {n}" for n in range(k))


def faulty(query: str, k: int) -> Any:
    """Fail in the way that the query names."""
    if query == "raise":
        message = "no index"
        raise ValueError(message)
    if query == "unscored":
        message = "the index has no such tenant"
        raise Unscored(message)
    if query == "input":
        message = "There is no pool."
        raise InputError(message)
    if query == "exit":
        raise SystemExit(3)
    if query == "cancelled":
        raise asyncio.CancelledError
    if query == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    wrong = {"none": None, "empty": [{}], "lock": [{"text": "t", "metadata": {"lock": threading.Lock()}}]}
    return wrong[query] if query in wrong else [query] * k


async def asynchronous(query: str, k: int) -> list[str]:
    return [query] * k


class Index:
    """A retriever that is built by a factory; with `lock` it cannot be pickled."""

    def __init__(self, prefix: str, *, lock: bool = False) -> None:
        built.append(os.getpid())
        self.prefix = prefix
        self.client = {"session": threading.Lock() if lock else None}

    def __call__(self, _query: str, k: int) -> list[str]:
        return [f"{self.prefix} {os.getpid()} {len(built)}"] * k


class Large:
    """A retriever with ten megabytes."""

    def __init__(self) -> None:
        self.index = b"x" * 10_000_000

    def __call__(self, query: str, k: int) -> list[str]:
        return [f"{query} {len(self.index)}"] * k


def no_index(path: str) -> Index:
    message = f"no index at {path}"
    raise FileNotFoundError(message)
