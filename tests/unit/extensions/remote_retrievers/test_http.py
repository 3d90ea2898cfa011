"""`HTTPRetriever` with a server on 127.0.0.1."""

import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pytest_rageval import HTTPRetriever
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import InputError, QueryError
from pytest_rageval.core.evalset import Example
from pytest_rageval.extensions.remote_retrievers import http
from pytest_rageval.retrievers import adapt_retriever
from tests.unit.extensions.remote_retrievers import search_server
from tests.unit.extensions.remote_retrievers.search_server import SearchServer, found

QUESTION = "How many days do refunds take?"


@pytest.fixture
def server() -> Iterator[SearchServer]:
    with SearchServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FIRST_DELAY_S", 0.001)


def test_the_plugin_takes_it_like_any_other(loop: BackgroundEventLoop, server: SearchServer) -> None:
    retriever = adapt_retriever(HTTPRetriever(server.url, documents="hits[*].source"), loop)
    for k in (1, 2):
        assert loop.run(retriever.retrieve(QUESTION, k)).ids == ("kb-1", "kb-3")[:k]
    assert [request[3] for request in server.requests] == [{"query": QUESTION, "k": k} for k in (1, 2)]
    assert "authorization" not in server.requests[0][2]


def test_it_runs_in_each_loop(server: SearchServer) -> None:
    retriever = HTTPRetriever(server.url)
    assert asyncio.run(retriever(QUESTION, 2)) == asyncio.run(retriever(QUESTION, k=2)) == found(QUESTION, 2)


def test_ids_and_texts_at_other_places(loop: BackgroundEventLoop, server: SearchServer) -> None:
    rows = [{"meta": {"key": 7}, "fields": {"body": ["One."]}, "score": 0.5, "id": "of the chunk"}]
    server.answer = lambda *_: (200, {}, json.dumps({"rows": rows}))
    retriever = HTTPRetriever(server.url, documents="rows", id="meta.key", text="fields.body[0]")
    [document] = loop.run(adapt_retriever(retriever, loop).retrieve(QUESTION, 5))
    assert (document.id, document.text, document.score) == ("7", "One.", 0.5)
    for documents, problem in (
        ("", "the documents are an object"),
        ("rows[*].fields", "document 1 has no 'meta'"),
    ):
        with pytest.raises(ValueError, match=problem):
            asyncio.run(HTTPRetriever(server.url, documents=documents, id="meta.key")(QUESTION))


def test_get_sends_parameters(server: SearchServer) -> None:
    server.answer = lambda *_: (200, {}, "[]")
    retriever = HTTPRetriever(
        f"{server.url}/?tenant=a", method="get", body={"q": "{query}", "n": "{k}", "f": [1]}
    )
    assert asyncio.run(retriever("a & b", 3)) == []
    assert server.requests[0][:2] == ("GET", "/search/?q=a+%26+b&n=3&f=%5B1%5D&tenant=a")


def test_filters_go_into_the_body(loop: BackgroundEventLoop, server: SearchServer) -> None:
    server.answer = lambda *_: (200, {}, "[]")
    example = Example("q1", QUESTION, filters={"tenant": "acme"})
    body = {"q": "{query}", "where": "{filters}"}
    loop.run(adapt_retriever(HTTPRetriever(server.url, body=body), loop).retrieve(example, 5))
    assert server.requests[0][3] == {"q": QUESTION, "where": {"tenant": "acme"}}
    with pytest.raises(InputError, match="has filters, and rageval_retriever does not take them"):
        loop.run(adapt_retriever(HTTPRetriever(server.url), loop).retrieve(example, 5))


def test_secrets_are_sent_and_not_shown(server, monkeypatch, caplog):
    monkeypatch.setenv("SEARCH_TOKEN", "tok-12345678")
    quoted = "tok-12345678, key-12345678, api-12345678"
    server.answer = lambda *_: (403, {"Location": f"/{quoted}"}, f"not allowed: {quoted}")
    url = f"{server.url}?api-key=key-12345678".replace("//", "//me:pass-12345678@")
    headers = {"X-Token": "Token ${SEARCH_TOKEN}", "X-API-Key": "api-12345678"}
    retriever = HTTPRetriever(url, headers=headers)
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(ConnectionError, match=r"answered 403 to /.*: not allowed: ") as caught,
    ):
        asyncio.run(retriever(QUESTION))
    _, path, sent, _ = server.requests[0]
    assert (sent["x-token"], path) == ("Token tok-12345678", "/search?api-key=key-12345678")
    assert sent["authorization"].startswith("Basic ")
    assert "HTTP Request: POST" in caplog.text
    server.answer = lambda *_: (200, {}, quoted)
    with pytest.raises(ValueError, match="is no JSON") as unreadable:
        asyncio.run(retriever(QUESTION))
    assert (
        "12345678" not in f"{caught.value}{unreadable.value}{retriever.fingerprint}{caplog.text}{retriever!r}"
    )


