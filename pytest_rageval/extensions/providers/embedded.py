"""Sends requests to the embedded model, one request per context at a time.

A context of llama.cpp keeps the tokens of its last prompt, and evaluates the next prompt from the first difference on.
The position of that difference changes how tokens are batched, which changes rounding and now and then a reply. So that
replies do not depend on the number of contexts, each prompt is evaluated from its first difference to the previous
request on, as in a single context. A request moves to another context only if both prompts have exactly the text before
the question in common, which is the worked examples.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pytest_rageval.models.client import Client, Server
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.proxied_request import Answer, ProxiedRequest

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")
GetAddresses = Callable[[], Awaitable[Sequence[str]]]
"""Returns the URLs of the contexts of the server, which the first call starts."""

FILLER: Final = "~ ~ ~ ~ ~ ~"  # no question begins with this text


class EmbeddedClient(Client):
    """Sends each request to the context with the fewest requests, or to the context of the previous request."""

    def __init__(self, server: Server, addresses: GetAddresses, *, contexts: int, timeout_s: float) -> None:
        super().__init__(server, timeout_s=timeout_s)
        self._contexts = [
            _Context(server, addresses, index, timeout_s=timeout_s) for index in range(contexts)
        ]
        self._context = self._contexts[0]
        self._previous: _Prompt | None = None

    async def complete(self, request: Request, parameters: Mapping[str, Any]) -> tuple[Reply, float | None]:
        """Send a request once; raise the errors of `Client.complete`."""
        prompt, previous = _Prompt.from_request(request), self._previous
        if previous is not None and prompt.shares_examples(previous):
            self._context = min(self._contexts, key=lambda context: context.requests)
        self._previous = prompt
        async with self._context as context:
            return await context.complete_after(previous, prompt, request, parameters)

    async def forward(
        self, proxied: ProxiedRequest, method: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send a request of any kind once; raise the errors of `Client.forward`."""
        async with self._context as context:
            return await context.forward(proxied, method, content, headers)

    async def call(self, request: Request, function: Callable[["AsyncOpenAI"], Awaitable[T]]) -> T:
        """Call a function with the `openai` client; raise the errors of `Client.call`."""
        async with self._context as context:
            return await context.call(request, function)

    async def close(self) -> None:
        """Close the connections."""
        for context in self._contexts:
            await context.close()


@dataclass(frozen=True)
class _Prompt:
    """The text of a prompt, its part before the question, and the first letter of the question.

    Without a question, part and letter are "".
    """

    text: str
    examples: str
    letter: str

    @classmethod
    def from_request(cls, request: Request) -> Self:
        text = "".join(str(message.get("content", "")) for message in request.messages)
        question = request.parts.get("question", "")
        start = text.find(question) if question else 0
        return cls(text, text[:start], text[start]) if start > 0 else cls(text, "", "")

    def shares_examples(self, other: "_Prompt") -> bool:
        """Whether both prompts have exactly the text before the question in common."""
        return bool(self.examples) and self.examples == other.examples and self.letter != other.letter


class _Context(Client):
    """One context of the server. It is entered for each request, and admits one request at a time."""

    def __init__(self, server: Server, addresses: GetAddresses, index: int, *, timeout_s: float) -> None:
        super().__init__(server, timeout_s=timeout_s)
        self._addresses = addresses
        self._index = index
        self._cached: _Prompt | None = None  # the prompt of its last request, whose tokens it keeps
        self._lock = asyncio.Lock()
        self.requests = 0

    async def __aenter__(self) -> Self:
        self.requests += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self.requests -= 1
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        self.requests -= 1

    async def address(self) -> str:
        """Return the URL of the context."""
        return (await self._addresses())[self._index]

    async def complete_after(
        self, previous: _Prompt | None, prompt: _Prompt, request: Request, parameters: Mapping[str, Any]
    ) -> tuple[Reply, float | None]:
        """Send a request once, evaluated as if it followed the previous request in this context."""
        cached, self._cached = self._cached, None
        if previous is not None and cached is not previous and prompt.shares_examples(previous):
            if cached is None or cached.examples != prompt.examples:
                await self._evaluate(previous.text, request)
            elif cached.letter == prompt.letter:
                await self._evaluate(prompt.examples + FILLER, request)
        result = await self.complete(request, parameters)
        self._cached = prompt
        return result

    async def _evaluate(self, text: str, request: Request) -> None:
        """Let the context evaluate a text, so that it keeps the tokens of the text."""
        alone = replace(request, messages=({"role": "user", "content": text},), parts={})
        await self.complete(alone, {"max_tokens": 1, "temperature": 0.0})
