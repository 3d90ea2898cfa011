"""Credentials, queries, redirects and logs of a connection: secrets are sent to the server and shown nowhere."""

import asyncio
import contextlib
import gzip
import json
import logging
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest

import pytest_rageval
from pytest_rageval.core.errors import ServerError
from pytest_rageval.lib.secret import Credentials, Secret
from pytest_rageval.models import connection as connection_module
from pytest_rageval.models.client import Client, RequestRefused, RetryableError
from pytest_rageval.models.connection import Connection
from pytest_rageval.models.messages import Reply, Request, TooLarge
from pytest_rageval.models.server import RemoteServer
from tests.unit.models.scripted import Answer, ScriptedServer, completion, error

KEY = "sk-planted-key-of-mine"
PASSWORD = "planted/pass word"
TOKEN = "bWU6cGxhbnRlZC9wYXNzIHdvcmQ="
ASKED = Request("u", "m", ({"role": "user", "content": "Why?"},))


def _with(url: str, user_info: str = "", query: str = "") -> str:
    return url.replace("http://", f"http://{user_info}") + query


def _ask(url: str, key: str | None = KEY, times: int = 1) -> Reply:
    async def main() -> Reply:
        client = Client(RemoteServer(url, key), timeout_s=30)
        try:
            for _ in range(times):
                reply, _ = await asyncio.wait_for(client.complete(ASKED, {}), 60)
            return reply
        finally:
            await client.close()

    return asyncio.run(main())


def test_a_login_is_sent_as_basic_authorization() -> None:
    """User and password in the URL are percent-decoded and sent as Basic authorization instead of the key."""
    with ScriptedServer() as server:
        _ask(_with(server.url, "me:planted%2Fpass%20word@"))
        assert server.keys == {f"Basic {TOKEN}"}
        _ask(_with(server.url, "planted-token@"), None)
    assert server.keys == {f"Basic {TOKEN}", "Basic cGxhbnRlZC10b2tlbjo="}
    assert server.targets == {"POST /v1/chat/completions"}


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("?api-version=2024-10-21", "?api-version=2024-10-21"),
        ("/?api-version=2024-10-21", "?api-version=2024-10-21"),
        ("?a=b%2Fc%3D%26d&e=f+g&h=", "?a=b%2Fc%3D%26d&e=f+g&h="),
        ("?sig=a%2Bb%3D%3D", "?sig=a%2Bb%3D%3D"),
        ("?", ""),
        ("#part", ""),
    ],
)
def test_a_query_is_sent_behind_the_path(query: str, sent: str) -> None:
    """The query of the base URL is sent after the path, as Azure's deployments need it, with its values unchanged."""
    with ScriptedServer() as server:
        _ask(_with(server.url, query=query))
        (target,) = server.targets
        assert target.replace("%20", "+") == f"POST /v1/chat/completions{sent}"


