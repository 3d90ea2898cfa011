"""The default generator and judge, used where no fixture overrides them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_rageval.answers.comparators import CanonicalComparator
from pytest_rageval.answers.judge_protocol import JudgeVerdict, Preference, Rating
from pytest_rageval.config import EMBEDDED, ServerSettings, Settings
from pytest_rageval.datatypes import Document, Nugget
from pytest_rageval.errors import InputError

if TYPE_CHECKING:
    from pytest_rageval.answers.llm_judge import LLMJudge
    from pytest_rageval.config import Role
    from pytest_rageval.generator import EmbeddedGenerator, LLMGenerator
    from pytest_rageval.llm.budget import Limits
    from pytest_rageval.llm.gateway import Gateway
    from pytest_rageval.llm.servers.server import EmbeddedServer, RequestPolicy, Server
    from pytest_rageval.llm.servers.user_client import UserServer
    from pytest_rageval.prompts.rendering import Prompts

__all__ = ["DefaultGenerator", "DefaultJudge", "Models"]

UNNAMED: Final = (
    "The fixture rageval_client is defined, but no model is named{0}.\n"
    "Name one, as the client names it, with --rageval-{1}model NAME or in the ini file."
)


class Models:
    """Models built from the options, each at its first use, and imported then: ranking measures need none.

    `client` is the value of the fixture `rageval_client`, which is called instead of servers.

    Raises:
        CallableError: it cannot be a client.
    """

    def __init__(
        self, settings: Settings, gateway: "Callable[[], Gateway]", *, workers: int = 1, client: object = None
    ) -> None:
        self.settings = settings
        self._gateway = gateway
        self._workers = workers
        self._embedded_server: EmbeddedServer | None = None
        self._own = {} if client is None else self._own_servers(client)

    @cached_property
    def generator(self) -> "EmbeddedGenerator | LLMGenerator":
        """The model that answers.

        Raises:
            InputError: a key or a base URL is set, but no model is named; or the local model is given parameters.
        """
        from pytest_rageval.generator import EmbeddedGenerator, LLMGenerator  # noqa: PLC0415 - see the class

        settings, named = self.settings, self.settings.generator
        if "generator" in self._own and named.model is None:
            raise InputError(UNNAMED.format("", ""))
        if settings.embedded:
            if named.parameters:
                raise InputError(
                    f"Parameters are set ({', '.join(named.parameters)}), and the {EMBEDDED} model takes none.\n"
                    "Name a model at a server with --rageval-model, or leave --rageval-parameters out."
                )
            from pytest_rageval.llm.servers.server import EmbeddedServer, weights_in_force  # noqa: PLC0415

            # Its process starts at the first request.
            server = self._embedded_server = EmbeddedServer(weights_in_force(settings.gguf))
            model = f"{server.weights.name}@{server.weights.fingerprint[:12]}"
            return EmbeddedGenerator(self._gateway(), server, model)
        if named.model is None:
            at = named.server
            key = "api_key_command" if at.key_command else "api_key_env" if at.needs_key else at.key_name
            found = "--rageval-base-url or OPENAI_BASE_URL" if at.base_url else key
            raise InputError(
                f"{found} is set, but no model is named.\n"
                f"Name one with --rageval-model NAME or rageval_model in the ini file; "
                f"'{EMBEDDED}' is the local model."
            )
        return LLMGenerator(
            self._gateway(),
            self.server("generator"),
            named.model,
            max_tokens=settings.max_tokens,
            parameters=named.parameters,
        )

    @cached_property
    def judge(self) -> "LLMJudge | CanonicalComparator":
        """The default judge: a model, or canonical comparison.

        Raises:
            InputError: as for the generator.
        """
        settings, models, named = self.settings, self.settings.judge_models, self.settings.judge
        if models:
            from pytest_rageval.answers.llm_judge import LLMJudge, Voting  # noqa: PLC0415 - see the class

            voting = Voting(settings.judge_votes)
            return LLMJudge(
                self._gateway(),
                self.server("judge"),
                models[0],
                settings.max_tokens,
                voting,
                parameters=named.parameters,
                other_models=models[1:],
            )
        if "judge" in self._own and settings.generator.model != EMBEDDED:
            raise InputError(UNNAMED.format(" that judges", "judge-"))
        if named.server != settings.generator.server or named.parameters:
            raise InputError(
                "The judge has a server, a key or parameters of its own, but no model is named that judges.\n"
                "Name one with --rageval-judge-model NAME or rageval_judge_model in the ini file."
            )
        if not settings.embedded:
            # No model is named at all: the generator's error has the remedy.
            _ = self.generator
        return CanonicalComparator()

    def server(self, role: "Role") -> "Server":
        """The server for generator or judge: the user's client, or the server of the options."""
        if role in self._own:
            return self._own[role]
        from pytest_rageval.llm.servers.server import DEFAULT_BASE_URL, RemoteServer  # noqa: PLC0415 - see the class

        server = self.settings.of(role).server
        return RemoteServer(
            server.base_url or DEFAULT_BASE_URL,
            server.api_key,
            api=server.api,
            role=server.role,
            key_name=server.key_name,
            needs_key=server.needs_key,
            key_command=server.key_command,
            pace=self.pace(server),
            limits=self._limits(server),
            flex=self.settings.flex,
        )

    def _own_servers(self, client: object) -> "Mapping[Role, UserServer]":
        from pytest_rageval.llm.servers.user_client import UserServer, own_functions  # noqa: PLC0415 - see the class

        servers: dict[Role, UserServer] = {}
        for role, own in own_functions(client).items():
            server = self.settings.of(role).server
            limits = self._limits(server)
            servers[role] = UserServer(own, role=server.role, pace=self.pace(server), limits=limits)
        return servers

    def _limits(self, server: ServerSettings) -> "Limits":
        from pytest_rageval.llm.budget import Limits  # noqa: PLC0415 - see the class

        return Limits(server.max_calls, server.max_cost, f"tool.rageval.models.{server.role}")

    def pace(self, limits: Settings | ServerSettings) -> "RequestPolicy":
        """The rate limits of this process for a server: its share of the run's rates."""
        from pytest_rageval.llm.servers.server import RequestPolicy  # noqa: PLC0415 - see the class

        share = 1 / self._workers
        return RequestPolicy(
            concurrency=limits.concurrency,
            timeout_s=limits.timeout,
            retries=self.settings.retries,
            rpm=limits.rpm and limits.rpm * share,
            tpm=limits.tpm and limits.tpm * share,
            patience_s=self.settings.patience,
        )

    def generating(self) -> "tuple[Server, str]":
        """The server and the name of the model that answers; raises as `generator`."""
        return self.generator.server, self.generator.model

    def close(self) -> None:
        """End the local model's process, if one was started."""
        if self._embedded_server is not None:
            self._embedded_server.close()


