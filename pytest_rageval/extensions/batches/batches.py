"""Batches: requests that a server answers within a day, at a lower price.

The file of a batch is written to the cache folder before the batch is created, and stays until after its replies are
stored. The batch's name is a hash of its requests. The server has the name too: if the file does not say whether the
batch was created, it is searched by name. Replies are stored under the keys of their requests.
"""

import asyncio
import contextlib
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple, NoReturn

from pytest_rageval.core.errors import RagevalError, ReplyPending, ServerError, StoreError, Unscored
from pytest_rageval.extensions.batches.api import (
    NEW,
    Batch,
    BatchAPI,
    BatchRequest,
    Failure,
    FailureKind,
    RequestLine,
    ServerBatch,
    UnclearError,
    parse_object,
    raise_unclear,
    read_batch,
    read_lines,
    request_line,
    split_lines,
)
from pytest_rageval.lib.cache_folder import make_cache_folder, make_private_file
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.lib.text import counted
from pytest_rageval.models.budget import Budget
from pytest_rageval.models.cache import Cache
from pytest_rageval.models.client import Server
from pytest_rageval.models.messages import FIRST_RUN_LOCAL_SAMPLE, Reply, Request, empty_reason
from pytest_rageval.models.sender import UnsupportedParams
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.sources import GatewaySettings, LiveSource, MakeBudget
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.usage import Usage

CHUNK: Final = 500  # how many replies are stored at once
MAX_EXPIRATIONS: Final = 2  # a request that expired this often has failed
FAILURES_COUNT_S: Final = 86400.0  # a request that failed longer ago is sent in a batch again
EXPIRY_COUNTS_S: Final = 3 * FAILURES_COUNT_S  # longer for a request that expired: a batch may take a day
KEPT_S: Final = 30 * 86400.0  # how long the file of a finished batch is kept
LOCK_KEY: Final = "rageval batches"  # a process claims this key while it submits or collects


