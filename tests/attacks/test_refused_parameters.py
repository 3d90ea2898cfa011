"""Parameters that a server refuses, with the error messages of real servers.

Attack: a request has parameters that a model does not accept. Servers word the refusal differently, some repeat the
message of another server, and some use another name for the parameter. Promise: after one refusal, the parameter is
left out, or sent under its other name, and the reply states it. A value that is out of range is for the user to
correct: the example is unscored after one request, with the server's message as reason, and nothing is left out.
"""

# ruff: noqa: E501 - the original messages of the servers

import asyncio
import json
from typing import Any

import pytest

from pytest_rageval.core.errors import RagevalError, Unscored
from pytest_rageval.models.client import Client
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.rate_limits import Limiter
from pytest_rageval.models.sender import Sender
from pytest_rageval.models.server import RemoteServer
from tests.unit.models.scripted import Answer, ScriptedServer

SENT: dict[str, Any] = {
    "temperature": 0.5,
    "max_tokens": 16,
    "stop": ["\n"],
    "seed": 7,
    "n": 1,
    "user": "me",
    "logprobs": True,
    "top_logprobs": 2,
    "logit_bias": {"5": 1},
    "presence_penalty": 0.1,
    "response_format": {"type": "json_object"},
    "reasoning_effort": "low",
    "top_p": 0.9,
}


def openai(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return an error in OpenAI's format, which many other servers use."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def unsupported(
    name: str, message: str = "Unsupported parameter: '{}' is not supported with this model."
) -> dict[str, Any]:
    return openai(message.format(name), name, "unsupported_parameter")


def pydantic(name: str, **more: Any) -> dict[str, Any]:
    """Return a validation error of Pydantic, with which many servers check requests."""
    return {
        "type": "extra_forbidden",
        "loc": ["body", name],
        "msg": "Extra inputs are not permitted",
        "input": 1,
        **more,
    }


