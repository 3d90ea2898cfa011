"""The sender: requests, retries and errors with servers that refuse, fail, or send unusual replies."""

import asyncio
import contextlib
import gzip
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.core.errors import ContextOverflow, InputError, ServerError, Unscored
from pytest_rageval.models import sender as sender_module
from pytest_rageval.models.budget import Charge
from pytest_rageval.models.client import Client
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.rate_limits import Limiter
from pytest_rageval.models.sender import Sender
from pytest_rageval.models.server import RemoteServer
from tests.unit.models.scripted import NEVER, Answer, ScriptedServer, completion, error, until

KEY = "sk-a-key-that-nobody-may-see"
REPLY = Reply("fine", "m-2024", "stop", 10, 2)
ASKED = Request("u", "m", ({"role": "user", "content": "Why?"},), {"temperature": 0.5, "max_tokens": 16})
REFUSED_TEMPERATURE = Answer(
    400,
    error(
        "Unsupported value: 'temperature' does not support 0.5", param="temperature", code="unsupported_value"
    ),
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without a long delay, so that these tests are fast."""
    monkeypatch.setattr(sender_module, "FIRST_DELAY_S", 0.005)
    monkeypatch.setattr(sender_module, "MAX_DELAY_S", 0.5)


def _sender(url: str, *, key: str = KEY, timeout_s: float = 30.0, retries: int = 2, **limits: Any) -> Sender:
    server = RemoteServer(url, key)
    return Sender(
        Client(server, timeout_s=timeout_s), Limiter(limits.pop("most", 4), **limits), timeout_s, retries
    )


@contextlib.asynccontextmanager
async def _serving(*script: Any, **options: Any) -> AsyncIterator[tuple[ScriptedServer, Sender]]:
    with ScriptedServer(*script) as server:
        sender = _sender(server.url, **options)
        try:
            yield server, sender
        finally:
            await sender.client.close()


def _send(server: ScriptedServer, *requests: Request, **options: Any) -> Any:
    async def main() -> Any:
        sender = _sender(server.url, **options)
        try:
            outcomes = await asyncio.wait_for(asyncio.gather(*map(sender.send, requests or [ASKED])), 60)
        finally:
            await sender.client.close()
        assert sender.limiter.in_flight == 0
        return outcomes if len(requests) > 1 else outcomes[0]

    return asyncio.run(main())


def _failure(kind: type[Exception], *script: Any, **options: Any) -> tuple[str, int]:
    """Return the text of the error that a script of responses leads to, and the number of requests."""
    with ScriptedServer(*script) as server, pytest.raises(kind) as caught:
        _send(server, **options)
    assert type(caught.value) is kind or kind is Unscored
    return str(caught.value), len(server.requests)


def test_a_reply_is_read_whole() -> None:
    with ScriptedServer("fine") as server:
        assert _send(server) == REPLY
    assert server.requests == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "Why?"}],
            "temperature": 0.5,
            "max_tokens": 16,
        }
    ]
    assert server.keys == {f"Bearer {KEY}"}


CALLS = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (completion(None), Reply("", "m-2024", "stop", 10, 2)),
        (completion("cut", finish_reason="length"), Reply("cut", "m-2024", "length", 10, 2)),
        (completion("x", finish_reason=None, usage=None, model=None), Reply("x")),
        (completion("x", usage={"prompt_tokens": None}), Reply("x", "m-2024")),
        (
            completion(None, message={"refusal": "I will not."}),
            Reply("", "m-2024", "stop", 10, 2, "I will not."),
        ),
        (
            completion(
                [{"type": "text", "text": "in "}, {"type": "image"}, {"type": "text", "text": "parts"}]
            ),
            Reply("in parts", "m-2024", "stop", 10, 2),
        ),
        (completion("half \ud83d"), Reply("half \ufffd", "m-2024", "stop", 10, 2)),
        (completion("nul \x00 „ja“ 😀"), Reply("nul \x00 „ja“ 😀", "m-2024", "stop", 10, 2)),
        (completion("no key: " + KEY), Reply("no key: ***", "m-2024", "stop", 10, 2)),
        (
            completion(None, message={"tool_calls": CALLS}),
            Reply("", "m-2024", "stop", 10, 2, tool_calls=json.dumps(CALLS)),
        ),
    ],
    ids=["silent", "cut", "bare", "no counts", "refusal", "parts", "half a pair", "NUL", "key", "calls"],
)
def test_replies_of_all_kinds(body: dict[str, Any], reply: Reply) -> None:
    """Missing counts are 0, half a surrogate pair is U+FFFD, and no key is kept in a reply."""
    with ScriptedServer(Answer(body=body)) as server:
        assert _send(server) == reply


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning_content": "Why not?"},
        {"reasoning": "Why not?"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Why not?"}]},
        {"content": [{"type": "thinking", "thinking": [{"text": "Why?"}]}, {"type": "text", "text": "fine"}]},
        {"content": [{"type": "reasoning", "text": "Why not?"}, {"type": "text", "text": "fine"}]},
    ],
)
def test_reasoning_apart_is_not_in_the_text(message: dict[str, Any]) -> None:
    with ScriptedServer(Answer(body=completion("fine", message=message))) as server:
        reply = _send(server)
    assert (reply.text, reply.apart, reply.has_reasoning) == ("fine", True, True)


@pytest.mark.parametrize("status", [200, 400])
def test_no_half_of_a_key_is_shown(status: int) -> None:
    for blanks in range(3970, 4001, 5):
        reason, _ = _failure(Unscored, Answer(status, b"<p>" + b" " * blanks + KEY.encode()), retries=0)
        assert KEY[:5] not in reason


async def test_a_key_that_hides_nothing_changes_no_reply() -> None:
    """A dummy key such as "test", for servers without keys, is not redacted in replies."""
    async with _serving("the test was the latest", key="test") as (_, sender):
        assert (await sender.send(ASKED)).text == "the test was the latest"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(status: int) -> None:
    failing = Answer(status, error("busy"))
    with ScriptedServer(failing, failing, "fine") as server:
        assert _send(server) == REPLY
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [500, 502, 504])
def test_what_does_not_pass_is_given_up(status: int) -> None:
    reason, requests = _failure(Unscored, Answer(status, error("It broke.")), retries=2)
    assert requests == 3
    assert reason.startswith(f"the server answered {status}: ")
    assert "It broke" in reason
    assert reason.endswith(", 3 times")


@pytest.mark.parametrize(
    ("header", "seconds"), [({"retry-after": "0.3"}, 0.3), ({"retry-after-ms": "250"}, 0.25)]
)
def test_a_retry_after_sets_the_time_of_the_next_request(header: dict[str, str], seconds: float) -> None:
    """No request is sent before the time in `Retry-After`, which does not count as a failed attempt."""
    refusal = Answer(429, error("slow down"), header)
    with ScriptedServer(refusal, refusal, "fine") as server:
        began = time.monotonic()
        assert _send(server, retries=0) == REPLY
        assert time.monotonic() - began >= 2 * seconds
    assert len(server.requests) == 3


@pytest.mark.slow
def test_a_retry_after_of_zero_does_not_lead_to_a_burst() -> None:
    """`Retry-After: 0` for half a second leads to at most 20 attempts, not to hundreds."""
    times: list[float] = []

    def busy(_: object) -> Answer | str:
        times.append(time.monotonic())
        return Answer(429, error("busy"), {"retry-after": "0"}) if times[-1] < times[0] + 0.5 else "fine"

    with ScriptedServer(busy) as server:
        assert _send(server) == REPLY
    assert 2 <= len(server.requests) <= 20


def test_all_wait_when_the_limit_is_used_up() -> None:
    times: list[float] = []
    used_up = {
        "retry-after": "0.3",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1s",
    }

    def answer(_: object) -> Answer | str:
        times.append(time.monotonic())
        return Answer(429, error("slow down"), used_up) if len(times) == 1 else "fine"

    with ScriptedServer(answer) as server:
        assert _send(server, *[ASKED] * 6, most=1) == [REPLY] * 6
    assert len(times) == 7
    assert times[1] - times[0] >= 0.3


def test_the_others_continue_when_one_is_refused() -> None:
    """A refusal without a limit in its headers delays only its own request, which is sent last."""
    contents: list[str] = []

    def answer(body: dict[str, Any]) -> Answer | str:
        contents.append(body["messages"][-1]["content"])
        return Answer(429, error("slow down"), {"retry-after": "0.3"}) if len(contents) == 1 else "fine"

    requests = [Request("u", "m", ({"role": "user", "content": str(number)},)) for number in range(6)]
    with ScriptedServer(answer) as server:
        assert _send(server, *requests, most=1) == [REPLY] * 6
    assert contents == ["0", "1", "2", "3", "4", "5", "0"]


async def test_a_busy_server_is_asked_less_at_once() -> None:
    limits: list[float] = []

    def answer(_: object) -> Answer | str:
        limits.append(sender.limiter.limit)
        return (
            Answer(429, error("busy"), delay_s=0.02)
            if server.in_flight > 4
            else Answer(body=completion(), delay_s=0.02)
        )

    async with _serving(answer, most=8) as (server, sender):
        server.together = 5
        replies = await asyncio.gather(*(sender.send(ASKED) for _ in range(24)))
    assert replies == [REPLY] * 24
    assert limits[0] == 8
    assert min(limits) < 6
    assert len(server.requests) < 24 + 24


def test_an_exhausted_limit_in_a_reply_is_heeded() -> None:
    last = Answer(
        body=completion(),
        headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "300ms"},
    )
    with ScriptedServer(last, "fine") as server:
        began = time.monotonic()
        assert _send(server, ASKED, ASKED, most=1) == [REPLY, REPLY]
        assert time.monotonic() - began >= 0.3
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"<html>502 Bad Gateway</html>",
        b'{"choices": [{"message": {"content": "cut of',
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"choices": []}',
        b'{"choices": null}',
        b'{"error": {"message": "upstream is down", "code": 502}}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": "half a re"}, "finish_reason": "error"}]}',
        b'{"choices": [{"message": {"content": null}, "finish_reason": null}]}',
        gzip.compress(b"{}", mtime=0),
    ],
)
def test_a_reply_that_is_none_is_asked_for_again(body: bytes) -> None:
    reason, requests = _failure(Unscored, Answer(body=body), retries=1)
    assert requests == 2
    assert reason.startswith("the server's reply was not understood (it")
    assert reason.endswith(", 2 times")
    with ScriptedServer(Answer(body=body), "fine") as server:
        assert _send(server) == REPLY


def test_a_body_that_is_cut_is_no_server_that_is_not_there() -> None:
    cut = Answer(body=b'{"choices": [', headers={"content-length": "500", "connection": "close"})
    reason, requests = _failure(Unscored, cut, retries=1)
    assert requests == 2
    assert reason.startswith("the connection broke off: ")


@pytest.mark.parametrize("count", [2**70, "many", -1, None, [1], True, float("inf"), float("nan")])
def test_a_count_of_tokens_that_is_none_does_not_take_the_reply_away(count: Any) -> None:
    body = completion(usage={"prompt_tokens": count, "completion_tokens": 5.0})
    with ScriptedServer(Answer(body=body)) as server:
        reply = _send(server)
    assert (reply.text, reply.tokens_in, reply.tokens_out) == (REPLY.text, 0, 5)
    assert len(server.requests) == 1


def test_a_server_that_hangs_is_given_up() -> None:
    began = time.monotonic()
    reason, requests = _failure(Unscored, NEVER, timeout_s=0.2, retries=1)
    assert reason == "no reply in 0.2 s, 2 times"
    assert requests <= 2  # on a busy machine, an attempt may time out before it is sent
    assert time.monotonic() - began >= 0.4


@pytest.mark.slow
def test_a_server_that_hangs_once_is_asked_again() -> None:
    with ScriptedServer(NEVER, "fine") as server:
        assert _send(server, timeout_s=0.5, retries=20) == REPLY


async def test_a_refused_parameter_is_left_out_from_then_on() -> None:
    def answer(body: dict[str, Any]) -> Answer | str:
        return REFUSED_TEMPERATURE if "temperature" in body else "fine"

    async with _serving(answer) as (server, sender):
        replies = [await sender.send(ASKED) for _ in range(3)]
    assert [(reply.text, reply.without) for reply in replies] == [("fine", "temperature")] * 3
    assert ["temperature" in body for body in server.requests] == [True, False, False, False]


def test_what_one_model_refuses_another_is_still_sent() -> None:

    def answer(body: dict[str, Any]) -> Answer | str:
        return REFUSED_TEMPERATURE if body["model"] == "o" and "temperature" in body else "fine"

    other = Request("u", "o", ASKED.messages, ASKED.parameters)
    with ScriptedServer(answer) as server:
        replies = _send(server, ASKED, other)
    assert [reply.without for reply in replies] == ["", "temperature"]


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_refuses_everything_is_not_asked_for_ever(status: int) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        name = next((name for name in body if name not in {"model", "messages"}), "messages")
        return Answer(status, {"detail": [{"loc": ["body", name], "type": "extra_forbidden"}]})

    request = replace(ASKED, parameters={"temperature": 0.5, "seed": 1, "top_p": 0.5})
    with ScriptedServer(answer) as server, pytest.raises(Unscored, match=f"the server answered {status}"):
        _send(server, request)
    assert len(server.requests) == 4


def test_a_model_that_takes_no_bound_is_not_asked_without() -> None:
    """If both names of the limit are refused, the request is not sent without one: its cost would be unlimited."""

    def answer(body: dict[str, Any]) -> Answer:
        name = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
        return Answer(400, error(f"Unsupported parameter: '{name}'", param=name))

    reason, requests = _failure(Unscored, answer)
    assert requests == 2
    assert "max_completion_tokens" in reason


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": ({"role": "user", "content": "half \ud83d"},)},
        {"parameters": {"stop": ["\ud83d"]}},
    ],
    ids=["message", "parameter"],
)
async def test_what_utf_8_cannot_encode_harms_no_other_request(changes: dict[str, Any]) -> None:
    async with _serving() as (server, sender):
        try:
            assert await sender.send(replace(ASKED, **changes)) == REPLY
        except (InputError, Unscored):
            assert not server.requests
        assert await sender.send(ASKED) == REPLY


def test_a_refusal_of_the_request_itself_is_final() -> None:
    reason, requests = _failure(Unscored, Answer(400, error("Your request was flagged.")))
    assert requests == 1
    assert "flagged" in reason


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
def test_a_prompt_that_is_too_long_has_its_own_error(message: str) -> None:
    """A prompt that is too long raises ContextOverflow, whatever the server's wording, and is not retried."""
    reason, requests = _failure(
        ContextOverflow, Answer(400, error(message, param="max_tokens", code="context_length_exceeded"))
    )
    assert requests == 1
    assert reason.startswith("the prompt is longer than m can read")


@pytest.mark.parametrize(
    ("status", "said", "shown"),
    [
        (401, f"Incorrect API key provided: {KEY}.", "refused the key in OPENAI_API_KEY (status 401)"),
        (403, f"Incorrect API key provided: {KEY}.", "refused the key in OPENAI_API_KEY (status 403)"),
        (404, f"The model m does not exist for {KEY}", "does not know the model 'm'"),
    ],
)
def test_a_wrong_key_and_an_unknown_model_end_it_all(status, said, shown):
    message, requests = _failure(ServerError, Answer(status, error(said)))
    assert requests == 1
    assert shown in message
    assert KEY not in message
    assert ("does not exist for ***" in message) == (status == 404)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(
            429,
            error(
                "You exceeded your current quota, please check your plan and billing details.",
                type="insufficient_quota",
                code="insufficient_quota",
            ),
            {"retry-after": "60"},
        ),
        Answer(402, error("Insufficient Balance")),
    ],
    ids=["429", "402"],
)
def test_an_empty_account_ends_it_all(answer: Answer) -> None:
    """An account without quota raises ServerError after one request, since waiting does not help."""
    message, requests = _failure(ServerError, answer)
    assert requests == 1
    assert "has no quota left" in message


