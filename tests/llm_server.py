"""An OpenAI-compatible chat server on 127.0.0.1 for tests, with real HTTP and scripted replies.

In a test it runs in a thread (`with LLMServer() as server`). Benchmarks run it in another process:
`python tests/llm_server.py --latency-ms 200`.
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
    """An error response instead of a reply; the header "connection: close" closes the connection after it."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "scripted fault"
    body: dict[str, Any] | bytes | None = None


@dataclass
class Hang:
    """A reply after a delay that is longer than the timeout of the client."""

    seconds: float = 60.0


@dataclass
class Cut:
    """A reply with other fields of its message and choice than usual, such as one that the token limit has cut."""

    text: str = ""
    finish_reason: str = "length"
    refusal: str | None = None


Said = str | Fault | Hang | Cut
"""The response of a scripted model: the text of a reply, or an unusual response."""


def clerk(prompt: str) -> str:
    if "Answer to check:\n" in prompt:
        references = re.findall(r"^- (.*)$", prompt, re.MULTILINE)
        checked = re.search(r"^Answer to check:\n<.*>\n(.*)\n</", prompt, re.MULTILINE)
        return "yes" if checked and checked[1] in references else "no"
    item = re.search(r"item-\d+", prompt)
    code = re.search(rf"{item[0]} has the code (\w+)", prompt) if item else None
    return code[1] if code else "no answer in the documents"


class LLMServer:
    """A server for POST /v1/chat/completions.

    Attributes:
        model: returns the response to a prompt.
        latency_s: the delay before each reply, in seconds.
        together: the server does not reply before this number of requests has been in flight at once.
        requests: the bodies of all requests, in order.
        paid: the bodies of the requests that got a reply.
        refuse: returns the error response to a body, or None to call the model.
        keys: the Authorization headers of all requests.
        served: the name of the model in replies; empty to return the name in the request.
        targets: the methods and targets of all requests, such as "POST /v1/chat/completions".
        in_flight: the number of requests in flight.
        most_in_flight: the maximum number of requests that were in flight at once.
        url: the base URL of the server, after its start.
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
        return bool(self._connections)

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in self.requests]

    async def serve(self, port: int) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", port, backlog=1024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        if not threading.current_thread().daemon:
            print(self.url, flush=True)  # noqa: T201 - read by the process that started the server
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
            pass  # the client has closed the connection, or the server is being stopped
        finally:
            writer.transport.abort()
            self._connections.discard(task)

    async def _answer(self, head: str, body: dict[str, Any]) -> bytes:  # noqa: ARG002 - for servers that read it
        return await self._reply(body)

    async def _received(self, body: dict[str, Any]) -> None:
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
            response = self.refuse(body) or self.model(prompt)
            if isinstance(response, Hang):
                await asyncio.sleep(response.seconds)
                response = ""
        finally:
            self.in_flight -= 1
        if isinstance(response, Fault):
            if response.body is not None:
                return _http(response.status, response.body, response.headers)
            return _http(response.status, {"error": {"message": response.message}}, response.headers)
        self.paid.append(body)
        usage = {
            "prompt_tokens": len(prompt) // 4,
            "completion_tokens": 1,
            "total_tokens": len(prompt) // 4 + 1,
        }
        reply = response if isinstance(response, Cut) else Cut(response, "stop")
        message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
        choice = {"index": 0, "finish_reason": reply.finish_reason, "message": message}
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
    # The headers of a fault may have another content length than its body.
    sent = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in sent.items())]
    return "\r\n".join([*lines, "", ""]).encode() + data


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=0.0)
    asyncio.run(LLMServer(latency_s=parser.parse_args().latency_ms / 1000).serve(0))