def google(*names: str) -> list[dict[str, Any]]:
    """Return an error of Gemini's OpenAI-compatible API, whose body is a list."""
    messages = [f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.' for name in names]
    details = {"fieldViolations": [{"description": message} for message in messages]}
    return [
        {
            "error": {
                "code": 400,
                "message": "\n".join(messages),
                "status": "INVALID_ARGUMENT",
                "details": [details],
            }
        }
    ]


def litellm(message: str) -> dict[str, Any]:
    """Return an error of a proxy that repeats the message of the server behind it."""
    return {"error": {"message": message, "type": None, "param": None, "code": "400"}}


REFUSALS: dict[str, tuple[Any, str]] = {
    # OpenAI and Azure
    "OpenAI, value": (
        openai(
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is "
            "supported.",
            "temperature",
            "unsupported_value",
        ),
        "temperature",
    ),
    "OpenAI, temperature": (unsupported("temperature"), "temperature"),
    "OpenAI, stop": (unsupported("stop"), "stop"),
    "OpenAI, logprobs": (unsupported("logprobs"), "logprobs"),
    "OpenAI, presence_penalty": (unsupported("presence_penalty"), "presence_penalty"),
    "OpenAI, old": (openai("Unrecognized request argument supplied: logprobs"), "logprobs"),
    "OpenAI, old, a word of English": (openai("Unrecognized request argument supplied: stop"), "stop"),
    "OpenAI, one letter": (openai("Unrecognized request argument supplied: n"), "n"),
    "OpenAI, form": (
        openai(
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            "response_format.type",
        ),
        "response_format",
    ),
    "Azure": (openai("This model does not support the 'logprobs' parameter.", "logprobs"), "logprobs"),
    "Azure, own data": (
        {
            "error": {
                "requestid": "x",
                "code": 400,
                "message": "Validation error at #/logprobs: Extra inputs are not permitted",
            }
        },
        "logprobs",
    ),
    "Azure, own data, a word of English": (
        {"error": {"code": 400, "message": "Validation error at #/stop: Extra inputs are not permitted"}},
        "stop",
    ),
    "Azure, other models": (
        openai("Your request contained invalid structure on path logprobs. extra fields not permitted"),
        "logprobs",
    ),
    # Anthropic
    "Anthropic": (
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "`temperature` is deprecated for this model.",
            },
        },
        "temperature",
    ),
    "Anthropic, compatible": (
        {
            "error": {
                "code": "invalid_request_error",
                "message": "temperature is deprecated for this model.",
                "type": "invalid_request_error",
            }
        },
        "temperature",
    ),
    "Anthropic, thinking": (
        openai("`temperature` may only be set to 1 when thinking is enabled."),
        "temperature",
    ),
    "Anthropic, either": (
        openai("`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
        "temperature",
    ),
    "Anthropic, extra": (openai("seed: Extra inputs are not permitted"), "seed"),
    # Google
    "Gemini": (google("seed"), "seed"),
    "Gemini, two at once": (google("presence_penalty", "seed"), "presence_penalty"),
    "Gemini, not enabled": (
        [
            {
                "error": {
                    "code": 400,
                    "message": "Logprobs is not enabled for models/gemini-2.5-flash",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        "logprobs",
    ),
    "Vertex": (
        {
            "error": {
                "code": 400,
                "message": "Logprobs is not supported for the current model.",
                "status": "INVALID_ARGUMENT",
            }
        },
        "logprobs",
    ),
    # vLLM and others that serve open models
    "vLLM": (
        {
            "object": "error",
            "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted', 'input': 7}]",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        "seed",
    ),
    "vLLM on Gaudi": (
        {
            "error": {
                "message": "Gaudi doesn't support logprobs. Please remove 'logprobs'/'top_logprobs' from your request to "
                "receive a response.",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            }
        },
        "logprobs",
    ),
    "FastAPI": ({"detail": [pydantic("logit_bias")]}, "logit_bias"),
    "Groq": (
        {
            "error": {
                "message": "'logit_bias' : property 'logit_bias' is unsupported",
                "type": "invalid_request_error",
            }
        },
        "logit_bias",
    ),
    "Groq, model": (
        {
            "error": {
                "message": "`logprobs` is not supported with this model",
                "type": "invalid_request_error",
            }
        },
        "logprobs",
    ),
    "Rust servers": (
        {
            "message": "Failed to deserialize the JSON body into the target type: seed: unknown field seed, expected one of "
            "messages, model, frequency_penalty, logit_bias, logprobs, max_tokens, n, stop, temperature, user at line 1 "
            "column 445"
        },
        "seed",
    ),
    "an error that is a text": ({"error": "unknown parameter seed"}, "seed"),
    # Mistral
    "Mistral": (
        {
            "object": "error",
            "message": {"detail": [pydantic("seed")]},
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
        "seed",
    ),
    "Mistral, in a text": (
        {
            "object": "error",
            "message": json.dumps(
                {"detail": [pydantic("presence_penalty", url="https://errors.pydantic.dev/2.5/v/x")]}
            ),
            "type": "internal_error_proxy",
            "param": None,
            "code": "1000",
        },
        "presence_penalty",
    ),
    "Mistral, twice": (
        {"object": "Error", "detail": [pydantic("user")], "message": [pydantic("user")], "code": 3001},
        "user",
    ),
    # DeepSeek
    "DeepSeek": (
        openai(
            "deepseek-reasoner does not support the parameter `presence_penalty`",
            None,
            "invalid_request_error",
        ),
        "presence_penalty",
    ),
    "DeepSeek, JSON": (
        openai("deepseek-reasoner does not support Json Output.", None, "invalid_request_error"),
        "response_format",
    ),
    "DeepSeek, schema": (
        openai("This response_format type is unavailable now", None, "invalid_request_error"),
        "response_format",
    ),
    "DeepSeek, schema, status 422": (
        openai(
            "Failed to deserialize the JSON body into the target type: response_format: response_format.type "
            "`json_schema` is unavailable now at line 1 column 12992"
        ),
        "response_format",
    ),
    # xAI
    "xAI": (
        {
            "code": "Client specified an invalid argument",
            "error": "Argument not supported on this model: stop",
        },
        "stop",
    ),
    "xAI, camel case": (
        {
            "code": "Client specified an invalid argument",
            "error": "Argument not supported on this model: presencePenalty",
        },
        "presence_penalty",
    ),
    "xAI, new": (
        {"code": "invalid-argument", "error": "Model grok-4.3 does not support parameter presencePenalty."},
        "presence_penalty",
    ),
    # Bedrock
    "Bedrock": (
        {"message": "The model returned the following errors: `temperature` is deprecated for this model."},
        "temperature",
    ),
    "Bedrock, Converse": (
        {
            "message": "This model doesn't support the stopSequences field. Remove stopSequences and try again."
        },
        "stop",
    ),
    "Bedrock, Llama": (
        {
            "message": "Malformed input request: extraneous key [stop_sequences] is not permitted, please reformat your "
            "input and try again."
        },
        "stop",
    ),
    "Bedrock, in a gateway": (
        litellm(
            'litellm.BadRequestError: BedrockException - {"message":"The model returned the following errors: '
            '`temperature` is deprecated for this model."}. Received Model Group=sonnet\\nAvailable Model Group '
            "Fallbacks=None"
        ),
        "temperature",
    ),
    "Bedrock, its library": (
        {
            "detail": "An error occurred (ValidationException) when calling the Converse operation: The model returned "
            "the following errors: `temperature` is deprecated for this model."
        },
        "temperature",
    ),
    # Ollama
    "Ollama, effort": (
        openai('think value "low" is not supported for this model', None, None),
        "reasoning_effort",
    ),
    "Ollama, thinking": (
        openai('"gemma3:4b" does not support thinking', None, None),
        "reasoning_effort",
    ),
    # The Responses API
    "OpenAI, Responses": (
        unsupported("reasoning.effort"),
        "reasoning_effort",
    ),
    # Gateways
    "OpenRouter": (
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": json.dumps(unsupported("stop")), "provider_name": "OpenAI"},
            }
        },
        "stop",
    ),
    "LiteLLM": (
        litellm(
            "litellm.UnsupportedParamsError: gpt-5-nano doesn't support temperature=0.1 while reasoning is active. Only "
            "temperature=1 is supported unless reasoning_effort resolves to 'none'. To drop unsupported params set "
            "`litellm.drop_params = True`."
        ),
        "temperature",
    ),
    "LiteLLM, list": (
        litellm(
            "litellm.UnsupportedParamsError: openai does not support parameters: ['temperature'], for model=o1-mini. To "
            "drop these, set `litellm.drop_params=True`"
        ),
        "temperature",
    ),
    "LiteLLM, Anthropic": (
        litellm(
            'litellm.BadRequestError: AnthropicException - b\'{"type":"error","error":{"type":"invalid_request_error",'
            '"message":"`temperature` is deprecated for this model."},"request_id":"r"}\'No fallback model group found for '
            "original model_group=m."
        ),
        "temperature",
    ),
}

RENAMED: dict[str, Any] = {
    "OpenAI": unsupported(
        "max_tokens",
        "Unsupported parameter: '{}' is not supported with this model. Use 'max_completion_tokens' instead.",
    ),
    "Azure, without the field": openai(
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    ),
    "a gateway": litellm(
        "OpenAIException - Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead."
    ),
    "deprecated": openai("max_tokens is deprecated, use max_completion_tokens"),
    "Mistral": {
        "object": "error",
        "message": {"detail": [pydantic("max_tokens")]},
        "type": "invalid_request_error",
    },
}

OUT_OF_RANGE: dict[str, Any] = {
    "OpenAI, limit": openai(
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided "
        "100000.",
        "max_tokens",
    ),
    "OpenAI, temperature": openai(
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 5 instead.",
        "temperature",
        "decimal_above_max_value",
    ),
    "OpenAI, n": openai(
        "Invalid 'n': integer above maximum value. Expected a value <= 128, but got 1000 instead.",
        "n",
        "integer_above_max_value",
    ),
    "OpenAI, other values": openai(
        "Unsupported value: 'seed' does not support 'minimal' with this model. Supported values are: 'low', 'medium', "
        "and 'high'.",
        "seed",
        "unsupported_value",
    ),
    "a gateway, in the wrong field": {
        "error": {
            "message": "Param Incorrect",
            "type": "upstream_error",
            "param": "max_tokens is too large: 1048576. This model supports at most 131072 completion tokens, whereas you "
            "provided 1048576.",
            "code": "400",
        }
    },
    "a gateway, with more words": litellm(
        "litellm.BadRequestError: OpenAIException - max_tokens is too large: 32000. This model supports at most 16384 "
        "completion tokens. Unknown fallback for unsupported requests"
    ),
    "Anthropic": {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "max_tokens: 1000000 > 64000, which is the maximum allowed number of output tokens for "
            "claude-sonnet-4-20250514",
        },
    },
    "DeepSeek": openai(
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", None, "invalid_request_error"
    ),
    "DeepSeek, messages": openai(
        "deepseek-reasoner does not support successive user or assistant messages (messages[0] and messages[1] in your "
        "input). You should interleave the user/assistant messages in the message sequence."
    ),
    "Gemini": [
        {
            "error": {
                "code": 400,
                "message": "Unable to submit request because it has a maxOutputTokens value of 655360 but the supported "
                "range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again.",
                "status": "INVALID_ARGUMENT",
            }
        }
    ],
    "vLLM": {
        "object": "error",
        "message": "max_tokens must be at least 1, got -186.",
        "type": "BadRequestError",
        "code": 400,
    },
    "Groq": openai("`max_tokens` must be less than or equal to `8192`, the maximum value for this model"),
    "Mistral": {
        "detail": [
            {
                "type": "less_than_equal",
                "loc": ["body", "temperature"],
                "msg": "Input should be less than or equal to 1.5",
                "input": 5,
                "ctx": {"le": 1.5},
            }
        ]
    },
    "Ollama": openai("json: cannot unmarshal object into Go struct field ChatRequest.format of type string"),
    "Ollama, tools": openai("registry.ollama.ai/library/gemma3:latest does not support tools"),
    "OpenAI, roles": openai(
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "messages[0].role",
        "unsupported_value",
    ),
    "a parameter of somebody else": openai("Unknown parameter: 'top_k'.", "top_k", "unknown_parameter"),
    "Rust servers": {
        "message": "Failed to deserialize the JSON body into the target type: thinking: unknown field thinking, expected one "
        "of messages, model, logit_bias, logprobs, max_tokens, seed, stop, temperature, user at line 1 column 445"
    },
}


def ask(answer: Any) -> tuple[Reply, list[dict[str, Any]]]:
    request = Request("u", "m", ({"role": "user", "content": "Why?"},), SENT)

    async def main(url: str) -> Reply:
        sender = Sender(Client(RemoteServer(url, "sk-nobody"), timeout_s=30), Limiter(1), 30, 0)
        try:
            return await sender.send(request)
        finally:
            await sender.client.close()

    with ScriptedServer(answer) as server:
        try:
            return asyncio.run(main(server.url)), server.requests
        except Unscored as unscored:
            raise Unscored(f"{len(server.requests)} requests: {unscored}") from None


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(("refusal", "name"), REFUSALS.values(), ids=REFUSALS)
def test_what_is_refused_is_left_out(refusal: Any, name: str, status: int) -> None:
    reply, sent = ask(lambda body: Answer(status, refusal) if name in body else "fine")
    assert (reply.text, reply.without) == ("fine", name)
    parameters = [{key: body[key] for key in body if key in SENT} for body in sent]
    assert parameters == [SENT, {key: value for key, value in SENT.items() if key != name}]


def test_a_parameter_that_no_provider_takes_is_no_unknown_model() -> None:
    """OpenRouter's 404 for a refused parameter is not taken for an unknown model.

    If it names no parameter, nothing is left out.
    """
    refusal = openai(
        "No endpoints found that support the provided 'logit_bias' value. To learn more about provider routing, visit: "
        "https://openrouter.ai/docs/provider-routing"
    )
    reply, sent = ask(lambda body: Answer(404, refusal) if "logit_bias" in body else "fine")
    assert (reply.without, len(sent)) == ("logit_bias", 2)
    unnamed = openai("No endpoints found that can handle the requested parameters.")
    with pytest.raises(
        Unscored, match=r"^1 requests: the server answered 404: No endpoints found that can handle"
    ):
        ask(lambda _: Answer(404, unnamed))


@pytest.mark.parametrize("refusal", RENAMED.values(), ids=RENAMED)
def test_a_bound_is_sent_under_its_other_name(refusal: Any) -> None:
    """A refused `max_tokens` is sent under its other name and never left out, because it limits the cost."""
    reply, sent = ask(lambda body: Answer(400, refusal) if "max_tokens" in body else "fine")
    assert (reply.text, reply.without) == ("fine", "")
    assert [body.get("max_completion_tokens") for body in sent] == [None, 16]


@pytest.mark.parametrize("refusal", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_a_wrong_value_is_the_users_to_mend(refusal: Any) -> None:
    with pytest.raises((Unscored, RagevalError), match=r"^1 requests: the server answered 400: \S"):
        ask(lambda _: Answer(400, refusal))


def test_two_refusals_are_two_lessons() -> None:
    """If a server refuses one parameter per response, requests are repeated until the server accepts the rest."""
    refused = ("temperature", "logprobs", "top_logprobs", "stop")

    def answer(body: dict[str, Any]) -> Answer | str:
        remaining = [name for name in refused if name in body]
        return Answer(400, unsupported(remaining[0])) if remaining else "fine"

    reply, sent = ask(answer)
    assert reply.without.split() == ["temperature", "stop", "logprobs", "top_logprobs"]
    assert len(sent) == len(refused) + 1
    total = len(REFUSALS) + len(RENAMED) + len(OUT_OF_RANGE)
    print(f"{total} wordings of real servers")
