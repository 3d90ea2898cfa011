"""The ASGI application of the proxy: OpenAI's API, with replies from the cache or from the real server.

A cached reply is sent as the events of a stream if the application requested one. In a plan, a placeholder is sent.
"""

import asyncio
import base64
import contextlib
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.user_code import Call, count_completion, running_calls
from pytest_rageval.core.errors import BudgetError, InputError, MissingReplyError, RagevalError, Unscored
from pytest_rageval.extensions.application_calls.events import encode_event, split_into_events
from pytest_rageval.models.client import RequestRefused, Server
from pytest_rageval.models.gateway import Gateway
from pytest_rageval.models.messages import FIRST_RUN_LOCAL_SAMPLE, Reply, is_placeholder
from pytest_rageval.models.proxied_request import (
    CHAT,
    EMBEDDINGS,
    RESPONSES,
    Answer,
    Event,
    ProxiedRequest,
    Sink,
    is_token_list,
    make_proxied_request,
)
from pytest_rageval.models.sources import LIST_MODELS
from pytest_rageval.options.settings import EMBEDDED
from pytest_rageval.run.session import Session

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")
Asgi = Callable[..., Awaitable[None]]

CACHED_PATHS: Final = (CHAT, RESPONSES, EMBEDDINGS)
METHODS: Final = {"GET", "POST", "PUT", "PATCH", "DELETE"}
LOCAL_HOSTS: Final = {"127.0.0.1", "localhost"}
FORWARDED_HEADERS: Final = ("content-type", "accept", "openai-beta")  # of a request
PATH: Final = re.compile(r"[\w~:+=,-][\w.~:+=,@-]*(/[\w~:+=,-][\w.~:+=,@-]*)*", re.ASCII)
"""The paths that are sent to the server, with its key. Dots, escapes and empty parts could lead to another path."""

SAMPLE_HEADER: Final = "x-rageval-sample"  # the number of the draw, for repeated draws of a prompt
BLOCKED_S: Final = 10.0  # if the plugin's event loop is blocked this long, a request is refused
DIMENSIONS: Final = 1536  # of an embedding in a plan, if the request does not set them

BLOCKED: Final = (
    "The event loop of rageval has been blocked for {:g} s, and cannot answer: async code that it runs, such as a "
    "generator, waits for this call.\nIn an async function await the async client; or make the function sync."
)
UNAUTHORIZED: Final = (
    "This gateway is for the tests that started it: use its URL as it is, or its token as the API key."
)


@dataclass(frozen=True)
class Backend:
    """The session whose gateway replies are requested from, and the server behind it."""

    session: Session
    server: Server

    @classmethod
    def of(cls, session: Session, client: object = None) -> "Backend":
        """Return the backend of the application; `client` is the user's, None for the server of the options."""
        return cls(session, session.models_of(client).server("generator"))

    @property
    def gateway(self) -> Gateway:
        return self.session.gateway

    @property
    def loop(self) -> BackgroundEventLoop:
        return self.session.loop


