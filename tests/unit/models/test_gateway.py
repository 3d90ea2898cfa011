"""The gateway: cached replies are returned, and each missing reply is requested once."""

import asyncio
import contextlib
import re
import sqlite3
import tracemalloc
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import (
    BudgetError,
    MissingReplyError,
    ServerError,
    StoreError,
    Unscored,
)
from pytest_rageval.models import sender as sender_module
from pytest_rageval.models.budget import Limits
from pytest_rageval.models.cassette import read_cassette, write_cassette
from pytest_rageval.models.client import RequestPolicy, Server
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.stores import sqlite as sqlite_claims
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.stores.sqlite_file import FILE
from pytest_rageval.models.summaries import request_summary
from pytest_rageval.models.usage import Usage
from tests.unit.models.scripted import NEVER, Answer, ScriptedServer, completion, error, until

POLICY = RequestPolicy(concurrency=8, timeout_s=30, retries=1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without a delay, and renew claims often, so that these tests are fast."""
    monkeypatch.setattr(sender_module, "FIRST_DELAY_S", 0.005)
    monkeypatch.setattr(sqlite_claims, "RENEWAL_S", 0.05)


Through = Callable[..., Gateway]


@pytest.fixture
def gateway(tmp_path: Path) -> Callable[..., Gateway]:
    def make(**options: Any) -> Gateway:
        return Gateway(
            GatewaySettings(options.pop("cache_dir", tmp_path / "cache"), **{"policy": POLICY, **options})
        )

    return make


def _request(text: object, **changes: Any) -> Request:
    return replace(Request("u", "m", ({"role": "user", "content": str(text)},), {"max_tokens": 5}), **changes)


def _at(server: ScriptedServer, **options: Any) -> Server:
    return RemoteServer(server.url, **options)


async def _asked(gateway: Gateway, server: Server, *requests: Request) -> list[Any]:
    """Return the outcomes of the requests, and close the gateway in the same event loop, as a session does."""
    async with _closing(gateway):
        return await asyncio.gather(
            *(gateway.get_reply(server, request) for request in requests), return_exceptions=True
        )


@contextlib.asynccontextmanager
async def _closing(*gateways: Gateway) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for gateway in gateways:
            await gateway.close()


def _echo(body: dict[str, Any]) -> str:
    return f"to {body['messages'][-1]['content']}"


async def test_a_reply_is_paid_once(gateway: Through) -> None:
    with ScriptedServer(_echo) as server:
        first, second = gateway(), gateway()
        assert [reply.text for reply in await _asked(first, _at(server), _request("a"))] == ["to a"]
    assert [reply.text for reply in await _asked(second, _at(server), _request("a"))] == ["to a"]
    assert len(server.requests) == 1
    assert first.usage == Usage(requests=1, live=1, tokens_in=10, tokens_out=2, unpriced=1)
    assert second.usage == Usage(requests=1, cached=1)


async def test_reasoning_is_counted_for_each_model(gateway: Through) -> None:
    """Reasoning in tags is counted in every run; reasoning in a field of its own is counted when the reply arrives."""
    remark = "m reasons before it answers: its reasoning is not read"
    inside = Answer(body=completion("<think>Why?</think>fine"))
    apart = Answer(body=completion(message={"reasoning_content": "Why?"}))
    requests = [_request(text) for text in "abc"]
    with ScriptedServer(inside, apart, "fine") as server:
        new_gateway, again = gateway(policy=replace(POLICY, concurrency=1)), gateway()
        assert [reply.answer for reply in await _asked(new_gateway, _at(server), *requests)] == ["fine"] * 3
    assert new_gateway.usage.remarks[remark] == 2
    await _asked(again, _at(server), *requests)
    assert again.usage.remarks == {remark: 1}


async def test_the_same_request_at_the_same_time_is_one(gateway: Through) -> None:
    new_gateway = gateway()
    with ScriptedServer() as server:
        server.together = 2  # the server waits, so that the first request stays in flight
        async with _closing(new_gateway):
            tasks = [
                asyncio.create_task(new_gateway.get_reply(_at(server), _request("a"))) for _ in range(10)
            ]
            await until(lambda: server.requests)
            tasks += [
                asyncio.create_task(new_gateway.get_reply(_at(server), _request("a"))) for _ in range(10)
            ]
            await asyncio.sleep(0)
            server.together = 1
            replies = await asyncio.gather(*tasks)
    assert len(server.requests) == 1
    assert len(replies) == 20
    assert len(set(map(id, replies))) == 1
    assert new_gateway.usage.requests == new_gateway.usage.live == 1


async def test_a_thousand_requests_of_one_turn_are_one_look_up(gateway: Through) -> None:
    requests = [_request(number) for number in range(1000)]
    await _filled(gateway(), *((request, Reply(str(number))) for number, request in enumerate(requests)))
    reading = gateway()
    statements: list[str] = []
    connection = reading.cache.store.database._connection
    connection.set_trace_callback(lambda sql: statements.append(sql.split()[0]))
    async with _closing(reading):
        nowhere = RemoteServer("http://127.0.0.1:9/v1")
        replies = await asyncio.gather(*(reading.get_reply(nowhere, request) for request in requests))
        connection.set_trace_callback(None)
    assert [reply.text for reply in replies] == [str(number) for number in range(1000)]
    assert statements == ["SELECT"]
    assert reading.usage == Usage(requests=1000, cached=1000)


async def _filled(made: Gateway, *replies: tuple[Request, Reply]) -> None:
    async with _closing(made):
        await asyncio.gather(*(made.cache.keep(Entry(request.key, reply)) for request, reply in replies))


async def test_the_samples_of_a_request_are_one_look_up(gateway: Through) -> None:
    samples = [(_request("a", sample=n), Reply(f"a{n}", "v", "length")) for n in range(3)]
    await _filled(gateway(), *samples)
    at_once, separate = gateway(), gateway()
    statements: list[str] = []
    at_once.cache.store.database._connection.set_trace_callback(statements.append)
    assert await at_once.get_cached_replies(_request("a"), (2, 0, 1, 0)) == [
        samples[n][1] for n in (2, 0, 1, 0)
    ]
    assert len(statements) == 1
    at_once.cache.close()
    assert await _asked(separate, RemoteServer("http://u"), *(request for request, _ in samples)) == [
        r for _, r in samples
    ]
    assert at_once.usage == separate.usage == Usage(requests=3, cached=3, cut=3)
    assert at_once.served == separate.served == {("m", "u"): {"v"}}


async def _all_replies(asking: Gateway, requests: list[Request]) -> list[Any]:
    works = (asking.get_cached_replies(request, (0, 1)) for request in requests)
    return await gather_all(works, max_concurrency=100)


def test_the_cached_replies_of_a_block_are_one_look_up(gateway: Through) -> None:
    """Also if two of them are the same, and a missing reply is not looked up again."""
    requests = [_request(number) for number in (0, 1, 2, 1, 3)]
    stored = [(replace(request, sample=n), Reply(f"{n}")) for request in requests[:3] for n in (0, 1)]
    asyncio.run(_filled(gateway(), *stored))
    new_gateway, statements, loop = gateway(), list[str](), BackgroundEventLoop()
    new_gateway.cache.store.database._connection.set_trace_callback(statements.append)
    found = loop.run(_all_replies(new_gateway, requests), inline=True)
    assert found == [[Reply("0"), Reply("1")]] * 4 + [None]
    # The second of the equal ones is read again.
    assert len(statements) == 2
    assert not loop.started
    assert new_gateway.usage == Usage(requests=6, cached=6)
    new_gateway.cache.close()


async def test_a_cached_reply_counts_once_in_a_run(gateway: Through, tmp_path: Path) -> None:
    """A cached reply counts once in a run, also if several samples or calls return it; the next run counts it again."""
    await _filled(gateway(), (_request("a"), Reply("x")))
    run = 1
    new_gateway = Gateway(GatewaySettings(tmp_path / "cache", policy=POLICY), lambda: run)
    for _ in range(2):
        await new_gateway.get_cached_replies(_request("a"), (0, 0))
    assert new_gateway.usage == Usage(requests=1, cached=1)
    run = 2
    await new_gateway.get_cached_replies(_request("a"), (0,))
    assert new_gateway.usage == Usage(requests=2, cached=2)
    new_gateway.cache.close()


async def test_at_hand_what_was_counted_takes_little_memory(gateway, monkeypatch):
    """The keys of counted replies take 16 bytes each, where numbers in a set took 80."""
    new_gateway, requests = gateway(), [_request(number) for number in range(5000)]
    monkeypatch.setattr(new_gateway.cache, "get_nowait", lambda keys: dict.fromkeys(keys, Reply("x")))
    await new_gateway.get_cached_replies(_request("a"), (0,))
    tracemalloc.start()
    try:
        for _ in range(2):
            for request in requests:
                await new_gateway.get_cached_replies(request, (0, 1, 2, 3))
        assert tracemalloc.get_traced_memory()[0] < 24 * 20_000
    finally:
        tracemalloc.stop()
    assert new_gateway.usage == Usage(requests=20_001, cached=20_001)


async def test_with_one_missing_sample_no_reply_is_at_hand(gateway: Through) -> None:
    await _filled(gateway(), (_request("a"), Reply("x")))
    new_gateway = gateway()
    assert await new_gateway.get_cached_replies(_request("a"), (0, 1)) is None
    assert new_gateway.usage == Usage()
    with ScriptedServer(_echo) as server:
        async with _closing(new_gateway):
            both = (new_gateway.get_reply_for_score(_at(server), _request("a", sample=n)) for n in (0, 1))
            replies = await asyncio.gather(*both)
    assert [reply.text for reply in replies] == ["x", "to a"]
    assert (new_gateway.usage.requests, new_gateway.usage.cached, new_gateway.usage.live) == (2, 1, 1)


async def test_a_reply_in_flight_is_not_at_hand(gateway: Through) -> None:
    new_gateway = gateway()
    with ScriptedServer() as server:
        server.together = 2
        async with _closing(new_gateway):
            first = asyncio.create_task(new_gateway.get_reply_for_score(_at(server), _request("a")))
            await until(lambda: server.requests)
            await new_gateway.cache.keep(Entry(_request("a").key, Reply("of another process")))
            assert await new_gateway.get_cached_replies(_request("a"), (0,)) is None
            server.together = 1
            await first
    assert new_gateway.usage.requests == 1


async def test_replies_at_hand_are_recorded(gateway: Through) -> None:
    samples = [(_request("a", sample=n), Reply(f"a{n}")) for n in range(2)]
    await _filled(gateway(), *samples)
    new_gateway = gateway(keeps_replies=True)
    await new_gateway.get_cached_replies(_request("a"), (0, 1))
    new_gateway.cache.close()
    recorded = [(entry.key, entry.reply, entry.summary) for entry in new_gateway.used.values()]
    assert recorded == [(request.key, reply, request_summary(request)) for request, reply in samples]


async def test_no_more_are_in_flight_than_allowed(gateway: Through) -> None:
    with ScriptedServer(Answer(body=completion(), delay_s=0.01)) as server:
        server.together = POLICY.concurrency
        await _asked(gateway(), _at(server), *map(_request, range(40)))
        assert server.most_in_flight == POLICY.concurrency
    with ScriptedServer(Answer(body=completion(), delay_s=0.005)) as server:
        await _asked(gateway(), _at(server, in_flight=1), *map(_request, range(100, 110)))
        assert server.most_in_flight == 1


async def test_one_that_failed_does_not_harm_the_others(gateway: Through) -> None:
    def answer(body: dict[str, Any]) -> Answer | str:
        return Answer(400, error("flagged")) if "bad" in _echo(body) else _echo(body)

    first = gateway()
    with ScriptedServer(answer) as server:
        good, bad = await _asked(first, _at(server), _request("good"), _request("bad"))
    assert good.text == "to good"
    assert type(bad).__mro__[1] is Unscored or type(bad) is Unscored
    assert first.usage == Usage(requests=2, live=1, failed=1, tokens_in=10, tokens_out=2, unpriced=1)
    with ScriptedServer(_echo) as server:
        good, bad = await _asked(gateway(), _at(server), _request("good"), _request("bad"))
    assert (good.text, bad.text) == ("to good", "to bad")
    assert [body["messages"][0]["content"] for body in server.requests] == ["bad"]


async def test_a_failed_request_can_be_asked_again(gateway: Through) -> None:
    new_gateway = gateway()
    with ScriptedServer(Answer(400, error("flagged")), "fine") as server:
        async with _closing(new_gateway):
            with pytest.raises(Unscored):
                await new_gateway.get_reply(_at(server), _request("a"))
            assert (await new_gateway.get_reply(_at(server), _request("a"))).text == "fine"


async def test_a_model_that_cannot_answer_is_asked_no_more(gateway: Through) -> None:
    def answer(body: dict[str, Any]) -> Answer | str:
        return Answer(401, error("no")) if body["model"] == "m" else "fine"

    new_gateway = gateway()
    claim, claimed = new_gateway.cache.claim, []

    async def noted(key: str) -> Reply | bool:
        claimed.append(key)
        return await claim(key)

    new_gateway.cache.claim = noted
    with ScriptedServer(answer) as server:
        async with _closing(new_gateway):
            errors = await asyncio.gather(
                *(new_gateway.get_reply(_at(server), _request(number)) for number in range(100)),
                return_exceptions=True,
            )
            with pytest.raises(ServerError):
                await new_gateway.get_reply(_at(server), _request("later"))
            assert (await new_gateway.get_reply(_at(server), _request("a", model="n"))).text == "fine"
    assert {type(outcome) for outcome in errors} == {ServerError}
    assert len(server.requests) <= POLICY.concurrency + 1
    # A claim is a write to the cache: a request that cannot be sent claims nothing.
    assert len(claimed) <= 2 * POLICY.concurrency + 1
    assert new_gateway.usage.failed == 101


async def test_cached_replies_are_found_with_a_broken_model(gateway: Through) -> None:
    new_gateway = gateway()
    with ScriptedServer("fine", Answer(404, error("no"))) as server:
        async with _closing(new_gateway):
            await new_gateway.get_reply(_at(server), _request("kept"))
            missing_outcome, cached_reply = await _asked(
                new_gateway, _at(server), *map(_request, ("new", "kept"))
            )
    assert isinstance(missing_outcome, ServerError)
    assert cached_reply.text == "fine"


async def test_a_cancelled_waiter_does_not_lose_the_reply(gateway: Through) -> None:
    """If a waiting caller is cancelled, other callers get the reply, and it is cached even if no caller is left."""
    new_gateway = gateway()
    with ScriptedServer(Answer(body=completion(), delay_s=0.1)) as server:
        async with _closing(new_gateway):
            tasks = [
                asyncio.create_task(new_gateway.get_reply(_at(server), _request(text))) for text in "aab"
            ]
            await until(lambda: len(server.requests) == 2)
            tasks[0].cancel()
            tasks[2].cancel()
            assert (await tasks[1]).text == "fine"
            await until(lambda: new_gateway.usage.live == 2)
    both = await _asked(gateway(), _at(server), _request("a"), _request("b"))
    assert [reply.text for reply in both] == ["fine", "fine"]
    assert len(server.requests) == 2


async def test_a_waiter_cancelled_before_the_look_up_affects_no_other(gateway: Through) -> None:
    """A caller that is cancelled before the look-up starts does not affect another caller of the same request."""
    new_gateway = gateway()
    with ScriptedServer() as server:
        gone = asyncio.create_task(new_gateway.get_reply(_at(server), _request("a")))
        await asyncio.sleep(0)
        gone.cancel()
        (reply,) = await _asked(new_gateway, _at(server), _request("a"))
    assert reply.text == "fine"
    assert len(server.requests) == 1


async def test_after_a_failed_write_no_request_is_sent(gateway: Through, tmp_path: Path) -> None:
    new_gateway = gateway(policy=replace(POLICY, concurrency=2))
    with ScriptedServer(Answer(body=completion(), delay_s=0.005)) as server:
        await new_gateway.get_reply(_at(server), _request("first"))
        new_gateway.cache.store.database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON replies BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
        errors = await _asked(new_gateway, _at(server), *map(_request, range(50)))
    assert {type(exception) for exception in errors} == {StoreError}
    assert "disk is full" in str(errors[0])
    assert len(server.requests) <= 1 + 2
    connection = sqlite3.connect(tmp_path / "cache" / FILE)
    assert connection.execute("SELECT count(*) FROM replies").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM leases").fetchone() == (0,)
    connection.close()


@pytest.mark.slow
async def test_a_request_taken_over_by_another_is_not_sent(gateway, monkeypatch):
    """A process that lost its claim before it sent the request waits for the reply of the other process."""
    # No claim is renewed, as if the process had been stopped, so that its claims expire soon.
    monkeypatch.setattr(sqlite_claims.LocalStore, "_start_renewing", lambda _: None)
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 0.05)
    stopped, other = gateway(policy=replace(POLICY, concurrency=1)), gateway()
    with ScriptedServer(Answer(body=completion("slow"), delay_s=1.5), "theirs", "ours") as server:
        # The first request is in flight, and the second is claimed, when the other process requests it.
        asking = asyncio.create_task(_asked(stopped, _at(server), _request("first"), _request("second")))
        await until(lambda: server.requests)
        while not await stopped.cache.holds_claim(_request("second").key):  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        replies = [*await _asked(other, _at(server), _request("second")), *await asyncio.wait_for(asking, 60)]
    assert [reply.text for reply in replies] == ["theirs", "slow", "theirs"]
    assert len(server.requests) == 2


async def test_no_request_is_sent_without_a_usable_cache(gateway: Through, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    new_gateway = gateway(cache_dir=tmp_path / "file" / "cache")
    with ScriptedServer() as server:
        outcomes = await _asked(new_gateway, _at(server), _request("a"), _request("b"))
    assert [type(outcome) for outcome in outcomes] == [StoreError, StoreError]
    assert server.requests == []
    assert new_gateway.usage == Usage(requests=2, failed=2)


@pytest.mark.slow
async def test_two_processes_pay_for_each_reply_once(gateway: Through) -> None:
    one, other = gateway(), gateway()
    requests = [_request(number) for number in range(100)]
    with ScriptedServer(_echo) as server:
        mine, theirs = await asyncio.gather(*(_asked(each, _at(server), *requests) for each in (one, other)))
    assert len(server.requests) == 100
    assert [reply.text for reply in mine] == [f"to {number}" for number in range(100)]
    assert mine == theirs
    assert one.usage.live + other.usage.live == 100
    assert one.usage.cached + other.usage.cached == 100


async def test_an_exhausted_budget_is_an_error_and_paid_replies_are_cached(gateway: Through) -> None:
    requests = [_request(number) for number in range(20)]
    with ScriptedServer(_echo) as server:
        first = await _asked(gateway(limits=Limits(max_calls=7), run="one"), _at(server), *requests)
        assert len(server.requests) == 7
        assert sum(isinstance(outcome, Reply) for outcome in first) == 7
        assert sum(isinstance(outcome, BudgetError) for outcome in first) == 13
        second = await _asked(gateway(limits=Limits(max_calls=13), run="two"), _at(server), *requests)
    assert all(isinstance(outcome, Reply) for outcome in second)
    assert len(server.requests) == 20


async def test_a_cassette_is_enough(gateway: Through, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cassette = tmp_path / "c.jsonl"
    write_cassette(cassette, [Entry(_request("a").key, Reply("recorded"))])
    nowhere = RemoteServer("http://127.0.0.1:9/v1")
    for mode in ("live", "replay"):
        new_gateway = gateway(cassette=cassette, cache_dir=tmp_path / "file" / "cache", mode=mode)
        assert await _asked(new_gateway, nowhere, _request("a")) == [Reply("recorded")]
        assert new_gateway.usage == Usage(requests=1, cached=1)


@pytest.mark.parametrize("mode", ["live", "replay", "plan"])
async def test_another_reply_in_the_cassette_is_reported(gateway: Through, tmp_path: Path, mode: Any) -> None:
    cassette = tmp_path / "c.jsonl"
    with ScriptedServer() as server:
        cached_replies = await _asked(gateway(), _at(server), _request("a"), _request("b"))
        keys = [_request(name).key for name in "ab"]
        write_cassette(cassette, [Entry(keys[0], Reply("edited")), Entry(keys[1], cached_replies[1])])
        new_gateway = gateway(cassette=cassette, mode=mode)
        assert await _asked(new_gateway, _at(server), _request("a"), _request("b")) == cached_replies
    ((remark, count),) = new_gateway.usage.remarks.items()
    assert count == 1
    assert remark.startswith(
        "the cassette and the cache have different replies; the one in the cache is used"
    )


async def test_a_replay_asks_nothing(gateway: Through) -> None:
    with ScriptedServer() as server:
        await _asked(gateway(), _at(server), _request("a"))
        new_gateway = gateway(mode="replay")
        cached_reply, first_missing, second_missing = await _asked(
            new_gateway, _at(server), *map(_request, ("a", "b", "c"))
        )
    assert cached_reply.text == "fine"
    assert isinstance(first_missing, MissingReplyError)
    assert str(first_missing) == str(second_missing)
    assert len(server.requests) == 1
    assert new_gateway.usage == Usage(requests=3, cached=1, failed=2)


async def test_a_plan_sends_no_requests_and_writes_nothing(gateway: Through) -> None:
    with ScriptedServer() as server:
        await _asked(gateway(), _at(server), _request("a"))
        planned = gateway(mode="plan")
        cached_reply, placeholder = await _asked(planned, _at(server), _request("a"), _request("b"))
        assert cached_reply.text == "fine"
        assert placeholder.text.startswith("⟪reply ")
        assert (planned.usage.requests, planned.usage.cached, planned.usage.live) == (2, 1, 1)
        assert len(server.requests) == 1
        assert (await _asked(gateway(), _at(server), _request("b")))[0].text == "fine"
    assert len(server.requests) == 2


async def test_a_refresh_asks_for_all_again_but_once(gateway: Through) -> None:
    with ScriptedServer("old", "new") as server:
        await _asked(gateway(), _at(server), _request("a"))
        for _ in range(2):
            (reply,) = await _asked(gateway(sends_again=True, run="1"), _at(server), _request("a"))
            assert reply.text == "new"
        assert (await _asked(gateway(), _at(server), _request("a")))[0].text == "new"
    assert len(server.requests) == 2


async def test_what_is_used_is_recorded(gateway: Through, tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Answer | str:
        return Answer(400, error("flagged")) if "bad" in _echo(body) else _echo(body)

    cassette = tmp_path / "c.jsonl"
    with ScriptedServer(answer) as server:
        await _asked(gateway(), _at(server), _request("kept"), _request("not used"))
        new_gateway = gateway(keeps_replies=True, cassette=cassette)
        await _asked(new_gateway, _at(server), *map(_request, ("kept", "new", "bad")))
    assert set(new_gateway.used) == {_request("kept").key, _request("new").key}
    write_cassette(cassette, new_gateway.used.values())
    entry = read_cassette(cassette)[_request("new").key]
    assert entry.reply.text == "to new"
    assert entry.summary == request_summary(_request("new"))


async def test_prompts_are_kept_where_they_are_asked_for(gateway: Through) -> None:
    new_gateway = gateway(keeps_replies=True, record_prompts=True)
    with ScriptedServer() as server:
        await _asked(new_gateway, _at(server), _request("a"))
    (entry,) = new_gateway.used.values()
    assert entry.summary["messages"] == [{"role": "user", "content": "a"}]
    reading = gateway()
    async with _closing(reading):
        assert list(reading.cache.summaries()) == [entry.summary]


async def test_notes_are_counted_for_cached_replies_too(gateway: Through) -> None:

    def answer(body: dict[str, Any]) -> Answer:
        if "seed" in body:
            return Answer(400, error("Unsupported parameter: 'seed'", param="seed"))
        return Answer(body=completion("cut", finish_reason="length"))

    requests = [_request(number, parameters={"seed": 1}) for number in range(3)]
    with ScriptedServer(answer) as server:
        first, second = gateway(), gateway()
        await _asked(first, _at(server), *requests)
        await _asked(second, _at(server), *requests)
    for new_gateway in (first, second):
        assert new_gateway.usage.cut == 3
        assert new_gateway.usage.remarks == {"m refuses seed: sent without it": 3}


async def test_a_price_is_counted_where_it_is_known(gateway: Through, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[m]\ninput = 100000\noutput = 500000\n", encoding="utf-8")
    with ScriptedServer() as server:
        first, second = gateway(prices=prices), gateway(prices=prices)
        await _asked(first, _at(server), _request("a"), _request("b", model="n"))
        await _asked(second, _at(server), _request("a"))
    assert (first.usage.cost_usd, first.usage.unpriced) == (pytest.approx(2.0), 1)
    assert (second.usage.cost_usd, second.usage.unpriced) == (0, 0)


@pytest.mark.parametrize("is_cached", [False, True])
async def test_messages_may_be_any_mappings(gateway: Through, *, is_cached: bool) -> None:
    plain = _request("a")
    request = replace(plain, messages=tuple(map(MappingProxyType, plain.messages)))
    assert request.key == plain.key
    new_gateway = gateway(keeps_replies=True)
    with ScriptedServer() as server:
        if is_cached:
            await _asked(gateway(), _at(server), plain)
        assert await _asked(new_gateway, _at(server), request) == [Reply("fine", "m-2024", "stop", 10, 2)]
    assert set(new_gateway.used) == {request.key}


async def test_a_look_up_that_breaks_is_an_error_and_no_standstill(gateway: Through, tmp_path: Path) -> None:
    cassette = tmp_path / "c.jsonl"
    cassette.write_text("[" * 100_000, encoding="utf-8")
    asking = _asked(gateway(cassette=cassette), RemoteServer("http://127.0.0.1:9/v1"), _request("a"))
    (outcome,) = await asyncio.wait_for(asking, 30)
    assert re.search(r"(?i)recursion|not a recorded reply", str(outcome))


async def test_a_gateway_closed_with_requests_in_flight_leaves_nothing_open(gateway, tmp_path, caplog):
    new_gateway = gateway(limits=Limits(max_calls=5))
    with ScriptedServer(NEVER) as server:
        async with _closing(new_gateway):
            task = asyncio.create_task(new_gateway.get_reply(_at(server), _request("a")))
            await until(lambda: server.requests)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    assert caplog.records == []
    connection = sqlite3.connect(tmp_path / "cache" / FILE)
    assert connection.execute("SELECT count(*) FROM leases").fetchone() == (0,)
    connection.close()
    assert new_gateway.cache._store is None


HERE, THERE = "http://here.test/v1", "http://there.test/v1"


def _tape(folder: Path, **said: str) -> Path:
    requests = {name: _request("x", base_url=f"http://{name}.test/v1") for name in said}
    entries = [
        Entry(requests[name].key, Reply(text), request_summary(requests[name])) for name, text in said.items()
    ]
    write_cassette(folder / "tape.jsonl", entries)
    return folder / "tape.jsonl"


@pytest.mark.parametrize("mode", ["live", "replay", "plan"])
async def test_a_cassette_is_found_at_another_address(gateway: Through, tmp_path: Path, mode: Any) -> None:
    new_gateway = gateway(cassette=_tape(tmp_path, here="recorded"), mode=mode)
    (reply,) = await _asked(new_gateway, RemoteServer(THERE), _request("x", base_url=THERE))
    assert reply.text == "recorded"
    assert (new_gateway.usage.cached, new_gateway.usage.live, new_gateway.usage.failed) == (1, 0, 0)
    assert new_gateway.usage.sorted_remarks == {
        f"recorded at {HERE}, used for {THERE}: the model's name, m, is the same "
        "(--rageval-refresh sends the requests again)": 1
    }


async def test_the_reply_of_just_this_address_counts(gateway: Through, tmp_path: Path) -> None:
    tape = _tape(tmp_path, here="said here", elsewhere="said elsewhere")
    for name in ("here", "elsewhere"):
        new_gateway = gateway(cassette=tape, mode="replay")
        (reply,) = await _asked(
            new_gateway, RemoteServer(HERE), _request("x", base_url=f"http://{name}.test/v1")
        )
        assert reply.text == f"said {name}"
        assert not new_gateway.usage.sorted_remarks


async def test_the_other_server_of_the_run_is_no_other_address(gateway: Through, tmp_path: Path) -> None:
    tape, request = _tape(tmp_path, here="recorded"), _request("x", base_url=THERE)
    new_gateway = gateway(cassette=tape, mode="replay", base_urls=frozenset({HERE, THERE}))
    (reply,) = await _asked(new_gateway, RemoteServer(THERE), request)
    assert isinstance(reply, MissingReplyError)
    new_gateway = gateway(cassette=tape, mode="replay", base_urls=frozenset({THERE, "http://third.test/v1"}))
    (reply,) = await _asked(new_gateway, RemoteServer(THERE), request)
    assert reply.text == "recorded"


@pytest.mark.parametrize(("other", "is_found"), [("the same", True), ("another", False)])
async def test_nothing_is_chosen_among_different_replies(gateway, tmp_path, other, *, is_found):
    new_gateway = gateway(cassette=_tape(tmp_path, here="the same", elsewhere=other), mode="replay")
    (reply,) = await _asked(new_gateway, RemoteServer(THERE), _request("x", base_url=THERE))
    if is_found:
        assert reply.text == "the same"
    else:
        assert isinstance(reply, MissingReplyError)
        assert f".test/v1, now {THERE}." in str(reply)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "m2"},
        {"sample": 1},
        {"parameters": {"max_tokens": 6}},
        {"messages": ({"role": "user", "content": "y"},)},
        {"base_url": "embedded:threads=1"},
        {"base_url": "function"},
    ],
)
async def test_nothing_but_the_address_may_differ(gateway, tmp_path, changes):
    new_gateway = gateway(cassette=_tape(tmp_path, here="recorded"), mode="replay")
    (reply,) = await _asked(
        new_gateway, RemoteServer(THERE), replace(_request("x", base_url=THERE), **changes)
    )
    assert isinstance(reply, MissingReplyError)


async def test_what_was_find_at_other_address_is_recorded_once(gateway: Through, tmp_path: Path) -> None:
    """A reply that was found at another address is recorded under its original address only."""
    tape = _tape(tmp_path, here="recorded")
    new_gateway = gateway(cassette=tape, keeps_replies=True)
    await _asked(new_gateway, RemoteServer(THERE), _request("x", base_url=THERE))
    assert {key: entry.summary for key, entry in new_gateway.used.items()} == {
        key: entry.summary for key, entry in read_cassette(tape).items()
    }


async def test_the_cache_folder_keeps_addresses_apart(gateway: Through) -> None:
    """A cached reply is used only for its own address, unlike a reply of the cassette."""
    with ScriptedServer("one") as one, ScriptedServer("other") as other:
        for server in (one, other):
            (reply,) = await _asked(gateway(), _at(server), _request("x", base_url=server.url))
            assert reply.text == ("one" if server is one else "other")


async def test_a_line_without_an_outline_is_found_by_its_key(gateway: Through, tmp_path: Path) -> None:
    """An old or handwritten line without a request summary is found by its key, but not for another address."""
    request = _request("x", base_url=HERE)
    write_cassette(tmp_path / "tape.jsonl", [Entry(request.key, Reply("recorded"))])
    new_gateway = gateway(cassette=tmp_path / "tape.jsonl", mode="replay")
    replies = await _asked(new_gateway, RemoteServer(HERE), request, replace(request, base_url=THERE))
    assert replies[0].text == "recorded"
    assert isinstance(replies[1], MissingReplyError)
