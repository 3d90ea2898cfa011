"""`CommandRetriever`: a search in a program that reads questions on stdin, and writes documents to stdout."""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.remote_retrievers.messages import (
    BODY,
    HIDDEN,
    LoopResource,
    RemoteRetriever,
    shown,
)
from pytest_rageval.lib.secret import is_secret_name

MAX_LINE: Final = 16 * 2**20  # bytes of a reply
STDERR_END: Final = 2000  # bytes of stderr that a message shows
END_S: Final = 2.0  # how long a program may go on after its stdin is closed


class CommandRetriever(RemoteRetriever):
    """A retriever in a program, in any language: an async function (query, k) -> documents for `rageval_retriever`.

    The program is started once, at the first question. It reads a line of JSON for each question,
    `{"id": 1, "query": "…", "k": 5}`, and writes a line `{"id": 1, "documents": […]}` for each, or
    `{"id": 1, "error": "…"}`, which leaves this question unscored. Anything else that it prints belongs on stderr. At
    the end of the run its stdin is closed, and two seconds later it is killed.

    A program that ends, that answers with anything else, or that does not answer in time, is ended: this question and
    all that follow fail, with the end of what it wrote to stderr.

    Args:
        command: the program and its arguments, which no shell reads.
        body: the keys of a line besides the id, with placeholders as in `HTTPRetriever`. Default:
            `{"query": "{query}", "k": "{k}"}`.
        documents: the place of the documents in a reply, a path as in `HTTPRetriever`.
        id: the place of the id in a document; default: the usual names.
        text: the place of the text in a document; default: the usual names.
        cwd: the folder in which the program runs; default: that of the run.
        env: environment variables besides those of the run.
        timeout: seconds to wait for a reply; of the first one, with the start of the program.
        concurrency: the most questions that the program has at a time. With more than one it may answer in any order.

    Raises:
        InputError: there is no such program, or the body or a path is invalid.
    """

    def __init__(  # noqa: PLR0913 - the properties of a program
        self,
        command: Sequence[str | Path],
        *,
        body: Mapping[str, object] = BODY,
        documents: str = "documents",
        id: str = "",  # noqa: A002 - named as in documents
        text: str = "",
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        concurrency: int = 1,
    ) -> None:
        if isinstance(command, str) or not command:
            raise InputError(
                f'CommandRetriever needs a list such as ["node", "search.mjs"], found {command!r:.80}.'
            )
        if not isinstance(body, Mapping) or "id" in body:
            raise InputError('body of CommandRetriever is an object without "id", which is added to it.')
        super().__init__(body, documents, id, text)
        self._command = list(map(str, command))
        self._name = shlex.join(self._command)
        self._cwd = cwd
        self._env = {**os.environ, **(env or {})}
        self._timeout = timeout
        self._concurrency = concurrency
        self._resource = LoopResource(self._open)
        words = zip(["", *self._command], self._command, strict=False)
        self._settings = {"command": shlex.join(_public(*each) for each in words), **self._settings}
        # The system looks for a path only at the start, on some systems below `cwd`.
        program = self._command[0]
        if Path(program).name == program and not shutil.which(program, path=self._env.get("PATH")):
            raise InputError(f"CommandRetriever: there is no program {program!r} in the folders of PATH.")

    async def _open(self) -> AsyncGenerator["_Program", None]:
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=self._cwd, env=self._env, limit=MAX_LINE
        )
        program = _Program(process, self._name, self._timeout, asyncio.Semaphore(self._concurrency))
        try:
            yield program
        finally:
            await program.end()

    async def _ask(self, body: Any) -> Any:
        program = await self._resource.get()
        return await program.ask(body)


def _public(before: str, word: str) -> str:
    """Return a word of a command, without the value of an option such as `--api-key`."""
    name, equals, _ = word.partition("=")
    if equals and is_secret_name(name):
        return f"{name}={HIDDEN}"
    return HIDDEN if before.startswith("-") and "=" not in before and is_secret_name(before) else word


class _Program:
    def __init__(self, process: Process, name: str, timeout: float, free: asyncio.Semaphore) -> None:
        self._process = process
        self._name = name
        self._timeout = timeout
        self._free = free
        self._asked = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._failure: OSError | None = None
        self._failing = asyncio.Lock()
        self._stderr = b""
        self._tasks = [asyncio.create_task(self._read_stderr()), asyncio.create_task(self._read())]

    async def ask(self, body: Mapping[str, object]) -> Any:
        async with self._free:
            if self._failure is not None:
                raise type(self._failure)(*self._failure.args)
            self._asked += 1
            number, future = self._asked, asyncio.get_running_loop().create_future()
            self._waiting[number] = future
            try:
                async with asyncio.timeout(self._timeout):
                    # Of a program that has ended, `_read` says why.
                    with contextlib.suppress(ConnectionError):
                        self._stdin.write(json.dumps({"id": number, **body}).encode() + b"\n")
                        await self._stdin.drain()
                    return await future
            except TimeoutError:
                self._waiting.pop(number, None)  # nobody waits for it any more
                failure = await self._fail(
                    TimeoutError, f"did not answer within {self._timeout:g} s, and was ended"
                )
                raise type(failure)(*failure.args) from None
            finally:
                self._waiting.pop(number, None)

    @property
    def _stdin(self) -> asyncio.StreamWriter:
        return cast("asyncio.StreamWriter", self._process.stdin)

    async def _read(self) -> None:
        stdout = cast("asyncio.StreamReader", self._process.stdout)
        try:
            while line := await stdout.readline():
                self._receive(line)
            problem = f"ended with exit status {await self._process.wait()}"
        except ValueError as error:
            problem = f"{error}, and was ended"
        await self._fail(ConnectionError, problem)

    def _receive(self, line: bytes) -> None:
        try:
            reply = json.loads(line)
            number = reply["id"]
            known = type(number) is int and 0 < number <= self._asked
        except (ValueError, TypeError, KeyError):
            known = False
        if not known:
            raise ValueError(
                f"wrote a line to stdout that answers no question: {shown(line.decode(errors='replace'))}\n"
                'A reply is {"id": …, "documents": […]} in one line, with the id of the question; logs are for stderr'
            )
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return  # the question was cancelled
        if reply.get("error"):
            future.set_exception(RuntimeError(f"{self._name} reported: {shown(str(reply['error']))}"))
        else:
            future.set_result(reply)

    async def _read_stderr(self) -> None:
        stderr = cast("asyncio.StreamReader", self._process.stderr)
        while chunk := await stderr.read(STDERR_END):
            self._stderr = (self._stderr + chunk)[-STDERR_END:]

    async def _fail(self, kind: type[OSError], problem: str) -> OSError:
        """End the program, and fail the questions that it has, and all that follow; the first failure stays."""
        async with self._failing:
            if self._failure is None:
                self._kill()
                # The last lines may still be in the pipe, which another process may hold open.
                await asyncio.wait(self._tasks[:1], timeout=1)
                written = self._stderr.decode(errors="replace").strip()
                self._failure = kind(f"{self._name} {problem}.\nIt wrote to stderr: {written or '(nothing)'}")
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(type(self._failure)(*self._failure.args))
            return self._failure

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stdin.close()
        try:
            async with asyncio.timeout(END_S):
                # What it still writes is read, so that it does not wait for a reader.
                await self._process.communicate()
        except TimeoutError:
            self._kill()
            await self._process.wait()
