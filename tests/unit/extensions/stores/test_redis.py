"""The errors of the store in Redis. Its operations are tested in `tests/conformance`."""

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pytest_rageval.core.errors import StoreError
from pytest_rageval.extensions.stores.redis import ACL_RIGHTS, RedisConnection, RedisStore
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry, Spending, StoreAwayError
from pytest_rageval.options.parsers import CACHE_URL
from tests.redis_server import RedisServer

PASSWORD = "planted-password/of mine"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield a server with a password and two users: one has too few rights, the other has enough."""
    folder: Path = tmp_path_factory.mktemp("redis")
    with RedisServer(folder, password=PASSWORD) as running:
        running.client().execute_command("ACL", "SETUSER", "few", "on", f">{PASSWORD}", "+info", "~*")
        running.client().execute_command(
            "ACL", "SETUSER", "enough", "on", f">{PASSWORD}", *ACL_RIGHTS.split()
        )
        yield running


def _store(server: RedisServer, login: str = "") -> RedisStore:
    return RedisStore(StoreURL.parse(f"redis://{login}127.0.0.1:{server.port}/0"))


@pytest.mark.parametrize(
    ("login", "why"),
    [
        (f":{quote(PASSWORD, safe='')}x@", "refuses the user or password: invalid username-password pair"),
        (
            f"nobody:{quote(PASSWORD, safe='')}@",
            "refuses the user or password: invalid username-password pair",
        ),
        ("", "needs a password, and its URL has none."),
    ],
)
def test_credentials_that_the_server_refuses(server: RedisServer, login: str, why: str) -> None:
    with pytest.raises(StoreError) as caught:
        _store(server, login)
    head, remedy = str(caught.value).splitlines()
    assert head.startswith(f"The cache redis://127.0.0.1:{server.port}/0 {why}")
    assert f"{CACHE_URL}, as redis://:PASSWORD@HOST/0 or redis://USER:PASSWORD@HOST/0" in remedy
    assert "planted" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_user_without_rights_is_an_error_that_names_them(server: RedisServer) -> None:
    """A user with too few rights gets an error with the ACL command; its rights suffice for all operations."""
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


@pytest.fixture
def free(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a server without a password, which a test may spoil."""
    with RedisServer(tmp_path) as running:
        yield running


def _without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    call = RedisConnection.call
    monkeypatch.setattr(RedisConnection, "call", lambda self, work, **_: call(self, work, patience_s=0.0))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("unknown=planted", "the parameter 'unknown'"),
        ("decode_responses=True", "the parameter 'decode_responses'"),
        ("planted", "a text after ? that is not NAME=VALUE"),
    ],
)
def test_an_unknown_parameter_is_refused_before_the_client_sees_it(query: str, found: str) -> None:
    with pytest.raises(StoreError, match=r"Correct the URL in .*, where the parameters can be ") as caught:
        RedisStore(StoreURL.parse(f"redis://:planted-pw@127.0.0.1:1/0?{query}"))
    assert f"redis://127.0.0.1:1/0 cannot be used: its URL has {found}" in str(caught.value)
    assert "planted" not in str(caught.value)


def test_a_path_that_is_no_number_is_refused() -> None:
    """The client ignores such a path, and would use database 0."""
    with pytest.raises(StoreError, match="its path '/cache' is not the number of a database"):
        RedisStore(StoreURL.parse("redis://127.0.0.1:1/cache"))


@pytest.mark.parametrize(
    "query", ["ssl_unknown=planted-value", "db=planted-value", "health_check_interval=planted-value"]
)
def test_what_the_client_refuses_is_one_error(query: str) -> None:
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1/0 cannot be used: ") as caught:
        RedisStore(StoreURL.parse(f"rediss://:planted-pw@127.0.0.1:1/0?{query}"))
    assert "planted" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("code", ["READONLY", "MASTERDOWN", "MISCONF"])
