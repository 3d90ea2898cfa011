"""The body of a server's answer, read up to a size: a small answer may unpack to gigabytes."""

from collections.abc import AsyncIterator
from typing import Final

import httpx2  # the openai client's own, loaded with it
import openai

from pytest_rageval.llm.reply import TooLarge

__all__ = ["MOST_BYTES", "bounded_client"]

MOST_BYTES: Final = 16 * 2**20
"""Of a body, unpacked."""


class _Bounded(httpx2.AsyncByteStream):
    """A response's body, unpacked, which raises `TooLarge` beyond the size."""

    def __init__(self, response: httpx2.Response) -> None:
        # One of its own unpacks: that of the client would be read without a bound.
        self._packed = httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._packed.aiter_bytes():
            size += len(part)
            if size > MOST_BYTES:
                raise TooLarge(f"the server's answer is larger than {MOST_BYTES // 2**20} MiB")
            yield part

    async def aclose(self) -> None:
        await self._packed.aclose()


async def _bound(response: httpx2.Response) -> None:
    response.stream = _Bounded(response)
    response.headers.pop("content-encoding", None)


def bounded_client() -> httpx2.AsyncClient:
    """An HTTP client for the openai client; every body is bounded, an error's too.

    It follows no redirect, which may turn POST into GET, and lead to a server that the key is not for.
    """
    return openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks={"response": [_bound]})