def test_a_completion_is_sent_without_the_openai_package() -> None:
    code = (
        "import asyncio, sys\n"
        "from pytest_rageval.models.client import Client\n"
        "from pytest_rageval.models.messages import Request\n"
        "from pytest_rageval.models.server import RemoteServer\n"
        "client = Client(RemoteServer(sys.argv[1]), timeout_s=30)\n"
        "request = Request('u', 'm', ({'role': 'user', 'content': 'Why?'},))\n"
        "reply, _ = asyncio.run(client.complete(request, {'extra_body': {'top_k': 5}, 'seed': 1}))\n"
        "print(reply.text, 'openai' in sys.modules)\n"
    )
    with ScriptedServer("fine") as server:
        command = [sys.executable, "-c", code, server.url]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["fine", "False"]
    messages = [{"role": "user", "content": "Why?"}]
    assert server.requests == [{"model": "m", "messages": messages, "top_k": 5, "seed": 1}]


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_the_openai_client_sends_over_the_connection(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "DefaultAsyncHttpxClient", type("Default", (library.AsyncClient,), {}))
    compressed = {"content-encoding": "gzip"}
    script = [
        Answer(body=gzip.compress(json.dumps({"id": "a"}).encode()), headers=compressed),
        Answer(404, error("not here")),
        Answer(302, headers={"location": "/v2/batches"}),
        Answer(body=gzip.compress(bytes(2**21)), headers=compressed),
    ]
    results: list[object] = []
    with ScriptedServer(*script) as server:
        connection = Connection(server.url, Credentials(Secret(KEY)), timeout_s=30, max_body_bytes=2**20)
        http = connection_module._openai_http_client(connection._http)
        for _ in range(len(script)):
            try:
                response = await http.post(f"{server.url}/chat/completions", json={"messages": []})
                results.append((type(response), response.status_code, response.content[:10]))
            except TooLarge as too_large:
                results.append(str(too_large))
        await connection.close()
    assert results == [
        (library.Response, 200, b'{"id": "a"'),
        (library.Response, 404, b'{"error": '),
        (library.Response, 302, b"null"),
        "the server's answer is larger than 1 MiB",
    ]
    assert server.keys == {f"Bearer {KEY}"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "expected_message"),
    [
        (
            "/v2/chat/completions",
            "redirects are not followed.\nSet the base URL (--rageval-base-url or OPENAI_BASE_URL) to {}/v2.",
        ),
        (
            "https://me:planted@there.example/openai/v1/chat/completions?api-key=planted",
            "OPENAI_BASE_URL) to https://there.example/openai/v1.",
        ),
        ("https://login.example/?back=planted", "to that of the models there, if there are any."),
        ("http://[planted", "that names no location"),
        (None, "that names no location"),
    ],
)
def test_a_redirect_is_not_followed(status: int, location: str | None, expected_message: str) -> None:
    """A redirect raises ServerError with its target and is not followed, since the key would be sent there."""
    moved = Answer(
        status, completion("an answer to a GET"), {} if location is None else {"location": location}
    )
    with ScriptedServer(moved, "not asked") as server, pytest.raises(ServerError) as caught:
        _ask(server.url)
    assert len(server.requests) == 1
    assert server.targets == {"POST /v1/chat/completions"}
    assert f"(status {status})" in str(caught.value)
    assert expected_message.format(server.url.removesuffix("/v1")) in str(caught.value)
    assert "planted" not in str(caught.value)


def test_no_field_of_a_reply_repeats_a_secret() -> None:
    """A secret that the server repeats in any field of a reply is replaced by ***, since replies are stored."""
    calls = [{"function": {"name": f"f {KEY}", "arguments": f'{{"x": "planted/pass word {TOKEN}"}}'}}]
    body = completion(
        f"text {KEY}",
        finish_reason=f"reason {TOKEN}",
        model=f"model {PASSWORD}",
        message={"refusal": f"no {KEY}", "tool_calls": calls},
    )
    with ScriptedServer(Answer(body=body)) as server:
        # The key and the login are never sent together, but the server may repeat either of them.
        reply = _ask(_with(server.url, "me:planted%2Fpass%20word@"))
    assert reply.text == "text ***"
    assert (reply.model, reply.finish_reason, reply.refusal) == ("model ***", "reason ***", "no ***")
    assert reply.tool_calls.count("***") == 3
    assert "planted" not in repr(reply)


FAILURES = {
    "400": (Answer(400, error(f"no {KEY}")), RequestRefused),
    "401": (Answer(401, error(f"no {KEY}")), ServerError),
    "404": (Answer(404, error(f"no {KEY}")), ServerError),
    "500": (Answer(500, error(f"no {KEY}")), RetryableError),
    "garbled": (Answer(200, f"no {KEY}".encode()), RetryableError),
    "no reply": (Answer(200, {"error": KEY}), RetryableError),
    "redirect": (Answer(307, {}, {"location": f"/{KEY}"}), ServerError),
}


@pytest.mark.parametrize("name", FAILURES)
def test_no_error_keeps_what_holds_the_key(name: str) -> None:
    """An error has the key neither in its text, cause and context nor in the variables of a traceback."""
    answer, kind = FAILURES[name]
    with ScriptedServer(answer) as server, pytest.raises(kind) as caught:
        _ask(server.url)
    assert "planted" not in f"{caught.value!s} {vars(caught.value).get('reason', '')}"
    _assert_no_frame_of_libraries(caught.value)


def test_no_unknown_error_keeps_what_holds_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise LookupError("a mistake of the library's") from ValueError(KEY)

    monkeypatch.setattr(httpx2.AsyncClient, "send", broken)
    with pytest.raises(LookupError, match="a mistake of the library's") as caught:
        _ask("http://127.0.0.1:9/v1")
    _assert_no_frame_of_libraries(caught.value)


