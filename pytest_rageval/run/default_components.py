"""The default generator and judge: the values of the fixtures that the user does not override, from the options."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.ranking import Document
from pytest_rageval.options.settings import EMBEDDED, ROLES, ServerSettings, Settings

if TYPE_CHECKING:
    from pytest_rageval.answers.judge import Comparator, JudgeTask, Text
    from pytest_rageval.answers.judge.llm_judge import LLMJudge
    from pytest_rageval.models.budget import Limits
    from pytest_rageval.models.client import RequestPolicy, Server
    from pytest_rageval.models.gateway import Gateway
    from pytest_rageval.models.generator import LLMGenerator
    from pytest_rageval.models.prompt_rendering import Prompts
    from pytest_rageval.options.settings import Role

V = TypeVar("V")

NO_MODEL_FOR_CLIENT: Final = (
    "The fixture rageval_client is defined, but no model is named{0}.\n"
    "Name one, as the client names it, with --rageval-{1}model NAME or in the ini file."
)


class ClientPart(NamedTuple):
    """The user's client for one role, and its name in the fixture, for messages."""

    value: object
    name: str = "rageval_client"


def client_parts(client: object) -> dict["Role", ClientPart]:
    """Return the user's clients by the role of the model that they serve.

    The value of the fixture `rageval_client` is one client for both, or a mapping with a client for "generator",
    "judge" or both; else CallableError is raised. None means no client.
    """
    if client is None:
        return {}
    if not isinstance(client, Mapping):
        return dict.fromkeys(ROLES, ClientPart(client))
    if not client or not client.keys() <= set(ROLES):
        found = ", ".join(map(repr, client)) or "nothing"
        raise CallableError(
            f"rageval_client is a mapping with {found}.\n"
            'Return {"generator": function, "judge": function}, one of these, or one function for both.'
        )
    return {role: ClientPart(value, f"rageval_client[{role!r}]") for role, value in client.items()}


@dataclass(frozen=True)
class ProviderRequest:
    """What a provider makes a server from: the user's client, or else the name of a model.

    Attributes:
        role: the model whose settings name the server.
        model: the name of the model, as the options have it; None if they name none.
        client: the user's client for this role; None if there is none.
        settings: the options of the run.
        policy: how fast requests are sent to the server, by the settings of the role.
        limits: limits of its requests, by the settings of the role.
    """

    role: "Role"
    model: str | None
    client: ClientPart | None
    settings: Settings
    policy: "RequestPolicy"
    limits: "Limits"


Provider = tuple[Callable[[ProviderRequest], bool], Callable[[ProviderRequest], "Server"]]
"""Whether a provider makes the server of a request, and the function that makes it."""


class ConfiguredModels:
    """The models of the options. Each is built, and its module imported, at its first use: many runs need no model.

    `workers` is the number of processes among which the rate limits of the run are divided, `client` the value of the
    fixture `rageval_client`, which is called instead of servers. The first of `providers` that matches makes a server
    that is not at a URL.
    """

    def __init__(
        self,
        settings: Settings,
        gateway: "Callable[[], Gateway]",
        *,
        workers: int = 1,
        client: object = None,
        providers: Sequence[Provider] = (),
    ) -> None:
        self.settings = settings
        self._gateway = gateway
        self._workers = workers
        self._providers = providers
        self._provided: dict[tuple[Role, str | None], Server | None] = {}
        self._clients = client_parts(client)
        for role in self._clients:
            self.server(role)

    @cached_property
    def generator(self) -> "LLMGenerator":
        from pytest_rageval.models.generator import EmbeddedGenerator, LLMGenerator  # noqa: PLC0415 - see the class

        settings, configured = self.settings, self.settings.generator
        if "generator" in self._clients and configured.model is None:
            raise InputError(NO_MODEL_FOR_CLIENT.format("", ""))
        if settings.embedded:
            if configured.parameters:
                raise InputError(
                    f"Parameters are set ({', '.join(configured.parameters)}), and the {EMBEDDED} model takes none.\n"
                    "Name a model at a server with --rageval-model, or leave --rageval parameters=JSON out."
                )
            server = self._provide("generator", EMBEDDED)
            if server is None:
                raise InputError(
                    f"No extension provides the {EMBEDDED} model.\nName a model at a server with --rageval-model."
                )
            return EmbeddedGenerator(self._gateway(), server, server.model)
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
    def judge(self) -> "LLMJudge | None":
        """The judge; None without a model."""
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
        if "judge" in self._clients and settings.generator.model != EMBEDDED:
            raise InputError(NO_MODEL_FOR_CLIENT.format(" that judges", "judge-"))
        if configured.server != settings.generator.server or configured.parameters:
            raise InputError(
                "The judge has a server, a key or parameters of its own, but no model is named that judges.\n"
                "Name one with --rageval-judge-model NAME or rageval_judge_model in the ini file."
            )
        if not settings.embedded:
            # No model is named at all. The generator's error explains how to name one.
            _ = self.generator
        return None

    def server(self, role: "Role") -> "Server":
        """Return a provider's server, as for the user's client, or that of the options."""
        model = self.settings.model_settings(role).model
        # The embedded model is for the generator alone: other requests of its role go to a server.
        provided = self._provide(role, None if model == EMBEDDED else model, self._clients.get(role))
        if provided is not None:
            return provided
        if role in self._clients:
            name = self._clients[role].name
            raise InputError(
                f"No extension calls the client in {name}.\nLeave the fixture out, to use a server."
            )
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

    def _provide(self, role: "Role", model: str | None, client: ClientPart | None = None) -> "Server | None":
        """Return the server that a provider makes, the same one each time; None if no provider does."""
        if (role, model) not in self._provided:
            server = self.settings.model_settings(role).server
            policy, limits = self.request_policy(server), self._limits(server)
            request = ProviderRequest(server.role, model, client, self.settings, policy, limits)
            makes = (make(request) for matches, make in self._providers if matches(request))
            self._provided[role, model] = next(makes, None)
        return self._provided[role, model]

    def _limits(self, server: ServerSettings) -> "Limits":
        from pytest_rageval.models.budget import Limits  # noqa: PLC0415 - see the class

        return Limits(server.max_calls, server.max_cost, f"tool.rageval.models.{server.role}")

    def request_policy(self, limits: Settings | ServerSettings) -> "RequestPolicy":
        """Return the rate limits of this process for a server: an equal share of the run's rates per worker."""
        from pytest_rageval.models.client import RequestPolicy  # noqa: PLC0415 - see the class

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
        return self.generator.server, self.generator.model

    def close(self) -> None:
        for server in self._provided.values():
            if server is not None:
                server.close()


