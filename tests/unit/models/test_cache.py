"""The reply cache: look-ups, and claims that decide which process requests a missing reply."""

import asyncio
import dis
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
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


def _keep(cache: Cache, *entries: Entry) -> None:
    async def keep() -> None:
        await asyncio.gather(*map(cache.keep, entries))

    asyncio.run(keep())


def _look_up(cache: Cache, keys: Sequence[str]) -> dict[str, Reply]:
    return asyncio.run(cache.look_up(keys))


def _statements(cache: Cache, run: Callable[[], object]) -> list[str]:
    executed: list[str] = []
    connection = cache.store.database._connection
    connection.set_trace_callback(executed.append)
    run()
    connection.set_trace_callback(None)
    return [statement.split()[0] for statement in executed if not statement.startswith("-- ")]


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_entries_cached_in_one_turn_are_one_transaction(caches: Caches) -> None:
    """100 replies that are stored in one iteration of the event loop are written in one transaction."""
    cache = caches()
    statements = _statements(cache, lambda: _keep(cache, *(Entry(str(n), Reply("x")) for n in range(100))))
    assert statements.count("BEGIN") == statements.count("COMMIT") == 1
    assert statements.count("INSERT") == 100


def test_claims_of_one_turn_are_one_transaction(caches: Caches) -> None:
    """100 claims in one iteration of the event loop are one transaction, which no other process can interrupt."""
    cache = caches()

    async def claim() -> None:
        claimed = await asyncio.gather(*(cache.claim(str(number)) for number in range(100)))
        assert claimed == [True] * 100

    statements = _statements(cache, lambda: _run(claim()))
    assert statements.count("BEGIN") == statements.count("COMMIT") == statements.count("INSERT") == 1


def test_one_of_two_processes_asks(caches: Caches) -> None:
    """If two processes claim a key, the second waits until the first has stored the reply, and then finds it."""
    one, other = caches(), caches()

    async def ask() -> list[object]:
        assert await one.claim("k") is True
        assert await other.claim("k") is False
        waiting = asyncio.create_task(other.wait_for_other("k"))
        await asyncio.sleep(0.15)
        assert not waiting.done()
        await one.keep(Entry("k", Reply("x")))
        await waiting
        return [await other.claim("k"), await one.claim("k")]

    assert _run(ask()) == [Reply("x"), Reply("x")]
    assert _look_up(other, ["k"]) == {"k": Reply("x")}


def test_after_a_release_another_process_sends_the_request(caches: Caches) -> None:
    one, other = caches(), caches()

    async def ask() -> object:
        await one.claim("k")
        waiting = asyncio.create_task(other.wait_for_other("k"))
        one.release("k")
        await waiting
        return await other.claim("k")

    assert _run(ask()) is True
    assert _look_up(other, ["k"]) == {}


def test_after_closing_another_process_sends_the_request(caches, monkeypatch):
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 3600.0)
    one, other = caches(), caches()

    async def ask() -> object:
        await one.claim("k")
        assert await other.claim("k") is False
        one.close()
        await other.wait_for_other("k")
        return await other.claim("k")

    assert _run(ask()) is True


@pytest.mark.slow
def test_the_claim_of_a_dead_process_is_taken_over(caches: Caches, monkeypatch: pytest.MonkeyPatch) -> None:
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

    async def both() -> list[object]:
        await dead.claim("k")
        return await asyncio.gather(ask(one), ask(other))

    began = time.monotonic()
    replies = _run(both())
    assert time.monotonic() - began >= 1.0
    assert sorted(replies, key=str) == [Reply("x"), True]


def test_a_process_knows_when_its_claim_was_taken_over(caches, monkeypatch):
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 0.1)
    monkeypatch.setattr(sqlite_claims.LocalStore, "_start_renewing", lambda _: None)
    stopped, other = caches(), caches()

    async def take_over() -> list[bool]:
        await stopped.claim("k")
        before = await stopped.holds_claim("k")
        await other.wait_for_other("k")
        assert await other.claim("k") is True
        return [
            before,
            await stopped.holds_claim("k"),
            await other.holds_claim("k"),
            await stopped.others_active(),
        ]

    assert _run(take_over()) == [True, False, True, True]


def test_those_who_wait_look_together(caches: Caches) -> None:
    """A process that waits for 100 replies of another process checks all of their claims with one SELECT at a time."""
    one, other = caches(), caches()
    keys = [str(number) for number in range(100)]

    async def wait() -> None:
        await asyncio.gather(*map(one.claim, keys))
        waiting = asyncio.gather(*map(other.wait_for_other, keys))
        await asyncio.sleep(0.12)
        await asyncio.gather(*(one.keep(Entry(key, Reply("x"))) for key in keys))
        await waiting

    statements = _statements(other, lambda: _run(wait()))
    assert 1 <= len(statements) <= 50  # separate checks would be a hundred at a time
    assert set(statements) == {"SELECT"}