@dataclass(frozen=True)
class DefaultGenerator:
    """The default of the fixture `rageval_generator`.

    `prompts` are for a model at a server, None for our own; `temperature` None is that of the model's parameters.
    """

    models: Models
    prompts: "Prompts | None" = None
    temperature: float | None = None

    def at(self, temperature: float) -> "DefaultGenerator":
        """The same generator at another temperature."""
        return replace(self, temperature=temperature)

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """A short answer from the passages."""
        return await self._generator.generate(question, passages, sample=sample)

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """All answers in the passages, with citations."""
        return await self._generator.cite(question, passages, sample=sample)

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """A long answer from the passages."""
        return await self._generator.explain(question, passages, sample=sample)

    def answers_nowait(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        """The answers in these samples, if that takes no waiting."""
        return self._generator.answers_nowait(method, question, passages, samples)

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return what the replies of a method depend on, by name."""
        return self._generator.identity(method)

    def template(self, method: str) -> str:
        """The template of a method's prompt."""
        return self._generator.template(method)

    @cached_property
    def _generator(self) -> "EmbeddedGenerator | LLMGenerator":
        generator = self.models.generator
        if self.prompts is not None and not self.models.settings.embedded:
            generator = replace(cast("LLMGenerator", generator), prompts=self.prompts)
        return generator if self.temperature is None else generator.with_temperature(self.temperature)


@dataclass(frozen=True)
class DefaultJudge:
    """The default of the fixture `rageval_judge`, with its `prompts`, None for our own, and the number of the repeat.

    Without a model that judges it compares in canonical form, and its other methods raise InputError.
    """

    models: Models
    prompts: "Prompts | None" = None
    repeat: int = 0

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return True if the prediction says what a reference says."""
        return await self._judge.compare(question, references, prediction)

    async def relevant(self, question: str, passage: str) -> float:
        """Return True if a passage is relevant."""
        remedy = 'leave out the scores relevance.* and udcg, and the keyword relevant="judge"'
        judge = self._model("Whether a passage is relevant", remedy)
        return await judge.relevant(question, passage)

    async def sufficient(self, question: str, passages: Sequence[str]) -> JudgeVerdict:
        """Return True if the passages are enough to answer a question."""
        judge = self._model("Whether passages are enough for an answer", "leave out the score sufficient")
        return await judge.sufficient(question, passages)

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return how much of a reference the prediction says."""
        judge = self._model("How much an answer says of another", 'compare by a measure, such as "f1"')
        return await judge.grade(question, references, prediction)

    async def prefer(self, question: str, first: str, second: str) -> Preference:
        """Return which of two answers is better."""
        judge = self._model("Which of two answers is better", "leave out the scores arena.*")
        return await judge.prefer(question, first, second)

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """A rating from 1 to 5."""
        judge = self._model("A rating from 1 to 5", "leave out the scores judged.*")
        return await judge.rate(criterion, question, rated, against)

    @property
    def model_names(self) -> frozenset[str]:
        """The model that judges, if one does."""
        judge = self._judge
        return frozenset() if isinstance(judge, CanonicalComparator) else judge.model_names

    async def support(self, question: str, nuggets: Sequence[str], passage: str) -> Sequence[float]:
        """Return how far a passage or an answer supports each nugget."""
        judge = self._model(
            "Which nuggets a text supports", "leave out the scores nuggets.* and answer.nuggets"
        )
        return await judge.support(question, nuggets, passage)

    async def nuggets(self, question: str, sources: Sequence[str]) -> tuple[Nugget, ...]:
        """The facts of a good answer, as a model proposes them."""
        judge = self._model("What the nuggets of an answer are", "write them into the eval set yourself")
        return await judge.nuggets(question, sources)

    def repetition(self, n: int) -> "DefaultJudge":
        """The judge of the n-th repeat."""
        return replace(self, repeat=n)

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return what the verdicts of a method depend on, by name."""
        if isinstance(self._judge, CanonicalComparator):
            return {"": "canonical comparison"}
        return self._judge.identity(method)

    def template(self, method: str) -> str:
        """The template of a method's prompt; empty where no model judges."""
        judge = self._judge
        return "" if isinstance(judge, CanonicalComparator) else judge.template(method)

    @cached_property
    def _prompts(self) -> "Prompts | None":
        if not self.models.settings.arena_examples:
            return self.prompts
        from pytest_rageval.prompts.rendering import DEFAULT_PROMPTS  # noqa: PLC0415 - see `Models`

        return (self.prompts or DEFAULT_PROMPTS).with_examples()

    @cached_property
    def _judge(self) -> "LLMJudge | CanonicalComparator":
        judge = self.models.judge
        if isinstance(judge, CanonicalComparator):
            return judge
        worded = judge if self._prompts is None else replace(judge, prompts=self._prompts)
        return worded.repetition(self.repeat) if self.repeat else worded

    def _model(self, task: str, alternative: str) -> "LLMJudge":
        judge = self._judge
        if isinstance(judge, CanonicalComparator):
            raise InputError(
                f"{task} is for a model to say, and none judges here.\n"
                f"Name one with --rageval-judge-model, or {alternative}."
            )
        return judge
