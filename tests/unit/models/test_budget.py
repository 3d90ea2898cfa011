"""The budget of a run: calls and cost, counted for all of its processes."""

import asyncio
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_rageval.core.errors import BudgetError, ServerError, StoreError
from pytest_rageval.models import budget as module
from pytest_rageval.models.budget import SETTLING_S, Budget, Limits, max_output_tokens, prompt_tokens
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.prices import Price, Prices
from pytest_rageval.models.stores.interface import Spending
from pytest_rageval.models.stores.sqlite import SPENDING_KEPT_S, LocalStore
from pytest_rageval.models.stores.sqlite_file import Database, ReplyTable

Open = Callable[..., Database]
Start = Callable[..., subprocess.Popen[str]]

ASKED = Request("http://u/v1", "m", ({"role": "user", "content": "Why?"},), {"max_tokens": 100})
PRICES = Prices(
    {("", "m"): Price(1.0, 10_000.0), ("", "capped"): Price(1.0, 10_000.0, 50), ("", "free"): Price(0, 0)}
)
PATIENCE = 60.0
REPLY = Reply("x", tokens_in=10, tokens_out=10)
MOST = PRICES.get("", "m").cost(prompt_tokens(ASKED.messages), 100)
COST = PRICES.get("", "m").cost(10, 10)

DIES_IN_A_CALL = """
import asyncio, os, sys
from pathlib import Path
from pytest_rageval.models.budget import Budget, Limits
from pytest_rageval.models.cache import Cache
from pytest_rageval.models.prices import Prices
from pytest_rageval.models.messages import Request

async def die():
    cache = Cache(Path(sys.argv[1]), None)
    async with Budget(Limits(max_calls=2), Prices(), "r").reserve(cache, Request("http://u/v1", "m", ())):
        os._exit(3)

asyncio.run(die())
"""


class Spent(NamedTuple):
    calls: int = 0
    cost: float = 0.0
    open_calls: int = 0
    open_cost: float = 0.0


@dataclass
class Ledger:
    database: Database
    active: Callable[[], bool] = lambda: True

    async def spend(self, account: str, change: Spending, **limits: float) -> Spending | None:
        return LocalStore(self.database, ReplyTable(self.database)).spend(account, change, **limits)

    async def others_active(self) -> bool:
        return self.active()