def test_a_server_that_does_not_write_now_is_away(free, code, tmp_path, monkeypatch):
    """A failover and a full disk end: the error is StoreAwayError, until the server writes again."""
    _without_patience(monkeypatch)
    store, client = _store(free), free.client()
    assert store.claim(["a"]) == {"a": True}
    if code == "MISCONF":
        client.config_set("save", "1 1")
        folder = tmp_path / "gone"
        folder.mkdir()
        client.config_set("dir", str(folder))
        folder.rmdir()
        client.set("x", 1)
        until = time.monotonic() + 20
        while client.info("persistence")["rdb_last_bgsave_status"] == "ok":
            assert time.monotonic() < until
            time.sleep(0.1)
    else:
        client.config_set("replica-serve-stale-data", "no" if code == "MASTERDOWN" else "yes")
        client.replicaof("127.0.0.1", 1)
    operations = [
        store.ping,
        lambda: store.claim(["b"]),
        lambda: store.keep([Entry("a", Reply("text"))]),
        lambda: store.spend("run", Spending(1), max_calls=10),
    ]
    for operation in operations:
        with pytest.raises(StoreAwayError):
            operation()
    if code == "MISCONF":
        client.config_set("save", "")
    else:
        client.replicaof("no", "one")
    store.ping()
    assert store.keep([Entry("a", Reply("text"))])["a"].text == "text"
    store.close()


def test_a_busy_server_is_away(free: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_patience(monkeypatch)
    store, client = _store(free), free.client()
    client.config_set("lua-time-limit", 1)
    blocker = threading.Thread(target=_run_until_killed, args=[free.client()])
    blocker.start()
    try:
        until = time.monotonic() + 20
        while True:
            try:
                store.ping()
            except StoreAwayError as error:
                assert "BUSY" in str(error) or "Timeout" in str(error)  # noqa: PT017
                break
            assert time.monotonic() < until
    finally:
        client.script_kill()
        blocker.join()
    store.ping()
    store.close()


def _run_until_killed(client: Any) -> None:
    with suppress(Exception):
        client.eval("while true do end", 0)


def test_a_key_of_another_type_costs_one_reply(free: RedisServer) -> None:
    """A key that another program has overwritten with a list counts as missing, once; the others are not affected."""
    store, client = _store(free), free.client()
    store.keep([Entry("a", Reply("text")), Entry("b", Reply("text"))])
    for name in ("reply:a", "claim:a", "owners"):
        client.delete(f"rageval:1:replies:{name}")
        client.rpush(f"rageval:1:replies:{name}", "x")
    assert list(store.get_many(["a", "b"])) == ["b"]
    assert store.claim(["a"]) == {"a": True}
    assert not store.others_active()
    store.renew()
    store.keep([Entry("a", Reply("new"))])
    assert store.get_many(["a"])["a"].text == "new"
    assert store.claims(["a"]) == {}
    client.set("rageval:1:replies:spending:run", "x")
    with pytest.raises(StoreError, match="its key rageval:1:replies:spending:run is not a hash"):
        store.spend("run", Spending(1), max_calls=10)
    store.close()


@pytest.mark.parametrize(("policy", "expires"), [("noeviction", True), ("volatile-lru", False)])
def test_an_account_is_not_evicted(free: RedisServer, policy: str, *, expires: bool) -> None:
    """An account expires only where the server evicts nothing: a forgotten account would lift its limit."""
    client = free.client()
    client.config_set("maxmemory-policy", policy)
    store = _store(free)
    assert store.spend("run", Spending(1), max_calls=1) is None
    assert (client.ttl("rageval:1:replies:spending:run") > 0) is expires
    assert store.spend("run", Spending(1), max_calls=1) == Spending(1)
    store.close()


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here, which makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    name = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, *make, *name], check=True, capture_output=True)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    files = zip(("cert", "key", "ca-cert"), (certificate, key, certificate), strict=True)
    named = chain.from_iterable((f"--tls-{name}-file", str(file)) for name, file in files)
    arguments = ["--tls-port", str(port), *named, "--tls-auth-clients", "no"]
    with ExitStack() as running:
        try:
            running.enter_context(RedisServer(tmp_path, *arguments, password=PASSWORD))
        except RuntimeError:
            pytest.skip("the redis-server here was built without TLS")
        yield f"127.0.0.1:{port}/0", certificate


def test_tls(tls: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that is named in the URL is trusted; an unknown certificate is refused."""
    # Other tests replace this method, since loading certificates takes long; this test needs it.
    monkeypatch.delattr(ssl.SSLContext, "load_verify_locations")
    place, certificate = tls
    login = f":{quote(PASSWORD, safe='')}@"
    store = RedisStore(StoreURL.parse(f"rediss://{login}{place}?ssl_ca_certs={certificate}"))
    store.keep([Entry("a", Reply("text"))])
    assert store.get_many(["a"])["a"].text == "text"
    store.close()
    _without_patience(monkeypatch)
    with pytest.raises(
        StoreError, match=f"The cache rediss://{place} cannot be used: .*certificate"
    ) as caught:
        RedisStore(StoreURL.parse(f"rediss://{login}{place}"))
    assert "planted" not in str(caught.value)
