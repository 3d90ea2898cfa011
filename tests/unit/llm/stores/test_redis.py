"""The errors of the store in Redis. Its operations are tested in `tests/conformance`."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.stores.interface import Entry, Spending
from pytest_rageval.llm.stores.redis import ACL_RIGHTS, RedisStore
from pytest_rageval.secret import CACHE_URL, StoreURL
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
    """Refused credentials raise StoreError at once; the message says where to set them, and does not show them."""
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
def tls(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the address of a server with TLS, and the path of its self-signed certificate."""
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
    call = RedisStore._call
    monkeypatch.setattr(RedisStore, "_call", lambda self, work, **_: call(self, work, patience_s=0.0))
    with pytest.raises(
        StoreError, match=f"The cache rediss://{place} cannot be used: .*certificate"
    ) as caught:
        RedisStore(StoreURL.parse(f"rediss://{login}{place}"))
    assert "planted" not in str(caught.value)