class FakeTime:
    """A replacement for the module `time`: a test sets `now`, and each reading adds `tick`."""

    now = 0.0
    tick = 0.0
    time = staticmethod(time.time)

    def monotonic(self) -> float:
        self.now += self.tick
        return self.now


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try a waiting reservation again in every iteration of the event loop."""
    monkeypatch.setattr(module, "POLL_S", 0)


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake_time = FakeTime()
    monkeypatch.setattr(module, "time", fake_time)
    return fake_time


def _spent(database: Database, run: str = "r") -> Spent:
    sql = "SELECT calls, cost, open_calls, open_cost FROM spending WHERE run = ?"
    rows = database.rows(sql, (run,))
    return Spent(*rows[0]) if rows else Spent()


def _budget(run: str = "r", *, patience_s: float = PATIENCE, **limits: Any) -> Budget:
    return Budget(Limits(**limits), PRICES, run, patience_s=patience_s)


async def _buy(
    budget: Budget,
    database: Database | Ledger,
    request: Request = ASKED,
    *,
    reply: Reply | None = REPLY,
    billed: bool = False,
) -> Spent:
    ledger = database if isinstance(database, Ledger) else Ledger(database)
    async with budget.reserve(ledger, request) as purchase:
        during = _spent(ledger.database)
        await asyncio.sleep(0)
        purchase.reply, purchase.billed = reply, billed
    return during


async def _wait_a_little() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_calls_are_counted_to_the_last(database: Database) -> None:
    budget = _budget(max_calls=7)
    outcomes = await asyncio.gather(*(_buy(budget, database) for _ in range(50)), return_exceptions=True)
    errors = [outcome for outcome in outcomes if not isinstance(outcome, Spent)]
    assert len(errors) == 43
    assert {type(error) for error in errors} == {BudgetError}
    assert str(errors[0]).startswith("--rageval max_calls=7 is reached: 7 calls were made.\n")
    assert max(outcome.open_calls for outcome in outcomes if isinstance(outcome, Spent)) == 7
    assert _spent(database) == pytest.approx(Spent(calls=7, cost=7 * COST))


async def test_no_calls_are_a_budget_too(database: Database) -> None:
    """A limit of zero calls or zero USD allows no call; it does not mean that there is no limit."""
    with pytest.raises(BudgetError, match="--rageval max_calls=0 is reached"):
        await _buy(_budget(max_calls=0), database)
    with pytest.raises(BudgetError, match="--rageval-max-cost=0 is reached"):
        await _buy(_budget("other", max_cost=0.0), database)


async def test_what_costs_nothing_needs_no_money(database: Database) -> None:
    """With a cost limit of zero, a free model and the embedded model can be called."""
    free = Request("http://u/v1", "free", ASKED.messages, ASKED.parameters)
    assert await _buy(_budget(max_cost=0.0), database, free) == Spent(open_calls=1)
    embedded = Request("embedded:threads=1", "g", ASKED.messages, ASKED.parameters)
    assert await _buy(_budget(max_cost=0.0), database, embedded) == Spent(calls=1, open_calls=1)
    assert _spent(database) == Spent(calls=2)


async def test_the_most_that_a_call_can_cost_is_set_aside(database: Database) -> None:
    """A call in flight reserves its highest possible cost; after its reply, the real cost is counted instead."""
    budget = _budget(max_cost=10.0)
    assert await _buy(budget, database) == Spent(open_calls=1, open_cost=MOST)
    assert _spent(database) == Spent(calls=1, cost=COST)
    assert budget.cost(ASKED, REPLY) == COST
    during = await _buy(budget, database)
    assert during == Spent(calls=1, cost=COST, open_calls=1, open_cost=MOST)
    assert _spent(database) == Spent(calls=2, cost=2 * COST)


async def test_the_cost_is_never_passed(database: Database) -> None:
    """The cost of 60 concurrent calls stays within the limit, whatever each reply really costs."""
    limit = 5 * MOST
    budget = _budget(max_cost=limit)
    replies = [Reply("x", tokens_in=5, tokens_out=(number * 37) % 101) for number in range(60)]
    calls = (_buy(budget, database, reply=reply) for reply in replies)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    completed_calls = [outcome for outcome in outcomes if isinstance(outcome, Spent)]
    spent = sum(
        budget.cost(ASKED, reply) or 0.0
        for reply, outcome in zip(replies, outcomes, strict=True)
        if isinstance(outcome, Spent)
    )
    assert max(during.cost + during.open_cost for during in completed_calls) <= limit * (1 + 1e-9)
    assert spent <= limit * (1 + 1e-9)
    # The remaining amount is too small for another call.
    assert spent > limit - MOST
    # More calls than at the highest cost per call: unused parts of reservations are released.
    assert len(completed_calls) > 5
    error = next(outcome for outcome in outcomes if not isinstance(outcome, Spent))
    assert isinstance(error, BudgetError)
    assert f"{spent:.4f} USD are spent, and the next call may cost {MOST:.4f}" in str(error)
    assert _spent(database) == pytest.approx(Spent(calls=len(completed_calls), cost=spent), abs=1e-12)


async def test_a_call_that_failed_is_given_back(database: Database) -> None:
    budget = _budget(max_calls=2, max_cost=1.5 * MOST)
    for _ in range(20):
        await _buy(budget, database, reply=None)
    assert _spent(database) == pytest.approx(Spent(), abs=1e-12)
    await _buy(budget, database)


async def test_an_error_is_raised_and_the_call_given_back(database: Database) -> None:
    with pytest.raises(ServerError, match="gone"):
        async with _budget(max_cost=MOST).reserve(Ledger(database), ASKED):
            raise ServerError("gone")
    assert _spent(database) == Spent()


@pytest.mark.parametrize(("reply", "cost"), [({"reply": None}, MOST), ({}, COST)])
async def test_a_billed_attempt_counts_as_the_most_it_can_cost_or_as_its_reply_says(database, reply, cost):
    await _buy(_budget(max_cost=10.0), database, billed=True, **reply)
    assert _spent(database) == Spent(calls=1, cost=cost)


async def test_a_billed_attempt_that_raises_counts(database: Database) -> None:
    budget = _budget(max_calls=3)

    async def slow() -> None:
        async with budget.reserve(Ledger(database), ASKED) as purchase:
            purchase.billed = True
            raise TimeoutError

    for _ in range(3):
        with pytest.raises(TimeoutError):
            await slow()
    with pytest.raises(BudgetError, match="--rageval max_calls=3 is reached: 3 calls were made"):
        await slow()
    assert _spent(database) == Spent(calls=3)


@pytest.mark.parametrize(
    ("reply", "tokens"),
    [
        (Reply("x"), (prompt_tokens(ASKED.messages), 100)),
        (Reply(""), (prompt_tokens(ASKED.messages), 100)),
        (Reply("x", tokens_in=10), (10, 100)),
        (Reply("x", tokens_out=10), (prompt_tokens(ASKED.messages), 10)),
        (Reply("", tokens_in=10), (10, 0)),
        (Reply("", tokens_in=10, tool_calls="[{}]"), (10, 100)),
        (Reply("", tokens_in=10, refusal="no"), (10, 100)),
    ],
    ids=["nothing", "nothing of nothing", "the prompt", "the reply", "silence", "a call", "a refusal"],
)
async def test_what_is_not_reported_counts_as_the_most(database, reply, tokens):
    cost = Price(1.0, 10_000.0).cost(*tokens)
    await _buy(_budget(max_cost=10.0), database, reply=reply)
    assert _spent(database) == pytest.approx(Spent(calls=1, cost=cost))
    assert _budget().cost(ASKED, reply) == pytest.approx(cost)


def test_what_is_neither_reported_nor_bounded_has_no_cost_that_is_known() -> None:
    unbounded = Request("http://u/v1", "m", ASKED.messages)
    assert _budget().cost(unbounded, Reply("x", tokens_in=10)) is None
    assert _budget().cost(Request("embedded", "g", ASKED.messages), Reply("x")) == 0


async def test_a_call_that_cannot_be_counted_stays_set_aside_until_it_can(database, monkeypatch):
    budget = _budget(max_calls=2, max_cost=10.0)
    transaction = Database.transaction

    def locked(_: Database) -> Any:
        raise StoreError("database is locked")

    async with budget.reserve(Ledger(database), ASKED) as purchase:
        purchase.reply = REPLY
        monkeypatch.setattr(Database, "transaction", locked)
    with pytest.raises(StoreError):
        await _buy(budget, database)
    monkeypatch.setattr(Database, "transaction", transaction)
    assert _spent(database) == Spent(open_calls=1, open_cost=MOST)
    during = await _buy(budget, database)
    assert during == Spent(calls=1, cost=COST, open_calls=1, open_cost=MOST)
    with pytest.raises(BudgetError, match="2 calls were made"):
        await _buy(budget, database)
    assert _spent(database) == pytest.approx(Spent(calls=2, cost=2 * COST))


async def test_no_process_waits_for_one_that_is_known_to_be_dead(
    databases: Open, fake_time: FakeTime
) -> None:
    first_database, second_database = databases(), databases()
    others_active = [True]
    budget = _budget(max_calls=1)
    async with _budget(max_calls=1).reserve(Ledger(first_database), ASKED):
        waiting = asyncio.create_task(_buy(budget, Ledger(second_database, lambda: others_active[0])))
        await _wait_a_little()
        fake_time.now += SETTLING_S + 1
        await _wait_a_little()
        assert not waiting.done()
        others_active[0] = False
        with pytest.raises(BudgetError, match="without an end"):
            await waiting


async def test_a_clock_change_keeps_the_spending_of_the_run(database: Database, fake_time: FakeTime) -> None:
    """If the wall clock jumps a month ahead during a run, the run's earlier calls still count."""
    budget = _budget(max_calls=2)
    await _buy(budget, database)
    fake_time.time = lambda: time.time() + 30 * 86_400
    await _buy(budget, database)
    with pytest.raises(BudgetError, match="2 calls were made"):
        await _buy(budget, database)


