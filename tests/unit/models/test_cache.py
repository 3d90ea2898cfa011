"""The reply cache: look-ups, and claims that decide which process requests a missing reply."""

import asyncio
import contextlib
import dis
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pytest_rageval.core.errors import StoreError
from pytest_rageval.models.cache import DAMAGED, Cache
from pytest_rageval.models.cassette import write_cassette
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.stores import sqlite as sqlite_claims
from pytest_rageval.models.stores import sqlite_file
from pytest_rageval.models.stores.interface import Entry, Spending
from pytest_rageval.models.stores.sqlite_file import FILE
from pytest_rageval.models.summaries import request_summary
from tests.unit.models.scripted import until

Caches = Callable[..., Cache]


@pytest.fixture
def caches(tmp_path: Path) -> Iterator[Caches]:
    made: list[Cache] = []

    def make(cassette: Path | None = None, **options: Any) -> Cache:
        made.append(Cache(options.pop("folder", tmp_path / "cache"), cassette, **options))
        return made[-1]

    yield make
    for cache in made:
        cache.close()


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    file = tmp_path / "replies.jsonl"
    write_cassette(file, [Entry("a", Reply("recorded a"), {"model": "m"}), Entry("b", Reply("recorded b"))])
    return file


async def _keep(cache: Cache, *entries: Entry) -> None:
    await asyncio.gather(*map(cache.keep, entries))


@contextlib.contextmanager
def _other_process(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "cache" / FILE, isolation_level=None)
    yield connection
    connection.close()


async def _statements(cache: Cache, work: Awaitable[object]) -> list[str]:
    executed: list[str] = []
    connection = cache.store.database._connection
    connection.set_trace_callback(executed.append)
    await work
    connection.set_trace_callback(None)
    return [statement.split()[0] for statement in executed if not statement.startswith("-- ")]


async def test_entries_cached_in_one_turn_are_one_transaction(caches: Caches) -> None:
    """100 replies that are stored in one iteration of the event loop are written in one transaction."""
    cache = caches()
    statements = await _statements(cache, _keep(cache, *(Entry(str(n), Reply("x")) for n in range(100))))
    assert statements.count("BEGIN") == statements.count("COMMIT") == 1
    assert statements.count("INSERT") == 100


async def test_claims_of_one_turn_are_one_transaction(caches: Caches) -> None:
    """100 claims in one iteration of the event loop are one transaction, which no other process can interrupt."""
    cache = caches()

    async def claim() -> None:
        claimed = await asyncio.gather(*(cache.claim(str(number)) for number in range(100)))
        assert claimed == [True] * 100

    statements = await _statements(cache, claim())
    assert statements.count("BEGIN") == statements.count("COMMIT") == statements.count("INSERT") == 1


async def test_one_of_two_processes_asks(caches: Caches) -> None:
    """If two processes claim a key, the second waits until the first has stored the reply, and then finds it."""
    one, other = caches(), caches()
    assert await one.claim("k") is True
    assert await other.claim("k") is False
    waiting = asyncio.create_task(other.wait_for_other("k"))
    await asyncio.sleep(0.15)
    assert not waiting.done()
    await one.keep(Entry("k", Reply("x")))
    await waiting
    assert [await other.claim("k"), await one.claim("k")] == [Reply("x"), Reply("x")]
    assert await other.look_up(["k"]) == {"k": Reply("x")}


async def test_after_a_release_another_process_sends_the_request(caches: Caches) -> None:
    one, other = caches(), caches()
    await one.claim("k")
    waiting = asyncio.create_task(other.wait_for_other("k"))
    one.release("k")
    await waiting
    assert await other.claim("k") is True
    assert await other.look_up(["k"]) == {}


async def test_after_closing_another_process_sends_the_request(caches, monkeypatch):
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 3600.0)
    one, other = caches(), caches()
    await one.claim("k")
    assert await other.claim("k") is False
    one.close()
    await other.wait_for_other("k")
    assert await other.claim("k") is True