def test_a_server_that_is_not_there() -> None:
    with ScriptedServer() as server:
        pass
    with pytest.raises(ServerError, match=r"No server answers at http://127\.0\.0\.1:\d+/v1 .*tried 3 times"):
        _send(server, retries=2)


async def test_a_server_that_stops_fails_only_its_own_requests() -> None:
    with ScriptedServer("fine") as server:
        sender = _sender(server.url, retries=1)
        assert await sender.send(ASKED) == REPLY
    with pytest.raises(Unscored, match="no connection"):
        await sender.send(ASKED)
    await sender.client.close()


async def test_a_cancelled_request_releases_its_slot() -> None:
    async with _serving(NEVER, "fine", most=1) as (server, sender):
        task = asyncio.create_task(sender.send(ASKED))
        await until(lambda: server.requests)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert sender.limiter.in_flight == 0
        assert await sender.send(ASKED) == REPLY


async def test_tokens_are_corrected_after_a_slow_reply_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "SLOW_SHARE", 0.0)
    huge = completion(usage={"prompt_tokens": 100_000, "completion_tokens": 500_000})
    async with _serving(Answer(body=huge), tpm=60_000) as (_, sender):
        await sender.send(ASKED)
    assert sender.limiter._next_tokens - time.monotonic() > 400


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, 20_000 + 1),
        ({"prompt_tokens": 0, "completion_tokens": 0}, 20_000 + 1),
        ({"prompt_tokens": 5, "completion_tokens": 0}, 5 + 1),
        ({"prompt_tokens": 0, "completion_tokens": 7}, 20_000 + 7),
        ({"prompt_tokens": 5, "completion_tokens": 7}, 5 + 7),
    ],
)
async def test_tokens_that_are_not_reported_stay_as_expected(monkeypatch, usage, tokens):
    """Tokens that the server does not report are estimated, so that a limit of tokens per minute holds."""
    monkeypatch.setattr(sender_module, "prompt_tokens", lambda *_: 20_000)
    async with _serving(Answer(body=completion(usage=usage)), tpm=600) as (_, sender):
        await sender.send(ASKED)
    # At 600 tokens per minute, ten tokens take a second.
    assert sender.limiter._next_tokens - time.monotonic() == pytest.approx(tokens / 10, abs=60)


