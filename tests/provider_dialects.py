"""The behaviour of providers' OpenAI-compatible endpoints: paths, literal error messages, and reasoning in replies."""

# ruff: noqa: E501 - literal messages of the servers

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.llm_server import LLMServer, clerk
from tests.unit.models.scripted import Answer

KEY = "sk-secret"
Body = dict[str, Any]


def refusal(message: str, param: str | None = None, code: str | None = None) -> Body:
    """Return an error in the format of OpenAI."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def google(code: int, message: str, status: str) -> list[Body]:
    return [{"error": {"code": code, "message": message, "status": status}}]


def chat(text: str, **message: Any) -> Body:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "logprobs": None,
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }


def response(text: str) -> Body:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "served",
        "output": [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Is it? no, or yes?"}],
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            },
        ],
        "usage": {
            "input_tokens": 10,
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 18},
            "total_tokens": 30,
        },
    }


@dataclass(frozen=True)
class Dialect:
    """The behaviour of one provider.

    Attributes:
        base: the path of the base URL, as in the recipe of the documentation.
        busy: the response to the first request.
        reply: returns the body of the response with a text of the model.
        refused: the error for a request with a parameter, by the name of the parameter.
        verdict: returns the text of the judge for "yes" or "no".
        target: the target of requests; by default that of chat completions below `base`.
        key_header: the header with the API key.
        parameters: parameters that the user adds.
        api: the API that the user chooses, "chat" or "responses".
        left_out: the parameter that the report lists as refused and left out; empty for none.
        reasons: whether replies contain reasoning.
    """

    base: str
    busy: Answer
    reply: Callable[[str], Body] = chat
    refused: Mapping[str, Any] = field(default_factory=dict)
    verdict: Callable[[str], str] = str
    target: str = ""
    key_header: str = "authorization"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    api: str = "chat"
    left_out: str = ""
    reasons: bool = True


SOON = {"retry-after": "0.01"}
TEMPERATURE = refusal(
    "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.",
    "temperature",
    "unsupported_value",
)
RENAMED = refusal(
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "max_tokens",
    "unsupported_parameter",
)
AZURE_BUSY = Answer(
    429,
    {
        "error": {
            "code": "429",
            "message": "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 1 second. Please go here: https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit.",
        }
    },
    {"retry-after-ms": "10", "retry-after": "1"},
)
FILTERED = {
    "hate": {"filtered": False, "severity": "safe"},
    "violence": {"filtered": False, "severity": "safe"},
}


def azure(text: str) -> Body:
    body = chat(text)
    body["choices"][0]["content_filter_results"] = FILTERED
    return body | {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTERED}]}


DIALECTS: dict[str, Dialect] = {
    "OpenAI": Dialect(
        "/v1",
        Answer(
            429,
            {
                "error": {
                    "message": "Rate limit reached for gpt-4.1-mini in organization org-x on requests per min (RPM): Limit 500, Used 500, Requested 1. Please try again in 120ms. Visit https://platform.openai.com/account/rate-limits to learn more.",
                    "type": "requests",
                    "param": None,
                    "code": "rate_limit_exceeded",
                }
            },
            {
                "retry-after-ms": "10",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "10ms",
            },
        ),
        lambda text: chat(text, refusal=None, annotations=[]),
        verdict=lambda word: f"{word.capitalize()}.",
        reasons=False,
    ),
    "OpenAI, reasoning model": Dialect(
        "/v1",
        Answer(
            503,
            {
                "error": {
                    "message": "The engine is currently overloaded, please try again later",
                    "type": "server_error",
                    "param": None,
                    "code": None,
                }
            },
            SOON,
        ),
        lambda text: (
            chat(text)
            | {
                "usage": {
                    "prompt_tokens": 10,
                    "completion_tokens": 66,
                    "completion_tokens_details": {"reasoning_tokens": 64},
                }
            }
        ),
        {"max_tokens": RENAMED, "temperature": TEMPERATURE},
        verdict=lambda word: f"**{word.capitalize()}**",
        left_out="temperature",
        reasons=False,
    ),
    "OpenAI, Responses": Dialect(
        "/v1",
        Answer(
            500, refusal("The server had an error while processing your request. Sorry about that!"), SOON
        ),
        response,
        {
            "temperature": refusal(
                "Unsupported parameter: 'temperature' is not supported with this model.",
                "temperature",
                "unsupported_parameter",
            )
        },
        verdict=lambda word: f"Final answer: **{word.upper()}**",
        target="/v1/responses",
        api="responses",
        left_out="temperature",
    ),
    "Azure, v1": Dialect(
        "/openai/v1/",
        AZURE_BUSY,
        azure,
        {"max_tokens": RENAMED},
        target="/openai/v1/chat/completions",
        verdict=lambda word: f"Verdict: {word}",
        reasons=False,
    ),
    "Azure, dated": Dialect(
        "/openai/deployments/d?api-version=2024-10-21",
        AZURE_BUSY,
        azure,
        target="/openai/deployments/d/chat/completions?api-version=2024-10-21",
        key_header="api-key",
        reasons=False,
    ),
    "Gemini": Dialect(
        "/v1beta/openai",
        Answer(
            429,
            google(
                429,
                "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.",
                "RESOURCE_EXHAUSTED",
            ),
            SOON,
        ),
        lambda text: chat(f"<thought>no, or yes?</thought>{text}"),
        {
            "seed": google(
                400,
                'Invalid JSON payload received. Unknown name "seed": Cannot find field.',
                "INVALID_ARGUMENT",
            )
        },
        verdict=lambda word: f'```json\n{{"verdict": "{word}"}}\n```',
        parameters={"seed": 7},
        left_out="seed",
    ),
    "Bedrock": Dialect(
        "/openai/v1",
        Answer(429, {"message": "Too many requests, please wait before trying again."}, SOON),
        lambda text: chat(f"<reasoning>no, or yes?</reasoning>{text}"),
        {
            "temperature": {
                "message": "An error occurred (ValidationException) when calling the Converse operation: The model returned the following errors: `temperature` is deprecated for this model."
            }
        },
        left_out="temperature",
    ),
    "Vertex AI": Dialect(
        "/v1/projects/p/locations/europe-west4/endpoints/openapi",
        Answer(
            429,
            google(
                429,
                "Resource exhausted. Please try again later. Please refer to https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details.",
                "RESOURCE_EXHAUSTED",
            ),
            SOON,
        ),
        lambda text: chat(f"no, or yes?\n</think>\n\n{text}"),
        {"logprobs": google(400, "Logprobs is not supported for the current model.", "INVALID_ARGUMENT")},
        verdict=lambda word: f"Here is my verdict: {word.capitalize()}",
        parameters={"logprobs": True},
        left_out="logprobs",
    ),
    "Ollama": Dialect(
        "/v1",
        Answer(
            503,
            {
                "error": {
                    "message": "server busy, please try again.  maximum pending requests exceeded",
                    "type": "api_error",
                    "param": None,
                    "code": None,
                }
            },
            SOON,
        ),
        lambda text: chat(text, reasoning="no, or yes?"),
        {
            "reasoning_effort": {
                "error": {
                    "message": 'think value "low" is not supported for this model',
                    "type": "api_error",
                    "param": None,
                    "code": None,
                }
            }
        },
        verdict=lambda word: f"{word}, it does.",
        parameters={"reasoning_effort": "low"},
        left_out="reasoning_effort",
    ),
    "vLLM": Dialect(
        "/v1",
        Answer(
            500,
            {
                "object": "error",
                "message": "Internal server error",
                "type": "InternalServerError",
                "code": 500,
            },
            SOON,
        ),
        lambda text: chat(
            f"<|channel|>analysis<|message|>no, or yes?<|end|><|start|>assistant<|channel|>final<|message|>{text}<|return|>",
            reasoning_content=None,
        ),
        {
            "service_tier": {
                "object": "error",
                "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'service_tier'), 'msg': 'Extra inputs are not permitted', 'input': 'flex'}]",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            }
        },
        parameters={"service_tier": "flex", "chat_template_kwargs": {"enable_thinking": True}},
        left_out="service_tier",
    ),
    "LiteLLM proxy": Dialect(
        "",
        Answer(
            429,
            {
                "error": {
                    "message": "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached for gpt-5-nano. Received Model Group=m1\nAvailable Model Group Fallbacks=None",
                    "type": None,
                    "param": None,
                    "code": "429",
                }
            },
            SOON,
        ),
        lambda text: chat(
            text, reasoning_content="no, or yes?", thinking_blocks=[{"type": "thinking", "thinking": "no?"}]
        ),
        {
            "temperature": {
                "error": {
                    "message": "litellm.UnsupportedParamsError: gpt-5 models (including gpt-5-codex) don't support temperature=0.5. Only temperature=1 is supported. To drop unsupported params set `litellm.drop_params = True`. Received Model Group=m1\nAvailable Model Group Fallbacks=None",
                    "type": "None",
                    "param": None,
                    "code": "400",
                }
            }
        },
        left_out="temperature",
    ),
    "OpenRouter": Dialect(
        "/api/v1",
        Answer(
            429,
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 429,
                    "metadata": {
                        "raw": "m1 is temporarily rate-limited upstream. Please retry shortly, or add your own key to accumulate your rate limits: https://openrouter.ai/settings/integrations",
                        "provider_name": "DeepInfra",
                    },
                },
                "user_id": "user_x",
            },
            SOON,
        ),
        lambda text: (
            chat(
                text,
                refusal=None,
                reasoning="no, or yes?",
                reasoning_details=[
                    {"type": "reasoning.text", "text": "no, or yes?", "format": "unknown", "index": 0}
                ],
            )
            | {"provider": "DeepInfra"}
        ),
        {
            "temperature": {
                "error": {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {"raw": json.dumps(TEMPERATURE), "provider_name": "OpenAI"},
                }
            }
        },
        verdict=lambda word: (
            f"The two agree or not.\n\n**Verdict:** {word.capitalize()}\n\n**Explanation:** see above."
        ),
        left_out="temperature",
    ),
    "Anthropic": Dialect(
        "/v1/",
        Answer(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, SOON),
        chat,
        {
            "temperature": {
                "error": {
                    "code": "invalid_request_error",
                    "message": "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
                    "type": "invalid_request_error",
                    "param": None,
                }
            }
        },
        verdict=lambda word: (
            f"# Verdict\n\n**{word.capitalize()}**\n\nIt says what the reference says, or not."
        ),
        target="/v1/chat/completions",
        parameters={"top_p": 0.9},
        left_out="temperature",
        reasons=False,
    ),
    "DeepSeek": Dialect(
        "",
        Answer(
            503,
            refusal(
                "Service is too busy. We advise users to temporarily switch to alternative LLM API service providers."
            ),
            SOON,
        ),
        lambda text: chat(text, reasoning_content="no, or yes?"),
        {
            "logprobs": refusal(
                "deepseek-reasoner does not support the parameter `logprobs`", None, "invalid_request_error"
            )
        },
        verdict=lambda word: f"\\boxed{{{word}}}",
        parameters={"logprobs": True},
        left_out="logprobs",
    ),
}


class ProviderServer(LLMServer):
    """A server that behaves like a provider. Wrong paths, missing keys and refused parameters are errors."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self.dialect = dialect
        self.answered = 0

    async def _answer(self, head: str, body: Body) -> bytes:
        await self._received(body)
        self.in_flight -= 1
        return self._respond(head, body).encoded()

    def _respond(self, head: str, body: Body) -> Answer:
        dialect = self.dialect
        target = dialect.target or f"{dialect.base}/chat/completions"
        if not head.startswith(f"POST {target} HTTP/"):
            return Answer(404, refusal(f"Invalid URL ({head.partition(' HTTP/')[0]})"))
        key = re.search(rf"(?im)^{dialect.key_header}: *(?:Bearer )?(.*?)\r", head)
        if key is None or key[1] != KEY:
            return Answer(401, refusal("Incorrect API key provided.", code="invalid_api_key"))
        if len(self.requests) == 1:
            return dialect.busy
        refused = next((name for name in dialect.refused if name in body), None)
        if refused is not None:
            return Answer(400, dialect.refused[refused])
        self.answered += 1
        messages = body["input"] if dialect.api == "responses" else body["messages"]
        text = clerk(messages[-1]["content"])
        return Answer(body=dialect.reply(dialect.verdict(text) if text in {"yes", "no"} else text))