def test_settings_are_the_fingerprint() -> None:
    retriever = HTTPRetriever("http://me:pw@localhost/search?sig=x", documents="hits", id="key")
    assert json.loads(retriever.fingerprint) == {
        "url": "http://localhost/search", "method": "POST", "body": {"query": "{query}", "k": "{k}"},
        "documents": "hits", "id": "key", "text": "",
    }  # fmt: skip


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_request_is_repeated(server: SearchServer, status: int) -> None:
    server.answer = lambda n, body: (status, {}, "busy") if n < 3 else (200, {}, json.dumps(found(**body)))
    assert asyncio.run(HTTPRetriever(server.url)(QUESTION, 1)) == found(QUESTION, 1)
    server.requests.clear()
    with pytest.raises(ConnectionError, match=f"answered {status}: busy, 2 times"):
        asyncio.run(HTTPRetriever(server.url, retries=1)(QUESTION))


def test_the_wait_is_that_of_the_server(server: SearchServer) -> None:
    times: list[float] = []

    def answer(n: int, body: Any) -> tuple[int, Mapping[str, str], str]:
        times.append(time.monotonic())
        return (429, {"Retry-After": "0.3"}, "") if n == 1 else (200, {}, json.dumps(found(**body)))

    server.answer = answer
    asyncio.run(HTTPRetriever(server.url)(QUESTION))
    assert times[1] - times[0] >= 0.3


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((404, {}, "{\n  no such index }"), "answered 404: { no such index }$"),
        ((307, {"Location": "/search/"}, ""), r"answered 307 to /search/: \(nothing\)$"),
        ((200, {}, "<html>"), "answered with what is no JSON: <html>$"),
    ],
)
def test_other_answers_are_errors_at_once(server: SearchServer, answer: Any, problem: str) -> None:
    server.answer = lambda *_: answer
    with pytest.raises((ConnectionError, ValueError), match=problem):
        asyncio.run(HTTPRetriever(server.url)(QUESTION))
    assert len(server.requests) == 1


def test_a_server_that_is_silent_or_absent(server: SearchServer) -> None:
    ended = threading.Event()
    server.answer = lambda *_: (200, {}, "[]" if ended.wait(5) else "")
    with pytest.raises(TimeoutError, match=r"did not answer within 0.05 s, 2 times"):
        asyncio.run(HTTPRetriever(server.url, timeout=0.05, retries=1)(QUESTION))
    ended.set()
    with SearchServer() as other:
        url = other.url
    with pytest.raises(ConnectionError, match="All connection attempts failed, 3 times"):
        asyncio.run(HTTPRetriever(url)(QUESTION))


def test_a_failed_question_is_an_error_of_its_own(loop: BackgroundEventLoop, server: SearchServer) -> None:
    server.answer = lambda _, body: (
        (400, {}, "") if "bad" in body["query"] else (200, {}, json.dumps(found(**body)))
    )
    retriever = adapt_retriever(HTTPRetriever(server.url, documents="hits[*].source"), loop)
    assert loop.run(retriever.retrieve(QUESTION, 1)).ids == ("kb-1",)
    with pytest.raises(
        QueryError, match=r"rageval_retriever raised for 'bad': ConnectionError: .* answered 400"
    ) as caught:
        loop.run(retriever.retrieve("bad", 1))
    assert caught.value.cause == "retriever"
    assert "\n" not in str(caught.value)


async def test_as_many_requests_as_allowed_are_in_flight(server: SearchServer) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def answer(*_: object) -> tuple[int, Mapping[str, str], str]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return 200, {}, "[]"

    server.answer = answer
    retriever = HTTPRetriever(server.url, concurrency=4)
    await asyncio.gather(*(retriever(f"question {n}") for n in range(20)))
    assert most == 4


@pytest.mark.slow
@pytest.mark.long
def test_requests_take_about_as_long_as_those_of_a_bare_client() -> None:
    """What it adds to the computing time of a request is at most 15% of 50 ms / 16, the best of three runs of each.

    Then 1,000 requests, 16 at a time, to a server that takes 50 ms take at most 1.15 times as long as those of a bare
    client. Their computing time does not depend on what else the machine does.
    """
    command = [sys.executable, "-m", search_server.__name__, "0"]
    root = Path(__file__).parents[4]
    questions = [f"question {n}" for n in range(500)]

    async def bare(url: str) -> None:
        limit = asyncio.Semaphore(16)
        async with httpx2.AsyncClient() as client:

            async def ask(question: str) -> None:
                async with limit:
                    response = await client.post(url, json={"query": question, "k": 3})
                    assert len(response.json()["hits"]) == 3

            await asyncio.gather(*map(ask, questions))

    async def ours(url: str) -> None:
        retriever = HTTPRetriever(url, documents="hits[*].source", concurrency=16)
        found = await asyncio.gather(*(retriever(question, 3) for question in questions))
        assert all(len(documents) == 3 for documents in found)

    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}/search"
        best = dict.fromkeys((bare, ours), float("inf"))
        for _ in range(3):
            for each in best:
                began = time.process_time()
                asyncio.run(each(url))
                best[each] = min(best[each], time.process_time() - began)
        process.terminate()
    assert (best[ours] - best[bare]) / len(questions) <= 0.15 * 0.05 / 16, [*best.values()]