async def test_a_waiter_gets_the_budget_of_a_failed_call(database: Database) -> None:
    """If one call is left, a second call waits for the first, and is made when the first fails."""
    budget = _budget(max_calls=1)
    async with budget.reserve(Ledger(database), ASKED):
        waiting = asyncio.create_task(_buy(budget, database))
        await _wait_a_little()
        assert not waiting.done()
    assert await waiting == Spent(open_calls=1)
    assert _spent(database) == Spent(calls=1, cost=COST)


@pytest.mark.parametrize("reply", [REPLY, None], ids=["replied", "billed"])
async def test_waiters_get_an_error_when_the_last_call_has_ended(
    database: Database, reply: Reply | None
) -> None:
    budget = _budget(max_calls=1)
    async with budget.reserve(Ledger(database), ASKED) as purchase:
        waiting = [asyncio.create_task(_buy(budget, database)) for _ in range(3)]
        await _wait_a_little()
        assert not any(task.done() for task in waiting)
        purchase.reply, purchase.billed = reply, reply is None
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [BudgetError] * 3


async def test_a_cancelled_waiter_takes_nothing(database: Database) -> None:
    budget = _budget(max_calls=1)
    async with budget.reserve(Ledger(database), ASKED):
        waiting = asyncio.create_task(_buy(budget, database))
        await _wait_a_little()
        waiting.cancel()
    outcomes = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert _spent(database) == Spent()
    await _buy(budget, database)
    assert _spent(database) == Spent(calls=1, cost=COST)


