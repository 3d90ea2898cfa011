"""The source of replies in a run with batches: it collects requests, and sends live what no batch can answer."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from pytest_rageval.core.errors import ReplyPending, Unscored
from pytest_rageval.extensions.batches.api import Failure
from pytest_rageval.extensions.batches.batches import Batch, Batches
from pytest_rageval.models.cache import Cache
from pytest_rageval.models.client import Server
from pytest_rageval.models.messages import FIRST_RUN_LOCAL_SAMPLE, Reply, Request
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.sources import GatewaySettings, LiveSource, MakeBudget
from pytest_rageval.models.usage import Usage

NOT_IN_A_BATCH: Final = "no stage sent this request, so it was in no batch (does it change from run to run?)"


class Submission(NamedTuple):
    made: list[Batch]
    waited_for: list[Batch]
    missing: int


class BatchSource(LiveSource):
    """Collects missing requests for batches.

    While it collects, a request raises ReplyPending. These requests are sent live instead: requests of the application,
    requests of this run only, requests to servers without a URL, and, with `errors` "live", requests that failed in a
    batch. When it does not collect, batches were collected, and the rest is sent live.
    """

    def __init__(  # noqa: PLR0913 - the parts of a source, and its own settings
        self,
        cache: Cache,
        make_budget: MakeBudget,
        usage: Usage,
        settings: GatewaySettings,
        *,
        collects: bool,
        errors: Literal["live", "unscored"] = "live",
    ) -> None:
        super().__init__(cache, make_budget, usage, settings)
        self._collects = collects
        self._errors = errors
        self._batches = Batches(settings.cache_dir / "batches", cache, settings.run, self.budgets)
        self._missing: dict[str, tuple[RemoteServer, Request]] = {}

    async def obtain(self, server: Server, request: Request) -> Reply:
        if (
            not isinstance(server, RemoteServer)
            or not request.is_internal
            or request.sample >= FIRST_RUN_LOCAL_SAMPLE
        ):
            return await super().obtain(server, request)
        state = self._batches.state(request)
        if self._collects and not isinstance(state, Failure):
            self._missing[request.key] = server, request
            raise ReplyPending
        why = f"it failed in a batch: {state.reason}" if isinstance(state, Failure) else NOT_IN_A_BATCH
        if self._errors == "unscored":
            raise Unscored(why)
        reply = await super().obtain(server, request)
        if not isinstance(state, Failure):
            self.usage.remarks[f"{request.model} called live: {NOT_IN_A_BATCH}"] += 1
        return reply

    async def submit(self) -> Submission:
        submitted = await self._batches.submit(list(self._missing.values()))
        states = (self._batches.state(request) for _, request in self._missing.values())
        names = {state.name for state in states if isinstance(state, Batch)}
        waited_for = [batch for batch in self._batches.all if batch.name in names]
        return Submission(submitted, waited_for, len(self._missing))

    async def refresh(self, servers: Iterable[Server], *, collect: bool = True) -> list[Batch]:
        remote = (server for server in servers if isinstance(server, RemoteServer))
        await self._batches.refresh(remote, collect=collect)
        return self._batches.all

    async def close(self) -> None:
        await self._batches.close()
        await super().close()
