"""The behaviour of providers' OpenAI-compatible endpoints: paths, literal error messages, and reasoning in replies."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.llm_server import LLMServer, clerk
from tests.unit.models.scripted import Answer

KEY = "sk-secret"
Body = dict[str, Any]


def refusal(message: str, param: str | None = None, code: str | None = None) -> Body:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


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


FILTERED = {
    "hate": {"filtered": False, "severity": "safe"},
    "violence": {"filtered": False, "severity": "safe"},
}


def azure(text: str) -> Body:
    body = chat(text)
    body["choices"][0]["content_filter_results"] = FILTERED
    return body | {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTERED}]}


SAID = json.loads(Path(__file__).with_name("data").joinpath("providers.json").read_text(encoding="utf-8"))
"""The response to the first request, and the error for a parameter, of each provider."""


def _dialect(provider: str, base: str, reply: Callable[[str], Body] = chat, **more: Any) -> Dialect:
    said = SAID[provider]
    return Dialect(base, Answer(*said["busy"]), reply, said["refused"], **more)


DIALECTS = {
    "OpenAI": _dialect(
        "OpenAI",
        "/v1",
        lambda text: chat(text, refusal=None, annotations=[]),
        verdict=lambda word: f"{word.capitalize()}.",
        reasons=False,
    ),
    "OpenAI, reasoning model": _dialect(
        "OpenAI, reasoning model",
        "/v1",
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
        verdict=lambda word: f"**{word.capitalize()}**",
        left_out="temperature",
        reasons=False,
    ),
    "OpenAI, Responses": _dialect(
        "OpenAI, Responses",
        "/v1",
        response,
        verdict=lambda word: f"Final answer: **{word.upper()}**",
        target="/v1/responses",
        api="responses",
        left_out="temperature",
    ),
    "Azure, v1": _dialect(
        "Azure, v1",
        "/openai/v1/",
        azure,
        target="/openai/v1/chat/completions",
        verdict=lambda word: f"Verdict: {word}",
        reasons=False,
    ),
    "Azure, dated": _dialect(
        "Azure, dated",
        "/openai/deployments/d?api-version=2024-10-21",
        azure,
        target="/openai/deployments/d/chat/completions?api-version=2024-10-21",
        key_header="api-key",
        reasons=False,
    ),
    "Gemini": _dialect(
        "Gemini",
        "/v1beta/openai",
        lambda text: chat(f"<thought>no, or yes?</thought>{text}"),
        verdict=lambda word: f'```json\n{{"verdict": "{word}"}}\n```',
        parameters={"seed": 7},
        left_out="seed",
    ),
    "Bedrock": _dialect(
        "Bedrock",
        "/openai/v1",
        lambda text: chat(f"<reasoning>no, or yes?</reasoning>{text}"),
        left_out="temperature",
    ),
    "Vertex AI": _dialect(
        "Vertex AI",
        "/v1/projects/p/locations/europe-west4/endpoints/openapi",
        lambda text: chat(f"no, or yes?\n</think>\n\n{text}"),
        verdict=lambda word: f"Here is my verdict: {word.capitalize()}",
        parameters={"logprobs": True},
        left_out="logprobs",
    ),
    "Ollama": _dialect(
        "Ollama",
        "/v1",
        lambda text: chat(text, reasoning="no, or yes?"),
        verdict=lambda word: f"{word}, it does.",
        parameters={"reasoning_effort": "low"},
        left_out="reasoning_effort",
    ),
    "vLLM": _dialect(
        "vLLM",
        "/v1",
        lambda text: chat(
            "<|channel|>analysis<|message|>no, or yes?<|end|><|start|>assistant<|channel|>final<|message|>"
            f"{text}<|return|>",
            reasoning_content=None,
        ),
        parameters={"service_tier": "flex", "chat_template_kwargs": {"enable_thinking": True}},
        left_out="service_tier",
    ),
    "LiteLLM proxy": _dialect(
        "LiteLLM proxy",
        "",
        lambda text: chat(
            text, reasoning_content="no, or yes?", thinking_blocks=[{"type": "thinking", "thinking": "no?"}]
        ),
        left_out="temperature",
    ),
    "OpenRouter": _dialect(
        "OpenRouter",
        "/api/v1",
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
        verdict=lambda word: (
            f"The two agree or not.\n\n**Verdict:** {word.capitalize()}\n\n**Explanation:** see above."
        ),
        left_out="temperature",
    ),
    "Anthropic": _dialect(
        "Anthropic",
        "/v1/",
        verdict=lambda word: (
            f"# Verdict\n\n**{word.capitalize()}**\n\nIt says what the reference says, or not."
        ),
        target="/v1/chat/completions",
        parameters={"top_p": 0.9},
        left_out="temperature",
        reasons=False,
    ),
    "DeepSeek": _dialect(
        "DeepSeek",
        "",
        lambda text: chat(text, reasoning_content="no, or yes?"),
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
