"""The ASGI application of the gateway: OpenAI's API, answered from the cache or by the real server."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.errors import (
    BudgetError,
    InputError,
    MissingReplyError,
    RagevalError,
    Unscored,
    is_placeholder,
)
from pytest_rageval.llm.gateway import Gateway
from pytest_rageval.llm.messages import FIRST_RUN_LOCAL_SAMPLE, Reply
from pytest_rageval.llm.proxied_request import (
    CHAT,
    EMBEDDINGS,
    RESPONSES,
    Answer,
    Event,
    ProxiedRequest,
    Sink,
    make_proxied_request,
)
from pytest_rageval.llm.servers.client import Refused
from pytest_rageval.llm.servers.server import Server
from pytest_rageval.serving.streams import build_placeholder, encode_event, stream_events
from pytest_rageval.user_code import note_asked

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Application", "Backend"]

T = TypeVar("T")
Asgi = Callable[..., Awaitable[None]]

KEPT: Final = (CHAT, RESPONSES, EMBEDDINGS)
VERBS: Final = {"GET", "POST", "PUT", "PATCH", "DELETE"}
HOSTS: Final = {"127.0.0.1", "localhost"}
PASSED: Final = ("content-type", "accept", "openai-beta")  # headers of a request that are passed on
SAMPLE: Final = "x-rageval-sample"  # the header that distinguishes draws of one prompt
BLOCKED_S: Final = 10.0  # how long the plugin's event loop may be busy before a call is refused

BLOCKED: Final = (
    "The event loop of rageval has been blocked for {:g} s, and cannot answer: async code that it runs, such as a "
    "generator, waits for this call.\nIn an async function await the async client; or make the function sync."
)
UNAUTHORIZED: Final = (
    "This gateway is for the tests that started it: use its URL as it is, or its token as the API key."
)


@dataclass(frozen=True)
class Backend:
    """Where replies come from: the gateway, which runs in `loop`, and the server behind it."""

    gateway: Gateway
    server: Server
    loop: BackgroundEventLoop
    models: tuple[str, ...] = ()  # that are listed where the server cannot be asked
    unanswered: list[RagevalError] = field(default_factory=list)  # errors in place of answers are added to it


class Application:
    """Answers requests. `backend` returns where replies come from, or raises RagevalError with the reason."""

    def __init__(self, token: str, backend: Callable[[], Backend]) -> None:
        self._token = token
        self._backend = backend

    async def __call__(self, scope: dict[str, Any], receive: Asgi, send: Asgi) -> None:
        """Answer one request."""
        from starlette.requests import Request  # noqa: PLC0415 - an optional package

        response = await self._response(Request(scope, receive))  # type: ignore[arg-type]
        await response(scope, receive, send)  # type: ignore[arg-type]

    async def _response(self, request: "Request") -> "Response":
        path, refused = self._admitted(request)
        if refused is not None:
            return refused
        try:
            return await self._answer(self._backend(), request, path)
        except (RagevalError, Unscored) as error:
            return _error_response(error)
        except ValueError as error:
            return _error(400, f"The request cannot be read: {error}.", "invalid_request_error")
        except Exception as error:  # noqa: BLE001 - its client shows it
            return _error(500, f"The gateway failed: {type(error).__name__}: {error}", "rageval_failed")

    async def _answer(self, backend: Backend, request: "Request", path: str) -> "Response":
        backend.gateway.serves_application = True
        try:
            if request.method == "POST" and path in KEPT:
                return await self._exchange(backend, request, path)
            if request.method == "GET" and path == "/models":
                return await self._models(backend)
            return await self._pass_on(backend, request, path)
        except RagevalError as error:
            backend.unanswered.append(error)
            raise

    def _admitted(self, request: "Request") -> "tuple[str, Response | None]":
        """Return the path below /v1, and a refusal of a request without the token."""
        # A page in a browser can reach this machine by another name (DNS rebinding).
        if request.url.hostname not in HOSTS:
            return "", _error(403, "The gateway answers only at 127.0.0.1.", "rageval_unauthorized")
        path = request.url.path
        head, _, rest = path[1:].partition("/")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if self._is_token(head):
            path = f"/{rest}"
        elif not (scheme.lower() == "bearer" and self._is_token(key.strip())):
            return "", _error(401, UNAUTHORIZED, "rageval_unauthorized")
        if not path.startswith("/v1/"):
            return "", _error(404, "The paths of the gateway begin with /v1/.", "rageval_no_such_path")
        # With two slashes at its beginning a path would be the address of another server.
        return f"/{path.removeprefix('/v1').strip('/')}", None

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(errors="replace"), self._token.encode())

    async def _exchange(self, backend: Backend, request: "Request", path: str) -> "Response":
        body = _object(await request.body())
        if body.get("background"):
            return await self._pass_on(backend, request, path)
        if path != EMBEDDINGS:
            note_asked(backend.loop, str(body.get("model") or ""))
        base_url, sample = backend.server.base_url, _sample(request.headers.get(SAMPLE, "0"))
        if body.get("stream") and path != EMBEDDINGS:
            options = body.get("stream_options")
            usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
            events: asyncio.Queue[Event] = asyncio.Queue()
            loop = asyncio.get_running_loop()

            def take(event: Event) -> None:
                # The server may have stopped; the reply is cached anyway.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(events.put_nowait, event)

            proxied = make_proxied_request(base_url, path, body, sample=sample, sink=Sink(take))
            return await self._streamed(backend, proxied, events, usage=usage)
        proxied = make_proxied_request(base_url, path, body, sample=sample)
        reply = await _answered(backend, backend.gateway.get_reply, backend.server, proxied)
        return _json(_whole(proxied, reply))

    async def _streamed(
        self, backend: Backend, proxied: ProxiedRequest, events: "asyncio.Queue[Event]", *, usage: bool
    ) -> "Response":
        from starlette.responses import StreamingResponse  # noqa: PLC0415 - an optional package

        asking = asyncio.ensure_future(_answered(backend, backend.gateway.get_reply, backend.server, proxied))
        # Retrieved even if the client has disconnected.
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        first = await _next(events, asking)
        if first is None:
            # An error before the first event has a status of its own.
            whole = json.loads(_whole(proxied, asking.result()))
            kept = "".join(map(encode_event, stream_events(proxied.path, whole, usage=usage)))
            return StreamingResponse(_once(kept), media_type="text/event-stream")

        async def live() -> AsyncIterator[str]:
            event: Event | None = first
            while event is not None:
                if usage or not _only_usage(event):
                    yield encode_event(event)
                event = await _next(events, asking)
            error = asking.exception()
            if error is not None:
                yield encode_event(Event("error", json.dumps({"error": {"message": str(error), **BROKEN}})))
            elif proxied.path == CHAT:
                yield encode_event(Event("", "[DONE]"))

        return StreamingResponse(live(), media_type="text/event-stream")

    async def _models(self, backend: Backend) -> "Response":
        """Answer with the server's list; if it cannot be reached, with the models of cached replies."""
        proxied = ProxiedRequest(backend.server.base_url, "", path="/models", messages=())
        answer: Answer | None = None
        if backend.gateway.settings.mode == "live":
            with contextlib.suppress(RagevalError, Unscored):
                answer = await _answered(backend, backend.gateway.list_models, backend.server, proxied)
        if answer is not None and answer.status < 400:  # noqa: PLR2004 - as HTTP numbers errors
            return _raw(answer)
        names = await _answered(backend, _kept_models, backend)
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "rageval"} for name in names]
        return _json(json.dumps({"object": "list", "data": data}))

    async def _pass_on(self, backend: Backend, request: "Request", path: str) -> "Response":
        """Pass on a request whose reply is not cached."""
        if request.method not in VERBS:
            return _error(405, f"{request.method} is not passed on.", "rageval_no_such_path")
        content = await request.body()
        fields: Mapping[str, Any] = {}
        if request.headers.get("content-type", "").startswith("application/json"):
            with contextlib.suppress(ValueError):
                fields = _object(content)
        query = f"?{request.url.query}" if request.url.query else ""
        model = str(fields.get("model") or "")
        proxied = ProxiedRequest(backend.server.base_url, model, (), fields, path=f"{path}{query}")
        headers = {name: request.headers[name] for name in PASSED if name in request.headers}
        answer = await _answered(
            backend, backend.gateway.forward, backend.server, proxied, request.method, content, headers
        )
        return _raw(answer)


