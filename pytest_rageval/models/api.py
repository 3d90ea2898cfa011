"""The fixture `rageval_llm`: a model for the user's own code, with cache, limits, budget and plan."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.event_loop import BackgroundEventLoop
from pytest_rageval.core.parsers import REJECTED_ARGUMENTS
from pytest_rageval.core.user_code import count_completion
from pytest_rageval.models.cached_functions import Functions
from pytest_rageval.models.client import Server
from pytest_rageval.models.gateway import Gateway
from pytest_rageval.models.messages import Message, Reply, Request
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, Prompts

F = TypeVar("F", bound=Callable[..., Any])
Conversation = str | Sequence[Message]

STORED_AS: Final = "pytest_rageval.llm.api"  # see core.user_code
REFUSED: Final = {**REJECTED_ARGUMENTS, "n": "ask with sample=0, 1, 2 … instead"}
"""Arguments that other clients accept and `LLM.complete` does not, with what to do instead."""


class LLM:
    """Sends prompts to the configured model. Every reply is stored, so that it is paid for once.

    Args:
        gateway: the gateway of the run.
        loop: the event loop of the gateway.
        default: returns the server and the default model; may raise InputError.
        prompts: the prompts that built-in retrievers use.
    """

    def __init__(
        self,
        gateway: Gateway,
        loop: BackgroundEventLoop,
        default: Callable[[], tuple[Server, str]],
        prompts: Prompts = DEFAULT_PROMPTS,
    ) -> None:
        self.prompts = prompts
        self._gateway = gateway
        self._loop = loop
        self._default = default
        self._functions = Functions(gateway, loop)

    def complete(
        self, messages: Conversation, *, model: str | None = None, sample: int = 0, **parameters: Any
    ) -> Reply:
        """Return the model's reply; its `text` is the answer. For sync code.

        Args:
            messages: a conversation in OpenAI's format, or one user message as text.
            model: the model's name at the server; by default the model that generates answers.
            sample: 0, 1, 2 … for repeated draws of the same prompt.
            parameters: parameters of the request: `temperature`, `max_tokens`, `stop`, `response_format` …

        Raises:
            Unscored: this request failed; the reason. If the caller does not catch it, the example is unscored.
            RagevalError: no request can be answered: no server, a wrong key, no budget.
            InputError: a message or a parameter cannot be used.
        """
        if self._loop.in_loop_thread:
            raise CallableError(
                "rageval_llm.complete() was called in async code.\nWrite: await rageval_llm.acomplete(…)"
            )
        server, request = self._request(messages, model, sample, parameters)
        return self._loop.wait(self._gateway.get_reply(server, request))

    async def acomplete(
        self, messages: Conversation, *, model: str | None = None, sample: int = 0, **parameters: Any
    ) -> Reply:
        """`complete` for async code, under asyncio or trio."""
        server, request = self._request(messages, model, sample, parameters)
        return await self._loop.await_result(self._gateway.get_reply(server, request))

    def cached(self, function: F, *, version: str | None = None) -> F:
        """Return a function whose results are cached like replies; see `Functions.cached`."""
        return self._functions.cached(function, version=version)

    def _request(
        self, messages: Conversation, model: str | None, sample: int, parameters: Mapping[str, Any]
    ) -> tuple[Server, Request]:
        """Return the server and the request, with copies of the messages: the caller may change them later."""
        for name in REFUSED.keys() & parameters.keys():
            raise InputError(f"rageval_llm.complete() does not take {name!r}: {REFUSED[name]}.")
        if model is not None and (not isinstance(model, str) or not model):
            why = "a model is named by a text; None is the default one"
            raise InputError(f"rageval_llm.complete(…, model={model!r:.60}): {why}.")
        if type(sample) is not int or sample < 0:
            why = "expected a whole number, at least 0"
            raise InputError(f"rageval_llm.complete(…, sample={sample!r:.60}): {why}.")
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        conversation = tuple(messages) if isinstance(messages, Iterable) else ()
        if not conversation or not all(isinstance(m, Mapping) and "role" in m for m in conversation):
            raise InputError(
                f"rageval_llm.complete() was given {messages!r:.80}, which is not a list of messages.\n"
                'Write a text, or [{"role": "user", "content": "…"}].'
            )
        server, default = self._default()
        try:
            copied, frozen = json.loads(json.dumps([conversation, dict(parameters)], allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"rageval_llm.complete() was given what JSON cannot express: {error}.\n"
                "Messages and parameters are text, numbers, booleans, None, lists and dicts of these."
            ) from None
        count_completion(self._loop, model or default)
        return server, Request(
            server.base_url, model or default, tuple(copied), frozen, sample, api=server.api
        )