class _Bought:
    """Records the charges of attempts, and the order in which replies are stored and counted."""

    def __init__(self) -> None:
        self.purchases: list[Charge] = []
        self.events: list[str] = []

    @contextlib.asynccontextmanager
    async def purchase(self) -> AsyncIterator[Charge]:
        self.purchases.append(Charge())
        try:
            yield self.purchases[-1]
        finally:
            self.events.append("counted")

    async def keep(self, reply: Reply) -> Reply:
        self.events.append(f"kept {reply.text}")
        return replace(reply, text="as it is kept")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "billed"),
    [
        (Answer(500), False),
        (Answer(503), False),
        (Answer(429), False),
        (Answer(400, error("no")), False),
        (Answer(401), False),
        (Answer(404, error("no such model")), False),
        (Answer(body=b"no JSON"), True),
        (NEVER, True),
        (Answer(body=b"", headers={"content-length": "99", "connection": "close"}), True),
    ],
    ids=["500", "503", "429", "400", "401", "404", "garbled", "slow", "dropped"],
)
async def test_what_may_have_been_answered_is_billed(answer: Answer, billed: bool) -> None:  # noqa: FBT001 - a column
    """An attempt counts as billed if the server may have answered it, but not after a refusal or error status."""
    bought = _Bought()

    def hanging_up(_: dict[str, Any]) -> Answer:
        if "content-length" in answer.headers:
            raise ConnectionError
        return answer

    async with _serving(hanging_up, retries=0, timeout_s=0.5) as (_, sender):
        sender.patience_s = 0.0
        await asyncio.gather(sender.send(ASKED, reserve=bought.purchase), return_exceptions=True)
    assert {purchase.billed for purchase in bought.purchases} == {billed}