async def test_a_cancelled_call_is_given_back(database: Database) -> None:
    budget = _budget(max_cost=MOST)

    async def never() -> None:
        async with budget.reserve(Ledger(database), ASKED):
            await asyncio.Event().wait()

    call = asyncio.create_task(never())
    await _wait_a_little()
    assert _spent(database) == Spent(open_calls=1, open_cost=MOST)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert _spent(database) == Spent()


async def test_two_processes_share_a_run(databases: Open) -> None:
    first_database, second_database = databases(), databases()

    async def calls(budget: Budget, database: Database) -> int:
        made = 0
        try:
            while True:
                await _buy(budget, database)
                made += 1
        except BudgetError:
            return made

    first, second = await asyncio.gather(
        *(calls(_budget(max_calls=5), database) for database in (first_database, second_database))
    )
    assert first + second == 5
    assert min(first, second) >= 1
    assert _spent(first_database) == _spent(second_database) == pytest.approx(Spent(calls=5, cost=5 * COST))
    assert await calls(_budget("another", max_calls=5), second_database) == 5


async def test_what_another_process_set_aside_is_waited_for(databases: Open) -> None:
    """A call waits while the reservation of another process leaves no room, and is made when it is settled."""
    first_database, second_database = databases(), databases()
    async with _budget(max_cost=1.5 * MOST).reserve(Ledger(first_database), ASKED) as purchase:
        waiting = asyncio.create_task(_buy(_budget(max_cost=1.5 * MOST), second_database))
        await _wait_a_little()
        assert not waiting.done()
        purchase.reply = REPLY
    assert await waiting == Spent(calls=1, cost=COST, open_calls=1, open_cost=MOST)
    assert _spent(first_database) == Spent(calls=2, cost=2 * COST)


async def test_what_another_process_set_aside_is_not_spent(databases: Open, fake_time: FakeTime) -> None:
    first_database, second_database = databases(), databases()
    budget = _budget(max_cost=1.5 * MOST)
    await _buy(budget, first_database)
    async with budget.reserve(Ledger(first_database), ASKED):
        waiting = asyncio.create_task(_buy(_budget(max_cost=1.5 * MOST), second_database))
        await _wait_a_little()
        fake_time.now += PATIENCE + 1
        expected = f"without an end: 1 call was made, and {COST:.4f} USD are spent"
        with pytest.raises(BudgetError, match=expected):
            await waiting
        assert _spent(first_database) == Spent(calls=1, cost=COST, open_calls=1, open_cost=MOST)


async def test_a_process_that_settles_a_call_counts_as_alive(databases: Open, fake_time: FakeTime) -> None:
    """Each change of the account by another process restarts the time limit of a waiting process."""
    first_database, second_database = databases(), databases()
    budget = _budget(max_calls=2)
    async with budget.reserve(Ledger(first_database), ASKED):
        async with budget.reserve(Ledger(first_database), ASKED) as purchase:
            waiting = asyncio.create_task(_buy(_budget(max_calls=2), second_database))
            await _wait_a_little()
            fake_time.now += PATIENCE - 1
            await _wait_a_little()
            purchase.reply = REPLY
        await _wait_a_little()
        fake_time.now += PATIENCE - 1
        await _wait_a_little()
        assert not waiting.done()
        fake_time.now += 2
        await _wait_a_little()
        assert isinstance(waiting.exception(), BudgetError)


