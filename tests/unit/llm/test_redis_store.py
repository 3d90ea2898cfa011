"""The store in Redis: what it says where the server refuses. What it does is tested by `tests/conformance`."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.port import Entry, Spending
from pytest_rageval.llm.redis_store import RIGHTS, RedisStore
from pytest_rageval.secret import CACHE_URL, StoreURL
from tests.redis_server import RedisServer

PASSWORD = "planted-password/of mine"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """With a password, and a user without rights."""
    folder: Path = tmp_path_factory.mktemp("redis")
    with RedisServer(folder, password=PASSWORD) as running:
        running.client().execute_command("ACL", "SETUSER", "few", "on", f">{PASSWORD}", "+info", "~*")
        running.client().execute_command("ACL", "SETUSER", "enough", "on", f">{PASSWORD}", *RIGHTS.split())
        yield running


def _store(server: RedisServer, login: str = "") -> RedisStore:
    return RedisStore(StoreURL.parse(f"redis://{login}127.0.0.1:{server.port}/0"))


@pytest.mark.parametrize(
    ("login", "why"),
    [
        (
            f":{quote(PASSWORD, safe='')}x@",
            "refuses the user or password: invalid username-password pair",
        ),
        (
            f"nobody:{quote(PASSWORD, safe='')}@",
            "refuses the user or password: invalid username-password pair",
        ),
        ("", "needs a password, and its URL has none."),
    ],
)
def test_credentials_that_the_server_refuses(server: RedisServer, login: str, why: str) -> None:
    """At once, with the place for the right ones; none of them is shown."""
    with pytest.raises(StoreError) as caught:
        _store(server, login)
    head, remedy = str(caught.value).splitlines()
    assert head.startswith(f"The cache redis://127.0.0.1:{server.port}/0 {why}")
    assert f"{CACHE_URL}, as redis://:PASSWORD@HOST/0 or redis://USER:PASSWORD@HOST/0" in remedy
    assert "planted" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_user_without_rights_is_told_which(server: RedisServer) -> None:
    """They are enough for all that a store does."""
    login = quote(PASSWORD, safe="")
    store = _store(server, f"few:{login}@")
    with pytest.raises(
        StoreError, match=r"does not let this user do what a store has to: .*\n.* ACL SETUSER USER ~rag"
    ):
        store.get_many(["a"])
    store.close()
    store = _store(server, f"enough:{login}@")
    store.ping()
    assert store.claim(["a", "b"]) == {"a": True, "b": True}
    store.renew()
    assert not store.others_active()
    store.keep([Entry("a", Reply("text", "m", "stop", 1, 1))])
    store.release(["b"])
    assert store.spend("run", Spending(1)) is None
    assert [entry.key for entry in store.entries()] == ["a"]
    store.delete_many(["a"])
    store.close()