class Application:
    """Answers requests with the token, in the path or as the API key. An error of `get_backend` is the response."""

    def __init__(self, token: str, get_backend: Callable[[], Backend]) -> None:
        self._token = token
        self._get_backend = get_backend

    async def __call__(self, scope: dict[str, object], receive: Asgi, send: Asgi) -> None:
        from starlette.requests import Request  # noqa: PLC0415 - an optional package

        response = await self._respond(Request(scope, receive))  # type: ignore[arg-type]
        await response(scope, receive, send)  # type: ignore[arg-type]

    async def _respond(self, request: "Request") -> "Response":
        path, refusal = self._authorize(request)
        if refusal is not None:
            return refusal
        try:
            return await self._answer(self._get_backend(), request, path)
        except (RagevalError, Unscored) as error:
            return _error_response(error)
        except ValueError as error:
            return _json_error(400, f"The request cannot be read: {error}.", "invalid_request_error")
        except RecursionError:
            return _json_error(400, "The request is nested too deeply.", "invalid_request_error")
        except Exception as error:  # noqa: BLE001 - the client shows it
            return _json_error(500, f"The gateway failed: {type(error).__name__}: {error}", "rageval_failed")

    async def _answer(self, backend: Backend, request: "Request", path: str) -> "Response":
        backend.gateway.serves_application = True
        try:
            if request.method == "POST" and path in CACHED_PATHS:
                return await self._reply(backend, request, path)
            if (request.method, path) == LIST_MODELS:
                return await self._models(backend)
            return await self._forward(backend, request, path)
        except RagevalError as error:
            calls = _calls_of(backend.loop, (await request.body()).decode(errors="replace"))
            for call in calls:
                call.unanswered = call.unanswered or error
            if not calls:
                backend.session.evaluator.unanswered.append(error)
            raise

    def _authorize(self, request: "Request") -> "tuple[str, Response | None]":
        """Return the path below /v1, and an error response if the request is not authorized, else None."""
        # A web page in a browser can reach this machine under another host name (DNS rebinding).
        if request.url.hostname not in LOCAL_HOSTS:
            return "", _json_error(403, "The gateway answers only at 127.0.0.1.", "rageval_unauthorized")
        # Not `request.url.path`, from which line breaks are removed.
        path: str = request.scope["path"]
        head, _, rest = path[1:].partition("/")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if self._is_token(head):
            path = f"/{rest}"
        elif not (scheme.lower() == "bearer" and self._is_token(key.strip())):
            return "", _json_error(401, UNAUTHORIZED, "rageval_unauthorized")
        if not path.startswith("/v1/"):
            return "", _json_error(404, "The paths of the gateway begin with /v1/.", "rageval_no_such_path")
        path = path.removeprefix("/v1").strip("/")
        if not PATH.fullmatch(path):
            return "", _json_error(404, f"{path!r:.80} is not a path of the API.", "rageval_no_such_path")
        return f"/{path}", None

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(errors="replace"), self._token.encode())

    async def _reply(self, backend: Backend, request: "Request", path: str) -> "Response":
        body = _parse_object(await request.body())
        if body.get("background"):
            return await self._forward(backend, request, path)
        if path != EMBEDDINGS:
            count_completion(backend.loop, str(body.get("model") or ""))
        base_url, sample = backend.server.base_url, _parse_sample(request.headers.get(SAMPLE_HEADER, "0"))
        if body.get("stream") and path != EMBEDDINGS:
            options = body.get("stream_options")
            usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
            events: asyncio.Queue[Event] = asyncio.Queue()
            loop = asyncio.get_running_loop()

            def receive(event: Event) -> None:
                # If this server has stopped, its loop is closed; the reply is cached anyway.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(events.put_nowait, event)

            proxied = make_proxied_request(base_url, path, body, sample=sample, sink=Sink(receive))
            return await self._stream(backend, proxied, events, usage=usage)
        proxied = make_proxied_request(base_url, path, body, sample=sample)
        reply = await _call_in_loop(backend, backend.gateway.get_reply, backend.server, proxied)
        return _response(_response_body(proxied, reply))

    async def _stream(
        self, backend: Backend, proxied: ProxiedRequest, events: "asyncio.Queue[Event]", *, usage: bool
    ) -> "Response":
        from starlette.responses import StreamingResponse  # noqa: PLC0415 - an optional package

        requesting = asyncio.ensure_future(
            _call_in_loop(backend, backend.gateway.get_reply, backend.server, proxied)
        )
        # Retrieve the exception even if the client has disconnected: otherwise asyncio logs it.
        requesting.add_done_callback(lambda done: done.cancelled() or done.exception())
        first = await _next_event(events, requesting)
        if first is None:
            # The reply was not streamed, as from the cache; or `result` raises an error, which has its own status.
            body = json.loads(_response_body(proxied, requesting.result()))
            text = "".join(map(encode_event, split_into_events(proxied.path, body, usage=usage)))
            return _response(text, "text/event-stream")

        async def pass_on() -> AsyncIterator[str]:
            event: Event | None = first
            while event is not None:
                if usage or not _only_usage(event):
                    yield encode_event(event)
                event = await _next_event(events, requesting)
            error = requesting.exception()
            if error is not None:
                content = {"error": _error(str(error), "rageval_stream_broken")}
                yield encode_event(Event("error", json.dumps(content)))
            elif proxied.path == CHAT:
                yield encode_event(Event("", "[DONE]"))

        return StreamingResponse(pass_on(), media_type="text/event-stream")

    async def _models(self, backend: Backend) -> "Response":
        """Return the server's list of models; if the server does not answer, the models of cached replies."""
        method, path = LIST_MODELS
        proxied = ProxiedRequest(backend.server.base_url, "", path=path, messages=())
        answer: Answer | None = None
        if backend.gateway.settings.mode == "live":
            with contextlib.suppress(RagevalError, Unscored):
                forward = backend.gateway.source.forward
                answer = await _call_in_loop(backend, forward, backend.server, proxied, method, b"", {})
        if answer is not None and answer.status < 400:  # noqa: PLR2004 - as HTTP numbers errors
            return _passed_on(answer)
        names = await _call_in_loop(backend, _cached_models, backend)
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "rageval"} for name in names]
        return _response(json.dumps({"object": "list", "data": data}))

    async def _forward(self, backend: Backend, request: "Request", path: str) -> "Response":
        if request.method not in METHODS:
            return _json_error(405, f"{request.method} is not passed on.", "rageval_no_such_path")
        content = await request.body()
        fields: Mapping[str, object] = {}
        if request.headers.get("content-type", "").startswith("application/json"):
            with contextlib.suppress(ValueError):
                fields = _parse_object(content)
        query = f"?{request.url.query}" if request.url.query else ""
        model = str(fields.get("model") or "")
        proxied = ProxiedRequest(backend.server.base_url, model, (), fields, path=f"{path}{query}")
        headers = {name: request.headers[name] for name in FORWARDED_HEADERS if name in request.headers}
        answer = await _call_in_loop(
            backend, backend.gateway.source.forward, backend.server, proxied, request.method, content, headers
        )
        return _passed_on(answer)