async def test_a_dead_process_blocks_others_for_a_limited_time(databases, start, tmp_path, fake_time):
    """The open call of a killed process stays counted; of five calls without room, only the first waits for it."""
    assert start(DIES_IN_A_CALL, tmp_path / "cache").wait(60) == 3
    database = databases()
    assert _spent(database) == Spent(open_calls=1)
    budget = _budget(max_calls=2)
    await _buy(budget, database)
    fake_time.now, fake_time.tick = 0.0, 1.0
    for _ in range(5):
        with pytest.raises(BudgetError, match="held by 1 call of other processes, without an end: 1 call"):
            await _buy(budget, database)
    assert PATIENCE <= fake_time.now < 1.5 * PATIENCE
    assert _spent(database) == Spent(calls=1, cost=COST, open_calls=1)


async def test_an_unknown_price_is_an_error(database: Database) -> None:
    """With a cost limit, a model without a price raises BudgetError, and the message shows how to set the price."""
    unknown = Request("http://u/v1", "mystery", ASKED.messages, ASKED.parameters)
    with pytest.raises(BudgetError, match=r"(?s)No price is known for .*'mystery'.*\[\"mystery\"\]\ninput ="):
        await _buy(_budget(max_cost=1.0), database, unknown)
    assert _spent(database) == Spent()
    await _buy(_budget(max_calls=2), database, unknown)
    await _buy(_budget(max_calls=2), database, unknown, reply=None, billed=True)
    assert _spent(database) == Spent(calls=2)
    assert _budget().cost(unknown, REPLY) is None


@pytest.mark.parametrize("parameters", [{}, {"max_tokens": None}, {"max_tokens": -1}])
async def test_a_reply_without_bound_is_an_error(database: Database, parameters: dict[str, Any]) -> None:
    unbounded = Request("http://u/v1", "m", ASKED.messages, parameters)
    with pytest.raises(BudgetError, match=r"Nothing bounds the length .*\nSet --rageval max_tokens=N"):
        await _buy(_budget(max_cost=1.0), database, unbounded)
    assert _spent(database) == Spent()


async def test_the_models_own_bound_is_one(database: Database) -> None:
    capped = Request("http://u/v1", "capped", ASKED.messages)
    expected = Price(1.0, 10_000.0).cost(prompt_tokens(ASKED.messages), 50)
    assert (await _buy(_budget(max_cost=10.0), database, capped)).open_cost == expected


@pytest.mark.parametrize(
    ("parameters", "price", "expected"),
    [
        ({}, None, None),
        ({}, Price(1, 1), None),
        ({}, Price(1, 1, 70), 70),
        ({"max_tokens": 5}, Price(1, 1, 70), 5),
        ({"max_completion_tokens": 6}, None, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, None, 5),
        ({"max_tokens": -1}, Price(1, 1, 70), 70),
    ],
)
def test_what_bounds_a_reply(parameters: dict[str, Any], price: Price | None, expected: int | None) -> None:
    assert max_output_tokens(parameters, price) == expected


async def test_without_limits_nothing_is_written(database: Database) -> None:
    await _buy(_budget(), database)
    await _buy(_budget(), database, reply=None, billed=True)
    assert database.rows("SELECT * FROM spending") == []


async def test_runs_of_long_ago_are_forgotten(database: Database) -> None:
    database.execute_many(
        "INSERT INTO spending (run, calls, cost, began, open_calls, open_cost) VALUES (?, 1, 1, ?, 0, 0)",
        [("old", time.time() - SPENDING_KEPT_S - 60), ("recent", time.time() - SPENDING_KEPT_S + 3600)],
    )
    await _buy(_budget(max_calls=1), database)
    assert {run for (run,) in database.rows("SELECT run FROM spending")} == {"recent", "r"}


async def test_the_budget_outlives_the_process(databases: Open, tmp_path: Path) -> None:
    first = databases()
    await _buy(_budget(max_calls=1), first)
    first.close()
    with pytest.raises(BudgetError):
        await _buy(_budget(max_calls=1), databases(tmp_path / "cache"))