@pytest.mark.slow
async def test_the_claim_of_a_dead_process_is_taken_over(
    caches: Caches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 1.0)
    # No claim is renewed, as if the process had been killed.
    monkeypatch.setattr(sqlite_claims.LocalStore, "_start_renewing", lambda _: None)
    dead, one, other = caches(), caches(), caches()

    async def ask(cache: Cache) -> object:
        while not (claimed := await cache.claim("k")):
            await cache.wait_for_other("k")
        if claimed is True:
            # The new claim must not expire while the machine is busy.
            monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 3600.0)
            await cache.keep(Entry("k", Reply("x")))
        return claimed

    began = time.monotonic()
    await dead.claim("k")
    replies = await asyncio.gather(ask(one), ask(other))
    assert time.monotonic() - began >= 1.0
    assert sorted(replies, key=str) == [Reply("x"), True]


async def test_a_process_knows_when_its_claim_was_taken_over(caches, monkeypatch):
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 0.1)
    monkeypatch.setattr(sqlite_claims.LocalStore, "_start_renewing", lambda _: None)
    stopped, other = caches(), caches()
    await stopped.claim("k")
    before = await stopped.holds_claim("k")
    await other.wait_for_other("k")
    assert await other.claim("k") is True
    assert [
        before,
        await stopped.holds_claim("k"),
        await other.holds_claim("k"),
        await stopped.others_active(),
    ] == [True, False, True, True]


async def test_those_who_wait_look_together(caches: Caches) -> None:
    """A process that waits for 100 replies of another process checks all of their claims with one SELECT at a time."""
    one, other = caches(), caches()
    keys = [str(number) for number in range(100)]

    async def wait() -> None:
        await asyncio.gather(*map(one.claim, keys))
        waiting = asyncio.gather(*map(other.wait_for_other, keys))
        await asyncio.sleep(0.12)
        await asyncio.gather(*(one.keep(Entry(key, Reply("x"))) for key in keys))
        await waiting

    statements = await _statements(other, wait())
    assert 1 <= len(statements) <= 50  # separate checks would be a hundred at a time
    assert set(statements) == {"SELECT"}


async def test_a_waiter_that_is_cancelled_does_not_disturb_the_others(caches: Caches) -> None:
    one, other = caches(), caches()
    await one.claim("k")
    waiting = [asyncio.create_task(other.wait_for_other("k")) for _ in range(3)]
    await asyncio.sleep(0.01)
    waiting[0].cancel()
    await asyncio.sleep(0.01)
    one.release("k")
    gone, *rest = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(gone, asyncio.CancelledError)
    assert rest == [None, None]