class BatchFolder:
    """The batches that the files of a folder describe, and by key the requests that are in one or failed in one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: dict[str, list[str]] = {}
        self.read()

    def read(self) -> None:
        files = sorted(self.path.glob("*.json")) if self.path.is_dir() else []
        self.all: list[Batch] = sorted(map(read_batch, files), key=lambda batch: batch.made)
        self.open: dict[str, Batch] = {}
        self._failures: defaultdict[str, list[Failure]] = defaultdict(list)
        self._refusals: defaultdict[tuple[str, str], list[Mapping[str, object]]] = defaultdict(list)
        for batch in self.all:
            if batch.is_open:
                if batch.name not in self._keys:
                    self._keys[batch.name] = [record.key for record in self.requests(batch)]
                self.open |= dict.fromkeys(self._keys[batch.name], batch)
            age = time.time() - batch.collected
            for key, fields in batch.failures.items():
                failure = Failure(**fields)
                if age < (EXPIRY_COUNTS_S if failure.kind == "expired" else FAILURES_COUNT_S):
                    self._failures[key].append(failure)
                answers = self._refusals[batch.base_url, batch.model]
                if failure.kind == "refused" and failure.answer not in answers:
                    answers.append(failure.answer)
            if batch.collected and age > KEPT_S:
                self.delete(batch)

    def state(self, request: Request) -> Batch | Failure | None:
        """Return the open batch with this request, or why it failed; None if it is to be sent in a batch."""
        batch = self.open.get(request.key)
        if batch is not None:
            return batch
        failures = self._failures.get(request.key)
        if not failures:
            return None
        last = failures[-1]
        if last.kind == "expired":
            expirations = sum(failure.kind == "expired" for failure in failures)
            return last if expirations >= MAX_EXPIRATIONS else None
        if last.kind == "refused":
            # With other parameters the server may accept the request.
            return last if " ".join(sorted(self.adapt(request)[0])) == last.sent else None
        return last if last.kind == "failed" else None

    def adapt(self, request: Request) -> tuple[dict[str, object], str]:
        """Return the parameters without those that the model has refused, and the names of the refused ones."""
        unsupported = UnsupportedParams()
        for answer in self._refusals.get((request.base_url, request.model), ()):
            unsupported.learn(unsupported.adapt(request.parameters)[0], answer)
        return unsupported.adapt(request.parameters)

    @property
    def known_ids(self) -> set[str]:
        """The ids of all batches in the folder: another batch with the same name is a different one."""
        return {batch.id for batch in self.all}

    def add(self, batch: Batch, requests: Iterable[BatchRequest]) -> None:
        lines = (json.dumps(request._asdict()).encode() + b"\n" for request in requests)
        self._write_file(f"{batch.name}.lines", lines)
        self.write(batch)
        self.all.append(batch)

    def write(self, batch: Batch) -> None:
        self._write_file(f"{batch.name}.json", [json.dumps(asdict(batch), indent=1).encode()])

    def _write_file(self, name: str, content: Iterable[bytes]) -> None:
        try:
            make_cache_folder(self.path.parent)
            self.path.mkdir(mode=0o700, exist_ok=True)
            make_private_file(self.path / name)
            write_atomically(self.path / name, content)
        except OSError as error:
            raise StoreError(f"{self.path / name} cannot be written: {error}.") from None

    def requests(self, batch: Batch) -> Iterator[BatchRequest]:
        for line in read_lines(self.path / f"{batch.name}.lines"):
            fields = parse_object(line)
            if fields.keys() == set(BatchRequest._fields):
                yield BatchRequest(**fields)

    def delete(self, batch: Batch) -> None:
        for suffix in ("json", "lines", "answers"):
            (self.path / f"{batch.name}.{suffix}").unlink(missing_ok=True)
        self.all = [other for other in self.all if other.name != batch.name]


class Batches:
    """Submits requests in batches and collects the replies; used from one event loop.

    `budgets` are those of the run and of a server.
    """

    def __init__(
        self, folder: Path, cache: Cache, run: str, budgets: Callable[[RemoteServer], Sequence[Budget]]
    ) -> None:
        self.folder = BatchFolder(folder)
        self._cache = cache
        self._run = run
        self._budgets = budgets
        self._apis: dict[RemoteServer, BatchAPI] = {}

    async def submit(self, missing: Sequence[tuple[RemoteServer, Request]]) -> list[Batch]:
        """Submit the requests that are in no open batch; return the new batches.

        BudgetError if they could exceed a limit: nothing is submitted. ServerError if a server has no batches, or
        refuses one.
        """
        async with self._locked():
            for server in dict.fromkeys(server for server, _ in missing):
                with raise_unclear(f"The server at {server.base_url} does not answer"):
                    await self._resolve_new(server)
            # Another process may have collected some of the replies since this one looked for them.
            stored = await self._cache.look_up([request.key for _, request in missing])
            missing = [
                (server, request)
                for server, request in missing
                if request.key not in stored and self.folder.state(request) is None
            ]
            await self._check_budgets(missing)
            # All requests of a batch are for one model.
            groups = defaultdict[tuple[RemoteServer, str], list[Request]](list)
            for server, request in missing:
                groups[server, request.model].append(request)
            submitted = []
            for (server, _), requests in groups.items():
                lines = (
                    request_line(server.api, request, *self.folder.adapt(request)) for request in requests
                )
                submitted += [await self._submit_batch(server, part) for part in split_lines(lines)]
            return submitted

    async def refresh(self, servers: Iterable[RemoteServer], *, collect: bool = True) -> None:
        """Update the open batches of these servers; with `collect`, store the replies of batches that have ended.

        RetryableError if a server does not answer now, ServerError if it does not know a batch.
        """
        async with self._locked():
            for server in dict.fromkeys(servers):
                await self._resolve_new(server)
                for batch in [
                    batch for batch in self.folder.all if batch.is_open and _belongs_to(batch, server)
                ]:
                    at_server = await self._api(server).retrieve(
                        batch.id, self.folder.path / f"{batch.name}.json"
                    )
                    self._update(server, batch, at_server)
                    if collect and batch.ended:
                        await self._collect(server, batch, at_server)

    async def close(self) -> None:
        for api in self._apis.values():
            await api.close()
        self._apis.clear()

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Let no other process submit or collect meanwhile. Read the files again: others may have changed them."""
        while await self._cache.claim(LOCK_KEY) is not True:
            await self._cache.wait_for_other(LOCK_KEY)
        try:
            self.folder.read()
            yield
        finally:
            self._cache.release(LOCK_KEY)

    async def _resolve_new(self, server: RemoteServer) -> None:
        """Search the server for batches that a process was creating when it ended; delete the files of missing ones."""
        for batch in [
            batch for batch in self.folder.all if batch.status == NEW and _belongs_to(batch, server)
        ]:
            at_server = await self._api(server).find(batch.name, self.folder.known_ids)
            if at_server is None:
                self.folder.delete(batch)
            else:
                self._update(server, batch, at_server)
                self.folder.read()

    async def _check_budgets(self, missing: Sequence[tuple[RemoteServer, Request]]) -> None:
        by_server = defaultdict[RemoteServer, list[Request]](list)
        for server, request in missing:
            by_server[server].append(request)
        open_batches = [batch for batch in self.folder.all if batch.is_open and batch.run == self._run]

        async def check(budget: Budget, requests: Sequence[Request], batches: Sequence[Batch]) -> None:
            calls, cost = sum(batch.requests for batch in batches), sum(batch.most_usd for batch in batches)
            await budget.check_batch(self._cache, requests, open_calls=calls, open_cost=cost)

        for server, requests in by_server.items():
            run_budget, server_budget = self._budgets(server)
            await check(run_budget, [request for _, request in missing], open_batches)
            at_server = [batch for batch in open_batches if _belongs_to(batch, server)]
            await check(server_budget, requests, at_server)

    async def _submit_batch(self, server: RemoteServer, lines: Sequence[RequestLine]) -> Batch:
        requests, records = [line.request for line in lines], [line.record for line in lines]
        digest = hashlib.sha256("\n".join(sorted(record.key for record in records)).encode()).hexdigest()[:16]
        earlier = sum(batch.name.startswith(f"{digest}-") for batch in self.folder.all)
        first = requests[0]
        batch = Batch(
            name=f"{digest}-{earlier}",
            base_url=server.base_url,
            label=server.label,
            api=server.api,
            model=first.model,
            requests=len(requests),
            made=time.time(),
            run=self._run,
            most_usd=self._budgets(server)[0].max_batch_cost(requests),
        )
        self.folder.add(batch, records)
        what = f"a batch of {counted(len(requests), 'request')} to {first.model}"
        api = self._api(server)
        try:
            with raise_unclear(f"The server at {server.base_url} does not say whether it has {what}"):
                at_server = await api.find(batch.name, self.folder.known_ids)
                if at_server is None:
                    content = b"".join(line.content for line in lines)
                    at_server = await api.create(batch.name, content, self.folder.known_ids)
        except UnclearError:
            # The file stays: the next run searches for the batch.
            raise
        except (RagevalError, Unscored) as error:
            # The server does not have the batch: another batch may contain its requests.
            self.folder.delete(batch)
            if isinstance(error, RagevalError):
                raise
            raise ServerError(
                f"The server at {server.base_url} did not take {what}: {error}.\n"
                "Correct what it says, or run without --rageval-batch."
            ) from None
        self._update(server, batch, at_server)
        self.folder.open |= dict.fromkeys((record.key for record in records), batch)
        return batch

    async def _collect(self, server: RemoteServer, batch: Batch, at_server: ServerBatch) -> None:
        """Store the replies; UnclearError, with the batch still open, if the answers are not there or unreadable."""
        unanswered = {record.key: record for record in self.folder.requests(batch)}
        failures: dict[str, Failure] = {}
        batch.replies = batch.tokens_in = batch.tokens_out = batch.unpriced = 0
        batch.cost_usd = 0.0
        answers = self.folder.path / f"{batch.name}.answers"
        for file_id in at_server.files:
            await self._api(server).download(file_id, answers)
            before, lines = len(unanswered), read_lines(answers)
            while chunk := list(islice(lines, CHUNK)):
                await self._store_replies(server, batch, chunk, unanswered, failures)
            if len(unanswered) == before:
                self._refuse_answers(batch, f"its file {file_id} has no answer to a request of it")
            answers.unlink()
        if at_server.status == "completed" and not at_server.files:
            self._refuse_answers(batch, "the server names no file of answers")
        kinds: dict[str, FailureKind] = {"expired": "expired", "completed": "failed"}
        kind = kinds.get(at_server.status, "cancelled")
        for key in unanswered:
            failures.setdefault(key, Failure(kind, f"its batch is {at_server.status} and has no line of it"))
        batch.failures = {key: failure._asdict() for key, failure in failures.items()}
        for budget in self._budgets(server):
            await budget.count_batch(self._cache, batch.replies, batch.cost_usd)
        batch.collected = time.time()
        self.folder.write(batch)
        self.folder.read()

    def _refuse_answers(self, batch: Batch, why: str) -> NoReturn:
        # As failures, all requests would be sent again one by one, at the full price.
        raise UnclearError(
            f"The answers of the batch {batch.id} cannot be read: {why}.\n"
            "Run the same command again: they are downloaded again. If that does not help, delete "
            f"{self.folder.path / batch.name}.json: its requests are then sent, and paid for, again."
        )

    async def _store_replies(
        self,
        server: RemoteServer,
        batch: Batch,
        lines: Iterable[bytes],
        unanswered: dict[str, BatchRequest],
        failures: dict[str, Failure],
    ) -> None:
        api, budget = self._api(server), self._budgets(server)[0]
        entries = []
        for line in lines:
            text = line.decode("utf-8", "replace")
            parsed = parse_object(server.credentials.redact(text))
            key = parsed.get("custom_id")
            if not isinstance(key, str) or key not in unanswered:
                continue
            record = unanswered.pop(key)
            is_text = text.encode() == line
            outcome = (
                api.parse_answer(parsed, record) if is_text else Failure("failed", "its line is not UTF-8")
            )
            if isinstance(outcome, Failure):
                failures[key] = outcome
                continue
            if outcome.silent:
                failures[key] = Failure("failed", f"the reply is empty{empty_reason(outcome)}")
            cost = budget.batch_cost(batch.base_url, batch.model, outcome)
            batch.replies += 1
            batch.tokens_in += outcome.tokens_in
            batch.tokens_out += outcome.tokens_out
            batch.cost_usd += batch.most_usd / batch.requests if cost is None else cost
            batch.unpriced += cost is None
            entries.append(Entry(key, outcome, record.summary))
        await asyncio.gather(*map(self._cache.keep, entries))

    def _api(self, server: RemoteServer) -> BatchAPI:
        if server not in self._apis:
            self._apis[server] = BatchAPI(server, self.folder.path)
        return self._apis[server]

    def _update(self, server: RemoteServer, batch: Batch, at_server: ServerBatch) -> None:
        batch.id, batch.status = at_server.id, at_server.status
        batch.completed, batch.failed = at_server.completed, at_server.failed
        batch.error = " ".join(server.credentials.redact(at_server.error).split())
        self.folder.write(batch)


def _belongs_to(batch: Batch, server: RemoteServer) -> bool:
    return batch.base_url == server.base_url and batch.label == server.label


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
        state = self._batches.folder.state(request)
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
        states = (self._batches.folder.state(request) for _, request in self._missing.values())
        names = {state.name for state in states if isinstance(state, Batch)}
        waited_for = [batch for batch in self._batches.folder.all if batch.name in names]
        return Submission(submitted, waited_for, len(self._missing))

    async def refresh(self, servers: Iterable[Server], *, collect: bool = True) -> list[Batch]:
        remote = (server for server in servers if isinstance(server, RemoteServer))
        await self._batches.refresh(remote, collect=collect)
        return self._batches.folder.all

    async def close(self) -> None:
        await self._batches.close()
        await super().close()
