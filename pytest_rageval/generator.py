"""Generators: from a question and passages to an answer, by a model or by the user's own code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from pytest_rageval.errors import CallableError, ContextOverflow, Unscored
from pytest_rageval.event_loop import PrivateLoop
from pytest_rageval.fingerprint import digest
from pytest_rageval.llm.gateway import Gateway
from pytest_rageval.llm.messages import Reply, Request, empty_reason
from pytest_rageval.llm.servers import Server
from pytest_rageval.model import Document
from pytest_rageval.prompts.few_shot import (
    few_shot_citing_prompt,
    few_shot_long_answer_prompt,
    few_shot_prompt,
)
from pytest_rageval.prompts.rendering import OWN, Prompts
from pytest_rageval.user_code import Unusable, UserCallable, is_ours, takes

__all__ = ["CallableGenerator", "EmbeddedGenerator", "Generator", "LLMGenerator", "adapt_generator"]


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

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """All answers that the passages hold, each with citations such as `[1][3]`.

        Args:
            question: as in the eval set.
            passages: in the order of the prompt, none, one or more; a citation is a position, from 1.
            sample: 0, 1, 2 … for repeated draws of the same prompt.

        Raises:
            Unscored: no answer could be had for this one.
        """

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """A long answer to the question from the passages, best first: whole sentences, as complete as may be.

        Args:
            question: as in the eval set.
            passages: none, one or more.
            sample: 0, 1, 2 … for repeated draws of the same prompt.

        Raises:
            Unscored: no answer could be had for this one.
        """

    def identity(self, method: str) -> Mapping[str, Any]:
        """What the answers of a method, such as "cite", depend on, by name; the model itself is under the empty one."""


Prompt = Callable[[str, Sequence[str]], str]
"""Makes a prompt of a question and passages."""

TEMPERATURE: Final = 0.5
"""The paper's (LLM-retEval, section 3.2): enough for several correct answers to appear."""

ONE_LINE: Final = r'root ::= [^\n] [^\n]* "\n"*'
"""A grammar in llama.cpp's form: not an empty line, which a base model gives now and then."""


@dataclass(frozen=True)
class LLMGenerator:
    """An instruction-tuned model at an OpenAI-compatible server.

    Attributes:
        door: to it.
        server: where it is.
        model: as the server knows it.
        temperature: of sampling.
        max_tokens: of an answer; None leaves it to the server.
        prompts: with which it is asked.
    """

    door: Gateway
    server: Server
    model: str
    temperature: float = TEMPERATURE
    max_tokens: int | None = None
    prompts: Prompts = OWN

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`."""
        return await self._asked("generate", question, passages, sample)

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`."""
        return await self._asked("cite", question, passages, sample)

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`."""
        return await self._asked("explain", question, passages, sample)

    def identity(self, method: str) -> Mapping[str, Any]:
        """See `pytest_rageval.generator.Generator`."""
        return _identity(self.server, self.model, method, self._prompt(method), self._parameters())

    async def _asked(self, method: str, question: str, passages: Sequence[Document], sample: int) -> str:
        prompt, parameters = self._prompt(method), self._parameters()
        request = _request(self.server, self.model, prompt, question, passages, parameters, sample)
        return await _answer(self.door, self.server, request, passages)

    def _prompt(self, method: str) -> Prompt:
        prompts = self.prompts
        return {"generate": prompts.answer, "cite": prompts.citing, "explain": prompts.long_answer}[method]

    def _parameters(self) -> dict[str, Any]:
        limit = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return {"temperature": self.temperature, **limit}


@dataclass(frozen=True)
class EmbeddedGenerator:
    """The local base model, shown worked examples.

    It is not sampled: at temperature 0.5 so small a model does not find other
    correct answers but other wrong ones. All draws are therefore one.
    """

    door: Gateway
    server: Server
    model: str
    max_tokens: int = 16
    max_tokens_cited: int = 64
    max_tokens_explained: int = 128

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:  # noqa: ARG002
        """See `pytest_rageval.generator.Generator`."""
        return await self._continued("generate", question, passages)

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:  # noqa: ARG002
        """See `pytest_rageval.generator.Generator`; it is shown two worked examples."""
        return await self._continued("cite", question, passages)

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:  # noqa: ARG002
        """See `pytest_rageval.generator.Generator`; it is shown two worked examples."""
        return await self._continued("explain", question, passages)

    def identity(self, method: str) -> Mapping[str, Any]:
        """See `pytest_rageval.generator.Generator`."""
        prompt, max_tokens = self._task(method)
        return _identity(self.server, self.model, method, prompt, {"max_tokens": max_tokens})

    def _task(self, method: str) -> tuple[Prompt, int]:
        """The prompt of a method, and the most tokens of its answer."""
        tasks: dict[str, tuple[Prompt, int]] = {
            "generate": (few_shot_prompt, self.max_tokens),
            "cite": (few_shot_citing_prompt, self.max_tokens_cited),
            "explain": (few_shot_long_answer_prompt, self.max_tokens_explained),
        }
        return tasks[method]

    async def _continued(self, method: str, question: str, passages: Sequence[Document]) -> str:
        prompt, max_tokens = self._task(method)
        parameters = {
            "temperature": 0.0,
            "max_tokens": max_tokens,
            "stop": ["\n"],
            "extra_body": {"grammar": ONE_LINE},
        }
        request = _request(self.server, self.model, prompt, question, passages, parameters)
        return await _answer(self.door, self.server, request, passages)


