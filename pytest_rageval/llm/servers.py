"""Where models answer: a server at an address, or the embedded one, started when first asked."""

import asyncio
import subprocess  # nosec B404 # runs our own interpreter and script
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final, Protocol

from pytest_rageval.config import BaseURL
from pytest_rageval.errors import ServerError, require
from pytest_rageval.llm.embedded_weights import PURPOSE, Weights
from pytest_rageval.secret import Credentials, Secret

__all__ = ["DEFAULT_BASE_URL", "EmbeddedServer", "RemoteServer", "Server"]

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"

THREADS: Final = 1
"""Of the embedded model. Fixed, because another count changes 1 answer in 40; and one, because two that
wait for each other are several times slower than one as soon as another process is busy, as in CI."""


START_S: Final = 300.0
"""How long the embedded model may take to load; a large file from a slow disk takes a minute."""


class Server(Protocol):
    """An OpenAI-compatible server."""

    @property
    def base_url(self) -> str:
        """Its lasting name, part of every request's key."""

    @property
    def credentials(self) -> Credentials:
        """Sent with each request, and neither shown nor kept."""

    @property
    def in_flight(self) -> int | None:
        """The most requests it can use at once, or None where it says so itself."""

    async def address(self) -> str:
        """The URL to send requests to; starts the server where it is ours to start."""

    def close(self) -> None:
        """Stop what `address` started."""


class RemoteServer:
    """A server that runs anyway.

    Args:
        url: of the server; a text may hold user, password and query.
        api_key: of the server.
        in_flight: the most requests it can use at once, or None where it says so itself.
    """

    def __init__(
        self,
        url: BaseURL | str = DEFAULT_BASE_URL,
        api_key: Secret | str | None = None,
        in_flight: int | None = None,
    ) -> None:
        place = BaseURL.parse(url) if isinstance(url, str) else url
        key = Secret(api_key) if isinstance(api_key, str) else api_key
        self._url = place.url
        self.base_url = place.public
        self.credentials = Credentials(key, place.login, place.query)
        self.in_flight = in_flight

    def __repr__(self) -> str:
        return f"RemoteServer({self.base_url!r})"

    async def address(self) -> str:
        """The URL, without what the credentials hold."""
        return self._url

    def close(self) -> None:
        """Nothing was started."""


class EmbeddedServer:
    """A local model in a process of its own, for as long as this one lives."""

    credentials = Credentials()
    # One slot answers one request at a time; a queue in front of it would only eat into timeouts.
    in_flight: int | None = 1

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._process: subprocess.Popen[str] | None = None
        self._starting: asyncio.Task[str] | None = None

    @property
    def base_url(self) -> str:
        """A name that stays while the port changes; with the thread count, which changes replies."""
        return f"embedded:threads={THREADS}"

    async def address(self) -> str:
        """The address of the process, started at the first call.

        Raises:
            InputError: the `local` extra is not installed.
            ServerError: the process ended before it served; its last words.
        """
        if self._starting is None:
            self._starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        return await asyncio.shield(self._starting)

    def close(self) -> None:
        """End the process; it ends by itself when its standard input closes."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None

    def _start(self) -> str:
        require("xllamacpp", extra="local", purpose=PURPOSE)
        model = self.weights.path()
        script = Path(__file__).with_name("embedded_server.py")
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                # -P: the script's folder has modules whose names are common ones.
                [sys.executable, "-P", str(script), str(model), str(THREADS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            # A process that never says where it serves must not hold up the run for ever.
            watch = threading.Timer(START_S, self._process.kill)
            watch.start()
            try:
                # llama.cpp may print before it serves; the address is the line that is one.
                for line in self._process.stdout or ():
                    if line.startswith("http://"):
                        return f"{line.strip()}/v1"
            finally:
                watch.cancel()
            log.seek(0)
            last = " ".join(log.read().split())[-500:]
        message = (
            f"The embedded model did not start from {model}: {last or 'it ended without a word'}.\n"
            "Check the file (RAGEVAL_GGUF), or name a server with --rageval-base-url."
        )
        raise ServerError(message)
