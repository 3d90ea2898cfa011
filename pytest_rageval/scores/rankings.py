"""`Rankings`: all rankings of a run. `SingleFlight`: computes a result once for all scores that need it at once."""

import marshal
from array import array
from collections import defaultdict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from hashlib import blake2b
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pytest_rageval.calls.gathering import ends_task, is_fatal, is_inline, let_others_run, require_loop
from pytest_rageval.core.errors import CallableError, InputError, RagevalError, Unscored
from pytest_rageval.core.evalset import Example, QuestionWithHistory
from pytest_rageval.core.ranking import CreatedDocuments, Document, Ranking, Span
from pytest_rageval.lib.spool import Spool

if TYPE_CHECKING:
    import asyncio

    from pytest_rageval.retrievers import Retriever

Query = Example | str
"""An example, whose history, filters and metadata count too; or the text of a question."""

T = TypeVar("T")


class SingleFlight:
    """Computes the result of each key once; later callers with the same key wait for the first or get its result.

    For use in one event loop. An error is stored like a result, except errors of the user's own code. If the first
    caller is cancelled, a waiting caller computes the result.

    `compact` converts a caller's key to the key that is stored with the result. The default is `digest_key`, so that
    long texts in keys are not stored.
    """

    def __init__(self, compact: "Callable[[Any], Hashable] | None" = None) -> None:
        self._compact = digest_key if compact is None else compact
        # The waiting callers of each key whose result is being computed.
        self._waiters: dict[Hashable, list[asyncio.Future[BaseException | None]]] = {}
        self._results: dict[Hashable, Any] = {}
        self._errors: dict[Hashable, tuple[BaseException, TracebackType | None]] = {}

    async def get(self, key: Hashable, compute: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a key; if there is none yet, compute it or wait until another caller has computed it."""
        stored_key = self._compact(key)
        while stored_key not in self._results:
            if stored_key in self._errors:
                error, traceback = self._errors[stored_key]
                # One error may be raised by many scores. Without the reset, its traceback would grow each time.
                raise error.with_traceback(traceback)
            if stored_key in self._waiters:
                await self._wait(stored_key)
            else:
                await self._run(stored_key, compute)
        result: T = self._results[stored_key]
        return result

    async def _wait(self, stored_key: Hashable) -> None:
        """Wait until the computation has ended or was cancelled; raise its error, if any."""
        # Without an event loop, the first may be an example of the same block that has paused.
        while stored_key in self._waiters and await let_others_run():
            pass
        if stored_key in self._waiters:
            await require_loop()
        if stored_key not in self._waiters:
            return
        import asyncio  # noqa: PLC0415 - most runs of ranking scores have no event loop

        waiter: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self._waiters[stored_key].append(waiter)
        error = await waiter
        if error is not None:
            raise error

    async def _run(self, stored_key: Hashable, compute: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        failure: BaseException | None = None
        waiters = self._waiters[stored_key] = []
        try:
            self._results[stored_key] = await compute()
        except BaseException as error:
            if ends_task(error) or is_fatal(error):
                raise
            failure = error
            # Errors of the user's code are not stored, because the code may work in a later test. Without an event loop
            # other errors are not stored either, because a signal handler may raise any exception here.
            is_ours = isinstance(error, RagevalError | Unscored)
            if (is_ours or not is_inline()) and not isinstance(error, CallableError):
                # Our errors are shown without a traceback. Thousands of tracebacks would keep coroutine frames alive.
                self._errors[stored_key] = error, None if is_ours else error.__traceback__
            raise
        finally:
            del self._waiters[stored_key]
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(failure)

    def has_started(self, key: Hashable) -> bool:
        """Whether the result of a key is computed or being computed, or its error is stored."""
        stored_key = self._compact(key)
        return stored_key in self._results or stored_key in self._errors or stored_key in self._waiters

    def get_if_done(self, key: Hashable) -> Any:
        """Return the result of a key, or None if there is no result yet."""
        return self._results.get(self._compact(key))


def digest_key(key: Any) -> bytes:
    try:
        # Version 2 of the format has no references, so equal keys have equal bytes.
        data = marshal.dumps(key, 2)
    except ValueError:
        data = repr(_plain_key(key)).encode(errors="surrogatepass")
    # A bytes object of 15 bytes takes 48 bytes of memory, one of 16 bytes takes 64.
    return blake2b(data, digest_size=15).digest()


def _plain_key(key: Hashable) -> Hashable:
    """Return a key whose texts are plain strings; a question with a history becomes a tuple with its messages."""
    if isinstance(key, tuple):
        return tuple(map(_plain_key, key))
    if isinstance(key, QuestionWithHistory) and key.history:
        return "after", tuple(tuple(sorted(message.items())) for message in key.history), str(key)
    return str(key) if isinstance(key, str) else key


FIELDS: Final = 6  # of a document


class SpooledDocuments(CreatedDocuments):
    """Documents in a spool: a run keeps those of all questions, and a report shows few of them."""

    __slots__ = ("_place", "_spool")

    def __init__(self, documents: Sequence[Document], spool: Spool) -> None:
        super().__init__(
            len(documents),
            textless=len(
                [document for document in documents if not document.text or document.text.isspace()]
            ),
            has_chunk_ids=[document.chunk_id for document in documents].count(None) < len(documents),
        )
        self._spool = spool
        # The spool checks the values of one flat list at once. Most documents have no metadata and no span.
        self._place = spool.put(
            [
                value
                for document in documents
                for value in (
                    document.id,
                    document.text,
                    document.score,
                    document.metadata or None,
                    document.chunk_id,
                    document.span and tuple(document.span),
                )
            ]
        )

    @property
    def ids(self) -> tuple[str | None, ...]:
        return tuple(self._spool.get(self._place)[::FIELDS])

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._spool.get(self._place)[1::FIELDS])

    def create(self) -> tuple[Document, ...]:
        values = iter(self._spool.get(self._place))
        return tuple(
            [
                Document(text, name, score, metadata or {}, span and Span(*span), chunk_id)
                for name, text, score, metadata, chunk_id, span in zip(*[values] * FIELDS, strict=True)
            ]
        )


def spooled(ranking: Ranking, spool: Spool) -> Ranking:
    """Move the documents of a new ranking, with those of its steps and stages, to a spool; return the ranking.

    Documents of a subclass, which may have more attributes, stay in memory.
    """
    documents = ranking.documents
    if isinstance(documents, CreatedDocuments) and not (ranking.steps or ranking.stages):
        return ranking
    if not isinstance(documents, CreatedDocuments) and {Document}.issuperset(map(type, documents)):
        # Nobody else has the ranking yet, and a copy takes longer than anything else here.
        object.__setattr__(ranking, "documents", SpooledDocuments(documents, spool))
    for part in (*(ranking.steps or ()), *(ranking.stages or ())):
        spooled(part, spool)
    return ranking


class Rankings:
    """A retriever, with all rankings that it has returned in this run. A repeat, which asks models again, shares them.

    Rankings are not stored beyond the run: the retriever is under test, so every run calls it. `cached_replies` returns
    the number of model replies of this run that came from the cache.
    """

    def __init__(self, retriever: "Retriever", cached_replies: Callable[[], int], spool: Spool) -> None:
        self._retriever, self._cached_replies, self._spool = retriever, cached_replies, spool
        # By k.
        self._rankings: defaultdict[int, SingleFlight] = defaultdict(
            partial(SingleFlight, _compact_ranking_key)
        )
        # For the display of progress.
        self.finished: int = 0
        self._started = 0
        # Hashes, because 100,000 questions may be waiting at once and only their number is needed.
        self._expected: set[int] = set()
        # Hashes of the retrievals during which a model reply came from the cache, for the retriever or for another
        # caller. The array is moved to the set when the set is needed, which is only in runs that measure latency.
        self._overlapped_cached_reply: set[int] = set()
        self._new_overlaps = array("q")

    @cached_property
    def timing_lock(self) -> "asyncio.Lock":
        """Held while a retrieval is timed."""
        import asyncio  # noqa: PLC0415 - as above

        return asyncio.Lock()

    async def get(self, query: Query, k: int) -> Ranking:
        """Return the retriever's ranking for k documents; InputError for filters that it does not accept."""
        key = self._retriever.key(query)
        ranking = await self._rankings[k].get(key, lambda: self._retrieve(key, query, k))
        # The attribute is not set by the retriever, because a question without a history may share the ranking.
        without_history = (
            isinstance(query, Example)
            and query.history
            and not self._retriever.context_names & {"history", "example"}
        )
        return replace(ranking, without_history=True) if without_history else ranking

    def known(self, query: Query, k: int) -> Ranking | None:
        """Return the ranking if it was retrieved already; None if it was not, or if the retriever failed."""
        return cast("Ranking | None", self._rankings[k].get_if_done(self._retriever.key(query)))

    @property
    def total(self) -> int:
        return self._started + len(self._expected)

    @contextmanager
    def expect(self, examples: Iterable[Example], k: int) -> Iterator[None]:
        """Count the rankings of examples as expected, before they are requested."""
        hashes, expected = set(), []
        for example in examples:
            try:
                key = self._retriever.key(example)
            except InputError:
                continue  # the retriever does not accept the example: `get` will raise this error
            if not self._rankings[k].has_started(key):
                hashes.add(hash((key, k)))
                expected.append(example)
        self._expected |= hashes
        self._retriever.expect(expected, k)
        try:
            yield
        finally:
            # If the run was interrupted, some of the rankings were not requested. A new set is created, because a set
            # does not shrink in memory when its items are removed.
            self._expected = self._expected - hashes

    async def _retrieve(self, key: Hashable, query: Query, k: int, *, alone: bool = False) -> Ranking:
        self._started += 1
        retrieval = hash((key, k))
        self._expected.discard(retrieval)
        is_first, cached_before = self._started == 1, self._cached_replies()
        try:
            ranking = await self._retriever.retrieve(query, k, alone=alone)
        finally:
            self.finished += 1
        if self._cached_replies() > cached_before:
            self._new_overlaps.append(retrieval)
        ranking = spooled(ranking, self._spool)
        # The first call also opens connections and loads models, so its duration is not that of a retrieval.
        return replace(ranking, seconds=None) if is_first and not self._retriever.replays else ranking

    async def retrieve_alone(self, query: Query, k: int) -> Ranking:
        return await self._retrieve(self._retriever.key(query), query, k, alone=True)

    def overlapped_cached_reply(self, query: Query, k: int) -> bool:
        """Whether a model reply came from the cache during a retrieval, for the retriever or another caller."""
        self._overlapped_cached_reply.update(self._new_overlaps)
        del self._new_overlaps[:]
        return hash((self._retriever.key(query), k)) in self._overlapped_cached_reply


def _compact_ranking_key(key: tuple[str, str]) -> Hashable:
    """Return the question, or if there is a context a digest of both.

    The question needs no digest: the example has the same object, so it takes no further memory.
    """
    question, context = key
    return digest_key(key) if context else question
