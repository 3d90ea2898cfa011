"""The key of a request depends on everything that can change the reply, and on nothing else."""

import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.digests import digest
from pytest_rageval.models.api import LLM, REFUSED
from pytest_rageval.models.cassette import entry_line, parse_entry, read_cassette, write_cassette
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.messages import KEY_SCHEMA, Reply, Request, replace_surrogates
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.summaries import request_summary

QUICK = settings(max_examples=30)
"""Thirty requests of this size contain many hundred values."""

TEXTS = st.text(st.characters(), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXTS | JSON},
    optional={"name": TEXTS, "tool_calls": JSON},
)
NAMES = st.sampled_from(
    ["temperature", "max_tokens", "stop", "seed", "top_p", "tools", "response_format", "extra_body"]
)
REQUESTS = st.builds(
    Request,
    base_url=TEXTS,
    model=TEXTS,
    messages=st.lists(MESSAGES, min_size=1, max_size=4).map(tuple),
    parameters=st.dictionaries(NAMES | TEXTS, JSON, max_size=4),
    sample=st.integers(0, 9),
    parts=st.dictionaries(TEXTS, TEXTS, max_size=2),
)
REPLIES = st.builds(
    Reply,
    text=st.text(st.characters()),
    model=TEXTS,
    finish_reason=TEXTS,
    tokens_in=st.integers(0, 2**63 - 1),
    tokens_out=st.integers(0, 2**63 - 1),
    refusal=TEXTS,
    tool_calls=TEXTS,
    without=TEXTS,
)


def _differ(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True)


def _reversed(value: Any) -> Any:
    """Return the value with the keys of every object in reverse order."""
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@QUICK
@given(request=REQUESTS)
def test_the_order_of_keys_does_not_matter(request: Request) -> None:
    same = replace(
        request,
        messages=tuple(_reversed(dict(message)) for message in request.messages),
        parameters=_reversed(dict(request.parameters)),
    )
    assert same.key == request.key


@QUICK
@given(request=REQUESTS, other=st.integers(0, 99))
def test_another_sample_is_another_key(request: Request, other: int) -> None:
    drawn = replace(request, sample=other)
    assert (drawn.key == request.key) == (other == request.sample)
    assert request.keys_for_samples((other, request.sample)) == [drawn.key, request.key]


@QUICK
@given(request=REQUESTS, name=NAMES | TEXTS, value=JSON)
@example(
    request=Request("u", "m", ({"role": "user", "content": ""},), {"temperature": 1}),
    name="temperature",
    value=1.0,
)
@example(request=Request("u", "m", ({"role": "user", "content": ""},)), name="seed", value=None)
def test_another_parameter_is_another_key(request: Request, name: str, value: Any) -> None:
    changed = {**request.parameters, name: value}
    assert (replace(request, parameters=changed).key != request.key) == _differ(
        changed, dict(request.parameters)
    )
    without = {other: kept for other, kept in changed.items() if other != name}
    assert replace(request, parameters=without).key != replace(request, parameters=changed).key


@QUICK
@given(request=REQUESTS, message=MESSAGES, data=st.data())
def test_another_message_is_another_key(
    request: Request, message: dict[str, Any], data: st.DataObject
) -> None:
    messages = list(request.messages)
    place = data.draw(st.integers(0, len(messages) - 1))
    variants = [
        [*messages, message],
        messages[:place] + messages[place + 1 :],
        [*messages[:place], message, *messages[place + 1 :]],
        [*messages[:place], {**messages[place], "content": message["content"]}, *messages[place + 1 :]],
        [*messages[:place], {**messages[place], "role": message["role"]}, *messages[place + 1 :]],
        messages[::-1],
    ]
    for variant in variants:
        key = replace(request, messages=tuple(variant)).key
        assert (key != request.key) == _differ(variant, messages)


