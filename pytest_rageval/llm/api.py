"""Models for the user's own code: `rageval_llm`, with cache, limits, budget and plan."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pytest_rageval.errors import CallableError, InputError
from pytest_rageval.event_loop import PrivateLoop
from pytest_rageval.llm.cached_functions import Functions
from pytest_rageval.llm.gateway import Gateway
from pytest_rageval.llm.messages import Message, Reply, Request
from pytest_rageval.llm.servers import Server

__all__ = ["LLM"]

F = TypeVar("F", bound=Callable[..., Any])

NOT_OURS: Final = {
    "n": "ask with sample=0, 1, 2 … instead",
    "stream": "a reply is kept whole",
    "timeout": "it is an option: --rageval-timeout",
    "max_retries": "it is an option: --rageval-retries",
    "api_key": "it is read from OPENAI_API_KEY, and written nowhere",
    "extra_headers": "they do not belong to what is asked",
    **dict.fromkeys(
        ("organization", "project", "base_url", "http_client", "default_headers", "default_query"),
        "it belongs to a connection, not to what is asked",
    ),
    "extra_query": "it does not belong to what is asked",
}
"""What other clients take beside the parameters of a request, and why this one does not."""


class LLM:
    """The fixture `rageval_llm`: asks the model in force, and every reply is paid once.

    Args:
        door: to the models.
        loop: of the run.
        default: the server, and the model where none is named; it may raise InputError.
    """

    def __init__(self, door: Gateway, loop: PrivateLoop, default: Callable[[], tuple[Server, str]]) -> None:
        self._door = door
        self._loop = loop
        self._default = default
        self._functions = Functions(door, loop)

    def complete(
        self,
        messages: str | Sequence[Message],
        *,
        model: str | None = None,
        sample: int = 0,
        **parameters: Any,
    ) -> Reply:
        """The model's reply, whose `text` is what it says; for sync code.

        Args:
            messages: a conversation as the OpenAI protocol has it, or one user's message as text.
            model: as the server knows it; default: the one that generates.
            sample: 0, 1, 2 … for repeated draws of the same prompt.
            parameters: of the request: `temperature`, `max_tokens`, `stop`, `response_format` …

        Raises:
            Unscored: this request failed; the reason. It may be left to pass: the example it was
                for is then unscored.
            RagevalError: none can be answered: no server, a wrong key, no budget.
            InputError: a message or a parameter cannot be used.
        """
        if self._loop.here:
            message = (
                "rageval_llm.complete() was called in async code.\nWrite: await rageval_llm.acomplete(…)"
            )
            raise CallableError(message)
        server, request = self._request(messages, model, sample, parameters)
        return self._loop.wait(self._door.ask(server, request))

    async def acomplete(
        self,
        messages: str | Sequence[Message],
        *,
        model: str | None = None,
        sample: int = 0,
        **parameters: Any,
    ) -> Reply:
        """`complete` for async code, under asyncio or trio."""
        server, request = self._request(messages, model, sample, parameters)
        return await self._loop.awaited(self._door.ask(server, request))

    def cached(self, function: F, *, version: str | None = None) -> F:
        """A function of the user's whose results are kept as replies are.

        See `pytest_rageval.llm.cached_functions.Functions.cached`.
        """
        return self._functions.cached(function, version=version)

    def _request(
        self,
        messages: str | Sequence[Message],
        model: str | None,
        sample: int,
        parameters: Mapping[str, Any],
    ) -> tuple[Server, Request]:
        """What is asked, as it is now: the caller may change its messages while the request waits."""
        for name in NOT_OURS.keys() & parameters.keys():
            message = f"rageval_llm.complete() does not take {name!r}: {NOT_OURS[name]}."
            raise InputError(message)
        _check(model, sample)
        server, default = self._default()
        try:
            conversation, frozen = json.loads(
                json.dumps([_conversation(messages), dict(parameters)], allow_nan=False)
            )
        except (TypeError, ValueError) as error:
            message = (
                f"rageval_llm.complete() was given what JSON cannot express: {error}.\n"
                "Messages and parameters are text, numbers, booleans, None, lists and dicts of these."
            )
            raise InputError(message) from None
        return server, Request(server.base_url, model or default, tuple(conversation), frozen, sample)


def _check(model: object, sample: object) -> None:
    """Refuse what would be another question under a key of its own, or none that a server understands."""
    if model is not None and (not isinstance(model, str) or not model):
        message = f"rageval_llm.complete(…, model={model!r:.60}): a model is named by a text; None is the default one."
        raise InputError(message)
    if type(sample) is not int or sample < 0:
        message = f"rageval_llm.complete(…, sample={sample!r:.60}): expected a whole number, at least 0."
        raise InputError(message)


def _conversation(messages: str | Sequence[Message]) -> tuple[Message, ...]:
    if isinstance(messages, str):
        return ({"role": "user", "content": messages},)
    conversation = tuple(messages) if isinstance(messages, Iterable) else ()
    if not conversation or not all(isinstance(m, Mapping) and "role" in m for m in conversation):
        message = (
            f"rageval_llm.complete() was given {messages!r:.80}, which is no conversation.\n"
            'Write a text, or [{"role": "user", "content": "…"}].'
        )
        raise InputError(message)
    return conversation
