"""A server that answers as a script says: any status, any body, or never."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.llm_server import LLMServer


@dataclass
class Answer:
    """One HTTP answer.

    Attributes:
        status: of HTTP.
        body: as JSON, or as bytes that are sent as they are.
        headers: beside those that HTTP needs.
        delay_s: before it is sent.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0

    def encoded(self) -> bytes:
        """As it goes over the wire."""
        data = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        # One may promise another length than it sends.
        headers = {"content-type": "application/json", "content-length": str(len(data)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + data


NEVER = Answer(body={}, delay_s=3600.0)


def completion(text: str | None = "fine", **changes: Any) -> dict[str, Any]:
    """A chat completion as OpenAI has it; changes are of its choice or, if the choice has none such, of it."""
    message = {"role": "assistant", "content": text, **changes.pop("message", {})}
    choice = {"index": 0, "finish_reason": changes.pop("finish_reason", "stop"), "message": message}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    return {
        "id": "1",
        "object": "chat.completion",
        "model": "m-2024",
        "choices": [choice],
        "usage": usage,
    } | (changes)


def error(message: str, **more: Any) -> dict[str, Any]:
    """A refusal's body as OpenAI has it."""
    return {"error": {"message": message, **more}}


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, but not for ever."""
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise TimeoutError


class ScriptedServer(LLMServer):
    """Answers the first request with the first answer and so on, and from then on with the last.

    Args:
        script: answers; a completion's text for short, or a function from the body of a request.
    """

    def __init__(self, *script: Answer | str | Callable[[dict[str, Any]], Answer | str]) -> None:
        super().__init__()
        self.script = list(script) or ["fine"]

    async def _reply(self, body: dict[str, Any]) -> bytes:
        try:
            await self._received(body)
            said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            said = said(body) if callable(said) else said
            answer = said if isinstance(said, Answer) else Answer(body=completion(said))
            await asyncio.sleep(answer.delay_s)
        finally:
            self.in_flight -= 1
        return answer.encoded()
