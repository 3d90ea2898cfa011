"""The batch API of one server: it answers files of requests within a day, at a lower price.

`batches` decides which requests a batch contains, and stores the replies.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from pytest_rageval.core.errors import ServerError, StoreError, Unscored
from pytest_rageval.lib.cache_folder import make_private_file
from pytest_rageval.lib.files import refuse_special
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.text import counted
from pytest_rageval.models.chat_apis import CHAT_APIS, error_body, request_body
from pytest_rageval.models.client import Client, RetryableError
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.sender import UnsupportedParams
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.summaries import RequestSummary, request_summary
from pytest_rageval.options.settings import Api

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_REQUESTS: Final = 50_000
MAX_BYTES: Final = 200_000_000  # the limits of one batch at OpenAI
MAX_ANSWER_BYTES: Final = 4 * 2**30  # the size of the largest file of answers
TRANSFER_S: Final = 1800.0  # the longest time for an upload or a download
PAGE: Final = 100  # how many batches a search asks for at once
MAX_SEARCHED: Final = 1000  # how many batches of the account, the newest first, are searched for a name
MAX_SEARCHED_AGE_S: Final = 2 * 86400.0  # older batches are not found by name
ATTEMPTS: Final = 5  # for each call of the server
FIRST_DELAY_S: Final = 0.5  # before the second attempt; doubled for each further one
METADATA: Final = "rageval"  # the metadata of a batch at the server has the batch's name under this key

# Statuses of a batch that the server has finished.
ENDED: Final = {"completed", "failed", "expired", "cancelled"}
NEW: Final = "new"  # the status of a batch that may not exist at the server
GONE: Final = {"failed", "cancelling", "cancelled"}  # a batch with one of these statuses is created again
NO_BATCHES: Final = {404, 405, 410, 501}  # statuses of HTTP from a server without batches
OK: Final = 200
REFUSALS: Final = {400, 422}

T = TypeVar("T")

FailureKind = Literal["failed", "refused", "expired", "cancelled"]
"""Why a request has no reply: its own error, a parameter that the model refuses, or the end of its batch."""


class Failure(NamedTuple):
    """Why a request of a batch has no reply; written to the file of the batch."""

    kind: FailureKind
    reason: str
    answer: Mapping[str, object] = {}  # the server's error, if the kind is "refused"
    sent: str = ""  # the names of the parameters that were sent, if the kind is "refused"


class ServerBatch(NamedTuple):
    id: str
    status: str
    name: str = ""  # in its metadata; empty for a batch of another program
    created_at: float = 0.0  # in seconds since 1970
    completed: int = 0
    failed: int = 0
    error: str = ""  # why the server ended the batch
    files: tuple[str, ...] = ()  # the ids of the files with the answers and with the errors

    @classmethod
    def read(cls, fields: object) -> "ServerBatch":
        fields = _object(fields)
        batch_id, status = fields.get("id"), fields.get("status")
        if not isinstance(batch_id, str) or not batch_id or not isinstance(status, str) or not status:
            raise _not_a_batch()
        counts, created = _object(fields.get("request_counts")), fields.get("created_at")
        errors = _object(fields.get("errors")).get("data")
        words = [error.get("message") or error.get("code") for error in map(_object, _list(errors)[:3])]
        files = (fields.get("output_file_id"), fields.get("error_file_id"))
        return cls(
            batch_id,
            status,
            name=str(_object(fields.get("metadata")).get(METADATA) or ""),
            created_at=created if isinstance(created, int | float) else time.time(),
            completed=_count(counts.get("completed")),
            failed=_count(counts.get("failed")),
            error="; ".join(str(word) for word in words if word),
            files=tuple(file for file in files if isinstance(file, str) and file),
        )


def _not_a_batch() -> RetryableError:
    return RetryableError("its answer about a batch cannot be read", "garbled")


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


@dataclass
class Batch:
    """A batch; the fields are those of its file."""

    name: str  # the name in the folder and in the metadata at the server
    base_url: str
    label: str  # the server's name in reports
    api: Api
    model: str
    requests: int  # the number of requests
    made: float  # when the file was written, in seconds since 1970
    run: str  # the name of the run that submitted the batch
    most_usd: float = 0.0  # the highest possible cost in USD; 0 without a cost limit
    id: str = ""  # the batch's id at the server; empty while the status is "new"
    status: str = NEW  # the server's word, or "new"
    completed: int = 0  # requests that were answered, as the server counts them
    failed: int = 0  # requests that failed, as the server counts them
    error: str = ""  # why the server ended the batch
    collected: float = 0.0  # when the replies were stored, in seconds since 1970; 0 before
    replies: int = 0  # stored replies, with their tokens and cost in the next fields
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0  # replies without a known cost, which count with their highest possible cost
    failures: dict[str, JsonObject] = field(default_factory=dict)  # by key, the fields of a `Failure`

    @property
    def is_open(self) -> bool:
        """True if the server has the batch and its replies are not stored yet."""
        return self.status != NEW and not self.collected

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def line(self) -> str:
        what = f"{self.id or self.name} at {self.label}, {self.model}: {self.status}"
        if self.error:
            what += f" ({self.error})"
        if not self.collected:
            return f"{what}, {self.completed} of {counted(self.requests, 'request')} answered, {self.failed} failed"
        cost = "price not known" if self.unpriced else f"{self.cost_usd:.4f} USD"
        what += f", {self.replies} of {counted(self.requests, 'reply')} kept, {cost}"
        return what + (f", {len(self.failures)} without a reply" if self.failures else "")


EMPTY_BATCH: Final = Batch("", "", "", "chat", "", 0, 0.0, "")  # for the types of the fields


def read_batch(file: Path) -> Batch:
    try:
        refuse_special(file)
        fields = json.loads(file.read_text(encoding="utf-8-sig"))
        batch = Batch(**fields)
        wrong = [
            name
            for name, value in vars(EMPTY_BATCH).items()
            if type(fields.get(name, value)) is not type(value)
        ]
        for failure in batch.failures.values():
            Failure(**failure)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        wrong = ["it"]
    if wrong:
        raise StoreError(
            f"{file} describes no batch of this version ({wrong[0]} cannot be read).\n"
            "Delete it to go on. A batch of the last two days is then found at the server by its requests; older ones "
            "are paid for again."
        )
    return replace(batch, name=file.stem)


class BatchRequest(NamedTuple):
    key: str
    summary: RequestSummary
    without: str  # the names of the parameters that were left out, because the model refuses them
    sent: str  # the names of the parameters that were sent


class RequestLine(NamedTuple):
    """A request as a line of the uploaded file, with its record for the folder."""

    request: Request
    record: BatchRequest
    content: bytes


class UnclearError(ServerError):
    """A call failed, and whether the server has executed it is not known."""


class BatchAPI:
    """The batch API of a server; used from one event loop. A call that failed is repeated if that may help."""

    def __init__(self, server: RemoteServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._client = Client(server, timeout_s=TRANSFER_S, max_body_bytes=MAX_ANSWER_BYTES)

    async def create(self, name: str, content: bytes, known_ids: Collection[str]) -> ServerBatch:
        """Upload the requests and create a batch, at most once: after a failed call, search for it by name first."""

        async def upload(client: "AsyncOpenAI") -> str:
            file = (f"rageval-{name}.jsonl", content)
            answer = await client.files.with_raw_response.create(file=file, purpose="batch")
            file_id = parse_object(answer.content).get("id")
            if not isinstance(file_id, str) or not file_id:
                raise _not_a_batch()
            return file_id

        async def create(client: "AsyncOpenAI") -> ServerBatch:
            path: Any = _path(self._server.api)
            answer = await client.batches.with_raw_response.create(
                input_file_id=file_id, endpoint=path, completion_window="24h", metadata={METADATA: name}
            )
            return ServerBatch.read(parse_object(answer.content))

        file_id = await self._call(upload)
        return await self._call(create, done=lambda: self.find(name, known_ids))

    async def find(self, name: str, known_ids: Collection[str]) -> ServerBatch | None:
        async def search(client: "AsyncOpenAI") -> ServerBatch | None:
            searched, after = 0, ""
            while searched < MAX_SEARCHED:
                page = {"limit": PAGE, "after": after} if after else {"limit": PAGE}
                answer = await client.batches.with_raw_response.list(**page)
                fields = parse_object(answer.content)
                if not isinstance(fields.get("data"), list):
                    raise _not_a_batch()
                batches = list(map(ServerBatch.read, fields["data"]))
                for batch in batches:
                    recent = time.time() - batch.created_at < MAX_SEARCHED_AGE_S
                    is_ours = batch.name == name and batch.id not in known_ids
                    if is_ours and recent and batch.status not in GONE:
                        return batch
                if not batches or not fields.get("has_more"):
                    break
                searched, after = searched + len(batches), batches[-1].id
            return None

        return await self._call(search)

    async def retrieve(self, batch_id: str, file: Path) -> ServerBatch:
        """Return the current state of a batch; `file` describes it here."""

        async def retrieve(client: "AsyncOpenAI") -> ServerBatch:
            answer = await client.batches.with_raw_response.retrieve(batch_id)
            batch = ServerBatch.read(parse_object(answer.content))
            if batch.id != batch_id:
                raise _not_a_batch()
            return batch

        return await self._call(retrieve, f"{file} describes the batch {batch_id}, which it does not know.")

    async def download(self, file_id: str, target: Path) -> None:
        async def download(client: "AsyncOpenAI") -> None:
            make_private_file(target)
            async with client.files.with_streaming_response.content(file_id) as response:
                with target.open("wb") as file:
                    async for chunk in response.iter_bytes():
                        file.write(chunk)

        unknown = f"{target.with_suffix('.json')} describes a batch with the answers {file_id}, which it does not know."
        await self._call(download, unknown)

    def parse_answer(self, line: Mapping[str, object], record: BatchRequest) -> Reply | Failure:
        response = _object(line.get("response"))
        status, body = response.get("status_code"), response.get("body")
        if status == OK:
            try:
                reply = self._client.parse_reply(json.dumps(body).encode())
            except RetryableError as error:
                return Failure("failed", error.reason)
            except Unscored as error:
                return Failure("failed", str(error))
            return replace(reply, without=record.without) if record.without else reply
        problem = line.get("error")
        if not isinstance(problem, Mapping):
            problem = _object(body).get("error")
        details = error_body(problem) or {}
        code = str(details.get("code") or "")
        if code in {"batch_expired", "batch_cancelled"}:
            return Failure("expired" if code == "batch_expired" else "cancelled", f"the server says {code}")
        words = " ".join(str(details.get("message") or code or "no reason is given").split())
        reason = f"status {status}: {words}" if status else words
        # A request with a parameter that can be left out is sent again without it, in the next batch.
        parameters = dict.fromkeys(record.sent.split())
        if status in REFUSALS and UnsupportedParams().learn(parameters, details):
            return Failure("refused", reason[:200], details, record.sent)
        return Failure("failed", reason[:200])

    async def close(self) -> None:
        await self._client.close()

    async def _call(
        self,
        call: Callable[["AsyncOpenAI"], Awaitable[T]],
        unknown: str = "",
        done: Callable[[], Awaitable[T | None]] | None = None,
    ) -> T:
        """Call the server. After a failed call, `done` returns the result that it may have had all the same."""
        for failures in range(ATTEMPTS - 1):
            with contextlib.suppress(RetryableError):
                return await self._call_once(call, unknown)
            await asyncio.sleep(FIRST_DELAY_S * 2**failures)
            if done is not None and (result := await done()) is not None:
                return result
        return await self._call_once(call, unknown)

    async def _call_once(self, call: Callable[["AsyncOpenAI"], Awaitable[T]], unknown: str = "") -> T:
        """Call the server once. `unknown` says what a 404 means, if it is not that the server has no batches."""

        async def checked(client: "AsyncOpenAI") -> T:
            import openai  # noqa: PLC0415 - loaded with the client

            try:
                return await call(client)
            except openai.APIStatusError as error:
                if error.status_code not in NO_BATCHES:
                    raise
                path = error.request.url.path
            if unknown:
                raise ServerError(
                    f"The server at {self._server.base_url}: {unknown}\n"
                    "Use the key and the project that made the batch. If the batch is lost, delete the file: its "
                    "requests are then sent, and paid for, again."
                )
            raise ServerError(
                f"The server at {self._server.base_url} has no batches: {path} is not there.\n"
                "Run without --rageval-batch (--rageval flex=true may be cheaper, too)."
            )

        return await self._client.call(Request(self._server.base_url, "", ()), checked)


def request_line(api: Api, request: Request, parameters: Mapping[str, object], without: str) -> RequestLine:
    body = request_body(api, request, parameters)
    line = {"custom_id": request.key, "method": "POST", "url": _path(api), "body": body}
    record = BatchRequest(request.key, request_summary(request), without, " ".join(sorted(parameters)))
    return RequestLine(
        request, record, json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    )


def split_lines(lines: Iterable[RequestLine]) -> Iterator[list[RequestLine]]:
    part: list[RequestLine] = []
    size = 0
    for line in lines:
        if part and (len(part) == MAX_REQUESTS or size + len(line.content) > MAX_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line.content)
    if part:
        yield part


@contextlib.contextmanager
def raise_unclear(what: str) -> Iterator[None]:
    try:
        yield
    except RetryableError as error:
        text = f"{what}: {error.reason}.\nRun the same command again: it goes on from here."
        raise UnclearError(text) from None


def read_lines(file: Path) -> Iterator[bytes]:
    try:
        refuse_special(file)
        with file.open("rb") as content:
            yield from content
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error}.") from None


def parse_object(line: bytes | str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _path(api: Api) -> str:
    return f"/v1{CHAT_APIS[api].path}"
