"""Generators answer a question from passages, by a model or by the user's own code.

There are three methods: "generate" is for a short answer, "cite" for all answers in the passages, each with citations
such as `[1][3]` (positions of passages, from 1), "explain" for a long answer in whole sentences.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Final, Protocol, Self, cast

from pytest_rageval.calls import identity_of
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.user_code import InvalidResult, UserCallable, bounded_text
from pytest_rageval.core.errors import CallableError, ContextOverflow, Planned, Unscored
from pytest_rageval.core.evalset import conversation_text, history_of
from pytest_rageval.core.ranking import Document, texts_of
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import has_parameter, signature_of
from pytest_rageval.lib.text import counted
from pytest_rageval.models.client import Server
from pytest_rageval.models.gateway import Gateway
from pytest_rageval.models.messages import Reply, Request, empty_reason, unknown_answer
from pytest_rageval.models.prompt_rendering import (
    DEFAULT_PROMPTS,
    FEW_SHOT_PROMPTS,
    Prompts,
    few_shot_answer_prompt,
)
from pytest_rageval.models.summaries import describe_parameters
from pytest_rageval.options.parsers import merge_parameters
from pytest_rageval.options.settings import TEMPERATURE

PromptRenderer = Callable[[str, Sequence[str]], str]
"""A function that renders the prompt of a question and passages."""

TEMPLATE_OF: Final = {"generate": "answer", "cite": "citing", "explain": "long_answer"}
"""The names of the templates by method."""

EMBEDDED_MAX_TOKENS: Final = {"generate": 16, "cite": 64, "explain": 128}
"""The tokens of the embedded model's replies, by method."""

ONE_LINE_GRAMMAR: Final = r'root ::= [^\n] [^\n]* "\n"*'
"""A grammar of llama.cpp for a line that is not empty, because a base model sometimes returns an empty line."""