BROKEN: Final = {"type": "rageval", "param": None, "code": "rageval_stream_broken"}


async def _answered(backend: Backend, ask: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Await a coroutine function in the backend's loop, which other code may block."""
    begun: list[bool] = []

    async def run() -> T:
        begun.append(True)
        return await ask(*args)

    future = asyncio.wrap_future(backend.loop.submit(run()))
    done, _ = await asyncio.wait([future], timeout=BLOCKED_S)
    if not done and not begun:
        future.cancel()
        raise InputError(BLOCKED.format(BLOCKED_S))
    # A client that disconnects does not cancel a paid request.
    return await asyncio.shield(future)


async def _kept_models(backend: Backend) -> list[str]:
    summaries = backend.gateway.cache.summaries()
    found = {
        summary["model"]
        for summary in summaries
        if summary.get("model")
        and ("://" in (place := summary.get("base_url", "")) or place == backend.server.base_url)
    }
    return sorted(found | set(backend.models))


async def _next(events: "asyncio.Queue[Event]", asking: "asyncio.Future[Reply]") -> Event | None:
    """Return the next event; None when the reply has come, or has failed, and there is none left."""
    getting = asyncio.ensure_future(events.get())
    both: list[asyncio.Future[Any]] = [getting, asking]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if getting.done():
        return getting.result()
    getting.cancel()
    return None if events.empty() else events.get_nowait()


async def _once(text: str) -> AsyncIterator[str]:
    yield text


def _only_usage(event: Event) -> bool:
    """Whether an event only counts the tokens of a chat completion, which the client may not have asked for."""
    try:
        chunk = json.loads(event.data)
    except ValueError:
        return False
    return not event.name and chunk.get("choices") == [] and bool(chunk.get("usage"))


def _whole(proxied: ProxiedRequest, reply: Reply) -> str:
    return json.dumps(build_placeholder(proxied, reply.text)) if is_placeholder(reply.text) else reply.text


def _object(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("its body is not JSON") from None
    if not isinstance(body, dict):
        raise ValueError("its body is not a JSON object")  # noqa: TRY004 - the text is at fault
    return body


def _sample(text: str) -> int:
    if text.isdecimal() and int(text) < FIRST_RUN_LOCAL_SAMPLE:
        return int(text)
    raise ValueError(f"the header {SAMPLE} is {text!r:.40}, expected 0, 1, 2 …")


def _json(text: str) -> "Response":
    from starlette.responses import Response  # noqa: PLC0415 - an optional package

    return Response(text, media_type="application/json")


def _raw(answer: Answer) -> "Response":
    from starlette.responses import Response  # noqa: PLC0415 - an optional package

    kind = answer.headers.get("content-type", "application/octet-stream")
    return Response(answer.content, answer.status, {"content-type": kind})


def _error_response(error: RagevalError | Unscored) -> "Response":
    """Return an error in OpenAI's form, with a status after which clients do not try again."""
    if isinstance(error, Refused):
        return _error(error.status, "", "", dict(error.answer))
    if isinstance(error, BudgetError):
        return _error(402, str(error), "rageval_budget")
    if isinstance(error, MissingReplyError):
        return _error(404, str(error), "rageval_missing_reply")
    return _error(424, str(error), "rageval_unanswered")


def _error(status: int, message: str, code: str, answer: dict[str, Any] | None = None) -> "Response":
    from starlette.responses import JSONResponse  # noqa: PLC0415 - an optional package

    own = {"message": message, "type": "rageval", "param": None, "code": code}
    return JSONResponse({"error": answer or own}, status, {"x-should-retry": "false"})