def _calls_of(loop: BackgroundEventLoop, request: str) -> list[Call]:
    """Return the running calls for the question of a request, which is JSON; none if it is not clear which it is.

    Of several questions whose calls are running, it is the one that the request quotes.
    """
    running: dict[object, list[Call]] = {}
    for call in running_calls(loop):
        # A call for several questions has a list.
        running.setdefault(call.question if isinstance(call.question, str) else None, []).append(call)
    if len(running) > 1:
        # Clients write letters that are not ASCII either way.
        running = {
            question: calls
            for question, calls in running.items()
            if question is None
            or any(json.dumps(question, ensure_ascii=only)[1:-1] in request for only in (True, False))
        }
    return [] if len(running) != 1 or None in running else next(iter(running.values()))


async def _call_in_loop(backend: Backend, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Call a coroutine function in the backend's event loop; InputError if other code blocks that loop."""
    begun: list[bool] = []

    async def run() -> T:
        begun.append(True)
        return await function(*args)

    future = asyncio.wrap_future(backend.loop.submit(run()))
    done, _ = await asyncio.wait([future], timeout=BLOCKED_S)
    if not done and not begun:
        future.cancel()
        raise InputError(BLOCKED.format(BLOCKED_S))
    # A client that disconnects does not cancel a paid request.
    return await asyncio.shield(future)


async def _cached_models(backend: Backend) -> list[str]:
    summaries = backend.gateway.cache.summaries()
    cached = {
        summary["model"]
        for summary in summaries
        if summary.get("model")
        and ("://" in (base_url := summary.get("base_url", "")) or base_url == backend.server.base_url)
    }
    settings = backend.session.settings
    named = {settings.generator.model, *settings.judge_models} - {None, EMBEDDED}
    return sorted(cached.union(filter(None, named)))


async def _next_event(events: "asyncio.Queue[Event]", requesting: "asyncio.Future[Reply]") -> Event | None:
    getting = asyncio.ensure_future(events.get())
    both: list[asyncio.Future[Any]] = [getting, requesting]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if getting.done():
        return getting.result()
    getting.cancel()
    return None if events.empty() else events.get_nowait()


def _only_usage(event: Event) -> bool:
    """Whether an event of a chat completion has only token counts, which the client may not have requested."""
    try:
        chunk = json.loads(event.data)
    except ValueError:
        return False
    return not event.name and chunk.get("choices") == [] and bool(chunk.get("usage"))


def _response_body(proxied: ProxiedRequest, reply: Reply) -> str:
    return json.dumps(build_placeholder(proxied, reply.text)) if is_placeholder(reply.text) else reply.text


def _parse_object(content: bytes) -> dict[str, object]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("its body is not JSON") from None
    if not isinstance(body, dict):
        raise ValueError("its body is not a JSON object")  # noqa: TRY004 - the text is at fault
    return body


def _parse_sample(text: str) -> int:
    if text.isdecimal() and int(text) < FIRST_RUN_LOCAL_SAMPLE:
        return int(text)
    raise ValueError(f"the header {SAMPLE_HEADER} is {text!r:.40}, expected 0, 1, 2 …")


def _response(content: str | bytes, kind: str = "application/json", status: int = 200) -> "Response":
    from starlette.responses import Response  # noqa: PLC0415 - an optional package

    return Response(content, status, {"content-type": kind})


def _passed_on(answer: Answer) -> "Response":
    kind = answer.headers.get("content-type", "application/octet-stream")
    return _response(answer.content, kind, answer.status)


def _error_response(error: RagevalError | Unscored) -> "Response":
    """Return an error in OpenAI's format, with a status after which clients do not retry."""
    if isinstance(error, RequestRefused):
        return _json_error(error.status, "", "", dict(error.answer))
    if isinstance(error, BudgetError):
        return _json_error(402, str(error), "rageval_budget")
    if isinstance(error, MissingReplyError):
        return _json_error(404, str(error), "rageval_missing_reply")
    return _json_error(424, str(error), "rageval_unanswered")


def _json_error(status: int, message: str, code: str, answer: dict[str, object] | None = None) -> "Response":
    """Return an error response; `answer` is the server's own error, in place of message and code."""
    from starlette.responses import JSONResponse  # noqa: PLC0415 - an optional package

    return JSONResponse({"error": answer or _error(message, code)}, status, {"x-should-retry": "false"})


def _error(message: str, code: str) -> dict[str, object]:
    return {"message": message, "type": "rageval", "param": None, "code": code}


def build_placeholder(proxied: ProxiedRequest, mark: str) -> dict[str, object]:
    """Return the placeholder for a response in a plan; its text is the mark of the planned reply."""
    body, usage = proxied.parameters, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    common = {"id": "planned", "model": proxied.model}
    if proxied.path == CHAT:
        message = {"role": "assistant", "content": mark, "refusal": None}
        number = body.get("n")
        choices = [
            {"index": index, "message": message, "finish_reason": "stop"}
            for index in range(number if isinstance(number, int) else 1)
        ]
        return {**common, "object": "chat.completion", "created": 0, "choices": choices, "usage": usage}
    if proxied.path == EMBEDDINGS:
        return {"object": "list", "model": proxied.model, "data": _embeddings(body), "usage": usage}
    part = {"type": "output_text", "text": mark, "annotations": []}
    item = {"id": "planned", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {
        **common,
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _embeddings(body: Mapping[str, object]) -> list[dict[str, object]]:
    texts, size = body.get("input"), body.get("dimensions")
    number = len(texts) if isinstance(texts, list) and not is_token_list(texts) else 1
    vector: Any = [0.0] * (size if isinstance(size, int) and size > 0 else DIMENSIONS)
    if body.get("encoding_format") == "base64":
        vector = base64.b64encode(bytes(4 * len(vector))).decode()
    return [{"object": "embedding", "index": index, "embedding": vector} for index in range(number)]
