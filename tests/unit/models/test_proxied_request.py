"""Proxied requests: their keys, the replies that streams add up to, and incomplete replies."""

import json
from typing import Any

import pytest

from pytest_rageval.models.budget import max_reply_tokens, prompt_tokens
from pytest_rageval.models.chat_apis import ReportedError
from pytest_rageval.models.messages import Request, TooLarge
from pytest_rageval.models.prices import Price
from pytest_rageval.models.proxied_request import (
    CHAT,
    EMBEDDINGS,
    RESPONSES,
    Event,
    Sink,
    StreamEndedEarly,
    _StreamAssembler,
    make_proxied_request,
    proxied_reply,
)
from pytest_rageval.models.summaries import describe_differences, request_summary

BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "temperature": 0.5}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def choice(index: int = 0, finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "index": index,
        "message": {"role": "assistant", "content": None, **message},
        "finish_reason": finish_reason,
    }


def completion(*choices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m-1", "choices": list(choices),
            "usage": usage, **fields}  # fmt: skip


def test_a_stream_is_the_same_request_and_another_body_is_not() -> None:
    key = make_proxied_request("u", CHAT, BODY).key
    streamed = {"stream_options": {"include_usage": True}, **BODY, "stream": True}
    assert make_proxied_request("u", CHAT, streamed, sink=Sink(lambda _: None)).key == key
    others = [
        make_proxied_request("v", CHAT, BODY),
        make_proxied_request("u", RESPONSES, BODY),
        make_proxied_request("u", CHAT, BODY, sample=1),
        make_proxied_request("u", CHAT, {**BODY, "user": "x"}),
        make_proxied_request("u", CHAT, {**BODY, "model": "n"}),
        Request("u", "m", tuple(BODY["messages"]), {"temperature": 0.5}),
    ]
    assert len({key, *(other.key for other in others)}) == 1 + len(others)


def test_the_key_of_an_exchange_stays() -> None:
    """The key of a proxied request never changes, since paid replies are stored under it."""
    assert (
        make_proxied_request("u", CHAT, BODY).key
        == "b607de808daf5154e4f618452fad7859319f237ae7d0faf1292fff5dba5e7e84"
    )


@pytest.mark.parametrize("body", [{}, {"model": ""}, {"model": 3}, {"model": "m", "x": float("nan")}])
def test_what_cannot_be_a_request_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        make_proxied_request("u", CHAT, body)


def test_a_summary_shows_options_and_hashes_of_what_is_read() -> None:
    """A summary, which may be committed to git, has the prompt as hashes unless `prompts` is set."""
    body = {
        "model": "m",
        "instructions": "be brief",
        "input": [{"role": "user", "content": "hello"}],
        "top_p": 1,
    }
    proxied = make_proxied_request("u", RESPONSES, body)
    summary = request_summary(proxied)
    assert summary["parameters"] == {"top_p": 1}
    assert len(summary["parts"]) == 2
    assert "hello" not in json.dumps(summary)
    assert "hello" in json.dumps(request_summary(proxied, prompts=True))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"instructions": "Be long."}, "instructions (other text)"),
        ({"instructions": None}, "instructions (gone)"),
        ({"input": [{"role": "user", "content": "Who?"}]}, "message 1 (user) (other text)"),
        ({"input": "Who?"}, "message 1 (user) (other text)"),
    ],
)
def test_what_changed_is_named_as_the_client_names_it(change: dict[str, Any], named: str) -> None:
    """Instructions of the Responses API are no numbered message, although a model reads them as one."""
    body = {"model": "m", "input": [{"role": "user", "content": "Why?"}], "instructions": "Be short."}
    recorded, now = (
        request_summary(make_proxied_request("u", RESPONSES, fields)) for fields in (body, {**body, **change})
    )
    assert describe_differences(now, recorded) == [named]


@pytest.mark.parametrize(
    ("path", "options", "expected"),
    [
        (CHAT, {"max_tokens": 5}, 5),
        (CHAT, {"max_completion_tokens": 5, "n": 3}, 15),
        (RESPONSES, {"max_output_tokens": 7}, 7),
        (CHAT, {}, None),
        (EMBEDDINGS, {}, 0),
    ],
)
def test_the_tokens_of_a_reply_are_bounded(path: str, options: dict[str, Any], expected: int | None) -> None:
    assert (
        max_reply_tokens(make_proxied_request("u", path, {"model": "m", **options}), Price(1, 1)) == expected
    )


