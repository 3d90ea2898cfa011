"""`Gateway`: returns cached replies to requests, and obtains each missing reply once.

`sources` has the classes that obtain missing replies.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pytest_rageval.calls.gathering import is_inline, let_others_run, require_loop
from pytest_rageval.core.errors import RagevalError, Unscored
from pytest_rageval.models.budget import Budget
from pytest_rageval.models.cache import Cache
from pytest_rageval.models.client import Server
from pytest_rageval.models.messages import FIRST_RUN_LOCAL_SAMPLE, Reply, Request
from pytest_rageval.models.prices import Prices
from pytest_rageval.models.sources import GatewaySettings, LiveSource, PlanSource, ReplaySource, Source
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.summaries import request_summary
from pytest_rageval.models.usage import Usage

__all__ = ["Gateway", "GatewaySettings"]

CASSETTE_OVERRULED: Final = (
    "the cassette and the cache have different replies; the one in the cache is used (`rageval cache import --replace "
    "CASSETTE` takes over the cassette's)"
)

BUCKETS: Final = 1 << 10  # of a `_KeySet`; more buckets make each one shorter, and a search in it faster

READ_AGAIN: Final[ContextVar[dict[str, int] | None]] = ContextVar("READ_AGAIN", default=None)
"""While results are computed again from replies that this run has: the tokens of each reply, by its key."""


class Gateway:
    """Sends requests to models; used from one event loop.

    Requests with the same key are sent once. Requests that arrive in one iteration of the event loop share one look-up.
    `run_number` returns the number of the current call of `BackgroundEventLoop.run`.
    """

    def __init__(self, settings: GatewaySettings, run_number: Callable[[], int] = lambda: 0) -> None:
        self.settings = settings
        self._run_number = run_number
        self._counted_run = 0
        self._counted_keys = _KeySet()
        # By key, the entries of all used replies; only with `GatewaySettings.keeps_replies`.
        self.used: dict[str, Entry] = {}
        self.serves_application = False
        self.cache: Cache = Cache(
            settings.open_store or settings.cache_dir,
            settings.cassette,
            run=settings.run,
            missing_ok=settings.keeps_replies,
            refresh=settings.sends_again,
            replay=settings.mode == "replay",
        )
        self.usage: Usage = Usage(remarks=self.cache.remarks)
        # By model and base URL, the names that the server reported for the model.
        self.served: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self.source: Source = self._make_source(Prices.load(settings.prices))
        # A separate future for each caller: cancelling one caller must not cancel the others.
        self._callers: defaultdict[str, list[asyncio.Future[Reply]]] = defaultdict(list)
        # With each request, whether it counts even if its reply is cached.
        self._queue: list[tuple[Server, Request, bool]] = []
        # asyncio itself holds only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    def _make_source(self, prices: Prices) -> Source:
        settings = self.settings
        if settings.mode == "plan":
            return PlanSource(prices, self.usage, settings.tiers)
        if settings.mode == "replay":
            return ReplaySource(self.cache)
        patience_s = 2 * max(settings.policy.timeout_s, settings.max_timeout_s)
        make_budget = partial(Budget, prices=prices, patience_s=patience_s)
        make_source = settings.make_source or LiveSource
        return make_source(self.cache, make_budget, self.usage, settings)

    async def get_reply(self, server: Server, request: Request) -> Reply:
        """Return the reply to a request: from the cache, the cassette or the source.

        Raises:
            Unscored: this request failed; the reason.
            RagevalError: no request can be answered: no server, a wrong key, an unusable cache, no budget.
        """
        return await self._get_reply(server, request, lambda: True)

    async def get_reply_for_score(self, server: Server, request: Request) -> Reply:
        """Return the same as `get_reply`, for the generator and the judge.

        A cached reply is returned without waiting. Within one call of `BackgroundEventLoop.run`, `Usage` counts each
        request once, even if several scores send it.
        """
        if (tokens := READ_AGAIN.get()) is not None:
            return await self._read_again(request, tokens)
        replies = await self.get_cached_replies(request, (request.sample,))
        if replies is not None:
            return replies[0]
        return await self._get_reply(server, request, lambda: bool(self._new_keys([request.key])))

    async def _read_again(self, request: Request, tokens: dict[str, int]) -> Reply:
        """Return a reply of this run, uncounted; Unscored if there is none, as after a failure."""
        reply = (await self.cache.look_up([request.key])).get(request.key)
        if reply is None:
            recorded = self.cache.cassette.find_at_other_address(request, self.settings.base_urls)
            if recorded is None:
                raise Unscored("the run has no reply to this request")
            reply = recorded.reply
        tokens[request.key] = reply.tokens_in + reply.tokens_out
        return reply

    async def _get_reply(self, server: Server, request: Request, counts: Callable[[], bool]) -> Reply:
        await require_loop()
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if request.key not in self._callers:
            if not self._queue:
                asyncio.get_running_loop().call_soon(self._start_queue)
            self._queue.append((server, request, counts()))
        self._callers[request.key].append(future)
        return await future

    async def get_cached_replies(self, request: Request, samples: Sequence[int]) -> list[Reply] | None:
        """Return the replies to a request in these samples; None unless all of them can be read without waiting.

        For the generator and the judge; counted as by `get_reply_for_score`. Without an event loop, the replies to the
        examples of a block are read in one look-up.
        """
        if READ_AGAIN.get() is not None:
            return None
        keys = request.keys_for_samples(samples)
        if is_inline():
            self.cache.read_soon(keys)
            await let_others_run()
        sample_of = dict(zip(keys, samples, strict=True))
        if self._callers and not self._callers.keys().isdisjoint(sample_of):
            return None
        replies = self.cache.get_nowait(list(sample_of))
        if len(replies) < len(sample_of):
            return None
        new = self._new_keys(sample_of)
        count = len(new)
        self.usage.requests += count
        self.usage.cached += count
        for key in new:
            self._remark(request, key, replies[key])
            if self.settings.keeps_replies:
                self.record(replace(request, sample=sample_of[key]), replies[key])
        return [replies[key] for key in keys]

    def _new_keys(self, keys: Iterable[str]) -> list[str]:
        """Count these keys in this call of `BackgroundEventLoop.run`; return those that were not yet counted in it."""
        if (run := self._run_number()) != self._counted_run:
            self._counted_run, self._counted_keys = run, _KeySet()
        return self._counted_keys.add(keys)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.source.close()
        await self.cache.drain()
        # A shared store may take seconds to close, and the loop must not seem to be blocked.
        await asyncio.to_thread(self.cache.close)

    def _start_task(self, work: Coroutine[Any, Any, None], requests: Sequence[Request]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._end_task, requests))

    def _end_task(self, requests: Sequence[Request], task: asyncio.Task[None]) -> None:
        """Forget a task; if it was cancelled, even before its first step, cancel the callers of its requests."""
        self._tasks.discard(task)
        if task.cancelled():
            for request in requests:
                for future in self._callers.pop(request.key, ()):
                    future.cancel()

    def _start_queue(self) -> None:
        queue, self._queue = self._queue, []
        self._start_task(self._process_queue(queue), [request for _, request, _ in queue])

    async def _process_queue(self, queue: Sequence[tuple[Server, Request, bool]]) -> None:
        """Resolve all queued requests whose replies are cached, and start a task for each of the others."""
        try:
            replies = await self.cache.look_up([request.key for _, request, _ in queue])
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised to the callers
            self.usage.requests += len(queue)
            self.usage.failed += len(queue)
            for _, request, _ in queue:
                self._resolve(request, error)
            return
        for server, request, counts in queue:
            reply, recorded = replies.get(request.key), None
            if reply is None:
                recorded = self.cache.cassette.find_at_other_address(request, self.settings.base_urls)
                reply = self.source.planned_reply(request) if recorded is None else recorded.reply
            if reply is not None:
                self.usage.requests += counts
                self.usage.cached += counts
                self._resolve(request, reply, recorded)
            else:
                self.usage.requests += 1
                self._start_task(self._obtain(server, request), [request])

    async def _obtain(self, server: Server, request: Request) -> None:
        try:
            reply = await self.source.obtain(server, request)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised to the callers
            self.usage.failed += isinstance(error, RagevalError | Unscored)
            self._resolve(request, error)
        else:
            self._resolve(request, reply)

    def _resolve(
        self, request: Request, outcome: Reply | BaseException, recorded: Entry | None = None
    ) -> None:
        """Pass the outcome to all callers; `recorded` is the entry if it was recorded at another address."""
        for future in self._callers.pop(request.key):
            if future.done():
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        # Last: the callers have the reply even if remarks or the recording fail.
        if not isinstance(outcome, BaseException):
            self._remark(request, request.key, outcome, recorded)
            self.record(request, outcome, recorded)

    def address(self, model: str, base_url: str) -> str:
        """Return the base URL that a model's replies come from: that of the cassette, if it has one address for it."""
        return self.cache.cassette.address(model, base_url, self.settings.base_urls)

    def record(self, request: Request, reply: Reply, recorded: Entry | None = None) -> None:
        """With `keeps_replies`, put a reply into `used`: as `recorded` if that is given, or as a new entry."""
        if not self.settings.keeps_replies or request.sample >= FIRST_RUN_LOCAL_SAMPLE:
            return
        if recorded is None:
            summary = request_summary(request, prompts=self.settings.record_prompts)
            recorded = Entry(request.key, reply, summary)
        self.used[recorded.key] = recorded

    def _remark(self, request: Request, key: str, reply: Reply, recorded: Entry | None = None) -> None:
        if reply.cut:
            self.usage.cut += 1
        if reply.has_reasoning and request.is_internal:
            self.usage.remarks[f"{request.model} reasons before it answers: its reasoning is not read"] += 1
        if reply.model and not request.base_url.startswith("embedded"):
            self.served[request.model, request.base_url].add(reply.model)
        if self.settings.cassette is not None and self.cache.cassette.differs(key, reply):
            self.usage.remarks[CASSETTE_OVERRULED] += 1
        if recorded is not None:
            addresses = f"recorded at {recorded.summary['base_url']}, used for {request.base_url}"
            same = f"the model's name, {request.model}, is the same"
            self.usage.remarks[f"{addresses}: {same} (--rageval-refresh sends the requests again)"] += 1
        if reply.without:
            self.usage.remarks[f"{request.model} refuses {reply.without}: sent without it"] += 1


class _KeySet:
    """A set of keys, stored as their 8-byte hashes to save memory.

    A run of 100,000 examples has 500,000 keys. A hash in the `bytearray` of its bucket takes 8 bytes; a number in a
    Python set takes 80.
    """

    def __init__(self) -> None:
        self._buckets: defaultdict[int, bytearray] = defaultdict(bytearray)

    def add(self, keys: Iterable[str]) -> list[str]:
        new = []
        for key in keys:
            number = hash(key)
            bucket, encoded = self._buckets[number % BUCKETS], number.to_bytes(8, "little", signed=True)
            if encoded not in bucket:
                bucket += encoded
                new.append(key)
        return new
