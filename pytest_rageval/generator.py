"""Generators: from a question and passages to an answer, by a model or by the user's own code.

Each generator answers in three ways: `generate` gives a short answer, `cite` all answers with citations, `explain` a
long answer. `adapt_generator` makes one of the fixture `rageval_generator`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, Protocol, cast

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.config import TEMPERATURE, merge_parameters
from pytest_rageval.conversation import conversation_text, history_of
from pytest_rageval.datatypes import Document
from pytest_rageval.digests import digest
from pytest_rageval.errors import CallableError, ContextOverflow, Unscored
from pytest_rageval.llm.gateway import Gateway
from pytest_rageval.llm.messages import LazyParts, Reply, Request, describe_parameters, empty_reason
from pytest_rageval.llm.servers.server import Server
from pytest_rageval.plural import counted
from pytest_rageval.prompts.rendering import (
    DEFAULT_PROMPTS,
    Prompts,
    few_shot_citing_prompt,
    few_shot_long_answer_prompt,
    few_shot_prompt,
)
from pytest_rageval.user_code import InvalidResult, UserCallable, has_parameter, is_built_in

__all__ = ["CallableGenerator", "EmbeddedGenerator", "Generator", "LLMGenerator", "adapt_generator"]

Prompt = Callable[[str, Sequence[str]], str]
"""Makes a prompt of a question and passages."""

ONE_LINE: Final = r'root ::= [^\n] [^\n]* "\n"*'
"""A grammar in llama.cpp's form: not an empty line, which a base model sometimes gives."""