def _assert_no_frame_of_libraries(exception: BaseException) -> None:
    chain: list[BaseException | None] = [exception]
    for link in chain:
        if link is not None:
            chain += [link.__cause__, link.__context__]
            assert "planted" not in str(link)
    frames = [frame for link in chain if link for frame, _ in traceback.walk_tb(link.__traceback__)]
    assert any(
        Path(frame.f_code.co_filename).is_relative_to(Path(pytest_rageval.__file__).parent)
        for frame in frames
    )
    for frame in frames:
        assert not re.search(r"[/\\](openai|httpx2?|httpcore2?|anyio)[/\\]", frame.f_code.co_filename)


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def test_logs_show_neither_query_nor_password(records: pytest.LogCaptureFixture) -> None:
    """Everything else is logged, and the filters of the loggers are restored afterwards."""
    echo = {"x-echo": f"{KEY} Basic {TOKEN} planted-sig", "x-request-id": f"r {KEY}"}
    filters = {name: list(logging.getLogger(name).filters) for name in ("httpx2", "openai")}
    with ScriptedServer(Answer(body=completion("fine"), headers=echo)) as server:
        query = "?api-version=planted-version&sig=planted-sig"
        _ask(_with(server.url, "me:planted%2Fpass%20word@", query))
    log = "\n".join(
        logging.Formatter("%(name)s %(levelname)s %(message)s").format(record) for record in records.records
    )
    assert f'INFO HTTP Request: POST {server.url}/chat/completions?*** "HTTP/1.1 200 X"' in log
    assert "receive_response_headers.complete" in log
    assert "x-echo" in log
    assert "planted" not in log
    assert TOKEN not in log
    assert filters == {name: list(logging.getLogger(name).filters) for name in filters}


@contextlib.contextmanager
def _redacting(*servers: RemoteServer) -> Iterator[list[logging.Filter]]:
    logger = logging.getLogger("httpx2")
    filters = [connection_module._RedactingFilter(server.credentials) for server in servers]
    for each in filters:
        logger.addFilter(each)
    try:
        yield list(filters)
    finally:
        for each in filters:
            logger.removeFilter(each)


def test_logs_of_others_stay_as_they_are(records: pytest.LogCaptureFixture) -> None:
    """Log records of other threads are not redacted; a record that cannot be formatted is left to `logging`."""
    server, logger = RemoteServer("http://me:planted-word@here/v1"), logging.getLogger("httpx2")
    with _redacting(server) as (redacting,):
        other = threading.Thread(target=logger.info, args=("GET %s and %d", "http://me:word@there/v1?a=b", 3))
        other.start()
        other.join()
        logger.info("GET %s and '%s'", "http://here/v1/x?a=planted", "https://planted:word@there?a=planted")
        logger.error("failed", exc_info=ValueError("http://here/v1?a=planted planted-word"))
    log = "\n".join(map(logging.Formatter().format, records.records))
    assert "GET http://me:word@there/v1?a=b and 3" in log
    assert "GET http://here/v1/x?*** and 'https://***@there?***'" in log
    assert "ValueError: http://here/v1?*** ***" in log
    assert records.records[0].args == ("http://me:word@there/v1?a=b", 3)
    broken: Any = logging.LogRecord("httpx2", 20, "f", 1, "%d", ("x",), None)
    assert redacting.filter(broken)


def test_each_connection_redacts_its_secrets_in_a_traceback(records: pytest.LogCaptureFixture) -> None:
    """Two connections share the loggers of the library: a traceback has the secrets of neither."""
    with _redacting(*(RemoteServer("http://here/v1", f"planted-{n}") for n in ("first", "second"))):
        logging.getLogger("httpx2").error("failed", exc_info=ValueError("planted-first planted-second"))
    assert logging.Formatter().format(records.records[0]).endswith("ValueError: *** ***")


def test_secrets_are_revealed_in_one_place() -> None:
    """Secrets are revealed only where a request is made; every other use of `reveal` must be added to this list."""
    package = Path(pytest_rageval.__file__).parent
    calls = {
        path.relative_to(package).as_posix(): path.read_text(encoding="utf-8").count(".reveal(")
        for path in package.rglob("*.py")
    }
    allowed = {"models/connection.py": 3, "extensions/stores/redis.py": 1, "extensions/otlp/otlp.py": 2}
    # The core is also tested without an extension.
    expected = {name: count for name, count in allowed.items() if (package / name).is_file()}
    assert {name: count for name, count in calls.items() if count} == expected
