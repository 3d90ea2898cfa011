"""Batches: requests that a server answers within a day, at a lower price.

A batch is remembered in a file of the cache folder from before it is made until its replies are kept. Its name
depends only on its requests and is sent to the server, so that it is found there if the file does not say what
became of it. The replies are kept under the keys of their requests.
"""

import asyncio
import contextlib
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from pytest_rageval.config import Api
from pytest_rageval.errors import RagevalError, ServerError, StoreError, Unscored
from pytest_rageval.files import make_cache_folder, make_private_file, refuse_special, write_whole
from pytest_rageval.llm.budget import Budget
from pytest_rageval.llm.cache import Cache
from pytest_rageval.llm.messages import (
    Reply,
    Request,
    RequestSummary,
    empty_reason,
    replace_surrogates,
    request_summary,
)
from pytest_rageval.llm.servers import completions, responses
from pytest_rageval.llm.servers.client import Client, RetryableError, refusal_in
from pytest_rageval.llm.servers.sender import UnsupportedParams
from pytest_rageval.llm.servers.server import RemoteServer
from pytest_rageval.llm.stores.interface import Entry
from pytest_rageval.plural import counted

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import Batch as Found

__all__ = ["Batch", "Batches", "Failure"]

T = TypeVar("T")

MOST_REQUESTS: Final = 50_000
MOST_BYTES: Final = 200_000_000
"""The limits of one batch at OpenAI."""

MOST_ANSWER: Final = 4 * 2**30  # the largest file of replies
TRANSFER_S: Final = 1800.0  # the longest upload or download
SEARCHED: Final = 1000  # batches of the account, the newest first, among which a lost one is looked for
FOUND_S: Final = 2 * 86400.0  # how old it may be
CHUNK: Final = 500  # replies that are kept at once
ATTEMPTS: Final = 5  # at each call of the server
FIRST_DELAY_S: Final = 0.5
EXPIRED_TWICE: Final = 2  # a request that expired so often has failed
FAILURES_COUNT_S: Final = 86400.0  # after so long a request that failed is tried in a batch again
EXPIRY_COUNTS_S: Final = 3 * FAILURES_COUNT_S  # and one that expired, as a batch may take a day
KEPT_S: Final = 30 * 86400.0  # how long the file of a finished batch is kept
TURN: Final = "rageval batches"  # what a process claims while it submits or collects

ENDED: Final = {"completed", "failed", "expired", "cancelled"}
GONE: Final = {"failed", "cancelling", "cancelled"}  # what is made again

NEW: Final = "new"  # the status of a batch that the server may not have

Kind = Literal["failed", "refused", "expired", "cancelled"]
"""Why a request has no reply: an error of its own, a parameter that the model refuses, or the end of its batch."""


@dataclass
class Batch:
    """A batch, as its file has it."""

    name: str  # in the folder and, as metadata, at the server
    base_url: str
    label: str  # the server's name in reports
    api: Api
    model: str
    requests: int
    made: float  # seconds since 1970
    run: str
    most_usd: float = 0.0  # that it can cost, where the cost is limited
    id: str = ""  # the server's name for it
    status: str = NEW  # the server's word
    completed: int = 0
    failed: int = 0
    error: str = ""  # why the server ended it
    collected: float = 0.0  # when its replies were kept; 0 before
    replies: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    failures: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by key: the fields of a `Failure`

    @property
    def is_open(self) -> bool:
        """True if the server has the batch and its replies are not stored yet."""
        return self.status != NEW and not self.collected

    @property
    def ended(self) -> bool:
        """True if the server has finished the batch."""
        return self.status in ENDED

    def line(self) -> str:
        """Return it as a line for the terminal."""
        what = f"{self.id or self.name} at {self.label}, {self.model}: {self.status}"
        if self.error:
            what += f" ({self.error})"
        if not self.collected:
            return f"{what}, {self.completed} of {counted(self.requests, 'request')} answered, {self.failed} failed"
        cost = "price not known" if self.unpriced else f"{self.cost_usd:.4f} USD"
        what += f", {self.replies} of {counted(self.requests, 'reply')} kept, {cost}"
        return what + (f", {len(self.failures)} without a reply" if self.failures else "")


