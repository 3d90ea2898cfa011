"""Models that generate: one at a server, and the local one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_rageval.errors import ContextOverflow, Unscored
from pytest_rageval.fingerprint import digest
from pytest_rageval.llm.door import Door
from pytest_rageval.llm.reply import silence
from pytest_rageval.llm.request import Request
from pytest_rageval.llm.servers import Server
from pytest_rageval.model import Document
from pytest_rageval.prompts.asking import OWN, Prompts
from pytest_rageval.prompts.continuing import (
    few_shot_citing_prompt,
    few_shot_long_answer_prompt,
    few_shot_prompt,
)

__all__ = ["EmbeddedGenerator", "LLMGenerator"]

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

    door: Door
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

    door: Door
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


async def _answer(door: Door, server: Server, request: Request, passages: Sequence[Document]) -> str:
    try:
        reply = await door.ask(server, request)
    except ContextOverflow as overflow:
        length = sum(len(passage.text) for passage in passages)
        reason = f"{len(passages)} passages of {length:,} characters: {overflow}"
        raise ContextOverflow(reason) from overflow
    if not reply.answer:
        raise Unscored(f"the generator's reply is empty{silence(reply)}")
    return reply.answer
