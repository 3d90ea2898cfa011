"""The gateway as a server: paths, streams, the token and errors, tested with the real `openai` client over HTTP."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("starlette", reason="the extra gateway is not installed")

from starlette.responses import JSONResponse, Response, StreamingResponse

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.application_calls import application
from pytest_rageval.extensions.application_calls.application import Backend
from pytest_rageval.extensions.application_calls.plugin import GatewayServer
from pytest_rageval.lib.secret import BaseURL
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.session import Session
from tests.openai_server import OpenAIServer

KEY = "sk-secret-of-the-user"
HELLO = [{"role": "user", "content": "hello"}]
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
COMPLETION = {"choices": [{"message": {"content": "yes"}, "finish_reason": None}]}
TEXT = "The answer  is\n\n42, of course. "
GONE = BaseURL.parse("http://127.0.0.1:9/v1")


@pytest.fixture(scope="module")
def running() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def upstream(running: OpenAIServer) -> OpenAIServer:
    running.begin(lambda _: TEXT)
    return running


class Served:
    def __init__(self, session: Session, server: GatewayServer) -> None:
        self.session = session
        self.server = server
        self.client = openai.OpenAI(base_url=server.url, api_key="of the application", max_retries=2)

    def chat(self, messages: Any = HELLO, **parameters: Any) -> Any:
        return self.client.chat.completions.create(model="m1", messages=messages, **parameters)

    def streamed(self, **parameters: Any) -> str:
        return "".join(
            part.choices[0].delta.content or ""
            for part in self.chat(stream=True, **parameters)
            if part.choices
        )


@pytest.fixture
def serve(tmp_path: Path, upstream: OpenAIServer) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def start(*, own: Any = None, **options: Any) -> Served:
        options = {"cache_dir": tmp_path / "cache", "base_url": BaseURL.parse(upstream.url), **options}
        session, server = Session(Settings(api_key=KEY, **options)), GatewayServer()
        server.connect(lambda: Backend.of(session, own))
        made.append(Served(session, server))
        return made[-1]

    yield start
    for served in made:
        served.client.close()
        served.server.close()
        served.session.close()


def test_a_chat_completion_comes_back_whole_and_is_asked_once(serve, upstream):
    served = serve()
    first, second = served.chat(logprobs=True, n=2), served.chat(logprobs=True, n=2)
    assert first == second
    assert [choice.message.content for choice in first.choices] == [TEXT, TEXT]
    assert first.choices[0].logprobs.content[0].logprob == -0.5
    assert (first.model, first.id, first.usage.total_tokens) == ("m1-2026", "chatcmpl-7", 10)
    assert upstream.bodies == [{"model": "m1", "messages": HELLO, "logprobs": True, "n": 2}]
    assert upstream.keys == {f"Bearer {KEY}"}
    usage = served.session.usage
    assert (usage.requests, usage.live, usage.cached, usage.tokens_in, usage.tokens_out) == (2, 1, 1, 7, 3)


def test_tool_calls_and_images_pass_through(serve, upstream):
    served = serve()
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, image]}]

    def streamed(**parameters):
        with served.client.beta.chat.completions.stream(
            model="m1", messages=messages, tools=TOOLS, **parameters
        ) as stream:
            return stream.get_final_completion()

    live = streamed()
    whole, cached = served.chat(messages, tools=TOOLS), streamed()
    assert len(upstream.requests) == 1
    assert upstream.bodies[0]["messages"] == messages
    for completion in (live, whole, cached):
        (call,) = completion.choices[0].message.tool_calls
        assert (call.id, call.function.name) == ("call_1", "look_up")
        assert json.loads(call.function.arguments) == {"q": TEXT}
        assert completion.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("first", ["streamed", "unstreamed"])
def test_a_stream_and_a_whole_reply_are_one_request_with_one_text(serve, upstream, first):
    served = serve()
    requests = [served.streamed, lambda: served.chat().choices[0].message.content]
    if first == "unstreamed":
        requests.reverse()
    assert {request() for request in [*requests, *requests]} == {TEXT}
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("usage", [True, False])
def test_a_stream_counts_tokens_where_its_client_asks_for_that(serve, usage):
    served = serve()
    options = {"stream_options": {"include_usage": True}} if usage else {}
    for _ in range(2):
        parts = list(served.chat(stream=True, **options))
        assert [part.usage.total_tokens for part in parts if part.usage] == ([10] if usage else [])
        assert parts[-2 if usage else -1].choices[0].finish_reason == "stop"
    assert served.session.usage.tokens_in == 7


def test_a_live_stream_is_passed_through_as_it_comes(serve, upstream):
    upstream.gate = threading.Event()
    stream = iter(serve().chat(stream=True))
    assert next(stream).choices[0].delta.role == "assistant"
    upstream.gate.set()
    assert "".join(part.choices[0].delta.content or "" for part in stream) == TEXT


def test_a_stream_that_breaks_off_is_an_error_and_is_not_kept(serve, upstream):
    served = serve(max_calls=2)
    upstream.breaks = 5
    with pytest.raises(openai.APIError, match="the stream ended early"):
        served.streamed()
    upstream.breaks = None
    assert served.streamed() == TEXT
    assert len(upstream.requests) == 2
    # Both requests count, since an interrupted stream may be charged.
    with pytest.raises(openai.APIStatusError, match="--rageval max_calls=2 is reached"):
        served.chat(temperature=0.5)


@pytest.mark.slow
def test_a_stream_that_breaks_off_before_it_begins_is_asked_again(serve, upstream):
    served = serve()
    upstream.breaks = 0

    def mend():
        while len(upstream.requests) < 2:
            time.sleep(0.005)
        upstream.breaks = None

    mending = threading.Thread(target=mend, daemon=True)
    mending.start()
    assert served.streamed() == TEXT
    assert len(upstream.requests) > 1


def test_an_error_in_a_stream_shows_no_key(serve, upstream):
    served = serve()
    chunk = {"choices": [{"index": 0, "delta": {"content": "The"}, "finish_reason": None}]}
    events = (chunk, {"error": {"message": f"no quota for {KEY}"}})
    upstream.model = lambda _: StreamingResponse(
        iter([f"data: {json.dumps(event)}\n\n" for event in events]), media_type="text/event-stream"
    )
    with pytest.raises(openai.APIError, match=r"no quota for \*\*\*"):
        served.streamed()


def test_a_stream_that_ends_in_an_error_is_not_sent_twice(serve, upstream):
    served = serve()
    parts = ({"delta": {"content": "The"}, "finish_reason": None}, {"delta": {}, "finish_reason": "error"})
    events = [f"data: {json.dumps({'choices': [{'index': 0, **part}]})}\n\n" for part in parts]
    upstream.model = lambda _: StreamingResponse(iter(events), media_type="text/event-stream")
    with pytest.raises(openai.APIError, match="it broke off"):
        served.streamed()
    assert len(upstream.requests) == 1


def test_a_whole_reply_to_a_stream_that_breaks_off_is_asked_again(serve, upstream):
    served = serve()
    replies = iter(["{", json.dumps(COMPLETION)])

    def reply(_: str) -> Response:
        length = {"content-length": str(len(json.dumps(COMPLETION)))}
        return StreamingResponse(iter([next(replies)]), headers=length, media_type="application/json")

    upstream.model = reply
    assert served.streamed() == "yes"


def test_a_reply_without_a_reason_to_finish_is_whole(serve, upstream):
    served = serve()
    upstream.model = lambda _: JSONResponse(COMPLETION)
    assert served.chat().choices[0].message.content == "yes"
    assert len(upstream.requests) == 1


def test_a_client_that_goes_away_does_not_lose_the_reply(serve, upstream):
    served = serve()
    upstream.gate = threading.Event()
    stream = served.chat(stream=True)
    next(iter(stream))
    stream.close()
    upstream.gate.set()
    deadline = time.monotonic() + 60
    while served.session.usage.live < 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert served.chat().choices[0].message.content == TEXT
    assert len(upstream.requests) == 1


@pytest.mark.slow
def test_responses_are_cached_and_streamed(serve, upstream):
    served = serve()

    def streamed():
        with served.client.responses.stream(model="m1", input="hello", instructions="be brief") as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            return text, stream.get_final_response().output_text

    parameters = {"model": "m1", "input": "hello", "instructions": "be brief"}
    assert streamed() == streamed() == (TEXT, TEXT)
    assert served.client.responses.create(**parameters).output_text == TEXT
    assert [body for _, body in upstream.requests] == [{**parameters, "stream": True}]
    assert (served.session.usage.tokens_in, served.session.usage.tokens_out) == (7, 3)


def test_embeddings_are_cached_and_counted(serve, upstream):
    served = serve(tpm=100_000)
    for _ in range(2):
        response = served.client.embeddings.create(model="e1", input=["a", "bb"], encoding_format="float")
        assert [item.embedding for item in response.data] == [[1.0, 0.5], [2.0, 0.5]]
    assert len(upstream.requests) == 1
    assert (served.session.usage.tokens_in, served.session.usage.tokens_out) == (5, 0)
    assert not served.session.usage.remarks


def test_models_are_listed_by_the_server_or_from_the_cache(serve):
    live = serve()
    assert [model.id for model in live.client.models.list()] == ["m1"]
    live.client.chat.completions.create(model="kept", messages=HELLO)
    replay = serve(replay=True, model="named")
    assert [model.id for model in replay.client.models.list()] == ["kept", "named"]
    gone = serve(retries=0, base_url=GONE)
    assert [model.id for model in gone.client.models.list()] == ["kept"]


def test_an_unknown_path_is_passed_on_and_reported(serve, upstream):
    served = serve()
    response = served.client.post("/images/generations?a=b", cast_to=object, body={"model": "m1"})
    assert response == {"path": "/v1/images/generations", "query": "a=b", "size": 14}
    with pytest.raises(openai.NotFoundError, match="no such thing"):
        served.client.delete("/files/x", cast_to=object)
    assert all(headers["authorization"] == f"Bearer {KEY}" for headers in upstream.headers)
    remarks = served.session.usage.remarks
    assert remarks["POST /images/… is passed on to the server, and not cached"] == 1
    assert served.session.usage.live == 2
    with pytest.raises(openai.APIStatusError, match=r"max_calls=0 is reached"):
        serve(max_calls=0).client.post("/images/generations", cast_to=object, body={"model": "m1"})
    with pytest.raises(openai.NotFoundError, match=r"sends no requests"):
        serve(replay=True).client.post("/images/generations", cast_to=object, body={"model": "m1"})


def test_a_query_is_passed_on_as_it_is(serve):
    query = "include%5B%5D=a&include%5B%5D=b&after=x%26y"
    assert serve().client.get(f"/files?{query}", cast_to=object)["query"] == query


def _status(served, path, body=b""):
    """Send a POST with exactly this path, which a client would normalise; return the status and the body."""
    url = httpx2.URL(served.server.url)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.server.token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((url.host, url.port), 10) as connection:
        connection.sendall(head.encode("latin-1") + body)
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    return int(response.split()[1]), response.partition(b"\r\n\r\n")[2].decode()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../../admin",
        "/v1/%2e%2e/%2e%2e/admin",
        "/v1/.%2E/admin",
        "/v1/%252e%252e/admin",
        "/v1/files/../../admin",
        "/v1/./admin",
        "/v1/..\\admin",
        "/v1/..%5cadmin",
        "/v1/..;/admin",
        "/v1/files//evil.example/x",
        "/v1/files/x%0d%0aHost:evil",
        "/v1/files/x%3fa=b",
        "/v1/files/x%23",
        "/v1/@evil.example/x",
        "/v1/http://evil.example/x",
    ],
)
def test_no_path_leaves_the_base_path(serve, upstream, path):
    """A path with dots, escapes or an address is refused: the real key is sent below the base URL only."""
    served = serve()
    status, body = _status(served, path)
    assert status == 404, body
    assert "is not a path of the API" in body
    assert upstream.requests == []
    assert not served.session.usage.remarks


@pytest.mark.parametrize(
    "path", ["/v1/files/file-1_a.b~c/content", "/v1/fine_tuning/jobs/ft:gpt-4o:me::7/cancel"]
)
def test_a_usual_path_is_passed_on(serve, path):
    served = serve()
    status, body = _status(served, path)
    assert (status, json.loads(body)["path"]) == (200, path)
    [remark] = served.session.usage.remarks
    assert remark == f"POST /{path.split('/')[2]}/… is passed on to the server, and not cached"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/embeddings"])
@pytest.mark.parametrize("depth", [900, 100_000])
def test_deep_nesting_is_the_clients_error(serve, path, depth):
    body = b'{"model": "m1", "messages": [], "input": "a", "tools": ' + b"[" * depth + b"]" * depth + b"}"
    status, answer = _status(serve(), path, body)
    assert status == 400, answer
    assert "nested" in answer or "not JSON" in answer


def test_what_is_never_sent_is_not_counted(serve, upstream):
    served = serve(max_calls=1, tables={"generator": {"key_command": ("false",), "api_key": None}})
    for _ in range(2):
        with pytest.raises(openai.APIStatusError, match="api_key_command"):
            served.client.post("/images/generations", cast_to=object, body={"model": "m1"})
    assert not upstream.requests


def test_a_new_key_is_fetched_for_what_is_passed_on(serve, upstream, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("expired-key\n")
    served = serve(tables={"generator": {"key_command": ("cat", str(keys)), "api_key": None}})
    upstream.accepted = "Bearer expired-key"
    assert served.client.get("/files", cast_to=object)["path"] == "/v1/files"
    keys.write_text("another-key\n")
    upstream.accepted = "Bearer another-key"
    assert served.client.get("/files", cast_to=object)["path"] == "/v1/files"
    upstream.accepted = "Bearer no-key"
    with pytest.raises(openai.AuthenticationError, match="a wrong key"):
        served.client.get("/files", cast_to=object)


async def _own_client(model: str, messages: list[Any], **parameters: Any) -> dict[str, Any]:
    text = f"{messages[-1]['content']} to you, {sorted(parameters)}"
    return {"model": model, "choices": [{"message": {"content": text}, "finish_reason": "stop"}]}


def test_a_client_of_the_users_own_is_asked(serve, upstream):
    served = serve(own=_own_client)
    text = "hello to you, ['temperature']"
    assert served.chat(temperature=0.5).choices[0].message.content == text
    assert served.streamed(temperature=0.5) == text
    assert served.session.usage.live == 1
    assert [model.id for model in served.client.models.list()] == ["m1"]
    requests = (
        lambda: served.client.embeddings.create(model="m1", input=["a"]),
        lambda: served.client.responses.create(model="m1", input="a"),
        lambda: served.client.get("/files", cast_to=object),
    )
    refusal = r"rageval_client \(.*_own_client\) .* chat completions only"
    for request in requests:
        with pytest.raises(openai.APIStatusError, match=refusal):
            request()
    assert not upstream.requests


def test_the_key_goes_to_no_other_server(serve, upstream):
    with OpenAIServer() as other:
        place = other.url.removeprefix("http:").removesuffix("/v1")
        served = serve()
        for path in (f"{place}/x", f"//{place}/x", f"/http:{place}/x"):
            done = httpx2.get(f"{served.server.url}{path}")
            assert done.status_code < 500
        assert not other.requests
    # The third path is refused.
    assert len(upstream.requests) == 2


def test_a_header_draws_again(serve, upstream):
    served = serve()
    for sample in ("0", "1", "1", "0"):
        served.chat(extra_headers={"X-Rageval-Sample": sample})
    assert len(upstream.requests) == 2
    with pytest.raises(openai.BadRequestError, match="x-rageval-sample is 'x'"):
        served.chat(extra_headers={"X-Rageval-Sample": "x"})


def test_only_who_has_the_token_is_answered(serve, upstream):
    served = serve()
    plain = f"http://127.0.0.1:{served.server.port}/v1"
    client = openai.OpenAI(base_url=plain, api_key=served.server.token)
    client.chat.completions.create(model="m1", messages=HELLO)
    for url, key in [(plain, "x"), (plain, KEY), (f"http://127.0.0.1:{served.server.port}/x/v1", "x")]:
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=url, api_key=key).chat.completions.create(model="m2", messages=HELLO)
    # A web page that reaches the gateway by DNS rebinding has another Host header.
    with pytest.raises(openai.PermissionDeniedError):
        served.chat(extra_headers={"Host": "evil.example"})
    assert len(upstream.requests) == 1
    assert served.server.token not in repr(served.server)


def test_only_loopback_is_bound(serve):
    assert serve().server._socket.getsockname()[0] == "127.0.0.1"


def test_replies_are_sent_without_delay(serve):
    """TCP_NODELAY is set: Nagle's algorithm would delay the body of a reply by 40 ms."""
    served = serve()
    served.chat()
    (connection,) = served.server._server.server_state.connections
    accepted = connection.transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("options", "status", "code", "message"),
    [
        ({"replay": True}, 404, "rageval_missing_reply", "--rageval-replay sends no requests"),
        ({"max_calls": 0}, 402, "rageval_budget", "--rageval max_calls=0 is reached"),
        ({"base_url": GONE, "retries": 0}, 424, "rageval_unanswered", "No server"),
    ],
)
def test_an_error_says_why_and_is_not_tried_again(serve, options, status, code, message):
    served = serve(**options)
    for stream in (False, True):
        before = served.session.usage.requests
        with pytest.raises(openai.APIStatusError, match=message) as caught:
            served.chat(stream=stream)
        assert (caught.value.status_code, caught.value.code) == (status, code)
        assert served.session.usage.requests == before + 1