class Failure(NamedTuple):
    """Why a request has no reply."""

    kind: Kind
    reason: str
    answer: Mapping[str, Any] = {}  # the refusal
    sent: str = ""  # the names of the parameters with which it was refused


class BatchRequest(NamedTuple):
    """A request of a batch: its key, its summary, and the parameters that it was sent with and without."""

    key: str
    summary: RequestSummary
    without: str
    sent: str


class Batches:
    """The batches of a cache folder; used from one event loop.

    Args:
        folder: for their files.
        cache: where replies are kept.
        run: the name of the run.
        budgets: returns the budgets of a server, that of the run first.
    """

    def __init__(
        self, folder: Path, cache: Cache, run: str, budgets: Callable[[RemoteServer], Sequence[Budget]]
    ) -> None:
        self._folder = folder
        self._cache = cache
        self._run = run
        self._budgets = budgets
        self._clients: dict[RemoteServer, Client] = {}
        self._keys: dict[str, list[str]] = {}
        self._read()

    def state(self, request: Request) -> Batch | Failure | None:
        """Return the open batch that has a request, or why its reply did not come; None where it is to be asked."""
        batch = self._open.get(request.key)
        if batch is not None:
            return batch
        failures = self._failures.get(request.key)
        if not failures:
            return None
        last = failures[-1]
        if last.kind == "expired":
            return last if sum(each.kind == "expired" for each in failures) >= EXPIRED_TWICE else None
        if last.kind == "refused":
            # Another set of parameters is another request to the server.
            return last if _names(self._adapted(request)[0]) == last.sent else None
        return last if last.kind == "failed" else None

    async def submit(self, asked: Sequence[tuple[RemoteServer, Request]]) -> list[Batch]:
        """Submit requests that are in no open batch; return the new batches.

        Raises:
            BudgetError: they could pass a limit; nothing is submitted.
            ServerError: a server has no batches, or refuses one.
        """
        async with self._turn():
            for server in dict.fromkeys(server for server, _ in asked):
                with _unclear(f"The server at {server.base_url} does not answer"):
                    await self._resolve(server)
            asked = [(server, request) for server, request in asked if self.state(request) is None]
            await self._check_budgets(asked)
            made = []
            for server, requests in _groups(asked):
                lines = (self._line(server, request) for request in requests)
                made += [await self._made(server, part) for part in _parts(lines)]
            return made

    async def refresh(self, servers: Iterable[RemoteServer], *, collect: bool = True) -> None:
        """Look at the open batches of these servers, and keep the replies of those that have ended.

        Raises:
            RetryableError: a server does not answer now.
            ServerError: a server does not know a batch.
        """
        async with self._turn():
            for server in dict.fromkeys(servers):
                await self._resolve(server)
                for batch in [each for each in self.all if each.is_open and _is_at(each, server)]:
                    found = await self._call(server, partial(_retrieve, id=batch.id))
                    self._update(server, batch, found)
                    if collect and batch.ended:
                        await self._collect(server, batch, found)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Be the only process that submits or collects; what others have done meanwhile is read."""
        while await self._cache.claim(TURN) is not True:
            await self._cache.wait_for_other(TURN)
        try:
            self._read()
            yield
        finally:
            self._cache.release(TURN)

    def _read(self) -> None:
        """Read the files of the folder."""
        files = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        self.all = sorted(map(_batch_in, files), key=lambda batch: batch.made)
        self._open: dict[str, Batch] = {}
        self._failures: defaultdict[str, list[Failure]] = defaultdict(list)
        self._refusals: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for batch in self.all:
            if batch.is_open:
                if batch.name not in self._keys:
                    self._keys[batch.name] = [asked.key for asked in self._asked(batch)]
                self._open |= dict.fromkeys(self._keys[batch.name], batch)
            age = time.time() - batch.collected
            for key, plain in batch.failures.items():
                failure = Failure(**plain)
                if age < (EXPIRY_COUNTS_S if failure.kind == "expired" else FAILURES_COUNT_S):
                    self._failures[key].append(failure)
                answers = self._refusals[batch.base_url, batch.model]
                if failure.kind == "refused" and failure.answer not in answers:
                    answers.append(failure.answer)
            if batch.collected and age > KEPT_S:
                self._forget(batch)

    async def _resolve(self, server: RemoteServer) -> None:
        """Find at the server the batches that a process was creating when it ended."""
        for batch in [each for each in self.all if each.status == NEW and _is_at(each, server)]:
            found = await self._find(server, batch.name)
            if found is None:
                self._forget(batch)
            else:
                self._update(server, batch, found)
                self._read()

    async def _check_budgets(self, asked: Sequence[tuple[RemoteServer, Request]]) -> None:
        by_server = defaultdict[RemoteServer, list[Request]](list)
        for server, request in asked:
            by_server[server].append(request)
        mine = [batch for batch in self.all if batch.is_open and batch.run == self._run]

        async def check(budget: Budget, requests: Sequence[Request], batches: Sequence[Batch]) -> None:
            calls, cost = sum(each.requests for each in batches), sum(each.most_usd for each in batches)
            await budget.check_batch(self._cache, requests, open_calls=calls, open_cost=cost)

        for server, requests in by_server.items():
            of_run, of_server = self._budgets(server)
            await check(of_run, [request for _, request in asked], mine)
            await check(of_server, requests, [batch for batch in mine if _is_at(batch, server)])

    def _adapted(self, request: Request) -> tuple[dict[str, Any], str]:
        """Return the parameters to send, without those that the model has refused, and the names of these."""
        unsupported = UnsupportedParams()
        for answer in self._refusals.get((request.base_url, request.model), ()):
            unsupported.learn(unsupported.adapt(request.parameters)[0], answer)
        return unsupported.adapt(request.parameters)

    def _line(self, server: RemoteServer, request: Request) -> "Line":
        """Return a request as a line of a batch's file."""
        api = responses if server.api == "responses" else completions
        parameters, without = self._adapted(request)
        messages = [
            {name: replace_surrogates(value) for name, value in message.items()}
            for message in request.messages
        ]
        arguments = api.arguments(messages, parameters)
        body = {"model": request.model, **arguments, **arguments.get("extra_body", {})}
        body.pop("extra_body", None)
        line = {"custom_id": request.key, "method": "POST", "url": _path(server.api), "body": body}
        asked = BatchRequest(request.key, request_summary(request), without, _names(parameters))
        return Line(request, asked, json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    async def _made(self, server: RemoteServer, lines: Sequence["Line"]) -> Batch:
        """Make a batch at the server, or find the one of these requests that is there."""
        requests, asked = [line.request for line in lines], [line.asked for line in lines]
        keys = hashlib.sha256("\n".join(sorted(each.key for each in asked)).encode()).hexdigest()[:16]
        earlier = sum(batch.name.startswith(f"{keys}-") for batch in self.all)
        first = requests[0]
        batch = Batch(
            name=f"{keys}-{earlier}",
            base_url=server.base_url,
            label=server.label,
            api=server.api,
            model=first.model,
            requests=len(requests),
            made=time.time(),
            run=self._run,
            most_usd=self._budgets(server)[0].max_batch_cost(requests),
        )
        self._write_asked(batch, asked)
        self._write(batch)
        self.all.append(batch)
        what = f"a batch of {counted(len(requests), 'request')} to {first.model}"
        try:
            with _unclear(f"The server at {server.base_url} does not say whether it has {what}"):
                found = await self._find(server, batch.name)
                if found is None:
                    found = await self._create(server, batch.name, b"".join(line.content for line in lines))
        except _UnclearError:
            # The next run looks for it.
            raise
        except (RagevalError, Unscored) as error:
            # The server does not have it: the requests are free for another batch.
            self._forget(batch)
            if isinstance(error, RagevalError):
                raise
            raise ServerError(
                f"The server at {server.base_url} did not take {what}: {error}.\n"
                "Correct what it says, or run without --rageval-batch."
            ) from None
        self._update(server, batch, found)
        self._open |= dict.fromkeys((each.key for each in asked), batch)
        return batch

    async def _create(self, server: RemoteServer, name: str, content: bytes) -> "Found":
        """Upload the file and make the batch, once: after an attempt that broke off it is looked for."""
        uploaded = await self._call(
            server,
            lambda client: client.files.create(file=(f"rageval-{name}.jsonl", content), purpose="batch"),
        )

        async def create(client: "AsyncOpenAI") -> Any:
            path: Any = _path(server.api)
            return await client.batches.create(
                input_file_id=uploaded.id,
                endpoint=path,
                completion_window="24h",
                metadata={METADATA: name},
            )

        failures = 0
        while True:
            try:
                made: Found = await self._once(server, create)
            except RetryableError:
                failures += 1
                if failures == ATTEMPTS:
                    raise
            else:
                return made
            await _pause(failures)
            if (found := await self._find(server, name)) is not None:
                return found

    async def _find(self, server: RemoteServer, name: str) -> "Found | None":
        """Return the batch of this name at the server, if it is in no file of the folder; None where there is none."""
        known = {batch.id for batch in self.all}

        async def search(client: "AsyncOpenAI") -> Any:
            n = 0
            async for found in client.batches.list(limit=100):
                n += 1
                mine = (found.metadata or {}).get(METADATA) == name and found.id not in known
                recent = time.time() - found.created_at < FOUND_S
                if mine and recent and found.status not in GONE:
                    return found
                if n == SEARCHED:
                    break
            return None

        found: Found | None = await self._call(server, search)
        return found

    async def _collect(self, server: RemoteServer, batch: Batch, found: "Found") -> None:
        """Keep the replies of a batch that has ended, and why others are missing."""
        asked = {each.key: each for each in self._asked(batch)}
        failures: dict[str, Failure] = {}
        batch.replies = batch.tokens_in = batch.tokens_out = batch.unpriced = 0
        batch.cost_usd = 0.0
        content = self._folder / f"{batch.name}.answers"
        for file_id in filter(None, (found.output_file_id, found.error_file_id)):
            await self._call(server, partial(_download, file_id=file_id, target=content))
            for lines in _chunks(_lines(content)):
                await self._keep(server, batch, lines, asked, failures)
            content.unlink()
        kind = _kind_of_end(found.status)
        for key in asked:
            failures.setdefault(key, Failure(kind, f"its batch is {found.status} and has no line of it"))
        batch.failures = {key: failure._asdict() for key, failure in failures.items()}
        for budget in self._budgets(server):
            await budget.count_batch(self._cache, batch.replies, batch.cost_usd)
        batch.collected = time.time()
        self._write(batch)
        self._read()

    async def _keep(
        self,
        server: RemoteServer,
        batch: Batch,
        lines: Iterable[bytes],
        asked: dict[str, BatchRequest],
        failures: dict[str, Failure],
    ) -> None:
        """Keep the replies in these lines; each is taken out of `asked`."""
        client, budget = self._client(server), self._budgets(server)[0]
        entries = []
        for line in lines:
            parsed = _object(server.credentials.redacted(line.decode("utf-8", "replace")))
            key = parsed.get("custom_id")
            if not isinstance(key, str) or key not in asked:
                continue
            one = asked.pop(key)
            outcome = _outcome(client, parsed, one)
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
            entries.append(Entry(key, outcome, one.summary))
        await asyncio.gather(*map(self._cache.keep, entries))

    async def _call(self, server: RemoteServer, do: Callable[["AsyncOpenAI"], Awaitable[Any]]) -> Any:
        """Call the server, a few times where that may help."""
        for failures in range(1, ATTEMPTS + 1):
            try:
                return await self._once(server, do)
            except RetryableError:
                if failures == ATTEMPTS:
                    raise
            await _pause(failures)
        raise AssertionError("unreachable")

    async def _once(self, server: RemoteServer, do: Callable[["AsyncOpenAI"], Awaitable[Any]]) -> Any:
        async def done(client: "AsyncOpenAI") -> Any:
            import openai  # noqa: PLC0415 - loaded with the client

            try:
                return await do(client)
            except openai.APIStatusError as error:
                if error.status_code not in NO_BATCHES:
                    raise
                path = error.request.url.path
            raise ServerError(
                f"The server at {server.base_url} has no batches, or does not know this one: {path} is not there.\n"
                "Run without --rageval-batch (--rageval-flex may be cheaper, too). Of a batch that was made with "
                f"another key or project, delete the file in {self._folder} to ask again."
            )

        return await self._client(server).call(Request(server.base_url, "", ()), done)

    def _client(self, server: RemoteServer) -> Client:
        if server not in self._clients:
            self._clients[server] = Client(server, timeout_s=TRANSFER_S, most_bytes=MOST_ANSWER)
        return self._clients[server]

    def _update(self, server: RemoteServer, batch: Batch, found: "Found") -> None:
        """Copy the status of a batch at the server, and write it to its file."""
        counts = found.request_counts
        batch.id, batch.status = found.id, found.status
        batch.completed, batch.failed = (counts.completed, counts.failed) if counts else (0, 0)
        errors = (found.errors and found.errors.data) or ()
        words = "; ".join(str(each.message or each.code) for each in errors[:3])
        batch.error = " ".join(server.credentials.redacted(words).split())
        self._write(batch)

    def _write(self, batch: Batch) -> None:
        self._write_file(f"{batch.name}.json", [json.dumps(asdict(batch), indent=1).encode()])

    def _write_asked(self, batch: Batch, asked: Iterable[BatchRequest]) -> None:
        lines = (json.dumps(each._asdict()).encode() + b"\n" for each in asked)
        self._write_file(f"{batch.name}.lines", lines)

    def _write_file(self, name: str, content: Iterable[bytes]) -> None:
        try:
            make_cache_folder(self._folder.parent)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            make_private_file(self._folder / name)
            write_whole(self._folder / name, content)
        except OSError as error:
            raise StoreError(f"{self._folder / name} cannot be written: {error}.") from None

    def _asked(self, batch: Batch) -> Iterator[BatchRequest]:
        for line in _lines(self._folder / f"{batch.name}.lines"):
            plain = _object(line)
            if plain.keys() == set(BatchRequest._fields):
                yield BatchRequest(**plain)

    def _forget(self, batch: Batch) -> None:
        for suffix in ("json", "lines", "answers"):
            (self._folder / f"{batch.name}.{suffix}").unlink(missing_ok=True)
        self.all = [each for each in self.all if each.name != batch.name]


METADATA: Final = "rageval"  # the name of a batch at the server is in its metadata under this key
NO_BATCHES: Final = {404, 405, 501}


BLANK: Final = Batch("", "", "", "chat", "", 0, 0.0, "")


def _batch_in(file: Path) -> Batch:
    """Return the batch that a file describes."""
    try:
        refuse_special(file)
        plain = json.loads(file.read_text(encoding="utf-8"))
        batch = Batch(**plain)
        odd = [name for name, value in vars(BLANK).items() if type(plain.get(name, value)) is not type(value)]
        for failure in batch.failures.values():
            Failure(**failure)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        odd = ["it"]
    if odd:
        raise StoreError(
            f"{file} describes no batch of this version ({odd[0]} cannot be read).\n"
            "Delete it: what was not collected is then asked for again."
        )
    return replace(batch, name=file.stem)


def _is_at(batch: Batch, server: RemoteServer) -> bool:
    return batch.base_url == server.base_url and batch.label == server.label


def _path(api: Api) -> str:
    return f"/v1{(responses if api == 'responses' else completions).PATH}"


def _names(parameters: Mapping[str, Any]) -> str:
    return " ".join(sorted(parameters))


def _groups(
    asked: Iterable[tuple[RemoteServer, Request]],
) -> Iterator[tuple[RemoteServer, list[Request]]]:
    """Yield the requests of each server and model: a batch is for one model."""
    groups = defaultdict[tuple[RemoteServer, str], list[Request]](list)
    for server, request in asked:
        groups[server, request.model].append(request)
    for (server, _), requests in groups.items():
        yield server, requests


class Line(NamedTuple):
    """A request as a line of a batch's file."""

    request: Request
    asked: BatchRequest
    content: bytes


def _parts(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield lines in parts that a batch can have."""
    part: list[Line] = []
    size = 0
    for line in lines:
        if part and (len(part) == MOST_REQUESTS or size + len(line.content) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line.content)
    if part:
        yield part


def _chunks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


class _UnclearError(ServerError):
    """A call whose effect at the server is not known."""


@contextlib.contextmanager
def _unclear(what: str) -> Iterator[None]:
    """Turn a `RetryableError` into an error that ends the command and says how to go on."""
    try:
        yield
    except RetryableError as error:
        reason = error.reason
    else:
        return
    raise _UnclearError(f"{what}: {reason}.\nRun the same command again: it goes on from here.")


async def _retrieve(client: "AsyncOpenAI", id: str) -> "Found":  # noqa: A002 - the server's word
    return await client.batches.retrieve(id)


async def _download(client: "AsyncOpenAI", file_id: str, target: Path) -> None:
    make_private_file(target)
    async with client.files.with_streaming_response.content(file_id) as response:
        with target.open("wb") as file:
            async for chunk in response.iter_bytes():
                file.write(chunk)


def _lines(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file; none where it is missing."""
    try:
        refuse_special(file)
        with file.open("rb") as content:
            yield from content
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error}.") from None


def _object(line: bytes | str) -> dict[str, Any]:
    """Return the JSON object of a line; an empty one where it is none."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _outcome(client: Client, line: Mapping[str, Any], asked: BatchRequest) -> Reply | Failure:
    """Return the reply in a line of a batch's answers, or why it has none."""
    response = line.get("response")
    response = response if isinstance(response, Mapping) else {}
    status, body = response.get("status_code"), response.get("body")
    if status == OK:
        try:
            reply = client.read(json.dumps(body).encode())
        except RetryableError as error:
            return Failure("failed", error.reason)
        except Unscored as error:
            return Failure("failed", str(error))
        return replace(reply, without=asked.without) if asked.without else reply
    problem = line.get("error")
    if not isinstance(problem, Mapping):
        problem = body.get("error") if isinstance(body, Mapping) else None
    answer = refusal_in(problem) or {}
    code = str(answer.get("code") or "")
    if code in {"batch_expired", "batch_cancelled"}:
        return Failure("expired" if code == "batch_expired" else "cancelled", f"the server says {code}")
    words = " ".join(str(answer.get("message") or code or "no reason is given").split())
    reason = f"status {status}: {words}" if status else words
    # What can be left out is asked again without it, in the next batch.
    if status in REFUSALS and UnsupportedParams().learn(dict.fromkeys(asked.sent.split()), answer):
        return Failure("refused", reason[:200], answer, asked.sent)
    return Failure("failed", reason[:200])


OK: Final = 200
REFUSALS: Final = {400, 422}


def _kind_of_end(status: str) -> Kind:
    kinds: dict[str, Kind] = {"expired": "expired", "completed": "failed"}
    return kinds.get(status, "cancelled")


async def _pause(failures: int) -> None:
    await asyncio.sleep(FIRST_DELAY_S * 2 ** (failures - 1))
