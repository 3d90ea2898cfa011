"""An OpenAI-compatible server on 127.0.0.1 with streams, tools, embeddings and responses, for tests of the gateway."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.llm_server import clerk

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


class OpenAIServer:
    """A server that replies with the texts of a scripted model.

    Attributes:
        model: returns the text of the reply to the last message, or an HTTP response.
        latency_s: the delay before each response, in seconds.
        requests: the path and the body of each request.
        keys: the Authorization headers of all requests.
        headers: the headers of each request.
        breaks: the number of chunks after which a stream ends; None for complete streams.
        gate: an event that a stream waits for before each chunk except the first; None to send without waiting.
        accepted: the only Authorization header that paths without a handler accept; None to accept any.
    """

    def __init__(self, model: Callable[[str], str | Response] = clerk, latency_s: float = 0.0) -> None:
        self.begin(model, latency_s)
        routes = [
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/responses", self._responses, methods=["POST"]),
            Route("/v1/embeddings", self._embeddings, methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/v1/{path:path}", self._other, methods=["GET", "POST", "DELETE"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), log_config=None, log_level="critical", lifespan="off", ws="none"
        )
        # This imports the modules of uvicorn in this thread. A run of pytest in this thread iterates over
        # `sys.modules`, so the thread of the server must not import modules meanwhile.
        config.load()
        self._server = uvicorn.Server(config)
        # With an explicit protocol, asyncio sets TCP_NODELAY, and replies are sent without delay.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(1024)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    def begin(self, model: Callable[[str], str | Response], latency_s: float = 0.0) -> None:
        self.model = model
        self.latency_s = latency_s
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.keys: set[str] = set()
        self.headers: list[dict[str, str]] = []
        self.breaks: int | None = None
        self.gate: threading.Event | None = None
        self.accepted: str | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(60)
        self._socket.close()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of all requests, in order."""
        return [body for _, body in self.requests]

    async def _received(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(await request.body() or b"{}")
        self.requests.append((request.url.path, body))
        self.keys.add(request.headers.get("authorization", ""))
        self.headers.append(dict(request.headers))
        await asyncio.sleep(self.latency_s)
        return body

    async def _chat(self, request: Request) -> Response:
        body = await self._received(request)
        said = self.model(_text(body["messages"][-1]["content"]))
        if isinstance(said, Response):
            return said
        message: dict[str, Any] = {"role": "assistant", "content": said, "refusal": None}
        reason = "stop"
        if body.get("tools"):
            function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps({"q": said})}
            message |= {
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
            }
            reason = "tool_calls"
        if body.get("stream"):
            return StreamingResponse(self._chunks(body, message, reason), media_type="text/event-stream")
        choices = [
            {"index": index, "message": message, "finish_reason": reason} for index in range(body.get("n", 1))
        ]
        if body.get("logprobs"):
            choices[0]["logprobs"] = {
                "content": [{"token": said, "logprob": -0.5, "bytes": None, "top_logprobs": []}]
            }
        return JSONResponse(
            {
                "id": "chatcmpl-7",
                "object": "chat.completion",
                "created": 7,
                "model": f"{body['model']}-2026",
                "choices": choices,
                "usage": USAGE,
            }
        )

    async def _chunks(self, body: dict[str, Any], message: dict[str, Any], reason: str) -> AsyncIterator[str]:
        common = {
            "id": "chatcmpl-7",
            "object": "chat.completion.chunk",
            "created": 7,
            "model": f"{body['model']}-2026",
        }
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        for call in message.get("tool_calls", ()):
            half = len(call["function"]["arguments"]) // 2
            first = {**call["function"], "arguments": call["function"]["arguments"][:half]}
            deltas.append({"tool_calls": [{"index": 0, **call, "function": first}]})
            rest = {"arguments": call["function"]["arguments"][half:]}
            deltas.append({"tool_calls": [{"index": 0, "function": rest}]})
        deltas += [{"content": letter} for letter in message["content"] or ""]
        chunks = [
            {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        chunks.append({**common, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**common, "choices": [], "usage": USAGE})
        for number, chunk in enumerate(chunks):
            if number == self.breaks:
                return
            if number and self.gate is not None:
                await asyncio.to_thread(self.gate.wait, 60)
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"

    async def _responses(self, request: Request) -> Response:
        body = await self._received(request)
        given = body["input"]
        said = self.model(given if isinstance(given, str) else _text(given[-1]["content"]))
        if isinstance(said, Response):
            return said
        part = {"type": "output_text", "text": said, "annotations": []}
        item = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        answer = {
            "id": "resp_1", "object": "response", "created_at": 7, "status": "completed", "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {}, "model": body["model"],
            "output": [item], "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [],
            "top_p": 1.0, "usage": {
                "input_tokens": 7, "output_tokens": 3, "total_tokens": 10,
                "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
            },
        }  # fmt: skip
        if not body.get("stream"):
            return JSONResponse(answer)

        async def events() -> AsyncIterator[str]:
            where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
            found: list[tuple[str, dict[str, Any]]] = [
                ("response.created", {"response": {**answer, "status": "in_progress", "output": []}}),
                ("response.output_item.added", {"output_index": 0, "item": {**item, "content": []}}),
                ("response.content_part.added", {**where, "part": {**part, "text": ""}}),
                *(
                    ("response.output_text.delta", {**where, "delta": letter, "logprobs": []})
                    for letter in said
                ),
                ("response.output_text.done", {**where, "text": said, "logprobs": []}),
                ("response.completed", {"response": answer}),
            ]
            for number, (name, content) in enumerate(found):
                if number == self.breaks:
                    return
                data = json.dumps({"type": name, "sequence_number": number, **content})
                yield f"event: {name}\ndata: {data}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _embeddings(self, request: Request) -> Response:
        body = await self._received(request)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = [
            {"object": "embedding", "index": index, "embedding": [float(len(text)), 0.5]}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 5, "total_tokens": 5}
        return JSONResponse({"object": "list", "model": body["model"], "data": data, "usage": usage})

    async def _models(self, request: Request) -> Response:
        await self._received(request)
        return JSONResponse(
            {"object": "list", "data": [{"id": "m1", "object": "model", "created": 1, "owned_by": "x"}]}
        )

    async def _other(self, request: Request) -> Response:
        content = await request.body()
        self.requests.append((request.url.path, {}))
        self.headers.append(dict(request.headers))
        query = request.url.query
        if self.accepted not in {None, request.headers.get("authorization")}:
            return JSONResponse({"error": {"message": "a wrong key"}}, 401)
        if request.method == "DELETE":
            return JSONResponse({"error": {"message": "no such thing"}}, 404)
        return JSONResponse({"path": request.url.path, "query": query, "size": len(content)})


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
