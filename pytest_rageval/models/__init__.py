"""Access to language models: every reply is stored, so that it is paid for once.

`ConfiguredModels` are the models that the options name; `DefaultGenerator` is the generator of a user who has none.

The path of a request:

1. `gateway`: `Gateway.get_reply` calls `cache.Cache`, which looks for the reply in the store (`stores`), then in the
   `cassette`.
2. If the reply is missing, one of the `sources` obtains it, by the `GatewaySettings`: `LiveSource` in a live run,
   others for a replay and a plan, and what an extension makes in its place.
3. `sender` sends the request, with retries, within `rate_limits` and the `budget`. `client` has `Server`, the base
   class of servers, and `Client`, which makes one HTTP call by one of the two `chat_apis`.

Other modules:

- `messages`: requests and their keys, replies (and the answer in them, without reasoning). `summaries`: what is stored
  of a request, to explain a missing reply. `usage`: token counts. `prices`: what they cost.
- `prompts`: the templates of prompts, worked examples, and the fences around quoted texts. `prompt_rendering`: fills
  the templates. A prompt is part of the key of each request, so a changed template requests new replies.
- `generator`: answers from passages.
- `server`: a server at a URL, with a command for its key. `connection`: the HTTP client and its
  credentials.
- `proxied_request`: a request of the user's application, whose complete response is stored.
- `api`: the fixture `rageval_llm`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.ranking import Document
from pytest_rageval.options.settings import EMBEDDED, ROLES, ServerSettings, Settings

if TYPE_CHECKING:
    from pytest_rageval.models.budget import Limits
    from pytest_rageval.models.client import RequestPolicy, Server
    from pytest_rageval.models.gateway import Gateway
    from pytest_rageval.models.generator import LLMGenerator
    from pytest_rageval.models.prompt_rendering import Prompts
    from pytest_rageval.options.settings import Role

T = TypeVar("T")

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
        self.gateway: Callable[[], Gateway] = gateway
        self._workers = workers
        self._providers = providers
        self._shared: dict[Callable[[ConfiguredModels], Any], Any] = {}
        self._provided: dict[tuple[Role, str | None], Server | None] = {}
        self.clients: dict[Role, ClientPart] = client_parts(client)
        for role in self.clients:
            self.server(role)

    @cached_property
    def generator(self) -> "LLMGenerator":
        from pytest_rageval.models.generator import EmbeddedGenerator, LLMGenerator  # noqa: PLC0415 - see the class

        settings, configured = self.settings, self.settings.generator
        if "generator" in self.clients and configured.model is None:
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
            return EmbeddedGenerator(self.gateway(), server, server.model)
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
            self.gateway(),
            self.server("generator"),
            configured.model,
            max_tokens=settings.max_tokens,
            parameters=configured.parameters,
        )

    def shared(self, make: "Callable[[ConfiguredModels], T]") -> T:
        """Return what `make` makes of these models, such as a judge: one object for all that use them."""
        if make not in self._shared:
            self._shared[make] = make(self)
        return cast("T", self._shared[make])

    def server(self, role: "Role") -> "Server":
        """Return a provider's server, as for the user's client, or that of the options."""
        model = self.settings.model_settings(role).model
        # The embedded model is for the generator alone: other requests of its role go to a server.
        provided = self._provide(role, None if model == EMBEDDED else model, self.clients.get(role))
        if provided is not None:
            return provided
        if role in self.clients:
            name = self.clients[role].name
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

    async def cached_answers(
        self, method: str, question: str, passages: Sequence[Document], samples: Sequence[int]
    ) -> tuple[str, ...] | None:
        return await self._generator.cached_answers(method, question, passages, samples)

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
