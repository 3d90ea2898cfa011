"""The models in force: what generates and what compares where no fixture says otherwise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pytest_rageval.answers.judge_protocol import CanonicalComparator, Rating
from pytest_rageval.answers.llm_judge import LLMJudge
from pytest_rageval.answers.votes import Poll
from pytest_rageval.config import EMBEDDED, Settings
from pytest_rageval.errors import InputError
from pytest_rageval.generator import EmbeddedGenerator, LLMGenerator
from pytest_rageval.llm.gateway import Gateway
from pytest_rageval.llm.servers import (
    DEFAULT_BASE_URL,
    EmbeddedServer,
    RemoteServer,
    Server,
    weights_in_force,
)
from pytest_rageval.model import Document
from pytest_rageval.prompts.rendering import OWN, Prompts

__all__ = ["DefaultGenerator", "DefaultJudge", "Models"]


@dataclass(frozen=True)
class Models:
    """Built from the options, each at its first use: a test of ranking measures needs none."""

    settings: Settings
    door: Gateway

    @cached_property
    def generator(self) -> EmbeddedGenerator | LLMGenerator:
        """The model that answers.

        Raises:
            InputError: a key or a base URL is set, but no model is named.
        """
        settings = self.settings
        if settings.embedded:
            server = self.embedded_server
            model = f"{server.weights.name}@{server.weights.fingerprint[:12]}"
            return EmbeddedGenerator(self.door, server, model)
        if settings.model is None:
            found = "--rageval-base-url or OPENAI_BASE_URL" if settings.base_url else "OPENAI_API_KEY"
            message = (
                f"{found} is set, but no model is named.\n"
                f"Name one with --rageval-model NAME or rageval_model in the ini file; "
                f"'{EMBEDDED}' is the local model."
            )
            raise InputError(message)
        return LLMGenerator(self.door, self.remote_server, settings.model, max_tokens=settings.max_tokens)

    @cached_property
    def judge(self) -> LLMJudge | CanonicalComparator:
        """What compares answers.

        Raises:
            InputError: as for the generator.
        """
        model = self.settings.llm_judge
        if model is not None:
            poll = Poll(self.settings.judge_votes)
            return LLMJudge(self.door, self.remote_server, model, self.settings.max_tokens, poll)
        if not self.settings.embedded:
            # No model is named at all; the generator's error says what to do.
            _ = self.generator
        return CanonicalComparator()

    @cached_property
    def embedded_server(self) -> EmbeddedServer:
        """The local model's server; its process starts when it is first asked."""
        return EmbeddedServer(weights_in_force(self.settings.gguf))

    @cached_property
    def remote_server(self) -> RemoteServer:
        """The server that the options name."""
        return RemoteServer(self.settings.base_url or DEFAULT_BASE_URL, self.settings.api_key)

    def generating(self) -> tuple[Server, str]:
        """The server and the name of the model that answers.

        Raises:
            InputError: as for the generator.
        """
        generator = self.generator
        return generator.server, generator.model

    def close(self) -> None:
        """End the local model's process, if one was started."""
        if "embedded_server" in self.__dict__:
            self.embedded_server.close()


@dataclass(frozen=True)
class DefaultGenerator:
    """What the fixture `rageval_generator` gives unless a conftest says otherwise.

    Attributes:
        models: in force.
        prompts: for a model at a server; the embedded one continues a page of its own.
    """

    models: Models
    prompts: Prompts = OWN

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`."""
        return await self._generator.generate(question, passages, sample=sample)

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`."""
        return await self._generator.cite(question, passages, sample=sample)

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """See `pytest_rageval.generator.Generator`."""
        return await self._generator.explain(question, passages, sample=sample)

    def identity(self, method: str) -> Mapping[str, Any]:
        """See `pytest_rageval.generator.Generator`."""
        return self._generator.identity(method)

    @property
    def _generator(self) -> EmbeddedGenerator | LLMGenerator:
        """The generator, with these prompts."""
        generator = self.models.generator
        if isinstance(generator, EmbeddedGenerator):
            return generator
        return replace(generator, prompts=self.prompts)


@dataclass(frozen=True)
class DefaultJudge:
    """What the fixture `rageval_judge` gives unless a conftest says otherwise.

    Attributes:
        models: in force.
        prompts: for a model that judges.
        repeat: the number of the run.
    """

    models: Models
    prompts: Prompts = OWN
    repeat: int = 0

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `pytest_rageval.answers.judge_protocol.Comparator`."""
        return await self._judge.compare(question, references, prediction)

    def again(self, n: int) -> "DefaultJudge":
        """See `pytest_rageval.answers.judge_protocol.Judge`."""
        return replace(self, repeat=n)

    def identity(self, method: str) -> Mapping[str, Any]:
        """See `pytest_rageval.answers.judge_protocol.Judge`."""
        judge = self._judge
        return judge.identity(method) if isinstance(judge, LLMJudge) else {"": "canonical comparison"}

    @property
    def _judge(self) -> LLMJudge | CanonicalComparator:
        """The judge of this repeat, with these prompts."""
        judge = self.models.judge
        if not isinstance(judge, LLMJudge):
            return judge
        worded = replace(judge, prompts=self.prompts)
        return worded.again(self.repeat) if self.repeat else worded

    async def relevant(self, question: str, passage: str) -> float:
        """See `pytest_rageval.answers.judge_protocol.Judge`.

        Raises:
            InputError: no model judges.
        """
        judge = self._model("Whether a passage is relevant", "leave out the scores relevance.*")
        return await judge.relevant(question, passage)

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `pytest_rageval.answers.judge_protocol.Judge`.

        Raises:
            InputError: no model judges.
        """
        judge = self._model("How much an answer says of another", 'compare by a measure, such as "f1"')
        return await judge.grade(question, references, prediction)

    async def prefer(self, question: str, first: str, second: str) -> int:
        """See `pytest_rageval.answers.judge_protocol.Judge`.

        Raises:
            InputError: no model judges.
        """
        judge = self._model("Which of two answers is better", "leave out the scores arena.*")
        return await judge.prefer(question, first, second)

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """See `pytest_rageval.answers.judge_protocol.Judge`.

        Raises:
            InputError: no model judges.
        """
        judge = self._model("A rating from 1 to 5", "leave out the scores judged.*")
        return await judge.rate(criterion, question, rated, against)

    def _model(self, what: str, otherwise: str) -> LLMJudge:
        judge = self._judge
        if not isinstance(judge, LLMJudge):
            message = (
                f"{what} is for a model to say, and none judges here.\n"
                f"Name one with --rageval-judge-model, or {otherwise}."
            )
            raise InputError(message)
        return judge