def _request(  # noqa: PLR0913, PLR0917 - what a request is made of
    server: Server,
    model: str,
    prompt: Prompt,
    question: str,
    passages: Sequence[Document],
    parameters: Mapping[str, Any],
    sample: int = 0,
) -> Request:
    texts = [passage.text for passage in passages]
    return Request(
        base_url=server.base_url,
        model=model,
        messages=({"role": "user", "content": prompt(question, texts)},),
        parameters=parameters,
        sample=sample,
        parts={
            "instructions of the generator": prompt("", []),
            "question": question,
            **{f"passage {n}": text for n, text in enumerate(texts, 1)},
        },
    )


def _identity(
    server: Server, model: str, method: str, prompt: Prompt, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    asked = {f"prompt to {method}": digest(prompt("", []))[:12]}
    return {"": f"{model} at {server.base_url}", **parameters, **asked}


async def _answer(door: Gateway, server: Server, request: Request, passages: Sequence[Document]) -> str:
    try:
        reply = await door.ask(server, request)
    except ContextOverflow as overflow:
        length = sum(len(passage.text) for passage in passages)
        reason = f"{len(passages)} passages of {length:,} characters: {overflow}"
        raise ContextOverflow(reason) from overflow
    if not reply.answer:
        raise Unscored(f"the generator's reply is empty{empty_reason(reply)}")
    return reply.answer


class CallableGenerator:
    """The user's function `(question, passages) -> str`, or an object's `generate`, and perhaps others.

    One that has a parameter `sample` is told the number of the draw; any other is simply called again.

    Args:
        generate: as `UserCallable` calls it.
        cite: likewise; without it `generate` answers, and whether it cites is up to its own prompt.
        explain: likewise; without it `generate` answers, and how long is up to its own prompt.
    """

    def __init__(
        self, generate: UserCallable, cite: UserCallable | None = None, explain: UserCallable | None = None
    ) -> None:
        self.user = generate
        self._cite = cite or generate
        self._explain = explain or generate

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`.

        Raises:
            QueryError: the function raised, or returned something else than text.
        """
        return await self._asked(self.user, question, passages, sample)

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`.

        Raises:
            QueryError: as above.
        """
        return await self._asked(self._cite, question, passages, sample)

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`.

        Raises:
            QueryError: as above.
        """
        return await self._asked(self._explain, question, passages, sample)

    async def _asked(
        self, user: UserCallable, question: str, passages: Sequence[Document], sample: int
    ) -> str:
        drawn = {"sample": sample} if takes(user.function, "sample") else {}
        return cast("str", await user.call(question, list(passages), **drawn))

    def identity(self, method: str) -> Mapping[str, Any]:
        """See `pytest_rageval.generator.Generator`."""
        asked = {"generate": self.user, "cite": self._cite, "explain": self._explain}[method]
        return {"": asked.identity}


def adapt_generator(generator: object, loop: PrivateLoop) -> Generator:
    """What `rageval_generator` gave, as a `Generator`.

    Raises:
        CallableError: it is neither one of ours nor callable, and has no `generate`.
    """
    if is_ours(generator):
        return cast("Generator", generator)
    generate, cite, explain = (
        UserCallable("rageval_generator", method, loop, read=_said) if callable(method) else None
        for method in (getattr(generator, name, None) for name in ("generate", "cite", "explain"))
    )
    if generate is None and callable(generator):
        generate = UserCallable("rageval_generator", generator, loop, read=_said)
    if generate is None:
        message = (
            f"rageval_generator is {type(generator).__name__}, which cannot be called.\n"
            "Return a function (question, passages) -> str from the fixture, sync or async, "
            "or an object with such a method generate."
        )
        raise CallableError(message)
    return CallableGenerator(generate, cite, explain)


def _said(answer: object) -> str:
    """What a user's function returned, as an answer."""
    if not isinstance(answer, str):
        what = f"returned {type(answer).__name__}"
        raise Unusable(what, f"{what} for {{question}}.\nReturn the answer as a string.")
    # As a model's text that is passed on, it may begin with reasoning.
    reply = Reply(answer)
    if not reply.answer:
        raise Unscored(f"the generator's reply is empty{empty_reason(reply)}")
    return reply.answer