async def test_a_server_that_is_not_there_bills_nothing() -> None:
    bought = _Bought()
    sender = _sender("http://127.0.0.1:9/v1", retries=0)
    with pytest.raises(ServerError):
        await sender.send(ASKED, reserve=bought.purchase)
    await sender.client.close()
    assert [purchase.billed for purchase in bought.purchases] == [False]


async def test_a_cancelled_call_is_billed() -> None:
    """A request that is cancelled in flight is billed, since it may have been answered; a waiting request is not."""
    bought = _Bought()
    async with _serving(NEVER, most=1) as (server, sender):
        tasks = [asyncio.create_task(sender.send(ASKED, reserve=bought.purchase)) for _ in range(2)]
        await until(lambda: server.requests)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert [purchase.billed for purchase in bought.purchases] == [True]


async def test_a_reply_is_cached_before_it_is_counted() -> None:
    """A reply is stored before it is counted and before its slot is released for another request."""
    bought = _Bought()
    slots: list[int] = []

    async def keep(reply: Reply) -> Reply:
        slots.append(sender.limiter.in_flight)
        return await bought.keep(reply)

    async with _serving("fine", most=1) as (_, sender):
        reply = await sender.send(ASKED, reserve=bought.purchase, keep=keep)
    assert reply.text == "as it is kept"
    assert bought.events == ["kept fine", "counted"]
    assert slots == [1]


def test_a_body_that_is_not_utf_8_is_no_reply() -> None:
    """A body that is not UTF-8 is retried, since a lost character would be cached permanently."""
    broken = json.dumps(completion("caf\xe9"), ensure_ascii=False)
    with ScriptedServer(
        Answer(body=broken.encode("latin-1")), Answer(body=broken.encode("utf-8-sig"))
    ) as server:
        assert _send(server).text == "caf\xe9"
    assert len(server.requests) == 2


@pytest.mark.parametrize("parameters", [{"top_k": 5}, {"extra_body": {"top_k": 5}}])
def test_a_parameter_that_only_some_servers_know_is_sent(parameters: dict[str, Any]) -> None:
    with ScriptedServer() as server:
        assert _send(server, Request("u", "m", ASKED.messages, parameters)) == REPLY
    assert server.requests[0]["top_k"] == 5