@QUICK
@given(secret=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=12), text=TEXTS)
def test_a_request_key_contains_no_secret(secret: str, text: str) -> None:
    """Keys and passwords do not change the server's name; other query parameters enter it as a hash."""
    assume(secret not in f"httpsllm.example:8080/v1{text}")
    messages = ({"role": "user", "content": text},)
    urls = [
        "https://llm.example:8080/v1",
        f"https://me:{secret}@llm.example:8080/v1",
        f"https://llm.example:8080/v1#{secret}",
        f"https://llm.example:8080/v1?key={secret}",
    ]
    requests = [
        Request(RemoteServer(url, key).base_url, "m", messages) for url in urls for key in (None, secret)
    ]
    assert len({request.key for request in requests}) == 1
    deployment = Request(
        RemoteServer(f"https://llm.example:8080/v1?deployment={secret}").base_url, "m", messages
    )
    assert deployment.key != requests[0].key
    requests.append(deployment)
    for request in requests:
        assert secret not in request.base_url
        assert secret not in request.key
        assert secret not in json.dumps(request_summary(request, prompts=True))


@pytest.mark.parametrize(
    "name", ["timeout", "max_retries", "api_key", "extra_headers", "extra_query", "n", "stream"]
)
def test_what_does_not_change_a_reply_cannot_be_part_of_a_request(name: str) -> None:
    """Timeouts, retries, keys and headers as parameters raise InputError before a key is computed."""
    assert name in REFUSED
    with tempfile.TemporaryDirectory() as folder:
        gateway, loop = Gateway(GatewaySettings(Path(folder) / "cache")), BackgroundEventLoop()
        model = LLM(gateway, loop, lambda: (RemoteServer("http://127.0.0.1:9/v1"), "m"))
        with pytest.raises(InputError, match=f"does not take '{name}'"):
            model.complete("Why?", **{name: 1})
        assert gateway.usage.requests == 0
        loop.close()
        asyncio.run(gateway.close())


@QUICK
@given(text=st.text(st.characters()))
@example(text="\ud83d")
@example(text="\ude00\ud83d")
@example(text="a\ud83d\ude00b")
def test_a_well_formed_text_can_be_written(text: str) -> None:
    """replace_surrogates changes only lone surrogates, and a second call changes nothing."""
    formed = replace_surrogates(text)
    assert formed.encode("utf-8").decode("utf-8") == formed
    assert replace_surrogates(formed) == formed
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert formed == text


@QUICK
@given(reply=REPLIES)
def test_a_reply_and_its_line_are_inverse(reply: Reply) -> None:
    whole = Reply.from_record(json.loads(reply.dumps()))
    assert whole == Reply(
        **{name: replace_surrogates(getattr(reply, name)) for name in Reply.__dataclass_fields__}
    )
    assert Reply.from_record(json.loads(whole.dumps())) == whole
    assert "\n" not in whole.dumps()


@QUICK
@given(
    replies=st.dictionaries(st.text("0123456789abcdef", min_size=1), REPLIES, max_size=4), request=REQUESTS
)
def test_a_cassette_gives_back_every_reply(replies: dict[str, Reply], request: Request) -> None:
    """A cassette returns every reply and summary, plain and compressed, in sorted order."""
    outline = json.loads(json.dumps(request_summary(request)))
    entries = [
        Entry(key, Reply.from_record(json.loads(reply.dumps())), outline) for key, reply in replies.items()
    ]
    for entry in entries:
        parsed = parse_entry(entry_line(entry))
        assert (parsed.key, parsed.reply, parsed.summary) == (entry.key, entry.reply, entry.summary)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("c.jsonl", "c.jsonl.gz"):
            path = Path(folder) / name
            write_cassette(path, entries)
            read = read_cassette(path)
            assert list(read) == sorted(replies)
            assert all(read[entry.key].reply == entry.reply for entry in entries)


@QUICK
@given(request=REQUESTS, api=st.sampled_from(["chat", "responses"]))
@example(
    request=Request("u", "m", ({"role": "user", "content": "\ud83d\u2028\\"},), {"seed": True, "top_p": 1.0}),
    api="chat",
)
def test_a_key_is_the_digest_of_the_whole_request(request: Request, api: Any) -> None:
    """The key equals the digest of the whole request, although shared parts are serialized once."""
    other = {} if api == "chat" else {"api": api}
    whole = {
        "schema": KEY_SCHEMA,
        "base_url": request.base_url,
        "model": request.model,
        "sample": request.sample,
        "messages": request.messages,
        "parameters": request.parameters,
        **other,
    }
    for parameters in (
        request.parameters,
        {_Text(name): value for name, value in request.parameters.items()},
    ):
        assert replace(request, api=api, parameters=parameters).key == digest(whole)


class _Text(str):
    """A subclass of str that `marshal` does not accept."""

    __slots__ = ()
