"""A command that prints the API key: it runs once, runs again when the key has expired, and its key is never shown."""

import asyncio
import re
import sys
import time
import traceback
from pathlib import Path

import pytest

from pytest_rageval.core.errors import ServerError
from pytest_rageval.lib.secret import Secret
from pytest_rageval.models import server as server_module
from pytest_rageval.models.client import Client
from pytest_rageval.models.messages import Request
from pytest_rageval.models.server import RemoteServer, run_key_command
from tests.unit.models.scripted import Answer, ScriptedServer, completion, error

SPELLED = "K = 'plan' + 'ted-key'\n"
"""The key, as no variable of this test has it."""

ASKED = Request("u", "m", ({"role": "user", "content": "Why?"},))


@pytest.fixture
def command(tmp_path: Path):
    class Made:
        runs_file = tmp_path / "runs"

        def __call__(self, code: str) -> tuple[str, ...]:
            count = f"open({str(self.runs_file)!r}, 'a').write('x')\nn = len(open({str(self.runs_file)!r}).read())\n"
            return (sys.executable, "-c", f"import sys, time\n{SPELLED}{count}{code}")

        def runs(self) -> int:
            return len(self.runs_file.read_text()) if self.runs_file.exists() else 0

    return Made()


def _ask(server: RemoteServer, times: int = 1, at_once: int = 1) -> None:
    async def main() -> None:
        client = Client(server, timeout_s=30)
        try:
            for _ in range(times):
                await asyncio.gather(*(client.complete(ASKED, {}) for _ in range(at_once)))
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_the_key_is_what_the_command_prints(command) -> None:
    with ScriptedServer() as server:
        _ask(RemoteServer(server.url, key_command=command("print(K)")), times=2, at_once=5)
        assert server.keys == {"Bearer planted-key"}
        assert len(server.requests) == 10
    assert command.runs() == 1


class Checking(ScriptedServer):
    accepted = "planted-key-2"

    async def _reply(self, body: dict) -> bytes:
        expired = f"Bearer {self.accepted}" not in self.keys
        self.script = [Answer(401, error("expired")) if expired else Answer(body=completion())]
        self.keys.clear()
        return await super()._reply(body)


def test_an_expired_key_is_asked_for_again(command) -> None:
    with Checking() as server:
        remote = RemoteServer(server.url, key_command=command("print(f'{K}-{n}')"))
        _ask(remote)
        assert [len(server.requests), command.runs()] == [2, 2]
        _ask(remote)
        assert [len(server.requests), command.runs()] == [3, 2]
    assert remote.credentials.redact("planted-key-1 planted-key-2") == "*** ***"


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("code", ["print(K)", "print(f'{K}-{n}')"])
def test_a_key_that_stays_refused_is_an_error(command, status: int, code: str) -> None:
    with ScriptedServer(Answer(status, error("no"))) as server:
        remote = RemoteServer(server.url, key_command=command(code), role="judge")
        with pytest.raises(
            ServerError, match=rf"refused the key that .* printed \(status {status}\)"
        ) as caught:
            _ask(remote)
        assert command.runs() == 2
        assert len(server.requests) == 1 + ("n}" in code)
    assert "Run that command in a terminal, or name another server with --rageval judge_base_url=URL" in str(
        caught.value
    )
    _assert_hidden(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "expected_message"),
    [
        ("print(K); print(K, file=sys.stderr); sys.exit(3)", "ended with exit status 3"),
        ("pass", "printed 0 words, and a key is one"),
        ("print('Bearer', K)", "printed 2 words"),
        ("print(K, flush=True); time.sleep(60)", "printed nothing in 2 s"),
    ],
)
def test_a_command_that_gives_no_key_is_an_error(command, code, expected_message, monkeypatch):
    monkeypatch.setattr(server_module, "MAX_KEY_COMMAND_S", 2.0)
    with ScriptedServer() as server:
        remote = RemoteServer(server.url, key_command=command(code))
        for _ in range(2):
            with pytest.raises(ServerError, match=expected_message) as caught:
                _ask(remote, at_once=3)
            _assert_hidden(caught.value)
        assert not server.requests
    assert command.runs() == 1


@pytest.mark.parametrize(
    ("words", "expected_shells"),
    [
        (("cat", "missing", "|", "head"), ["sh"]),
        (("cat", "$HOME/missing"), ["sh"]),
        (("cat", "~/missing"), ["sh"]),
        (("sh", "-c", "cat missing | head; exit 1"), []),
        (("cat", "missing"), []),
    ],
)
def test_a_command_that_is_written_for_a_shell_is_named(words, expected_shells):
    """If a command that failed has shell syntax, the error shows how to run it in a shell."""
    with pytest.raises(ServerError, match="ended with exit status") as caught:
        run_key_command(words)
    assert re.findall(r'write \["(\w+)", "-c", "COMMAND"\]', str(caught.value)) == expected_shells


@pytest.mark.parametrize("name", ["no-such-command-here", "", "a\0b"])
def test_a_command_that_does_not_exist_is_an_error(name: str) -> None:
    with pytest.raises(ServerError, match=r"api_key_command, .* cannot be run"):
        run_key_command((name,))


def _assert_hidden(exception: BaseException) -> None:
    """Assert that the key is neither in the error nor in a variable of its traceback (see `--showlocals`)."""
    shown = traceback.TracebackException.from_exception(exception, capture_locals=True)
    assert "planted" not in "".join(shown.format())


async def test_the_loop_runs_on_while_the_command_does(command) -> None:
    server = RemoteServer("http://127.0.0.1:9/v1", key_command=command("time.sleep(0.5)\nprint('k')"))
    before = time.monotonic()
    asking, turns = asyncio.ensure_future(server.address()), 0
    while not asking.done():
        await asyncio.sleep(0.01)
        turns += 1
    await asking
    assert turns > 3
    assert time.monotonic() - before >= 0.5


def test_the_words_are_not_read_by_a_shell(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1].count('$'))"
    assert run_key_command((sys.executable, "-c", code, f"$HOME; touch {tmp_path}/made")) == Secret("1")
    assert not list(tmp_path.iterdir())
