"""The default generator and judge: the values of the fixtures that the user does not override, from the options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_rageval.answers.comparators import CANONICAL_RULES, CanonicalComparator
from pytest_rageval.answers.judge.protocol import JudgeVerdict, Preference, Rating
from pytest_rageval.core.data import Document, Nugget
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.options import EMBEDDED, ServerSettings, Settings

if TYPE_CHECKING:
    from pytest_rageval.answers.judge.llm_judge import LLMJudge
    from pytest_rageval.core.options import Role
    from pytest_rageval.extensions.providers.user_client import UserServer
    from pytest_rageval.models.budget import Limits
    from pytest_rageval.models.gateway import Gateway
    from pytest_rageval.models.generator import EmbeddedGenerator, LLMGenerator
    from pytest_rageval.models.prompt_rendering import Prompts
    from pytest_rageval.models.server import EmbeddedServer, RequestPolicy, Server

NO_MODEL_FOR_CLIENT: Final = (
    "The fixture rageval_client is defined, but no model is named{0}.\n"
    "Name one, as the client names it, with --rageval-{1}model NAME or in the ini file."
)


class ConfiguredModels:
    """The models of the options. Each is built, and its module imported, at its first use: many runs need no model.

    Args:
        settings: the resolved options.
        gateway: function that returns the gateway of the session.
        workers: number of processes among which the rate limits of the run are divided.
        client: the value of the fixture `rageval_client`, which is called instead of servers; None to use servers.

    Raises:
        CallableError: `client` cannot be called as a client.
    """

    def __init__(
        self, settings: Settings, gateway: "Callable[[], Gateway]", *, workers: int = 1, client: object = None
    ) -> None:
        self.settings = settings
        self._gateway = gateway
        self._workers = workers
        # The process of the embedded server starts at the first request.
        self._embedded_server: EmbeddedServer | None = None
        self._user_servers = {} if client is None else self._build_user_servers(client)

    @cached_property
    def generator(self) -> "EmbeddedGenerator | LLMGenerator":
        """The generator that uses the model of the options.

        Raises:
            InputError: a key or a base URL is set, but no model is named; or the embedded model has parameters.
        """
        from pytest_rageval.models.generator import EmbeddedGenerator, LLMGenerator  # noqa: PLC0415 - see the class

        settings, configured = self.settings, self.settings.generator
        if "generator" in self._user_servers and configured.model is None:
            raise InputError(NO_MODEL_FOR_CLIENT.format("", ""))
        if settings.embedded:
            if configured.parameters:
                raise InputError(
                    f"Parameters are set ({', '.join(configured.parameters)}), and the {EMBEDDED} model takes none.\n"
                    "Name a model at a server with --rageval-model, or leave --rageval-parameters out."
                )
            from pytest_rageval.models.server import EmbeddedServer, resolve_weights  # noqa: PLC0415

            server = self._embedded_server = EmbeddedServer(resolve_weights(settings.gguf))
            model = f"{server.weights.name}@{server.weights.fingerprint[:12]}"
            return EmbeddedGenerator(self._gateway(), server, model)
        if configured.model is None:
            remote = configured.server
            key = (
                "api_key_command"
                if remote.key_command
                else "api_key_env"
                if remote.needs_key
                else remote.key_name
            )
            option = "--rageval-base-url or OPENAI_BASE_URL" if remote.base_url else key
            raise InputError(
                f"{option} is set, but no model is named.\n"
                f"Name one with --rageval-model NAME or rageval_model in the ini file; "
                f"'{EMBEDDED}' is the local model."
            )
        return LLMGenerator(
            self._gateway(),
            self.server("generator"),
            configured.model,
            max_tokens=settings.max_tokens,
            parameters=configured.parameters,
        )

    @cached_property
    def judge(self) -> "LLMJudge | CanonicalComparator":
        """The judge that uses the models of the options; without a model, canonical comparison.

        Raises:
            InputError: as for the generator.
        """
        settings, models, configured = self.settings, self.settings.judge_models, self.settings.judge
        if models:
            from pytest_rageval.answers.judge.llm_judge import LLMJudge, Voting  # noqa: PLC0415 - see the class

            voting = Voting(settings.judge_votes)
            return LLMJudge(
                self._gateway(),
                self.server("judge"),
                models[0],
                settings.max_tokens,
                voting,
                parameters=configured.parameters,
                other_models=models[1:],
            )
        if "judge" in self._user_servers and settings.generator.model != EMBEDDED:
            raise InputError(NO_MODEL_FOR_CLIENT.format(" that judges", "judge-"))
        if configured.server != settings.generator.server or configured.parameters:
            raise InputError(
                "The judge has a server, a key or parameters of its own, but no model is named that judges.\n"
                "Name one with --rageval-judge-model NAME or rageval_judge_model in the ini file."
            )
        if not settings.embedded:
            # No model is named at all. The generator's error explains how to name one.
            _ = self.generator
        return CanonicalComparator()

    def server(self, role: "Role") -> "Server":
        """Return the server for generator or judge: the user's client, or the server of the options."""
        if role in self._user_servers:
            return self._user_servers[role]
        from pytest_rageval.models.server import DEFAULT_BASE_URL, RemoteServer  # noqa: PLC0415 - see the class

        server = self.settings.model_settings(role).server
        return RemoteServer(
            server.base_url or DEFAULT_BASE_URL,
            server.api_key,
            api=server.api,
            role=server.role,
            key_name=server.key_name,
            needs_key=server.needs_key,
            key_command=server.key_command,
            policy=self.request_policy(server),
            limits=self._limits(server),
            flex=self.settings.flex,
        )

    def _build_user_servers(self, client: object) -> "Mapping[Role, UserServer]":
        from pytest_rageval.extensions.providers.user_client import UserServer, client_functions  # noqa: PLC0415 - see the class

        servers: dict[Role, UserServer] = {}
        for role, function in client_functions(client).items():
            server = self.settings.model_settings(role).server
            limits = self._limits(server)
            servers[role] = UserServer(
                function, role=server.role, policy=self.request_policy(server), limits=limits
            )
        return servers

    def _limits(self, server: ServerSettings) -> "Limits":
        from pytest_rageval.models.budget import Limits  # noqa: PLC0415 - see the class

        return Limits(server.max_calls, server.max_cost, f"tool.rageval.models.{server.role}")

    def request_policy(self, limits: Settings | ServerSettings) -> "RequestPolicy":
        """Return the rate limits of this process for a server: an equal share of the run's rates per worker."""
        from pytest_rageval.models.server import RequestPolicy  # noqa: PLC0415 - see the class

        share = 1 / self._workers
        return RequestPolicy(
            concurrency=limits.concurrency,
            timeout_s=limits.timeout,
            retries=self.settings.retries,
            rpm=limits.rpm and limits.rpm * share,
            tpm=limits.tpm and limits.tpm * share,
            patience_s=self.settings.patience,
        )

    def generator_model(self) -> "tuple[Server, str]":
        """Return the generator's server and the name of its model; raise InputError as `generator`."""
        return self.generator.server, self.generator.model

    def close(self) -> None:
        """End the process of the embedded model, if it was started."""
        if self._embedded_server is not None:
            self._embedded_server.close()