class Generator(Protocol):
    """Answers questions from none, one or more passages; `sample` is 0, 1, 2 … for repeated draws of the same prompt.

    A question with messages before it is a `Question`.

    Each method raises Unscored where there is no answer.
    """

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """Return a short answer from the passages, best first."""

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """Return all answers that the passages hold, each with citations such as `[1][3]`.

        A citation is a position among the passages, from 1.
        """

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """Return a long answer from the passages, best first: whole sentences, as complete as may be."""

    def answers_nowait(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        """Return the answers in these samples, if all are kept and that takes no waiting; else None."""

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return what the answers of a method, such as "cite", depend on; the model itself is under the empty name."""

    def template(self, method: str) -> str:
        """Return the template of a method's prompt, with placeholders in braces; empty where there is none."""


def adapt_generator(generator: object, loop: BackgroundEventLoop) -> Generator:
    """Return the object of the fixture `rageval_generator` as a `Generator`; one of this package is one already.

    Raises:
        CallableError: it cannot be called and has no method `generate`.
    """
    if is_built_in(generator):
        return cast("Generator", generator)
    functions = {name: getattr(generator, name, None) for name in ("generate", "cite", "explain")}
    if not callable(functions["generate"]):
        functions["generate"] = generator
    methods = {
        name: UserCallable("rageval_generator", function, loop, read=_read_answer)
        for name, function in functions.items()
        if callable(function)
    }
    if "generate" not in methods:
        raise CallableError(
            f"rageval_generator is {type(generator).__name__}, which cannot be called.\n"
            "Return a function (question, passages) -> str from the fixture, sync or async, "
            "or an object with such a method generate."
        )
    return CallableGenerator(methods)


class _ByMethod(ABC):
    """A generator whose methods differ only by their name."""

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        return await self._answer("generate", question, passages, sample)

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        return await self._answer("cite", question, passages, sample)

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        return await self._answer("explain", question, passages, sample)

    def answers_nowait(
        self,
        method: str,  # noqa: ARG002 - one that calls the user's code has none
        question: str,  # noqa: ARG002
        passages: Sequence[Document],  # noqa: ARG002
        samples: Sequence[int],  # noqa: ARG002
    ) -> tuple[str, ...] | None:
        return None

    @abstractmethod
    async def _answer(self, method: str, question: str, passages: Sequence[Document], sample: int) -> str: ...


class _ModelGenerator(_ByMethod):
    """A generator that asks a model through the gateway."""

    gateway: Gateway
    server: Server
    model: str

    @abstractmethod
    def _prompt(self, method: str) -> Prompt: ...

    @abstractmethod
    def _parameters(self, method: str) -> dict[str, Any]: ...

    @cached_property
    def _ways(self) -> dict[str, tuple[Prompt, dict[str, Any]]]:
        """The prompts and parameters of the methods that were called, made once."""
        return {}

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the model, its server and parameters, and the digest of the method's prompt."""
        prompt = {f"prompt to {method}": digest(self._prompt(method)("", []))[:12]}
        api = {} if self.server.api == "chat" else {"api": self.server.api}
        parameters = describe_parameters(self._parameters(method))
        return {"": f"{self.model} at {self.server.base_url}", **api, **parameters, **prompt}

    def answers_nowait(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        """Return the answers in these samples, if that takes no waiting; None where it does, or one has no answer."""
        request = self._request(method, question, passages, samples[0])
        replies = self.gateway.get_replies_nowait(request, samples) or ()
        answers = tuple([reply.answer for reply in replies])
        return answers if replies and all(answers) else None

    async def _answer(self, method: str, question: str, passages: Sequence[Document], sample: int) -> str:
        request = self._request(method, question, passages, sample)
        try:
            reply = await self.gateway.get_reply_for_score(self.server, request)
        except ContextOverflow as overflow:
            characters = sum(len(passage.text) for passage in passages)
            reason = f"{counted(len(passages), 'passage')} of {characters:,} characters: {overflow}"
            raise ContextOverflow(reason) from overflow
        return _not_empty(reply)

    def _request(self, method: str, question: str, passages: Sequence[Document], sample: int) -> Request:
        if method not in self._ways:
            self._ways[method] = self._prompt(method), self._parameters(method)
        prompt, parameters = self._ways[method]
        texts = tuple([passage.text for passage in passages])
        return Request(
            base_url=self.server.base_url,
            api=self.server.api,
            model=self.model,
            messages=({"role": "user", "content": _filled(prompt, question, texts)},),
            parameters=parameters,
            sample=sample,
            parts=LazyParts(lambda: _parts(prompt, question, texts)),
        )


@lru_cache(maxsize=1 << 8)
def _filled(prompt: Prompt, question: str, texts: tuple[str, ...]) -> str:
    """A prompt, which several draws have in common."""
    return prompt(question, texts)


def _parts(prompt: Prompt, question: str, texts: tuple[str, ...]) -> dict[str, str]:
    return {
        "instructions of the generator": _filled(prompt, "", ()),
        "question": str(question),
        **({"conversation": conversation_text(history)} if (history := history_of(question)) else {}),
        **{f"passage {n}": text for n, text in enumerate(texts, 1)},
    }


@dataclass(frozen=True)
class LLMGenerator(_ModelGenerator):
    """An instruction-tuned model at an OpenAI-compatible server; `max_tokens` None is the server's default."""

    gateway: Gateway
    server: Server
    model: str
    temperature: float = TEMPERATURE
    max_tokens: int | None = None
    prompts: Prompts = DEFAULT_PROMPTS
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the user's, in place of these

    def at(self, temperature: float) -> "LLMGenerator":
        """The same model at another temperature."""
        others = {name: value for name, value in self.parameters.items() if name != "temperature"}
        return replace(self, temperature=temperature, parameters=others)

    def template(self, method: str) -> str:
        """Return the template of a method's prompt."""
        return self.prompts.template(
            {"generate": "answer", "cite": "citing", "explain": "long_answer"}[method]
        )

    def _prompt(self, method: str) -> Prompt:
        prompts = self.prompts
        return {"generate": prompts.answer, "cite": prompts.citing, "explain": prompts.long_answer}[method]

    def _parameters(self, method: str) -> dict[str, Any]:  # noqa: ARG002 - the same for all methods
        limit = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return merge_parameters({"temperature": self.temperature, **limit}, self.parameters)


@dataclass(frozen=True)
class EmbeddedGenerator(_ModelGenerator):
    """The local base model, with worked examples in its prompts.

    By default it is not sampled: at temperature 0.5 so small a model finds other wrong answers rather than other
    correct ones. At temperature 0 all draws are the same.
    """

    gateway: Gateway
    server: Server
    model: str
    max_tokens: int = 16
    max_tokens_cited: int = 64
    max_tokens_explained: int = 128
    temperature: float = 0.0

    def at(self, temperature: float) -> "EmbeddedGenerator":
        """The same model at another temperature."""
        return replace(self, temperature=temperature)

    def template(self, method: str) -> str:
        """Return the template of a method's prompt; the worked examples are a part of it."""
        prompt = self._prompt(method)("{question}", ["{passages}"])
        # The list of passages has its own numbers or dashes.
        return re.sub(r"(?m)^.*\{passages\}$", "{passages}", prompt)

    def _prompt(self, method: str) -> Prompt:
        others = {"cite": few_shot_citing_prompt, "explain": few_shot_long_answer_prompt}
        return others.get(method, few_shot_prompt)

    def _parameters(self, method: str) -> dict[str, Any]:
        limit = {"cite": self.max_tokens_cited, "explain": self.max_tokens_explained}.get(
            method, self.max_tokens
        )
        return {
            "temperature": self.temperature,
            "max_tokens": limit,
            "stop": ["\n"],
            "extra_body": {"grammar": ONE_LINE},
        }

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the model, its server, the most tokens, the prompt's digest, and the temperature above 0."""
        fixed = {"stop", "extra_body", *(() if self.temperature else ("temperature",))}
        return {name: value for name, value in super().identity(method).items() if name not in fixed}

    def answers_nowait(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        """Return the answers in these samples, as for any model."""
        drawn = samples if self.temperature else [0] * len(samples)
        return super().answers_nowait(method, question, passages, drawn)

    async def _answer(self, method: str, question: str, passages: Sequence[Document], sample: int) -> str:
        return await super()._answer(method, question, passages, sample=sample if self.temperature else 0)


class CallableGenerator(_ByMethod):
    """The user's function `(question, passages) -> str`, or an object's `generate`, and perhaps others.

    Without `cite` or `explain`, `generate` answers, and its own prompt decides whether it cites and how long it is. A
    function with a parameter `sample` receives the number of the draw; any other is called again for each draw. One
    with a parameter `history` receives the messages before the question. One that raises, or returns something other
    than text, is a QueryError.

    Args:
        methods: by name; "generate" is among them.
    """

    def __init__(self, methods: Mapping[str, UserCallable]) -> None:
        self.user = methods["generate"]
        self._methods = methods

    async def _answer(self, method: str, question: str, passages: Sequence[Document], sample: int) -> str:
        user = self._methods.get(method, self.user)
        drawn = {"sample": sample} if has_parameter(user.function, "sample") else {}
        return cast("str", await user.call(question, list(passages), **drawn))

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the name of the function."""
        return {"": self._methods.get(method, self.user).identity}

    def template(self, method: str) -> str:  # noqa: ARG002 - the same for all methods
        """Return nothing: the prompt, if there is one, is the user's."""
        return ""


def _read_answer(answer: object) -> str:
    if not isinstance(answer, str):
        what = f"returned {type(answer).__name__}"
        raise InvalidResult(what, f"{what} for {{question}}.\nReturn the answer as a string.")
    # It may be a model's text, which begins with reasoning.
    return _not_empty(Reply(answer))


def _not_empty(reply: Reply) -> str:
    """The answer of a reply."""
    answer = reply.answer
    if not answer:
        raise Unscored(f"the generator's reply is empty{empty_reason(reply)}")
    return answer
