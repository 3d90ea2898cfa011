"""An OpenAI-compatible chat server on 127.0.0.1, for tests: real HTTP, scripted replies.

In a test it runs in a thread (`with LLMServer() as server`); benchmarks run it as a
process of its own: `python tests/llm_server.py --latency-ms 200`.
"""

import argparse
import asyncio
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Fault:
    """A status instead of a reply; with the header "connection: close" the last of its connection."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "scripted fault"
    body: dict[str, Any] | bytes | None = None


@dataclass
class Hang:
    """No reply for so long, and then one that nobody waits for."""

    seconds: float = 60.0


@dataclass
class Cut:
    """A reply that the token limit ended, or that is unusual otherwise: fields of its message and choice."""

    text: str = ""
    finish_reason: str = "length"
    refusal: str | None = None


Said = str | Fault | Hang | Cut


def clerk(prompt: str) -> str:
    """The scripted model: answers `item-N` questions with the code that a passage gives for it.

    As a judge it says yes where the checked answer is one of the references.
    """
    if "Answer to check:\n" in prompt:
        references = re.findall(r"^- (.*)$", prompt, re.MULTILINE)
        checked = re.search(r"^Answer to check:\n<.*>\n(.*)\n</", prompt, re.MULTILINE)
        return "yes" if checked and checked[1] in references else "no"
    item = re.search(r"item-\d+", prompt)
    code = re.search(rf"{item[0]} has the code (\w+)", prompt) if item else None
    return code[1] if code else "no answer in the documents"


class LLMServer:
    """Answers POST /v1/chat/completions.

    Attributes:
        model: from the prompt to the reply's text, or to a fault.
        latency_s: before each reply, in seconds.
        together: no reply before so many requests have been in flight at once.
        requests: the bodies received, in order.
        paid: of these, those that were answered.
        refuse: looks at a body before the model does, and may refuse it.
        keys: the Authorization headers received.
        served: the name that replies give the model; empty for that of the request.
        targets: the methods and targets received, such as "POST /v1/chat/completions".
    """

    def __init__(self, model: Callable[[str], Said] = clerk, latency_s: float = 0.0) -> None:
        self.model = model
        self.latency_s = latency_s
        self.served = ""
        self.together = 1
        self.requests: list[dict[str, Any]] = []
        self.paid: list[dict[str, Any]] = []
        self.refuse: Callable[[dict[str, Any]], Fault | None] = lambda _: None
        self.keys: set[str] = set()
        self.targets: set[str] = set()
        self.in_flight = 0
        self.most_in_flight = 0
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._connections: set[asyncio.Task[None] | None] = set()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._serve_in_thread, daemon=True)
        self._thread.start()
        if not self._ready.wait(60):
            raise TimeoutError("the server does not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    def _serve_in_thread(self) -> None:
        self._loop.run_until_complete(self.serve(0))
        self._loop.close()

    @property
    def connected(self) -> bool:
        """Whether any client is, or has left something that is not read."""
        return bool(self._connections)

    @property
    def prompts(self) -> list[str]:
        """The last message of each request."""
        return [body["messages"][-1]["content"] for body in self.requests]

    async def serve(self, port: int) -> None:
        """Serve until told to stop."""
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", port, backlog=1024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        if not threading.current_thread().daemon:
            print(self.url, flush=True)  # noqa: T201 - the protocol of the process
        await self._stop.wait()
        server.close()
        connections = [task for task in self._connections if task is not None]
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?im)^content-length: *(\d+)", head)
                body = json.loads(await reader.readexactly(int(length[1]) if length else 0) or b"{}")
                key = re.search(r"(?im)^authorization: *(.*?)\r", head)
                self.keys.add(key[1] if key else "")
                self.targets.add(head.partition(" HTTP/")[0])
                reply = await self._answer(head, body)
                writer.write(reply)
                await writer.drain()
                if b"\r\nconnection: close\r\n" in reply.partition(b"\r\n\r\n")[0] + b"\r\n":
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # the client is gone, or the server is told to stop
        finally:
            writer.transport.abort()
            self._connections.discard(task)

    async def _answer(self, head: str, body: dict[str, Any]) -> bytes:  # noqa: ARG002 - for servers that read it
        """The answer to a request with this head."""
        return await self._reply(body)

    async def _received(self, body: dict[str, Any]) -> None:
        """Count a request in, and wait for the others, but not for ever."""
        self.requests.append(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        for _ in range(5000):
            if self.most_in_flight >= self.together:
                return
            await asyncio.sleep(0.001)

    async def _reply(self, body: dict[str, Any]) -> bytes:
        try:
            await self._received(body)
            await asyncio.sleep(self.latency_s)
            prompt = body["messages"][-1]["content"]
            said = self.refuse(body) or self.model(prompt)
            if isinstance(said, Hang):
                await asyncio.sleep(said.seconds)
                said = ""
        finally:
            self.in_flight -= 1
        if isinstance(said, Fault):
            if said.body is not None:
                return _http(said.status, said.body, said.headers)
            return _http(said.status, {"error": {"message": said.message}}, said.headers)
        self.paid.append(body)
        usage = {
            "prompt_tokens": len(prompt) // 4,
            "completion_tokens": 1,
            "total_tokens": len(prompt) // 4 + 1,
        }
        cut = said if isinstance(said, Cut) else Cut(said, "stop")
        message = {"role": "assistant", "content": cut.text, "refusal": cut.refusal}
        choice = {"index": 0, "finish_reason": cut.finish_reason, "message": message}
        return _http(
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": self.served or body["model"],
                "choices": [choice],
                "usage": usage,
            },
        )


def _http(status: int, body: dict[str, Any] | bytes, headers: dict[str, str] | None = None) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    # A fault may promise another length than it sends.
    sent = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in sent.items())]
    return "\r\n".join([*lines, "", ""]).encode() + data


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=0.0)
    asyncio.run(LLMServer(latency_s=parser.parse_args().latency_ms / 1000).serve(0))