@dataclass(frozen=True)
class DefaultGenerator:
    """The default value of the fixture `rageval_generator`.

    The first call of a method builds the model; see `ConfiguredModels.generator` for the errors.

    Attributes:
        models: the models of the options.
        prompts: the prompts for a model at a server; None for those of this package. The embedded model ignores them.
        temperature: the sampling temperature; None for that of the model's parameters.
    """

    models: ConfiguredModels
    prompts: "Prompts | None" = None
    temperature: float | None = None

    def with_temperature(self, temperature: float) -> "DefaultGenerator":
        """Return the same generator with another temperature."""
        return replace(self, temperature=temperature)

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """Return a short answer from the passages."""
        return await self._generator.generate(question, passages, sample=sample)

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """Return all answers that the passages contain, with citations."""
        return await self._generator.cite(question, passages, sample=sample)

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        """Return a long answer from the passages."""
        return await self._generator.explain(question, passages, sample=sample)

    def answers_nowait(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        """Return the answers with these sample numbers; None if that would block."""
        return self._generator.answers_nowait(method, question, passages, samples)

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the names and values that the replies of a method depend on."""
        return self._generator.identity(method)

    def template(self, method: str) -> str:
        """Return the template of a method's prompt."""
        return self._generator.template(method)

    @cached_property
    def _generator(self) -> "EmbeddedGenerator | LLMGenerator":
        generator = self.models.generator
        if self.prompts is not None and not self.models.settings.embedded:
            generator = replace(cast("LLMGenerator", generator), prompts=self.prompts)
        return generator if self.temperature is None else generator.with_temperature(self.temperature)


@dataclass(frozen=True)
class DefaultJudge:
    """The default value of the fixture `rageval_judge`.

    If the options name no model for the judge, `compare` is canonical comparison, and other judgements raise
    InputError.

    Attributes:
        models: the models of the options.
        prompts: the prompts of the judge; None for those of this package.
        repeat: the number of the repeat, from 0; each repeat has new replies.
    """

    models: ConfiguredModels
    prompts: "Prompts | None" = None
    repeat: int = 0

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return 1.0 if the prediction states what a reference states, else 0.0."""
        return await self._judge.compare(question, references, prediction)

    async def relevant(self, question: str, passage: str) -> float:
        """Return 1.0 if a passage is relevant to a question, else 0.0."""
        remedy = 'leave out the scores relevance.* and udcg, and the keyword relevant="judge"'
        judge = self._require_model("Whether a passage is relevant", remedy)
        return await judge.relevant(question, passage)

    async def sufficient(self, question: str, passages: Sequence[str]) -> JudgeVerdict:
        """Return 1.0 if the passages contain enough to answer a question, else 0.0."""
        remedy = "leave out the score sufficient"
        judge = self._require_model("Whether passages are enough for an answer", remedy)
        return await judge.sufficient(question, passages)

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return how much of a reference the prediction contains, from 0 to 1."""
        remedy = 'compare by a measure, such as "f1"'
        judge = self._require_model("How much an answer says of another", remedy)
        return await judge.grade(question, references, prediction)

    async def prefer(self, question: str, first: str, second: str) -> Preference:
        """Return which of two answers is better."""
        judge = self._require_model("Which of two answers is better", "leave out the scores arena.*")
        return await judge.prefer(question, first, second)

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """Return a rating from 1 to 5 by a criterion."""
        judge = self._require_model("A rating from 1 to 5", "leave out the scores judged.*")
        return await judge.rate(criterion, question, rated, against)

    @property
    def model_names(self) -> frozenset[str]:
        """The names of the judge's models; empty for canonical comparison."""
        judge = self._judge
        return frozenset() if isinstance(judge, CanonicalComparator) else judge.model_names

    async def support(self, question: str, nuggets: Sequence[str], passage: str) -> Sequence[float]:
        """Return for each nugget to what extent a passage or an answer supports it, from 0 to 1."""
        remedy = "leave out the scores nuggets.* and answer.nuggets"
        judge = self._require_model("Which nuggets a text supports", remedy)
        return await judge.support(question, nuggets, passage)

    async def nuggets(self, question: str, sources: Sequence[str]) -> tuple[Nugget, ...]:
        """Return the facts of a good answer that a model proposes."""
        remedy = "write them into the eval set yourself"
        judge = self._require_model("What the nuggets of an answer are", remedy)
        return await judge.nuggets(question, sources)

    def repetition(self, n: int) -> "DefaultJudge":
        """Return the judge of the n-th repeat."""
        return replace(self, repeat=n)

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the names and values that the verdicts of a method depend on."""
        if isinstance(self._judge, CanonicalComparator):
            return {"": f"canonical comparison, rules {CANONICAL_RULES}"}
        return self._judge.identity(method)

    def template(self, method: str) -> str:
        """Return the template of a method's prompt; empty for canonical comparison."""
        judge = self._judge
        return "" if isinstance(judge, CanonicalComparator) else judge.template(method)

    @cached_property
    def _prompts(self) -> "Prompts | None":
        if not self.models.settings.arena_examples:
            return self.prompts
        from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS  # noqa: PLC0415 - see `ConfiguredModels`

        return (self.prompts or DEFAULT_PROMPTS).with_examples()

    @cached_property
    def _judge(self) -> "LLMJudge | CanonicalComparator":
        judge = self.models.judge
        if isinstance(judge, CanonicalComparator):
            return judge
        judge = judge if self._prompts is None else replace(judge, prompts=self._prompts)
        return judge.repetition(self.repeat) if self.repeat else judge

    def _require_model(self, task: str, alternative: str) -> "LLMJudge":
        """Return the judge if it is a model.

        Raises:
            InputError: no model judges; the message has the task and, as the remedy, the alternative.
        """
        judge = self._judge
        if isinstance(judge, CanonicalComparator):
            raise InputError(
                f"{task} is decided by a model, and this run has no model as judge.\n"
                f"Name one with --rageval-judge-model, or {alternative}."
            )
        return judge