class Generator(Protocol):
    """Answers questions from any number of passages, best first.

    `sample` is the number of the draw: 0, 1, 2 … for repeated draws of the same prompt. A question with messages before
    it is a `QuestionWithHistory`. The methods that answer raise Unscored if there is no answer.
    """

    async def answer(
        self, method: str, question: str, passages: Sequence[Document], sample: int = 0
    ) -> str: ...

    async def cached_answers(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        """Return the answers of these samples if all are cached and available without waiting; otherwise None."""

    def identity(self, method: str) -> Mapping[str, object]:
        """Return the facts that the answers of a method, such as "cite", depend on; the model has the empty name."""

    def template(self, method: str) -> str:
        """Return the template of a method's prompt, with placeholders in braces; empty if there is no prompt."""


def adapt_generator(generator: object, loop: BackgroundEventLoop) -> Generator:
    functions = {name: getattr(generator, name, None) for name in ("generate", "cite", "explain")}
    if not callable(functions["generate"]):
        functions["generate"] = generator
    methods = {
        name: UserCallable("rageval_generator", function, loop, read=_parse_answer)
        for name, function in functions.items()
        if callable(function)
    }
    if "generate" not in methods:
        raise CallableError(
            f"rageval_generator is {type(generator).__name__}, which cannot be called.\n"
            "Return a function (question, passages) -> str from the fixture, sync or async, "
            "or an object with such a method generate."
        )
    names = list(getattr(signature_of(methods["generate"].function), "parameters", ()))
    if names[:1] in [["passages"], ["documents"], ["contexts"]] and len(names) > 1:
        raise CallableError(
            f"rageval_generator is a function ({', '.join(names)}), and is called with the question first, then with "
            "the passages.\nReturn a function (question, passages) -> str."
        )
    return CallableGenerator(methods)


@dataclass(frozen=True)
class LLMGenerator:
    """An instruction-tuned model at an OpenAI-compatible server; the user's `parameters` replace its own."""

    gateway: Gateway
    server: Server
    model: str
    temperature: float = TEMPERATURE
    max_tokens: int | None = None
    prompts: Prompts = DEFAULT_PROMPTS
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)

    def with_temperature(self, temperature: float) -> Self:
        """Return this generator with another temperature, which also replaces one in the user's parameters."""
        parameters = {name: value for name, value in self.parameters.items() if name != "temperature"}
        return replace(self, temperature=temperature, parameters=parameters)

    def template(self, method: str) -> str:
        return self.prompts.template(TEMPLATE_OF[method])

    def _prompt_renderer(self, method: str) -> PromptRenderer:
        return partial(self.prompts.fill, TEMPLATE_OF[method])

    def _parameters(self, method: str) -> dict[str, object]:  # noqa: ARG002 - the same for all methods
        limit = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return merge_parameters({"temperature": self.temperature, **limit}, self.parameters)

    @cached_property
    def _prompts_and_parameters(self) -> dict[str, tuple[PromptRenderer, dict[str, object]]]:
        return {name: (self._prompt_renderer(name), self._parameters(name)) for name in TEMPLATE_OF}

    def identity(self, method: str) -> Mapping[str, object]:
        prompt = {f"prompt to {method}": digest(self._prompt_renderer(method)("", []))[:12]}
        api = {} if self.server.api == "chat" else {"api": self.server.api}
        parameters = describe_parameters(self._parameters(method))
        address = self.gateway.address(self.model, self.server.base_url)
        return {"": f"{self.model} at {address}", **api, **parameters, **prompt}

    async def cached_answers(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        request = self._build_request(method, question, passages, samples[0])
        replies = await self.gateway.get_cached_replies(request, samples) or ()
        answers = tuple([reply.answer for reply in replies])
        return answers if replies and all(answers) else None

    async def answer(self, method: str, question: str, passages: Sequence[Document], sample: int = 0) -> str:
        request = self._build_request(method, question, passages, sample)
        try:
            reply = await self.gateway.get_reply_for_score(self.server, request)
        except ContextOverflow as overflow:
            characters = sum(len(passage.text) for passage in passages)
            reason = f"{counted(len(passages), 'passage')} of {characters:,} characters: {overflow}"
            raise ContextOverflow(reason) from overflow
        return _require_answer(reply)

    def _build_request(
        self, method: str, question: str, passages: Sequence[Document], sample: int
    ) -> Request:
        render, parameters = self._prompts_and_parameters[method]
        texts = texts_of(passages)
        return Request(
            base_url=self.server.base_url,
            api=self.server.api,
            model=self.model,
            messages=({"role": "user", "content": _render_prompt(render, question, texts)},),
            parameters=parameters,
            sample=sample,
            parts=_parts(render, question, texts),
        )


@lru_cache(maxsize=1 << 3)
def _render_prompt(render: PromptRenderer, question: str, texts: tuple[str, ...]) -> str:
    """Return a prompt; it is cached, because several draws have the same prompt."""
    return render(question, texts)


def _parts(render: PromptRenderer, question: str, texts: tuple[str, ...]) -> dict[str, str]:
    return {
        "instructions of the generator": _render_prompt(render, "", ()),
        "question": str(question),
        **({"conversation": conversation_text(history)} if (history := history_of(question)) else {}),
        **{f"passage {n}": text for n, text in enumerate(texts, 1)},
    }


@dataclass(frozen=True)
class EmbeddedGenerator(LLMGenerator):
    """The local base model, with worked examples in its prompts.

    At temperature 0, the default, all draws are the same. At 0.5 so small a model returns other wrong answers rather
    than other correct ones.
    """

    temperature: float = 0.0
    prompts: Prompts = FEW_SHOT_PROMPTS

    def _prompt_renderer(self, method: str) -> PromptRenderer:
        return few_shot_answer_prompt if method == "generate" else super()._prompt_renderer(method)

    def _parameters(self, method: str) -> dict[str, object]:
        return {
            "temperature": self.temperature,
            "max_tokens": EMBEDDED_MAX_TOKENS[method],
            "stop": ["\n"],
            "extra_body": {"grammar": ONE_LINE_GRAMMAR},
        }

    def identity(self, method: str) -> Mapping[str, object]:
        """Return the model, its server, the maximum of tokens, the prompt's digest, and a temperature above 0."""
        constant = {"stop", "extra_body", *(() if self.temperature else ("temperature",))}
        return {name: value for name, value in super().identity(method).items() if name not in constant}

    async def cached_answers(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        samples = samples if self.temperature else [0] * len(samples)
        return await super().cached_answers(method, question, passages, samples)

    async def answer(self, method: str, question: str, passages: Sequence[Document], sample: int = 0) -> str:
        return await super().answer(method, question, passages, sample if self.temperature else 0)


class CallableGenerator:
    """A generator that calls the user's function `(question, passages) -> str`, or the methods of the user's object.

    Without `cite` and `explain`, `generate` is called. A function with a parameter `sample` gets the number of the
    draw, and one with a parameter `history` the messages before the question.
    """

    def __init__(self, methods: Mapping[str, UserCallable]) -> None:
        self.user: UserCallable = methods["generate"]
        self._methods = methods

    async def answer(self, method: str, question: str, passages: Sequence[Document], sample: int = 0) -> str:
        user = self._methods.get(method, self.user)
        keywords = {"sample": sample} if has_parameter(user.function, "sample") else {}
        try:
            return cast("str", await user.call(question, list(passages), **keywords))
        except Planned:
            # The requests that depend on the answer are counted.
            return unknown_answer()

    async def cached_answers(self, *_: object) -> None:
        """Return None: answers of the user's code are not cached."""

    def identity(self, method: str) -> Mapping[str, object]:
        return {"": identity_of(self._methods.get(method, self.user).function)}

    def template(self, method: str) -> str:  # noqa: ARG002 - the same for all methods
        return ""


def _parse_answer(answer: object) -> str:
    if not isinstance(answer, str):
        what = f"returned {type(answer).__name__}"
        raise InvalidResult(what, f"{what} for {{question}}.\nReturn the answer as a string.")
    # The text may come from a model and begin with its reasoning, which `Reply.answer` removes.
    return _require_answer(Reply(bounded_text(answer, "an answer")))


def _require_answer(reply: Reply) -> str:
    """Return the answer of a reply; raise Unscored if it is empty."""
    answer = reply.answer
    if not answer:
        raise Unscored(f"the generator's reply is empty{empty_reason(reply)}")
    return answer