@dataclass(frozen=True)
class DefaultGenerator:
    """The default value of the fixture `rageval_generator`. The first call of a method builds the model.

    `prompts` are for a model at a server; None means those of this package. `temperature` None is that of the
    parameters.
    """

    models: ConfiguredModels
    prompts: "Prompts | None" = None
    temperature: float | None = None

    def with_temperature(self, temperature: float) -> "DefaultGenerator":
        return replace(self, temperature=temperature)

    async def answer(self, method: str, question: str, passages: Sequence[Document], sample: int = 0) -> str:
        return await self._generator.answer(method, question, passages, sample)

    # For the user's own generators, which may call this one.

    async def generate(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        return await self.answer("generate", question, passages, sample)

    async def cite(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        return await self.answer("cite", question, passages, sample)

    async def explain(self, question: str, passages: Sequence[Document], *, sample: int = 0) -> str:
        return await self.answer("explain", question, passages, sample)

    def answers_nowait(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        return self._generator.answers_nowait(method, question, passages, samples)

    def identity(self, method: str) -> Mapping[str, object]:
        return self._generator.identity(method)

    def template(self, method: str) -> str:
        return self._generator.template(method)

    @cached_property
    def _generator(self) -> "LLMGenerator":
        generator = self.models.generator
        if self.prompts is not None and not self.models.settings.embedded:
            generator = replace(generator, prompts=self.prompts)
        return generator if self.temperature is None else generator.with_temperature(self.temperature)


@dataclass(frozen=True)
class DefaultJudge:
    """The default value of the fixture `rageval_judge`. `repeat` is the number of the repeat, from 0.

    If the options name no model for the judge, `compare` is canonical comparison, and other judgements raise
    InputError.
    """

    models: ConfiguredModels
    prompts: "Prompts | None" = None
    repeat: int = 0

    @property
    def _comparator(self) -> "Comparator":
        from pytest_rageval.answers.comparators import CanonicalComparator  # noqa: PLC0415 - ranking scores compare no answers

        return self._judge or CanonicalComparator()

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        return await self._comparator.compare(question, references, prediction)

    async def compare_in_turn(self, question: str, references: Sequence[str], prediction: str) -> float:
        """As `compare`, after rules have refused the prediction: several models are asked one after the other."""
        from pytest_rageval.answers.comparators import in_turn  # noqa: PLC0415 - as above

        return await in_turn(self._comparator)(question, references, prediction)

    async def ask(self, task: "JudgeTask[V]", question: str, *texts: "Text") -> V:
        return await self._model(task).ask(task, question, *texts)

    def require(self, task: "JudgeTask[Any]") -> None:
        """Raise InputError if no model judges; whether an answer is right is decided by rules then."""
        if task.name != "compare":
            self._model(task)

    @property
    def model_names(self) -> frozenset[str]:
        return frozenset() if self._judge is None else self._judge.model_names

    def repetition(self, n: int) -> "DefaultJudge":
        return replace(self, repeat=n)

    def identity(self, task: "JudgeTask[Any]") -> Mapping[str, object]:
        if self._judge is not None:
            return self._judge.identity(task)
        from pytest_rageval.answers.comparators import CANONICAL_RULES  # noqa: PLC0415 - as above

        return {"": f"canonical comparison, rules {CANONICAL_RULES}"}

    def template(self, task: "JudgeTask[Any]") -> str:
        return "" if self._judge is None else self._judge.template(task)

    @cached_property
    def _prompts(self) -> "Prompts | None":
        if not self.models.settings.arena_examples:
            return self.prompts
        from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS  # noqa: PLC0415 - see `ConfiguredModels`

        return (self.prompts or DEFAULT_PROMPTS).with_examples()

    @cached_property
    def _judge(self) -> "LLMJudge | None":
        judge = self.models.judge
        if judge is None:
            return None
        judge = judge if self._prompts is None else replace(judge, prompts=self._prompts)
        return judge.repetition(self.repeat) if self.repeat else judge

    def _model(self, task: "JudgeTask[Any]") -> "LLMJudge":
        if self._judge is None:
            raise InputError(
                f"{task.decides} is decided by a model, and this run has no model as judge.\n"
                f"Name one with --rageval-judge-model, or {task.instead}."
            )
        return self._judge
