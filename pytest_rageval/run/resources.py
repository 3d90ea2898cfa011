"""`SessionResources`: the event loop, the gateway and the models that all tests of one process share."""

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_rageval.core.event_loop import BackgroundEventLoop
from pytest_rageval.core.settings import Settings
from pytest_rageval.run.base import BaseSession
from pytest_rageval.run.default_components import ConfiguredModels
from pytest_rageval.run.registry import Registry

if TYPE_CHECKING:
    from pytest_rageval.models.api import LLM
    from pytest_rageval.models.gateway import Gateway
    from pytest_rageval.models.prompt_rendering import Prompts
    from pytest_rageval.models.rate_limits import Stall


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that a session belongs to.

    Attributes:
        run: name of the run, equal in all of its processes; default: a new name.
        workers: number of processes that run tests.
    """

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    workers: int = 1


class SessionResources(BaseSession):
    """The resources that the tests of one process share.

    Args:
        settings: the resolved options.
        context: the run; default: a new run of one process.
        registry: the scores, formats and other objects of this package and of plugins; default: of this package.
        tick: function that is called about every 0.1 s in the test's thread while the test waits for a result. Its
            argument is the servers that do not respond.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        context: RunContext | None = None,
        registry: Registry | None = None,
        tick: "Callable[[Sequence[Stall]], None] | None" = None,
    ) -> None:
        super().__init__(settings, registry or Registry())
        self.context: RunContext = context or RunContext()
        self._gateway: Gateway | None = None
        self.loop: BackgroundEventLoop = BackgroundEventLoop(
            threads=settings.threads, tick=tick and (lambda: tick(self._stalls()))
        )
        self.models: ConfiguredModels = ConfiguredModels(
            settings,
            lambda: self.gateway,
            workers=self.context.workers,
            providers=self.registry.providers,
        )
        # The user's clients with their models.
        self._models_of_clients: list[tuple[object, ConfiguredModels]] = []
        if settings.cassette or settings.prices:
            # The gateway reads these files. An invalid file is an error even if no request is sent.
            self.gateway.cache.read_cassette()

    @property
    def gateway(self) -> "Gateway":
        """The gateway for all requests to models, built at its first use: ranking measures do not need its imports."""
        if self._gateway is None:
            self._gateway = self._build_gateway()
        return self._gateway

    @cached_property
    def llm(self) -> "LLM":
        """The model of the options, for the user's own code."""
        return self.llm_of(self.models)

    def models_of(self, client: object) -> ConfiguredModels:
        """Return the models that use the user's client, always the same object for a client.

        Args:
            client: the value of the fixture `rageval_client`; None to use the servers of the options.

        Raises:
            CallableError: `client` cannot be called as a client.
        """
        if client is None:
            return self.models
        for known_client, models in self._models_of_clients:
            if known_client is client:
                return models
        models = ConfiguredModels(
            self.settings,
            lambda: self.gateway,
            workers=self.context.workers,
            client=client,
            providers=self.registry.providers,
        )
        self._models_of_clients.append((client, models))
        return models

    def llm_of(self, models: ConfiguredModels, prompts: "Prompts | None" = None) -> "LLM":
        """Return the generator's model for the user's own code; `prompts` None are those of this package."""
        from pytest_rageval.models.api import LLM  # noqa: PLC0415 - see gateway

        optional = () if prompts is None else (prompts,)
        return LLM(self.gateway, self.loop, models.generator_model, *optional)

    @property
    def served(self) -> Mapping[str, Collection[str]]:
        """The names that servers reported for each model, in the replies of this process so far.

        If generator and judge use a model of the same name at two servers, the key is "model at address".
        """
        served = {} if self._gateway is None else self._gateway.served
        generator, judge = self.settings.generator, self.settings.judge
        two_servers = judge.server.base_url != generator.server.base_url
        ambiguous = generator.model if two_servers and generator.model in self.settings.judge_models else None
        names_of: defaultdict[str, set[str]] = defaultdict(set)
        for (model, base_url), names in served.items():
            names_of[f"{model} at {base_url}" if model == ambiguous else model] |= names
        return names_of

    def close(self) -> str | None:
        """Close connections, processes and files.

        Returns:
            The place in the user's code that blocked the event loop for too long; None if nothing did.
        """
        if self.loop.forked:
            # The resources belong to the parent process.
            return None
        for models in (self.models, *(models for _, models in self._models_of_clients)):
            models.close()
        for resource in self._resources.values():
            if close := getattr(resource, "close", None):
                close()
        return self.loop.close(None if self._gateway is None else self._gateway.close)

    def _build_gateway(self) -> "Gateway":
        from pytest_rageval.models.budget import Limits  # noqa: PLC0415 - see gateway
        from pytest_rageval.models.gateway import Gateway, GatewaySettings  # noqa: PLC0415
        from pytest_rageval.models.stores import store_opener  # noqa: PLC0415

        settings = self.settings
        servers = settings.generator.server, settings.judge.server
        addresses = frozenset(server.base_url.public for server in servers if server.base_url)
        access = GatewaySettings(
            cache_dir=settings.cache_dir,
            cassette=settings.cassette,
            mode="plan" if settings.plan else "replay" if settings.replay else "live",
            open_store=store_opener(settings.cache_location, settings.cache_dir, self.registry.stores),
            run=settings.run or self.context.run,
            refresh=settings.refresh,
            record=settings.record,
            record_prompts=settings.record_prompts,
            policy=self.models.request_policy(settings),
            limits=Limits(settings.max_calls, settings.max_cost),
            base_urls=addresses if len(addresses) > 1 else frozenset(),
            max_timeout_s=max(server.timeout for server in servers),
            prices=settings.prices,
            tiers=settings.tiers,
            make_source=self.hook.pytest_rageval_reply_source(settings=settings),
        )
        return Gateway(access, lambda: self.loop.runs)

    @property
    def _cached_replies(self) -> int:
        return 0 if self._gateway is None else self._gateway.usage.cached

    def _stalls(self) -> "Sequence[Stall]":
        return () if self._gateway is None else self._gateway.stalls()
