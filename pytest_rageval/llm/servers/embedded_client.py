"""Sends requests to the embedded model, one to each of its contexts at a time.

A context keeps the tokens of its last prompt, and evaluates a prompt from where it differs. Where that is changes how
tokens are batched, which changes the rounding and now and then a reply. So each prompt begins where it differs from
the request sent before it, as if there were one context: a request goes to another one only where what both have in
common is the text before the question, which is the worked examples.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pytest_rageval.llm.messages import Reply, Request
from pytest_rageval.llm.proxied_request import Answer, ProxiedRequest
from pytest_rageval.llm.servers.client import Client, Endpoint

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["EmbeddedClient"]

T = TypeVar("T")
Addresses = Callable[[], Awaitable[Sequence[str]]]
"""Starts the server at the first call, and returns the URLs of its contexts."""

FILLER: Final = "~ ~ ~ ~ ~ ~"  # text that no question begins with


class EmbeddedClient(Client):
    """Gives each request to the context with the fewest, or to that of the request before it."""

    def __init__(self, server: Endpoint, addresses: Addresses, *, contexts: int, timeout_s: float) -> None:
        super().__init__(server, timeout_s=timeout_s)
        self._contexts = [_Context(server, addresses, n, timeout_s=timeout_s) for n in range(contexts)]
        self._last = self._contexts[0]
        self._before: _Prompt | None = None

    async def complete(self, request: Request, parameters: Mapping[str, Any]) -> tuple[Reply, float | None]:
        """Send a request once; raises as `Client.complete`."""
        prompt, before = _Prompt.of(request), self._before
        if before is not None and prompt.shares_examples(before):
            self._last = min(self._contexts, key=lambda context: context.requests)
        self._before = prompt
        async with self._last as context:
            return await context.complete_after(before, prompt, request, parameters)

    async def forward(
        self, proxied: ProxiedRequest, method: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send a request of any kind once; raises as `Client.forward`."""
        async with self._last as context:
            return await context.forward(proxied, method, content, headers)

    async def call(self, request: Request, do: Callable[["AsyncOpenAI"], Awaitable[T]]) -> T:
        """Do something else with the library's client; raises as `Client.call`."""
        async with self._last as context:
            return await context.call(request, do)

    async def close(self) -> None:
        """Close the connections."""
        for context in self._contexts:
            await context.close()


@dataclass(frozen=True)
class _Prompt:
    """A prompt: its text, that before the question, and the question's first letter; both "" for no question."""

    text: str
    examples: str
    letter: str

    @classmethod
    def of(cls, request: Request) -> Self:
        text = "".join(str(message.get("content", "")) for message in request.messages)
        question = request.parts.get("question", "")
        at = text.find(question) if question else 0
        return cls(text, text[:at], text[at]) if at > 0 else cls(text, "", "")

    def shares_examples(self, other: "_Prompt") -> bool:
        """Whether it has the text before the question in common with another prompt, and no more."""
        return bool(self.examples) and self.examples == other.examples and self.letter != other.letter


class _Context(Client):
    """One context of the server; entered for each request, it gives them their turns."""

    def __init__(self, server: Endpoint, addresses: Addresses, n: int, *, timeout_s: float) -> None:
        super().__init__(server, timeout_s=timeout_s)
        self._addresses = addresses
        self._n = n
        self._kept: _Prompt | None = None  # that of its last request
        self._turn = asyncio.Lock()
        self.requests = 0

    async def __aenter__(self) -> Self:
        self.requests += 1
        try:
            await self._turn.acquire()
        except BaseException:
            self.requests -= 1
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._turn.release()
        self.requests -= 1

    async def address(self) -> str:
        """Return the URL of the context."""
        return (await self._addresses())[self._n]

    async def complete_after(
        self, before: _Prompt | None, prompt: _Prompt, request: Request, parameters: Mapping[str, Any]
    ) -> tuple[Reply, float | None]:
        """Send a request once, evaluated as after the one sent before it."""
        kept, self._kept = self._kept, None
        if before is not None and kept is not before and prompt.shares_examples(before):
            if kept is None or kept.examples != prompt.examples:
                await self._evaluate(before.text, request)
            elif kept.letter == prompt.letter:
                await self._evaluate(prompt.examples + FILLER, request)
        answer = await self.complete(request, parameters)
        self._kept = prompt
        return answer

    async def _evaluate(self, text: str, request: Request) -> None:
        alone = replace(request, messages=({"role": "user", "content": text},), parts={})
        await self.complete(alone, {"max_tokens": 1, "temperature": 0.0})
