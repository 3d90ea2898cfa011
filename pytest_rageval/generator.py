"""From a question and passages to an answer: a model's, or the user's own function."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pytest_rageval.errors import CallableError, Unscored
from pytest_rageval.llm.door import Door
from pytest_rageval.llm.request import Request
from pytest_rageval.llm.servers import Server
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.model import Document
from pytest_rageval.prompts import answer_prompt, few_shot_prompt
from pytest_rageval.usercode import UserCallable

__all__ = ["CallableGenerator", "EmbeddedGenerator", "Generator", "LLMGenerator", "adapt_generator"]

TEMPERATURE: Final = 0.5
"""The paper's (LLM-retEval, section 3.2): enough for several correct answers to appear."""

ONE_LINE: Final = r'root ::= [^\n] [^\n]* "\n"*'
"""A grammar in llama.cpp's form: not an empty line, which a base model gives now and then."""


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
            parameters={
                "temperature": 0.0,
                "max_tokens": self.max_tokens,
                "stop": ["\n"],
                "extra_body": {"grammar": ONE_LINE},
            },
        )
        return await _answer(self.door, self.server, request)


class CallableGenerator:
    """The user's function `(question, passages) -> str`, as `UserCallable` calls it."""

    def __init__(self, answer: UserCallable) -> None:
        self._answer = answer

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:  # noqa: ARG002 - a function is simply called again
        """See `Generator`.

        Raises:
            CallableError: the function raised, or returned something else than text.
        """
        answer = await self._answer.call(question, list(passages))
        if not isinstance(answer, str):
            message = f"returned {type(answer).__name__} for {question!r}.\nReturn the answer as a string."
            raise self._answer.fail(message)
        return _spoken(answer)


def adapt_generator(generator: object, loop: PrivateLoop) -> Generator:
    """What `rageval_generator` gave, as a `Generator`.

    Raises:
        CallableError: it is neither one of ours nor callable.
    """
    if callable(getattr(generator, "generate", None)):
        return generator  # type: ignore[return-value]  # the Protocol, recognised by its method
    if callable(generator):
        return CallableGenerator(UserCallable("rageval_generator", generator, loop))
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