def test_the_servers_own_refusal_reaches_the_client(serve, upstream):
    message = f"too long; your key is {KEY}"
    answer = {"message": message, "code": "context_length_exceeded", "param": "temperature"}
    upstream.model = lambda _: JSONResponse({"error": answer}, 400)
    served = serve()
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            served.chat(temperature=0.1, stream=stream)
        assert caught.value.code == "context_length_exceeded"
        assert KEY not in str(caught.value)
    assert len(upstream.requests) == 2


def test_a_server_that_does_not_know_stream_options_is_asked_without(serve, upstream):
    def model(_: str) -> str | Response:
        if "stream_options" in upstream.bodies[-1]:
            return JSONResponse({"error": {"message": "unknown field stream_options"}}, 400)
        return TEXT

    upstream.model = model
    assert serve().streamed() == TEXT


@pytest.mark.parametrize("body", [b"", b"[]", b'{"messages": []}', b'{"model": 7}', b"\xff"])
def test_an_unreadable_request_is_refused(serve, upstream, body):
    refused = httpx2.post(f"{serve().server.url}/chat/completions", content=body)
    assert refused.status_code == 400
    assert "cannot be read" in refused.json()["error"]["message"]
    assert not upstream.requests


def test_a_plan_counts_and_answers_with_placeholders(serve, upstream):
    served = serve(plan=True)
    first = served.chat(max_tokens=5).choices[0].message.content
    served.chat([{"role": "user", "content": f"shorten: {first}"}], max_tokens=5)
    assert served.streamed(max_tokens=5) == first
    assert served.client.responses.create(model="m1", input="x", max_output_tokens=5).output_text != first
    response = served.client.embeddings.create(model="m1", input=["a", "b"], dimensions=3)
    assert [item.embedding for item in response.data] == [[0.0] * 3] * 2
    assert not upstream.requests
    usage = served.session.usage
    assert (usage.live, usage.cached, usage.dependent, usage.unbounded) == (4, 1, 1, 0)


