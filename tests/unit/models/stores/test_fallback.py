"""The cache folder as the fallback of a shared store that does not answer."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import StoreError
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores import fallback
from pytest_rageval.models.stores.fallback import FallbackStore
from pytest_rageval.models.stores.interface import Entry, Spending, StoreAwayError
from pytest_rageval.models.stores.sqlite import SqliteStore


class Server(SqliteStore):
    away = False

    def __getattribute__(self, name: str) -> Any:
        if name in CALLS and object.__getattribute__(self, "away"):
            message = "away"
            raise StoreAwayError(message)
        return object.__getattribute__(self, name)


CALLS = {
    "get_many",
    "claim",
    "claims",
    "others_active",
    "ping",
    "keep",
    "release",
    "spend",
    "entries",
    "delete_many",
}

Make = Callable[..., tuple[FallbackStore, Server]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(fallback, "RETRY_INTERVAL_S", 0.0)
    made: list[FallbackStore] = []

    def machine(name: str = "one") -> tuple[FallbackStore, Server]:
        server = Server(tmp_path / "server")
        made.append(FallbackStore(StoreURL.parse("redis://host"), server, tmp_path / name, remarks.append))
        return made[-1], server

    remarks: list[str] = []
    machine.remarks = remarks
    yield machine
    for store in made:
        store.close()


def test_while_the_store_answers_there_is_no_folder(make: Make, tmp_path: Path) -> None:
    store, server = make()
    assert store.claim(["a"]) == {"a": True}
    store.keep([Entry("a", Reply("x"))])
    assert server.get_many(["a"]) == store.get_many(["a", "b"]) == {"a": Reply("x")}
    store.release(["c"])
    assert store.claims(["a"]) == {}
    assert not store.others_active()
    assert [entry.key for entry in store.entries()] == ["a"]
    store.delete_many(["a"])
    assert store.get_many(["a"]) == {}
    store.close()
    assert not (tmp_path / "one").exists()


def test_replies_cached_meanwhile_are_written_to_the_store(make: Make) -> None:
    store, server = make()
    store.claim(["a", "b"])
    server.away = True
    assert store.claims(["a"]) == {}
    assert store.claim(["a"]) == {"a": True}
    assert store.keep([Entry("a", Reply("x"))], run="r") == {"a": Reply("x")}
    assert store.get_many(["a"]) == {"a": Reply("x")}
    store.release(["b"])
    server.away = False
    other, _ = make("other")
    assert store.get_many(["b"]) == {}
    assert other.get_many(["a"], run="r", only_run=True) == {"a": Reply("x")}
    assert other.claim(["b"]) == {"b": True}
    server.away = True
    store.get_many(["a"])
    assert make.remarks == [f"redis://host did not answer: meanwhile replies were kept in {store._folder}"]


def test_replies_of_an_earlier_run_are_written_to_the_store(make: Make) -> None:
    store, server = make()
    server.away = True
    store.keep([Entry("a", Reply("x"), {"model": "m"}), Entry("silent", Reply(""))], run="1")
    store.close()
    later, server = make()
    assert later.get_many(["a", "silent"], run="2") == {"a": Reply("x")}
    (stored_entry,) = server.entries()
    assert isinstance(stored_entry, Entry)
    assert (stored_entry.key, stored_entry.summary) == ("a", {"model": "m"})


def test_the_last_replies_are_brought_at_the_end(make: Make) -> None:
    """Closing the store writes the last replies of an outage, if the shared store answers again."""
    store, server = make()
    server.away = True
    store.keep([Entry("a", Reply("x"))])
    server.away = False
    store.close()
    other, _ = make("other")
    assert other.get_many(["a"]) == {"a": Reply("x")}


def test_spending_is_counted_later_and_limits_are_not_exceeded(make: Make) -> None:
    store, server = make()
    assert store.spend("r", Spending(open_calls=1), max_calls=2) is None
    server.away = True
    assert store.spend("r", Spending(1, 0.5, -1)) is None
    with pytest.raises(
        StoreError, match="is for all machines of the run, and their count is at redis://host"
    ):
        store.spend("r", Spending(open_calls=1), max_calls=2)
    with pytest.raises(StoreError, match="nothing more is paid"):
        store.spend("r", Spending(open_calls=1), max_cost=2.0)
    server.away = False
    assert store.spend("r", Spending(open_calls=1), max_calls=1) == Spending(1, 0.5)


def test_other_errors_of_the_store_are_errors(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another error of the shared store, such as a wrong password, is raised: waiting does not help."""
    store, server = make()

    def refuse(*_: object, **__: object) -> None:
        raise StoreError("refused")

    monkeypatch.setattr(server, "get_many", refuse)
    with pytest.raises(StoreError, match="refused"):
        store.get_many(["a"])


def test_a_reply_that_the_store_refuses_is_in_the_folder(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, its memory is full. A later run writes the reply to the shared store."""
    store, server = make()
    store.claim(["a"])

    def refuse(*_: object, **__: object) -> None:
        raise StoreError("no memory")

    monkeypatch.setattr(server, "keep", refuse)
    with pytest.raises(StoreError, match="no memory"):
        store.keep([Entry("a", Reply("x"))])
    store.close()
    later, server = make()
    assert later.get_many(["a"]) == server.get_many(["a"]) == {"a": Reply("x")}