def test_a_waiter_that_is_cancelled_does_not_disturb_the_others(caches: Caches) -> None:
    one, other = caches(), caches()

    async def wait() -> object:
        await one.claim("k")
        waiting = [asyncio.create_task(other.wait_for_other("k")) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        await asyncio.sleep(0.01)
        one.release("k")
        return await asyncio.gather(*waiting, return_exceptions=True)

    gone, *rest = _run(wait())
    assert isinstance(gone, asyncio.CancelledError)
    assert rest == [None, None]


@pytest.mark.parametrize(
    "use", [lambda cache: cache.claim("k"), lambda cache: cache.keep(Entry("k", Reply("")))]
)
def test_concurrent_callers_get_the_same_error(caches, tmp_path, use):
    (tmp_path / "file").touch()
    cache = caches(folder=tmp_path / "file" / "cache")

    async def call_three_times() -> list[object]:
        tasks = [asyncio.ensure_future(use(cache)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    cancelled, *errors = _run(call_three_times())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [type(error) for error in errors] == [StoreError, StoreError]


def test_recorded_replies_are_looked_up_after_cached_ones(caches: Caches, cassette: Path) -> None:
    cache = caches(cassette)
    _keep(cache, Entry("a", Reply("kept a")))
    assert _look_up(cache, ["a", "b", "c"]) == {"a": Reply("kept a"), "b": Reply("recorded b")}


def test_a_reply_that_was_recorded_at_one_other_address_is_found(caches: Caches, tmp_path: Path) -> None:
    """Nothing is chosen among different replies, and the name of an embedded model is no address."""
    here, there, third = (
        Request(f"http://{host}/v1", "m", ({"role": "user", "content": "Why?"},)) for host in ("a", "b", "c")
    )
    recorded = [Entry(r.key, Reply(text), request_summary(r)) for r, text in ((there, "x"), (third, "y"))]
    write_cassette(tmp_path / "c.jsonl", recorded)
    used, ignored = caches(tmp_path / "c.jsonl").cassette, [third.base_url]
    assert used.find_at_other_address(here) is None
    assert used.find_at_other_address(here, ignored).reply == Reply("x")
    assert used.find_at_other_address(replace(here, base_url="embedded"), ignored) is None
    assert used.address("m", here.base_url, ignored) == there.base_url
    assert used.address("m", here.base_url, []) == here.base_url
    assert used.address("m", third.base_url, ignored) == third.base_url
    assert used.address("m", "embedded", ignored) == "embedded"
    differ = [used.differs(key, Reply("x")) for key in (there.key, third.key, here.key)]
    assert differ == [False, True, False]


def test_an_unusable_folder_does_no_harm_where_all_is_recorded(caches, tmp_path, cassette):
    (tmp_path / "file").touch()
    cache = caches(cassette, folder=tmp_path / "file" / "cache")
    assert _look_up(cache, ["b", "a"]) == {"a": Reply("recorded a"), "b": Reply("recorded b")}
    with pytest.raises(StoreError, match="is a file, not a folder"):
        _look_up(cache, ["a", "c"])


def test_a_damaged_entry_is_a_miss_and_is_reported(caches: Caches, tmp_path: Path, cassette: Path) -> None:
    cache = caches(cassette)
    _keep(cache, Entry("a", Reply("kept a")), Entry("c", Reply("kept c")))
    connection = sqlite3.connect(tmp_path / "cache" / FILE, isolation_level=None)
    connection.execute("UPDATE replies SET text = 'x'")
    connection.close()
    for _ in range(2):
        assert _look_up(cache, ["a", "b", "c"]) == {"a": Reply("recorded a"), "b": Reply("recorded b")}
    assert cache.remarks == {DAMAGED: 2}
    assert _run(cache.claim("c")) is True
    _keep(cache, Entry("c", Reply("asked again")))
    assert _look_up(cache, ["c"]) == {"c": Reply("asked again")}
    assert cache.remarks == {DAMAGED: 2}


def test_an_empty_reply_counts_only_in_its_own_run(caches: Caches) -> None:
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
    _keep(one, *(Entry(key, reply) for key, reply in (empty | full).items()))
    keys = [*empty, *full]
    assert _look_up(one, keys) == _look_up(other, keys) == _look_up(replay, keys) == empty | full
    assert one.get_nowait(keys) == other.get_nowait(keys) == replay.get_nowait(keys) == empty | full
    assert _look_up(next_run, keys) == next_run.get_nowait(keys) == full
    assert _run(next_run.claim("k")) is True
    _keep(next_run, Entry("k", Reply("at last")))
    assert _look_up(one, ["k"]) == _look_up(next_run, ["k"]) == {"k": Reply("at last")}


def test_an_empty_reply_on_a_cassette_counts_unless_recording(caches: Caches, tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    write_cassette(file, [Entry("k", Reply(""))])
    assert _look_up(caches(file), ["k"]) == {"k": Reply("")}
    assert _look_up(caches(file, missing_ok=True), ["k"]) == {}


def test_a_refresh_finds_only_what_its_run_has_asked(caches: Caches, cassette: Path) -> None:
    _keep(caches(), Entry("a", Reply("old")))
    cache, other = caches(cassette, refresh=True, run="1"), caches(cassette, refresh=True, run="1")
    _keep(other, Entry("c", Reply("new")))
    assert _look_up(cache, ["a", "b", "c"]) == {"c": Reply("new")}

    async def claim() -> list[object]:
        return await asyncio.gather(*map(cache.claim, "abc"))

    assert _run(claim()) == [True, True, Reply("new")]
    _keep(cache, Entry("a", Reply("asked again")))
    assert (
        _look_up(cache, ["a"])
        == _look_up(other, ["a"])
        == _look_up(caches(), ["a"])
        == {"a": Reply("asked again")}
    )


def test_a_refresh_needs_no_cassette(caches: Caches, tmp_path: Path) -> None:
    assert _look_up(caches(tmp_path / "missing.jsonl", refresh=True), ["a"]) == {}


def test_a_missing_cassette_is_an_error_unless_it_is_to_be_written(caches: Caches, tmp_path: Path) -> None:
    """A missing cassette raises StoreError, because its name may be misspelled, unless the run writes it."""
    missing = tmp_path / "missing.jsonl"
    with pytest.raises(StoreError, match=r"does not exist\.\nRecord it: pytest --rageval-record"):
        _look_up(caches(missing), ["a"])
    assert _look_up(caches(missing, missing_ok=True), ["a"]) == {}


def test_outlines_are_those_of_all_that_is_kept(caches: Caches, cassette: Path) -> None:
    cache = caches(cassette)
    _keep(cache, Entry("c", Reply("kept"), {"model": "n"}))
    assert list(cache.summaries()) == [{"model": "m"}, {}, {"model": "n"}]


def test_outlines_of_an_unusable_folder_are_the_cassettes(caches, tmp_path, cassette):
    (tmp_path / "file").touch()
    assert list(caches(cassette, folder=tmp_path / "file").summaries()) == [{"model": "m"}, {}]


def test_an_unused_cache_makes_no_folder(caches: Caches, tmp_path: Path, cassette: Path) -> None:
    caches(cassette).close()
    assert [path.name for path in tmp_path.iterdir()] == [cassette.name]


def test_a_late_reply_does_not_replace_one_that_may_be_in_use(caches, monkeypatch):
    """The process whose claim expired gets the reply that another has stored since."""
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 0.0)
    slow, quick = caches(), caches()

    async def race() -> list[Reply]:
        assert await slow.claim("k") is True
        assert await quick.claim("k") is True
        first = await quick.keep(Entry("k", Reply("first")))
        return [first, await slow.keep(Entry("k", Reply("late")))]

    assert _run(race()) == [Reply("first"), Reply("first")]
    assert _look_up(quick, ["k"]) == {"k": Reply("first")}


def test_a_claim_that_nobody_waits_for_blocks_no_other(caches, monkeypatch):
    """If a task is cancelled while it claims a key, the claim is released for other processes."""
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 3600.0)
    one, other = caches(), caches()

    async def claim() -> object:
        claiming = asyncio.create_task(one.claim("k"))
        await asyncio.sleep(0)
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        await other.wait_for_other("k")
        return await other.claim("k")

    assert _run(claim()) is True


def test_another_process_that_writes_stalls_no_request_in_flight(caches: Caches, tmp_path: Path) -> None:
    cache = caches()
    _look_up(cache, ["k"])
    other = sqlite3.connect(tmp_path / "cache" / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def work() -> int:
        waiting = [
            asyncio.ensure_future(use)
            for use in (cache.claim("k"), cache.keep(Entry("l", Reply("x"))), cache.spend("r", Spending(1)))
        ]
        cache.release("m")
        turns = 0
        for _ in range(50):
            await asyncio.sleep(0.002)
            turns += 1
        assert not any(future.done() for future in waiting)
        other.execute("ROLLBACK")
        assert await asyncio.gather(*waiting) == [True, Reply("x"), None]
        return turns

    assert _run(work()) == 50
    other.close()


@pytest.mark.parametrize("options", [{}, {"run": "1"}, {"run": "1", "refresh": True}])
def test_replies_at_hand_are_those_that_a_look_up_finds(caches, tmp_path, cassette, options):
    _keep(caches(run="2"), Entry("a", Reply("kept")), Entry("c", Reply("")))
    _keep(caches(run="1"), Entry("d", Reply("")), Entry("damaged", Reply("x")))
    connection = sqlite3.connect(tmp_path / "cache" / FILE, isolation_level=None)
    connection.execute("UPDATE replies SET text = 'y' WHERE key = 'damaged'")
    connection.close()
    keys = ["a", "b", "c", "d", "e", "damaged"]
    at_once, looked_up = caches(cassette, **options), caches(cassette, **options)
    replies: dict[str, Reply] = {}
    for key in keys:
        replies |= at_once.get_nowait([key])
    assert replies == at_once.get_nowait(keys) == _look_up(looked_up, keys) != {}
    assert at_once.remarks == looked_up.remarks == {DAMAGED: 1}


def test_another_process_that_writes_does_not_block_a_look_up(caches: Caches, tmp_path: Path) -> None:
    cache = caches()
    _keep(cache, Entry("k", Reply("x")))
    other = sqlite3.connect(tmp_path / "cache" / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert cache.get_nowait(["k"]) == {"k": Reply("x")}

    async def work() -> dict[str, Reply]:
        waiting = asyncio.ensure_future(cache.keep(Entry("l", Reply("y"))))
        await until(cache._store_lock.locked)
        assert cache.get_nowait(["k"]) == {}
        other.execute("ROLLBACK")
        await waiting
        return cache.get_nowait(["k", "l"])

    assert _run(work()) == {"k": Reply("x"), "l": Reply("y")}
    other.close()


def test_at_hand_an_interrupt_at_any_moment_leaves_the_store_free(caches: Caches) -> None:
    cache = caches()
    _keep(cache, Entry("k", Reply("x")))
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


def test_closing_waits_for_what_is_read(caches: Caches) -> None:
    cache = caches()
    _keep(cache, Entry("k", Reply("x")))
    store, closed = cache.store, threading.Event()
    closing = threading.Thread(target=lambda: (cache.close(), closed.set()))
    with cache._store_lock:
        closing.start()
        assert not closed.wait(0.2)
        assert cache.store is store
    closing.join(60)
    assert closed.is_set()


def test_no_reply_is_at_hand_while_readers_wait(caches: Caches, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a drive without SQLite's write-ahead log, a reader may wait for a writer, so `get_nowait` returns nothing."""
    monkeypatch.setattr(sqlite_file, "_switch_to_wal", lambda _: None)
    cache = caches()
    _keep(cache, Entry("k", Reply("x")))
    assert cache.get_nowait(["k"]) == {}
    assert _look_up(cache, ["k"]) == {"k": Reply("x")}


def test_replies_at_hand_in_an_unusable_folder_are_no_error(caches, tmp_path, cassette):
    (tmp_path / "file").touch()
    cache = caches(cassette, folder=tmp_path / "file" / "cache")
    assert cache.get_nowait(["a"]) == {}
    assert _look_up(cache, ["a"]) == {"a": Reply("recorded a")}
    with pytest.raises(StoreError):
        _look_up(cache, ["c"])


def test_cached_replies_outlive_their_folder_in_a_run(caches: Caches, tmp_path: Path) -> None:
    """If the folder is deleted during a run, stored replies are still found, and the next write restores it."""
    cache = caches()
    _keep(cache, Entry("k", Reply("x")))
    shutil.rmtree(tmp_path / "cache")
    assert cache.get_nowait(["k"]) == {"k": Reply("x")}
    _keep(cache, Entry("l", Reply("y")))
    assert caches().get_nowait(["k", "l"]) == {"k": Reply("x"), "l": Reply("y")}


def test_a_reply_that_nobody_waits_for_is_cached(caches: Caches, tmp_path: Path) -> None:
    """If a run is interrupted while the store is busy, its paid replies are still stored."""
    cache = caches()
    _look_up(cache, ["k"])
    other = sqlite3.connect(tmp_path / "cache" / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def interrupted() -> None:
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

    _run(interrupted())
    other.close()
    assert set(_look_up(caches(), ["a", "b", "c"])) == {"a", "b", "c"}