def test_nothing_answers_after_the_session(serve):
    served = serve()
    served.server.disconnect()
    with pytest.raises(openai.APIStatusError, match="The session of this gateway has ended"):
        served.chat()


def test_code_that_blocks_the_event_loop_is_an_error_not_a_deadlock(serve, monkeypatch):
    """A sync client called in an async function would block the loop that serves it; the gateway returns an error."""
    monkeypatch.setattr(application, "BLOCKED_S", 0.2)
    served = serve()

    async def generate() -> str:
        return str(served.chat().choices[0].message.content)

    with pytest.raises(openai.APIStatusError, match="In an async function await the async client"):
        served.session.loop.run(generate())
    assert served.chat().choices[0].message.content == TEXT


def test_a_gateway_does_not_send_requests_to_itself(serve, tmp_path):
    served = serve()
    session = Session(Settings(cache_dir=tmp_path, base_url=BaseURL.parse(served.server.url)))
    served.server.connect(lambda: Backend.of(session))
    with pytest.raises(openai.APIStatusError, match="would send requests to itself"):
        served.chat()
    session.close()


def test_the_environment_leads_clients_here_and_is_restored(serve, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "intranet")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    served, before = serve(), dict(os.environ)
    with served.server.in_environment():
        assert os.environ["OPENAI_BASE_URL"] == os.environ["OPENAI_API_BASE"] == served.server.url
        assert os.environ["NO_PROXY"] == "intranet,127.0.0.1"
        # The variables for a process that a test starts are the same.
        assert served.server.variables()["NO_PROXY"] == "intranet,127.0.0.1"
        client = openai.OpenAI()
        assert client.chat.completions.create(model="m1", messages=HELLO).choices[0].message.content == TEXT
    assert dict(os.environ) == before


def test_many_callers_pay_once(serve, upstream):
    upstream.latency_s = 0.1
    first, second = serve(), serve()
    requests = [first.streamed, second.streamed, lambda: first.chat().choices[0].message.content] * 5
    with ThreadPoolExecutor(15) as pool:
        assert set(pool.map(lambda request: request(), requests)) == {TEXT}
    assert len(upstream.requests) == 1


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(InputError, match=r"pip install 'pytest-rageval\[gateway\]'"):
        GatewayServer()