@pytest.mark.parametrize(
    "use", [lambda cache: cache.claim("k"), lambda cache: cache.keep(Entry("k", Reply("")))]
)
async def test_concurrent_callers_get_the_same_error(caches, tmp_path, use):
    (tmp_path / "file").touch()
    cache = caches(folder=tmp_path / "file" / "cache")
    tasks = [asyncio.ensure_future(use(cache)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    cancelled, *errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [type(error) for error in errors] == [StoreError, StoreError]


async def test_recorded_replies_are_looked_up_after_cached_ones(caches: Caches, cassette: Path) -> None:
    cache = caches(cassette)
    await _keep(cache, Entry("a", Reply("kept a")))
    assert await cache.look_up(["a", "b", "c"]) == {"a": Reply("kept a"), "b": Reply("recorded b")}


def test_the_address_of_a_model_is_that_of_the_cassette(caches: Caches, tmp_path: Path) -> None:
    """The name of an embedded model is no address."""
    here, there, third = (
        Request(f"http://{host}/v1", "m", ({"role": "user", "content": "Why?"},)) for host in ("a", "b", "c")
    )
    recorded = [Entry(r.key, Reply(text), request_summary(r)) for r, text in ((there, "x"), (third, "y"))]
    write_cassette(tmp_path / "c.jsonl", recorded)
    used, ignored = caches(tmp_path / "c.jsonl").cassette, [third.base_url]
    assert used.address("m", here.base_url, ignored) == there.base_url
    assert used.address("m", here.base_url, []) == here.base_url
    assert used.address("m", third.base_url, ignored) == third.base_url
    assert used.address("m", "embedded", ignored) == "embedded"
    differ = [used.differs(key, Reply("x")) for key in (there.key, third.key, here.key)]
    assert differ == [False, True, False]


async def test_an_unusable_folder_does_no_harm_where_all_is_recorded(caches, tmp_path, cassette):
    (tmp_path / "file").touch()
    cache = caches(cassette, folder=tmp_path / "file" / "cache")
    assert cache.get_nowait(["a"]) == {}
    assert await cache.look_up(["b", "a"]) == {"a": Reply("recorded a"), "b": Reply("recorded b")}
    assert list(cache.summaries()) == [{"model": "m"}, {}]
    with pytest.raises(StoreError, match="is a file, not a folder"):
        await cache.look_up(["a", "c"])


async def test_a_damaged_entry_is_a_miss_and_is_reported(
    caches: Caches, tmp_path: Path, cassette: Path
) -> None:
    cache = caches(cassette)
    await _keep(cache, Entry("a", Reply("kept a")), Entry("c", Reply("kept c")))
    with _other_process(tmp_path) as other:
        other.execute("UPDATE replies SET text = 'x'")
    for _ in range(2):
        assert await cache.look_up(["a", "b", "c"]) == {"a": Reply("recorded a"), "b": Reply("recorded b")}
    assert cache.remarks == {DAMAGED: 2}
    assert await cache.claim("c") is True
    await _keep(cache, Entry("c", Reply("asked again")))
    assert await cache.look_up(["c"]) == {"c": Reply("asked again")}
    assert cache.remarks == {DAMAGED: 2}


async def test_an_empty_reply_counts_only_in_its_own_run(caches: Caches) -> None:
    """A cut answer, a tool call and an answer after reasoning are no empty replies. A replay finds all."""
    empty = {
        "k": Reply(" \n", "m"),
        "refused": Reply("", refusal="no"),
        "cut": Reply("", "m", "length"),
        "withheld": Reply("", "m", "content_filter"),
        "reasoned": Reply("<think>Well</think>\n"),
        "reasoned without end": Reply("<think>Well", "m", "length"),
        "reasoned, tag removed": Reply("Well</think>"),
        "odd space": Reply("\u00a0"),
        "response": Reply('{"choices":[{"message":{"content":null,"refusal":"no"}}]}'),
        "response without content": Reply('{"choices":[{"message":{"role":"assistant"}}]}'),
        "response of reasoning": Reply('{"choices":[{"message":{"content":"<think>Well"}}]}'),
        "response of parts": Reply('{"choices":[{"message":{"content":[{"text":"","type":"text"}]}}]}'),
        "reasoning of the other API": Reply('{"output":[{"type":"reasoning"}]}'),
        "refusal of the other API": Reply(
            '{"output":[{"content":[{"refusal":"no","type":"refusal"}],"type":"message"}]}'
        ),
    }
    full = {
        "cut later": Reply("It is", "m", "length"),
        "called": Reply("", "m", tool_calls="[{}]"),
        "reasoned before": Reply("<think>Well</think>no"),
        "response with an answer": Reply('{"choices":[{"message":{"content":"no"}}]}'),
        "response with a second choice": Reply('{"choices":[{"message":{}},{"message":{"content":"no"}}]}'),
        "response with a call": Reply('{"choices":[{"message":{"content":null,"tool_calls":[{}]}}]}'),
        "response with sound": Reply('{"choices":[{"message":{"audio":{"id":"a"},"content":null}}]}'),
        "response with a picture": Reply('{"choices":[{"message":{"content":[{"type":"image_url"}]}}]}'),
        "call of the other API": Reply('{"output":[{"name":"f","type":"function_call"}]}'),
        "an object": Reply('{"choices":[]}'),
        "another object": Reply('{"grade": 4}'),
        "an odd object": Reply('{"choices":[7]}'),
    }
    one, other, next_run = caches(run="1"), caches(run="1"), caches(run="2")
    replay = caches(run="2", replay=True)
    await _keep(one, *(Entry(key, reply) for key, reply in (empty | full).items()))
    keys = [*empty, *full]
    assert await one.look_up(keys) == await other.look_up(keys) == await replay.look_up(keys) == empty | full
    assert one.get_nowait(keys) == other.get_nowait(keys) == replay.get_nowait(keys) == empty | full
    assert await next_run.look_up(keys) == next_run.get_nowait(keys) == full
    assert await next_run.claim("k") is True
    await _keep(next_run, Entry("k", Reply("at last")))
    assert await one.look_up(["k"]) == await next_run.look_up(["k"]) == {"k": Reply("at last")}


async def test_an_empty_reply_on_a_cassette_counts_unless_recording(caches: Caches, tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    write_cassette(file, [Entry("k", Reply(""))])
    assert await caches(file).look_up(["k"]) == {"k": Reply("")}
    assert await caches(file, missing_ok=True).look_up(["k"]) == {}


async def test_a_refresh_finds_only_what_its_run_has_asked(caches: Caches, cassette: Path) -> None:
    await _keep(caches(), Entry("a", Reply("old")))
    cache, other = caches(cassette, refresh=True, run="1"), caches(cassette, refresh=True, run="1")
    await _keep(other, Entry("c", Reply("new")))
    assert await cache.look_up(["a", "b", "c"]) == {"c": Reply("new")}
    assert await asyncio.gather(*map(cache.claim, "abc")) == [True, True, Reply("new")]
    await _keep(cache, Entry("a", Reply("asked again")))
    assert (
        await cache.look_up(["a"])
        == await other.look_up(["a"])
        == await caches().look_up(["a"])
        == {"a": Reply("asked again")}
    )


async def test_a_refresh_needs_no_cassette(caches: Caches, tmp_path: Path) -> None:
    assert await caches(tmp_path / "missing.jsonl", refresh=True).look_up(["a"]) == {}


async def test_a_missing_cassette_is_an_error_unless_it_is_to_be_written(
    caches: Caches, tmp_path: Path
) -> None:
    """A missing cassette raises StoreError, because its name may be misspelled, unless the run writes it."""
    missing = tmp_path / "missing.jsonl"
    with pytest.raises(StoreError, match=r"does not exist\.\nRecord it: pytest --rageval-record"):
        await caches(missing).look_up(["a"])
    assert await caches(missing, missing_ok=True).look_up(["a"]) == {}


async def test_outlines_are_those_of_all_that_is_kept(caches: Caches, cassette: Path) -> None:
    cache = caches(cassette)
    await _keep(cache, Entry("c", Reply("kept"), {"model": "n"}))
    assert list(cache.summaries()) == [{"model": "m"}, {}, {"model": "n"}]


def test_an_unused_cache_makes_no_folder(caches: Caches, tmp_path: Path, cassette: Path) -> None:
    caches(cassette).close()
    assert [path.name for path in tmp_path.iterdir()] == [cassette.name]


async def test_a_late_reply_does_not_replace_one_that_may_be_in_use(caches, monkeypatch):
    """The process whose claim expired gets the reply that another has stored since."""
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 0.0)
    slow, quick = caches(), caches()
    assert await slow.claim("k") is True
    assert await quick.claim("k") is True
    first = await quick.keep(Entry("k", Reply("first")))
    assert [first, await slow.keep(Entry("k", Reply("late")))] == [Reply("first"), Reply("first")]
    assert await quick.look_up(["k"]) == {"k": Reply("first")}


async def test_a_claim_that_nobody_waits_for_blocks_no_other(caches, monkeypatch):
    """If a task is cancelled while it claims a key, the claim is released for other processes."""
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 3600.0)
    one, other = caches(), caches()
    claiming = asyncio.create_task(one.claim("k"))
    await asyncio.sleep(0)
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)
    await other.wait_for_other("k")
    assert await other.claim("k") is True


