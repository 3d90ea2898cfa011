"""Claims in SQLite: which process requests which reply."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.core.errors import StoreError
from pytest_rageval.models.stores import interface
from pytest_rageval.models.stores import sqlite as module
from pytest_rageval.models.stores.sqlite import LocalStore
from pytest_rageval.models.stores.sqlite_file import Database, ReplyTable

Open = Callable[..., Database]


@pytest.fixture
def owner(databases: Open):
    owners: list[LocalStore] = []

    def make() -> LocalStore:
        database = databases()
        owners.append(LocalStore(database, ReplyTable(database)))
        return owners[-1]

    yield make
    for each in owners:
        each.close()


Owner = Callable[[], LocalStore]


def _claim(owner: LocalStore, *keys: str) -> set[str]:
    return {key for key, claimed in owner.claim(keys).items() if claimed is True}


def _soon(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def _mark(owner: LocalStore, key: str) -> float:
    ((mark,),) = owner.database.rows("SELECT expires FROM leases WHERE key = ?", (key,))
    return mark


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "RENEWAL_S", 0.02)


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let owners renew no claims, as if their processes had been killed."""
    monkeypatch.setattr(LocalStore, "_start_renewing", lambda _: None)


class Clock:
    """A replacement for the module `time`: its time advances when a test sets `now`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def _look(owner: LocalStore, clock: Clock, seconds: float) -> None:
    """Let an owner read the claims of the others ten times per second of simulated time."""
    for _ in range(round(seconds * 10)):
        clock.now += 0.1
        owner.claims(["a"])


def test_an_undone_claim_is_none(owner: Owner) -> None:
    one, other = owner(), owner()

    def fail() -> None:
        with one.database.transaction():
            assert one.claim(["a"]) == {"a": True}
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert _claim(other, "a") == {"a"}


@pytest.mark.usefixtures("often")
def test_a_claim_is_renewed_while_its_owner_is_busy(owner: Owner) -> None:
    one = owner()
    _claim(one, "a")
    for _ in range(3):
        before = _mark(one, "a")
        assert _soon(lambda before=before: _mark(one, "a") > before)


@pytest.mark.usefixtures("often")
def test_renewing_continues_after_an_error(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = []

    def scarce(folder: Path) -> Database:
        if len(failures) < 3:
            failures.append(1)
            raise StoreError("too many open files")
        return Database(folder)

    one = owner()
    monkeypatch.setattr(module, "Database", scarce)
    _claim(one, "a")
    before = _mark(one, "a")
    assert _soon(lambda: _mark(one, "a") > before)
    assert len(failures) == 3
    one.close()


@pytest.mark.usefixtures("dead")
def test_a_claim_of_a_dead_owner_runs_out(owner: Owner, clock: Clock) -> None:
    killed, one, other = owner(), owner(), owner()
    assert _claim(killed, "a", "b") == {"a", "b"}
    one.claims(["a"])
    _look(one, clock, module.CLAIM_TTL_S - 0.1)
    assert _claim(one, "a") == set()
    assert set(one.claims(["a"])) == {"a"}
    assert one.others_active()
    _look(one, clock, 0.2)
    assert one.claims(["a", "b"]) == {}
    assert not one.others_active()
    assert _claim(one, "a") == {"a"}
    assert _claim(other, "a", "b") == {"b"}


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("left", [-1e300, -1.0, 0.0, 1.0, 1e18, 1e300, 1763790000.0 + 86_400])
def test_a_claim_lasts_equally_long_whatever_was_written(owner: Owner, clock: Clock, left: float) -> None:
    """A heartbeat may come from a clock a day ahead, from before a restart, or from an earlier version."""
    one = owner()
    one.database.execute("INSERT INTO leases VALUES ('a', 'killed', ?)", (left,))
    one.claims(["a"])
    _look(one, clock, module.CLAIM_TTL_S - 0.1)
    assert _claim(one, "a") == set()
    _look(one, clock, 0.2)
    assert _claim(one, "a") == {"a"}


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("kind", ["NULL", "x'ff'", "CAST(x'ff' AS TEXT)", "'[]'", "7"])
def test_invalid_values_in_the_claim_table_expire(owner: Owner, clock: Clock, kind: str) -> None:
    one = owner()
    value = "''" if kind == "NULL" else kind
    one.database.execute(f"INSERT INTO leases VALUES ('a', {value}, {value})")  # noqa: S608 - from the list above
    one.claims(["a"])
    _look(one, clock, module.CLAIM_TTL_S + 0.1)
    assert one.claims(["a"]) == {}
    assert _claim(one, "a") == {"a"}


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("shift", [86_400.0, 20.0, -20.0, -86_400.0])
def test_a_claim_owner_with_a_different_clock_counts_as_alive(owner, clock, shift):
    elsewhere, one = owner(), owner()
    _claim(elsewhere, "a")
    for second in range(30):
        elsewhere.database.execute("UPDATE leases SET expires = ?", (clock.now + shift,))
        _look(one, clock, 1.0)
        assert set(one.claims(["a"])) == {"a"}, second


@pytest.mark.usefixtures("dead")
def test_a_process_that_was_paused_does_not_count_others_as_dead(owner: Owner, clock: Clock) -> None:
    other, one = owner(), owner()
    _claim(other, "a")
    _look(one, clock, 1.0)
    clock.now += 3600.0
    assert set(one.claims(["a"])) == {"a"}
    _look(one, clock, 2.0)
    assert set(one.claims(["a"])) == {"a"}
    _look(one, clock, module.CLAIM_TTL_S)
    assert one.claims(["a"]) == {}


@pytest.mark.usefixtures("dead")
def test_an_owner_knows_what_was_taken_over(owner: Owner, clock: Clock) -> None:
    stopped, one = owner(), owner()
    _claim(stopped, "a", "b")
    one.claims(["a"])
    _look(one, clock, module.CLAIM_TTL_S + 0.1)
    _claim(one, "a")
    assert stopped.claims(["a", "b"]) == {"a": False}
    assert _claim(stopped, "a", "b", "c") == {"b", "c"}
    assert one.claims(["a", "b", "c"]) == {"a": True, "b": False, "c": False}


@pytest.mark.usefixtures("often")
def test_what_was_taken_over_is_not_renewed_by_its_former_owner(owner: Owner) -> None:
    one, other = owner(), owner()
    _claim(one, "a", "b")
    _claim(other, "c")
    with other.database.transaction():
        # As if the claim had expired. In the same transaction as the new claim, so that it is not renewed in between.
        other.database.execute("DELETE FROM leases WHERE key = 'a'")
        assert other.claim(["a"]) == {"a": True}
    other._closed.set()
    other._renewal_thread.join(60)
    left = _mark(one, "a")
    # One statement renews all claims of an owner: after two renewals of "b", "a" would have been renewed, too.
    for _ in range(2):
        before = _mark(one, "b")
        assert _soon(lambda before=before: _mark(one, "b") > before)
    assert _mark(one, "a") == left


def test_without_claims_no_thread_is_started(owner: Owner) -> None:
    one = owner()
    _claim(one)
    assert one._renewal_thread is None
    _claim(one, "a")
    assert one._renewal_thread is not None
    one.close()
    assert not one._renewal_thread.is_alive()


def test_closing_on_an_unusable_file_is_no_error(owner: Owner) -> None:
    """Closing raises no error if the file cannot be used: requests have raised it, and claims expire."""
    one = owner()
    _claim(one, "a")
    one.database.execute("ALTER TABLE leases RENAME TO gone")
    one.close()


def test_an_unusable_file_is_a_store_error(owner: Owner) -> None:
    one = owner()
    one.database.execute("ALTER TABLE leases RENAME TO gone")
    for use in (one.claim, one.claims, one.release):
        with pytest.raises(StoreError):
            use(["a"])
    one.database.execute("ALTER TABLE gone RENAME TO leases")
