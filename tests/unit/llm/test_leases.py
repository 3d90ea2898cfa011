"""Who is asking for which reply."""

import time
from collections.abc import Callable

import pytest

from pytest_rageval.errors import StoreError
from pytest_rageval.llm import leases
from pytest_rageval.llm.database import Database
from pytest_rageval.llm.leases import Leases

Open = Callable[..., Database]


@pytest.fixture
def owner(databases: Open):
    """Makes owners, each with a connection of its own, and ends them."""
    owners: list[Leases] = []

    def make() -> Leases:
        owners.append(Leases(databases()))
        return owners[-1]

    yield make
    for each in owners:
        each.close()


Owner = Callable[[], Leases]


def _claim(owner: Leases, *keys: str) -> set[str]:
    with owner._database.transaction():
        return owner.claim(keys)


def _soon(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes to hold; not to wait for ever is all that the time is for."""
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def _ends(owner: Leases, key: str) -> float:
    """When a lease runs out."""
    ((seconds,),) = owner._database.rows("SELECT expires FROM leases WHERE key = ?", (key,))
    return seconds


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that are renewed every 0.02 s."""
    monkeypatch.setattr(leases, "RENEWAL_S", 0.02)


class Clock:
    """Stands for the module `time`: it goes on when it is told to."""

    now = 1e9

    def time(self) -> float:
        """The seconds that were told."""
        return self.now


def test_a_key_has_one_owner(owner: Owner) -> None:
    """Who comes second gets what is left."""
    one, other = owner(), owner()
    assert _claim(one, "a", "b") == {"a", "b"}
    assert _claim(other, "b", "c") == {"c"}
    assert one.held(["a", "b", "c", "d"]) == other.held(["a", "b", "c", "d"]) == {"a", "b", "c"}


def test_an_owner_may_claim_again(owner: Owner) -> None:
    """What it has, it has."""
    one = owner()
    assert _claim(one, "a") == _claim(one, "a") == {"a"}
    assert _claim(one) == set()


def test_what_is_released_can_be_claimed(owner: Owner) -> None:
    """By anybody; the rest stays."""
    one, other = owner(), owner()
    _claim(one, "a", "b")
    one.release(["a", "unknown"])
    assert other.held(["a", "b"]) == {"b"}
    assert _claim(other, "a", "b") == {"a"}


def test_nobody_releases_for_another(owner: Owner) -> None:
    """The lease stays with its owner."""
    one, other = owner(), owner()
    _claim(one, "a")
    other.release(["a"])
    assert _claim(other, "a") == set()


def test_a_closed_owner_has_none(owner: Owner) -> None:
    """Those of others stay."""
    one, other = owner(), owner()
    _claim(one, "a")
    _claim(other, "b")
    one.close()
    assert other.held(["a", "b"]) == {"b"}


def test_an_undone_claim_is_none(owner: Owner) -> None:
    """When the transaction around it fails."""
    one, other = owner(), owner()

    def fail() -> None:
        with one._database.transaction():
            assert one.claim(["a"]) == {"a"}
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert _claim(other, "a") == {"a"}


@pytest.mark.usefixtures("often")
def test_a_lease_is_renewed_while_its_owner_is_busy(owner: Owner) -> None:
    """This thread does nothing for it; each time the lease lasts anew for as long as at first."""
    one, other = owner(), owner()
    before = time.time()
    _claim(one, "a")
    first = _ends(other, "a")
    assert first >= before + leases.LEASE_S
    assert _soon(lambda: _ends(other, "a") > first)
    second = _ends(other, "a")
    assert _soon(lambda: _ends(other, "a") > second)


def test_a_lease_of_a_dead_owner_runs_out(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before its time, and then it is anybody's, but only one's."""
    monkeypatch.setattr(leases, "time", clock := Clock())
    # As if its process had been killed: nobody renews.
    monkeypatch.setattr(leases, "RENEWAL_S", 3600.0)
    dead, one, other = owner(), owner(), owner()
    assert _claim(dead, "a") == {"a"}
    clock.now += leases.LEASE_S - 0.1
    assert _claim(one, "a") == set()
    assert one.held(["a"]) == {"a"}
    clock.now += 0.2
    assert one.held(["a"]) == set()
    assert _claim(one, "a") == {"a"}
    assert _claim(other, "a") == set()


@pytest.mark.usefixtures("often")
def test_what_was_taken_over_is_not_renewed_by_its_former_owner(owner: Owner) -> None:
    """It was only slow: the lease is the other's now."""
    one, other = owner(), owner()
    _claim(one, "a", "b")
    with other._database.transaction():
        # As if it had not been renewed in time; in one with the claim, so that it is not renewed between.
        other._database.execute("UPDATE leases SET expires = 0 WHERE key = 'a'")
        assert other.claim(["a"]) == {"a"}
    other._ended.set()
    assert other._renewing is not None
    other._renewing.join(60)
    left = _ends(one, "a")
    # Each lease of the former owner is renewed in one statement: after two, it has had its chance.
    for _ in range(2):
        before = _ends(one, "b")
        assert _soon(lambda before=before: _ends(one, "b") > before)
    assert _ends(one, "a") == left


def test_who_claims_nothing_starts_no_thread(owner: Owner) -> None:
    """A run from the cache alone renews nothing."""
    one = owner()
    _claim(one)
    assert one._renewing is None
    _claim(one, "a")
    assert one._renewing is not None
    one.close()
    assert not one._renewing.is_alive()


def test_closing_on_an_unusable_file_is_no_error(owner: Owner) -> None:
    """The run has been told by then, and its report must still come; leases run out by themselves."""
    one = owner()
    _claim(one, "a")
    one._database.execute("ALTER TABLE leases RENAME TO gone")
    one.close()


def test_an_unusable_file_is_a_store_error(owner: Owner) -> None:
    """Not one of SQLite's."""
    one = owner()
    one._database.execute("ALTER TABLE leases RENAME TO gone")
    for use in (one.claim, one.held, one.release):
        with pytest.raises(StoreError):
            use(["a"])
    one._database.execute("ALTER TABLE gone RENAME TO leases")