async def test_another_process_that_writes_stalls_no_request_in_flight(
    caches: Caches, tmp_path: Path
) -> None:
    cache = caches()
    await cache.look_up(["k"])
    other = sqlite3.connect(tmp_path / "cache" / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = [
        asyncio.ensure_future(use)
        for use in (cache.claim("k"), cache.keep(Entry("l", Reply("x"))), cache.spend("r", Spending(1)))
    ]
    cache.release("m")
    for _ in range(50):
        await asyncio.sleep(0.002)
    assert not any(future.done() for future in waiting)
    other.execute("ROLLBACK")
    assert await asyncio.gather(*waiting) == [True, Reply("x"), None]
    other.close()


@pytest.mark.parametrize("options", [{}, {"run": "1"}, {"run": "1", "refresh": True}])
async def test_replies_at_hand_are_those_that_a_look_up_finds(caches, tmp_path, cassette, options):
    await _keep(caches(run="2"), Entry("a", Reply("kept")), Entry("c", Reply("")))
    await _keep(caches(run="1"), Entry("d", Reply("")), Entry("damaged", Reply("x")))
    with _other_process(tmp_path) as other:
        other.execute("UPDATE replies SET text = 'y' WHERE key = 'damaged'")
    keys = ["a", "b", "c", "d", "e", "damaged"]
    at_once, looked_up = caches(cassette, **options), caches(cassette, **options)
    replies: dict[str, Reply] = {}
    for key in keys:
        replies |= at_once.get_nowait([key])
    assert replies == at_once.get_nowait(keys) == await looked_up.look_up(keys) != {}
    assert at_once.remarks == looked_up.remarks == {DAMAGED: 1}


async def test_another_process_that_writes_does_not_block_a_look_up(caches: Caches, tmp_path: Path) -> None:
    cache = caches()
    await _keep(cache, Entry("k", Reply("x")))
    other = sqlite3.connect(tmp_path / "cache" / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert cache.get_nowait(["k"]) == {"k": Reply("x")}
    waiting = asyncio.ensure_future(cache.keep(Entry("l", Reply("y"))))
    await until(cache._store_lock.locked)
    assert cache.get_nowait(["k"]) == {}
    other.execute("ROLLBACK")
    await waiting
    assert cache.get_nowait(["k", "l"]) == {"k": Reply("x"), "l": Reply("y")}
    other.close()


async def test_at_hand_an_interrupt_at_any_moment_leaves_the_store_free(caches: Caches) -> None:
    cache = caches()
    await _keep(cache, Entry("k", Reply("x")))
    code, calls = Cache.get_nowait.__code__, 0

    def interrupted(nth: int) -> bool:
        left, called = nth, False

        def trace(frame: FrameType, event: str, _: object) -> Any:
            nonlocal left, called
            if frame.f_code is not code:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                left -= called
                if called and left < 0:
                    raise KeyboardInterrupt
                called = dis.opname[code.co_code[frame.f_lasti]].startswith("CALL")
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return cache.get_nowait(["k"]) != {"k": Reply("x")}
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)

    while interrupted(calls):
        calls += 1
        assert not cache._store_lock.locked()
    assert calls > 3


async def test_closing_waits_for_what_is_read(caches: Caches) -> None:
    cache = caches()
    await _keep(cache, Entry("k", Reply("x")))
    store, closed = cache.store, threading.Event()
    closing = threading.Thread(target=lambda: (cache.close(), closed.set()))
    with cache._store_lock:
        closing.start()
        assert not closed.wait(0.2)
        assert cache.store is store
    closing.join(60)
    assert closed.is_set()


async def test_no_reply_is_at_hand_while_readers_wait(
    caches: Caches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a drive without SQLite's write-ahead log, a reader may wait for a writer, so `get_nowait` returns nothing."""
    monkeypatch.setattr(sqlite_file, "_switch_to_wal", lambda _: None)
    cache = caches()
    await _keep(cache, Entry("k", Reply("x")))
    assert cache.get_nowait(["k"]) == {}
    assert await cache.look_up(["k"]) == {"k": Reply("x")}


async def test_cached_replies_outlive_their_folder_in_a_run(caches: Caches, tmp_path: Path) -> None:
    """If the folder is deleted during a run, stored replies are still found, and the next write restores it."""
    cache = caches()
    await _keep(cache, Entry("k", Reply("x")))
    shutil.rmtree(tmp_path / "cache")
    assert cache.get_nowait(["k"]) == {"k": Reply("x")}
    await _keep(cache, Entry("l", Reply("y")))
    assert caches().get_nowait(["k", "l"]) == {"k": Reply("x"), "l": Reply("y")}


async def test_a_reply_that_nobody_waits_for_is_cached(caches: Caches, tmp_path: Path) -> None:
    """If a run is interrupted while the store is busy, its paid replies are still stored."""
    cache = caches()
    await cache.look_up(["k"])
    other = sqlite3.connect(tmp_path / "cache" / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    keeping = [asyncio.ensure_future(cache.keep(Entry(key, Reply("x")))) for key in "ab"]
    await asyncio.sleep(0.05)
    keeping.append(asyncio.ensure_future(cache.keep(Entry("c", Reply("x")))))
    await asyncio.sleep(0.01)
    for task in keeping:
        task.cancel()
    await asyncio.gather(*keeping, return_exceptions=True)
    other.execute("ROLLBACK")
    await cache.drain()
    cache.close()
    other.close()
    assert set(await caches().look_up(["a", "b", "c"])) == {"a", "b", "c"}