def test_servers_that_repeat_what_comes_once_are_understood() -> None:
    """A stream may repeat id, type and name in each chunk, omit the index, and begin with an empty choice list."""
    stream = _StreamAssembler(CHAT, Sink(lambda _: None))

    def take(**chunk: Any) -> None:
        stream.add(
            Event("", json.dumps({"id": "c", "model": "m", "object": "chat.completion.chunk", **chunk}))
        )

    take(choices=[], prompt_filter_results=[])
    for arguments in ("", '{"a"', ": 1}"):
        call = {"index": 0, **CALL, "function": {"name": "f", "arguments": arguments}}
        take(choices=[{"delta": {"role": "assistant", "tool_calls": [call]}, "finish_reason": None}])
    take(choices=[{"delta": {}, "finish_reason": "tool_calls"}])
    assert stream.is_complete
    assert stream.answer["choices"][0]["message"]["tool_calls"] == [CALL]
    assert stream.answer["choices"][0]["message"]["role"] == "assistant"


@pytest.mark.parametrize(
    "data", ["{", "[]", '{"error": {"message": "overloaded"}}', '{"error": "overloaded"}']
)
def test_an_event_that_is_none_ends_a_stream(data: str) -> None:
    stream = _StreamAssembler(CHAT, Sink(lambda _: None))
    stream.add(Event("", json.dumps({"choices": [{"index": 0, "delta": {"content": "a"}}]})))
    with pytest.raises(StreamEndedEarly):
        stream.add(Event("", data))
    assert not stream.is_complete


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (CHAT, []),
        (CHAT, {}),
        (CHAT, {"choices": []}),
        (CHAT, {"choices": [{"message": {}}]}),
        (CHAT, completion(choice(finish_reason="error"))),
        (RESPONSES, {"output": [], "status": "failed"}),
        (RESPONSES, {"output": [], "status": "in_progress"}),
        (EMBEDDINGS, {"data": []}),
    ],
)
def test_an_incomplete_answer_is_not_cached(path: str, answer: Any) -> None:
    """An incomplete answer raises an error instead of being cached, so that it is requested again."""
    with pytest.raises((ValueError, ReportedError), match=r".+"):
        proxied_reply(path, answer)


def test_an_answer_too_long_for_a_cassette_is_an_error() -> None:
    """An answer that is too long for a cassette, and so for a replay, raises TooLarge."""
    assert proxied_reply(EMBEDDINGS, {"data": ["x" * (9 * 2**20)]})
    for text in ("x" * (15 * 2**20), '"' * (5 * 2**20)):
        with pytest.raises(TooLarge, match="fewer texts to embed"):
            proxied_reply(EMBEDDINGS, {"data": [text]})


@pytest.mark.parametrize(("input_value", "tokens"), [([7] * 30, 30), ([[7] * 30, [8] * 20], 50)])
def test_texts_that_come_as_tokens_are_counted(input_value: Any, tokens: int) -> None:
    """Texts that are sent as token numbers, as LangChain sends them for embeddings, count in a budget and a plan."""
    messages = make_proxied_request("u", EMBEDDINGS, {"model": "m", "input": input_value}).messages
    assert tokens <= prompt_tokens(messages) <= tokens + 20


@pytest.mark.parametrize(
    ("path", "answer", "silent"),
    [
        (CHAT, completion(choice()), True),
        (CHAT, completion(choice(), choice(1, content="fine")), False),
        (EMBEDDINGS, {"data": [{"embedding": []}]}, False),
        (RESPONSES, {"model": "m", "output": [{"type": "reasoning", "summary": []}]}, True),
        (
            RESPONSES,
            {"output": [{"type": "message", "content": [{"type": "output_text", "text": "fine"}]}]},
            False,
        ),
    ],
)
def test_a_response_without_an_answer_counts_as_empty(path, answer, *, silent):
    """A stored response is silent, so that another run requests it again, if no choice has an answer or a call."""
    assert proxied_reply(path, answer).silent is silent
