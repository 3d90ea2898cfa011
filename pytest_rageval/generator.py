"""From a question and passages to an answer: a model's, or the user's own function."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pytest_rageval.errors import CallableError, RagevalError, Unscored
from pytest_rageval.llm.door import Door
from pytest_rageval.llm.request import Request
from pytest_rageval.llm.servers import Server
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.model import Document
from pytest_rageval.prompts import answer_prompt, few_shot_prompt

__all__ = ["CallableGenerator", "EmbeddedGenerator", "Generator", "LLMGenerator", "adapt_generator"]

TEMPERATURE: Final = 0.5
"""The paper's (LLM-retEval, section 3.2): enough for several correct answers to appear."""


class Generator(Protocol):
    """What the evaluations ask for answers."""

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """An answer to the question from the passages, best first.

        Args:
            question: as in the eval set.
            passages: none, one or more.
            sample: 0, 1, 2 … for repeated draws of the same prompt.

        Raises:
            Unscored: no answer could be had for this one.
        """


@dataclass(frozen=True)
class LLMGenerator:
    """An instruction-tuned model at an OpenAI-compatible server."""

    door: Door
    server: Server
    model: str
    temperature: float = TEMPERATURE

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `Generator`."""
        prompt = answer_prompt(question, [passage.text for passage in passages])
        request = Request(
            base_url=self.server.base_url,
            model=self.model,
            messages=({"role": "user", "content": prompt},),
            parameters={"temperature": self.temperature},
            sample=sample,
        )
        return await _answer(self.door, self.server, request)


@dataclass(frozen=True)
class EmbeddedGenerator:
    """The local base model, shown worked examples.

    It is not sampled: at temperature 0.5 so small a model does not find other
    correct answers but other wrong ones. All draws are therefore one.
    """

    door: Door
    server: Server
    model: str
    max_tokens: int = 16

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:  # noqa: ARG002
        """See `Generator`."""
        prompt = few_shot_prompt(question, [passage.text for passage in passages])
        request = Request(
            base_url=self.server.base_url,
            model=self.model,
            messages=({"role": "user", "content": prompt},),
            parameters={"temperature": 0.0, "max_tokens": self.max_tokens, "stop": ["\n"]},
        )
        return await _answer(self.door, self.server, request)


@dataclass(frozen=True)
class CallableGenerator:
    """The user's function `(question, passages) -> str`, sync or async."""

    function: Callable[[str, Sequence[Document]], Any]
    loop: PrivateLoop

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:  # noqa: ARG002 - a function is simply called again
        """See `Generator`.

        Raises:
            CallableError: the function raised, or returned something else than text.
        """
        try:
            answer = (
                self.function(question, list(passages))
                if inspect.iscoroutinefunction(self.function)
                else await self.loop.call(self.function, question, list(passages))
            )
            if inspect.isawaitable(answer):
                answer = await answer
        except (RagevalError, Unscored):
            raise
        except Exception as error:
            message = f"rageval_generator raised for the question {question!r}"
            raise CallableError.raised(message, error) from error
        if not isinstance(answer, str):
            message = (
                f"rageval_generator returned {type(answer).__name__} for the question {question!r}.\n"
                "Return the answer as a string."
            )
            raise CallableError(message)
        return _spoken(answer)


def adapt_generator(generator: object, loop: PrivateLoop) -> Generator:
    """What `rageval_generator` gave, as a `Generator`.

    Raises:
        CallableError: it is neither one of ours nor callable.
    """
    if callable(getattr(generator, "generate", None)):
        return generator  # type: ignore[return-value]  # the Protocol, recognised by its method
    if callable(generator):
        return CallableGenerator(generator, loop)
    message = (
        f"rageval_generator is {type(generator).__name__}, which cannot be called.\n"
        "Return a function (question, passages) -> str from the fixture, sync or async."
    )
    raise CallableError(message)


async def _answer(door: Door, server: Server, request: Request) -> str:
    reply = await door.ask(server, request)
    return _spoken(reply.text)


def _spoken(text: str) -> str:
    answer = text.strip()
    if not answer:
        reason = "the generator's reply is empty"
        raise Unscored(reason)
    return answer
