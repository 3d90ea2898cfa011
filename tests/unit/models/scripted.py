"""`ScriptedServer`: a chat server with a script of HTTP responses, of any status, body and delay."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.llm_server import LLMServer


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0

    def encoded(self) -> bytes:
        data = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        # `headers` may set a content length that differs from that of the body.
        headers = {"content-type": "application/json", "content-length": str(len(data)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + data


NEVER = Answer(body={}, delay_s=3600.0)


def completion(text: str | None = "fine", **changes: Any) -> dict[str, Any]:
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
    return {"error": {"message": message, **more}}


async def until(condition: Callable[[], object]) -> None:
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise TimeoutError


class ScriptedServer(LLMServer):
    """A server that sends the responses of its script in order; the last one is sent to all further requests.

    Args:
        script: the responses: an `Answer`, the text of a completion, or a function that returns one of these for the
            body of a request.
    """

    def __init__(self, *script: Answer | str | Callable[[dict[str, Any]], Answer | str]) -> None:
        super().__init__()
        self.script = list(script) or ["fine"]

    async def _reply(self, body: dict[str, Any]) -> bytes:
        try:
            await self._received(body)
            item = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            item = item(body) if callable(item) else item
            answer = item if isinstance(item, Answer) else Answer(body=completion(item))
            await asyncio.sleep(answer.delay_s)
        finally:
            self.in_flight -= 1
        return answer.encoded()
