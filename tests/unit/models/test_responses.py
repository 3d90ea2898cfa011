"""The Responses API: how requests are sent and answers are read."""

import asyncio
from typing import Any

import pytest

from pytest_rageval.core.errors import RagevalError, ServerError, Unscored
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.rate_limits import Limiter
from pytest_rageval.models.sender import Sender
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.summaries import request_summary
from tests.unit.models.scripted import Answer, ScriptedServer, error

MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "fine"}]}
REASONING = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Why not?"}]}


def response(*output: dict[str, Any], **changes: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}
    return {
        "id": "resp_1",
        "object": "response",
        "model": "m-2026",
        "status": "completed",
        "error": None,
        "output": list(output or [MESSAGE]),
        "usage": usage,
    } | changes


def ask(*script: Any, api: Any = "responses", **parameters: Any) -> tuple[Reply, ScriptedServer]:
    messages = parameters.pop("messages", ({"role": "user", "content": "Why?"},))
    with ScriptedServer(*script) as server:
        request = Request(server.url, "m", tuple(messages), parameters, api=api)

        async def main() -> Reply:
            client = RemoteServer(server.url, "sk-nobody", api=api).client(timeout_s=30)
            try:
                return await Sender(client, Limiter(1), 30, 0).send(request)
            finally:
                await client.close()

        return asyncio.run(main()), server


def test_a_request_has_its_names() -> None:
    reply, server = ask(
        Answer(body=response()),
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
        temperature=0.5,
        max_tokens=16,
        reasoning_effort="low",
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
        top_k=3,
    )
    assert reply == Reply("fine", "m-2026", "stop", 10, 2)
    assert server.targets == {"POST /v1/responses"}
    assert server.requests == [
        {
            "model": "m",
            "instructions": "Be brief.",
            "input": [{"role": "user", "content": "Why?"}],
            "temperature": 0.5,
            "max_output_tokens": 16,
            "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
            "tools": [{"type": "function", "name": "f", "parameters": {}}],
            "top_k": 3,
            "store": False,
        }
    ]


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (response(REASONING, MESSAGE), Reply("fine", "m-2026", "stop", 10, 2)),
        (response({"type": "reasoning", "summary": []}, MESSAGE), Reply("fine", "m-2026", "stop", 10, 2)),
        (
            response({"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}),
            Reply("", "m-2026", "stop", 10, 2, "I will not."),
        ),
        (
            response(REASONING, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            Reply("", "m-2026", "length", 10, 2),
        ),
        (
            response(status="incomplete", incomplete_details={"reason": "content_filter"}),
            Reply("fine", "m-2026", "content_filter", 10, 2),
        ),
        (
            response(
                {**MESSAGE, "phase": "commentary", "content": [{"type": "output_text", "text": "Hm."}]},
                MESSAGE,
            ),
            Reply("fine", "m-2026", "stop", 10, 2),
        ),
        (
            response({"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}),
            Reply(
                "",
                "m-2026",
                "stop",
                10,
                2,
                tool_calls='[{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]',
            ),
        ),
        (response(usage=None, model=None), Reply("fine")),
    ],
    ids=["reasoning", "hidden reasoning", "refusal", "cut", "filtered", "commentary", "call", "bare"],
)
def test_answers_of_all_kinds(body: dict[str, Any], reply: Reply) -> None:
    received, _ = ask(Answer(body=body))
    assert received == reply
    assert received.apart == any(item.get("summary") for item in body["output"])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            response(
                status="failed", output=[], error={"code": "server_error", "message": "The model failed."}
            ),
            "the server reports an error: The model failed, 1 time",
        ),
        (response(status="queued"), r"the server's reply was not understood \(its status is queued\)"),
        ({"object": "response"}, r"the server's reply was not understood \(it has no output\)"),
        ({"choices": []}, r"the server's reply was not understood \(it has no output\)"),
        ([], r"the server's reply was not understood \(it is not an object\)"),
    ],
)
def test_an_answer_that_is_none_is_unscored(body: Any, reason: str) -> None:
    with pytest.raises(Unscored, match=f"^{reason}"):
        ask(Answer(body=body))


def test_parameters_that_it_lacks_are_left_out() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        refusal = error("Unknown parameter: 'stop'.", param="stop", code="unknown_parameter")
        return Answer(400, refusal) if "stop" in body else Answer(body=response())

    reply, server = ask(answer, stop=["\n"], temperature=0.0)
    assert (reply.without, len(server.requests)) == ("stop", 2)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "This model is only supported in v1/responses and not in v1/chat/completions."),
        (
            404,
            (
                "This is not a chat model and thus not supported in the v1/chat/completions endpoint. "
                "Did you mean to use v1/completions?"
            ),
        ),
        (
            400,
            (
                "The chatCompletion operation does not work with the specified model, gpt-5-codex. "
                "Please choose different model and try again."
            ),
        ),
    ],
)
def test_a_model_without_chat_completions_is_named_with_the_remedy(status: int, message: str) -> None:
    with pytest.raises(ServerError) as caught:
        ask(Answer(status, error(message)), api="chat")
    first, remedy = str(caught.value).splitlines()
    assert first.startswith("The server at http://127.0.0.1:")
    assert f"has no chat completions for the model 'm': {message[:40]}" in first
    assert remedy.startswith(
        'Use the Responses API for it: write api = "responses" into the table [tool.rageval.models.generator]'
    )


def test_a_server_without_the_api_says_what_may_be_missing() -> None:
    with pytest.raises(RagevalError, match=r'not every server has the Responses API \(api = "responses"\)'):
        ask(Answer(404, error("Not Found")))


def test_the_key_differs_only_where_the_api_does() -> None:
    """The cache key of a Responses request differs; keys of chat requests are as before other APIs existed."""
    chat = Request("u", "m", ({"role": "user", "content": "Why?"},), {"temperature": 0.0})
    other = Request("u", "m", chat.messages, chat.parameters, api="responses")
    assert chat.key == "faaf8de460831e249803b6039f331e63bea5ccfc1ed7c21bb74cbb596862fbb3"
    assert other.key != chat.key
    assert "api" not in request_summary(chat)
    assert request_summary(other)["api"] == "responses"
