"""Keys and passwords must not appear in any output of a run.

Attack: the server repeats everything that it receives, in every kind of response, and the tests show as much as pytest
can show: locals, full tracebacks, reprs in assertions, logs of every level. Promise: no output and no file of a run
contains the key, the password, the query of the base URL, or a key in this query.
"""

import base64
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from tests.integration.conftest import Project
from tests.llm_server import Fault, LLMServer, Said

pytestmark = pytest.mark.slow

KEY = "sk-planted-key-of-mine"
LOGIN = "someone:planted/pass word"
TOKEN = base64.b64encode(LOGIN.encode()).decode()
SIGNATURE = "planted=signature"
VERSION = "2031-10-21"

USER_INFO = "someone:planted%2Fpass%20word@"
QUERY = f"?api-version={VERSION}&sig=planted%3Dsignature"

NEEDLES = ("planted", TOKEN, VERSION)
"""Texts that no output may contain; every secret contains the first of them."""

TESTS = """
QUESTION = "What is the code of item-1?"


def test_reply(rageval_llm):
    reply = rageval_llm.complete("reply")
    assert (reply.model, reply.finish_reason, reply.tool_calls, reply.refusal) == reply


def test_answer(rageval):
    assert rageval.answer(QUESTION, k=3) == rageval.answer("400 item-1?", k=3)


@pytest.mark.rageval_threshold("llm_reteval@3", min=0.9, max_drop=0.01)
@pytest.mark.rageval_threshold("answer.em@3", max_drop=0.01)
def test_threshold(rageval):
    pass


def test_another_exception_is_raised_from_it(rageval_llm):
    try:
        rageval_llm.complete("400")
    except Exception as error:
        raise RuntimeError("mine") from error


def test_print(rageval_generator, rageval_judge, rageval_llm):
    print(rageval_generator, rageval_judge, rageval_llm, rageval_llm.__dict__)
    print(f"{rageval_generator!r:>4000}", vars(rageval_generator.models))
    assert rageval_generator is None


def test_look_inside(pytestconfig, rageval_generator):
    settings = rageval_generator.models.settings
    server = rageval_generator.models.server("judge")
    credentials, inside = server.credentials, vars(server)
    from pytest_rageval.plugin.runner import Process
    plugin = vars(Process.get(pytestconfig))
    assert settings == server == credentials == inside == plugin
"""

MORE_TESTS = """
import asyncio
import logging
import threading

FAULTS = ["400", "401", "404", "429", "500", "nothing", "garbled", "redirect"]


@pytest.mark.parametrize("fault", FAULTS)
def test_complete(rageval_llm, fault):
    rageval_llm.complete(fault, model=f"m-{fault}")


@pytest.mark.parametrize("fault", ["400", "nothing"])
def test_acomplete(rageval_llm, fault):
    asyncio.run(rageval_llm.acomplete(f"{fault} in a loop", model=f"m-{fault}"))


def test_several_at_once(rageval_llm):
    errors = []
    for fault in ("400", "500"):
        try:
            rageval_llm.complete(fault, model="m-group")
        except Exception as error:
            errors.append(error)
    raise ExceptionGroup("several", errors)


def test_another_exception_is_raised_while_it_is_handled(rageval_llm):
    try:
        rageval_llm.complete("400")
    except Exception:
        {}["mine"]


def test_log_it(rageval_llm):
    try:
        rageval_llm.complete("400")
    except Exception:
        logging.exception("it failed")
    raise AssertionError


@pytest.mark.filterwarnings("default")
def test_in_a_thread(rageval_llm):
    thread = threading.Thread(target=rageval_llm.complete, args=["400"])
    thread.start()
    thread.join()
    raise AssertionError


def test_judge_is_equal(rageval_judge, rageval_generator):
    assert rageval_judge == rageval_generator
"""

SHOW_ALL = (
    *("--showlocals", "--full-trace", "-vv", "-rA", "--debug=debug.txt", "--junitxml=junit.xml"),
    *("-o", "junit_logging=all", "--log-file=log.txt", "--log-file-level=DEBUG", "--log-level=DEBUG"),
    *("--rageval-report=report.md", "--rageval-report=report.html", "--rageval-report=report.json"),
    *("--rageval-cassette=tape.jsonl", "--rageval-record", "--rageval=record_prompts=true"),
    *("--rageval-update-baseline", "--rageval=retries=0"),
)


class Echo(LLMServer):
    """Server that repeats the secrets of each request; the prompt's first word selects the kind of response."""

    def __init__(self, *keys: str) -> None:
        super().__init__(self._said)
        self._planted = keys or (KEY,)

    def _said(self, prompt: str) -> Said:
        sent = " ".join(sorted(self.keys))
        repeated = [key for key in self._planted if key in sent] or [LOGIN]
        echo = f"{sent} {' '.join(repeated)} {SIGNATURE}"
        headers = {"x-echo": echo, "x-request-id": echo}
        match = re.search(r"^(?:Question: )?(\d\d\d|nothing|garbled|redirect)\b", prompt, re.MULTILINE)
        fault = match[1] if match else "reply"
        if fault.isdigit():
            return Fault(int(fault), headers, f"{'insufficient_quota' if fault == '429' else ''} {echo}")
        if fault == "nothing":
            raise ConnectionError
        if fault == "garbled":
            return Fault(200, headers, body=f'{{"choices": {json.dumps(echo)}'.encode())
        if fault == "redirect":
            return Fault(307, {"location": f"http://{USER_INFO}there.example/v2{QUERY}"})
        return Fault(200, headers, body=_reply_of(echo))


def _reply_of(echo: str) -> dict[str, Any]:
    calls = [{"id": echo, "type": "function", "function": {"name": echo, "arguments": json.dumps(echo)}}]
    message = {"role": "assistant", "content": echo, "refusal": echo, "tool_calls": calls}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "finish_reason": echo, "message": message}
    return {"id": echo, "object": "chat.completion", "model": echo, "choices": [choice], "usage": usage}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(pytester, monkeypatch)
    made.test(TESTS)
    made.ini(rageval_model="m1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return made


def _run(
    project: Project, server: LLMServer, user_info: str, *arguments: str, own: bool = True
) -> dict[str, bytes]:
    """Run in a separate process or in this one; return the output and the files of the run by name."""
    url = server.url.replace("http://", f"http://{user_info}") + QUERY
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OPENAI_BASE_URL", url)
        return _left(project, (project.run_process if own else project.run)(*SHOW_ALL, *arguments))


def _left(project: Project, result: pytest.RunResult) -> dict[str, bytes]:
    project.path.joinpath("printed.txt").write_text(
        "\n".join([*result.outlines, *result.errlines]), encoding="utf-8"
    )
    files = (path for path in project.path.rglob("*") if path.is_file())
    return {path.relative_to(project.path).as_posix(): path.read_bytes() for path in files}


def _leaks(outputs: dict[str, bytes]) -> list[str]:
    """Return the places of secrets, with the text around each."""
    return [
        f"{name}: {content[max(0, match.start() - 60) : match.end() + 20]!r}"
        for name, content in outputs.items()
        for needle in NEEDLES
        for match in re.finditer(re.escape(needle.encode()), content)
    ]


WRITTEN = {
    "printed.txt": b"server answered 400: ",
    "debug.txt": b"pytest_runtest_makereport",
    "log.txt": b"/v1/chat/completions?*** ",
    "junit.xml": b"system-err",
    "report.md": b"test_threshold",
    "report.html": b"test_threshold",
    "report.json": b"test_threshold",
    "tape.jsonl": b"***",
    "rageval_baseline.json": b"answer.em@3",
    ".rageval_cache/replies.sqlite": b"***",
}
"""Outputs of a run by name, and a text that shows that the output was written."""


def _assert_hidden(outputs: dict[str, bytes]) -> None:
    assert not _leaks(outputs)
    assert {name for name, content in WRITTEN.items() if content not in outputs.get(name, b"")} == set()


@pytest.mark.parametrize("style", ["auto", "long", "short", "line", "native", "no"])
@pytest.mark.parametrize("user_info", ["", USER_INFO], ids=["key", "login"])
def test_no_style_of_traceback_shows_a_secret(project: Project, style: str, user_info: str) -> None:
    with Echo() as server:
        # Only the first style runs in a separate process, which takes three seconds.
        outputs = _run(project, server, user_info, f"--tb={style}", own=style == "auto")
    assert server.keys == {f"Basic {TOKEN}" if user_info else f"Bearer {KEY}"}
    assert server.targets == {f"POST /v1/chat/completions{QUERY}"}
    _assert_hidden(outputs)


def test_no_fault_of_a_server_shows_a_secret(project: Project) -> None:
    """Attack: each fault's error is raised, chained, grouped, logged, or raised in a thread."""
    project.test(MORE_TESTS, "test_more")
    with Echo() as server:
        outputs = _run(project, server, "", "--tb=long")
    _assert_hidden(outputs)
    assert outputs["junit.xml"].count(b"test_complete[") >= 8


@pytest.mark.parametrize("where", ["command line", "ini file"])
def test_a_base_url_with_a_password_is_allowed_outside_the_command_line(project: Project, where: str) -> None:
    with Echo() as server:
        url = server.url.replace("http://", f"http://{USER_INFO}") + QUERY
        if where == "ini file":
            project.ini(rageval_model="m1", rageval_base_url=url)
        given = [f"--rageval-base-url={url}"] if where == "command line" else []
        shown = [option for option in SHOW_ALL if not option.startswith("--debug")]
        outputs = _left(project, project.run_process(*shown, *given))
    assert server.keys == {f"Basic {TOKEN}"}
    del outputs["tox.ini"]
    assert not _leaks(outputs)
    assert b"server answered 400: " in outputs["printed.txt"]


def test_tracebacks_end_at_the_users_line(project: Project) -> None:
    """No traceback, chained ones included, has a frame of this package or of the libraries that hold the key."""
    project.test(MORE_TESTS, "test_more")
    with Echo() as server:
        # A failed threshold has no traceback of its own, but with --full-trace pytest shows internal frames.
        outputs = _run(project, server, "", "--tb=long", "--deselect=test_it.py::test_threshold")
    printed = outputs["printed.txt"].decode()
    assert "rageval_llm.complete(fault" in printed
    assert "rageval.answer(" in printed
    assert not re.findall(r".*(?:pytest_rageval|openai|httpx2|httpcore2)/\w+.*\.py:\d+: .*", printed)


def test_no_command_prints_a_secret(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    record = {"id": "l1", "question": "400?", "references": ["a"], "prediction": "b", "human": [True]}
    others = {"id": "l2", "question": "Why?", "references": ["a"], "prediction": "b", "human": [True]}
    Path("labels.jsonl").write_text(f"{json.dumps(record)}\n{json.dumps(others)}\n", encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Echo() as server, caplog.at_level(logging.DEBUG):
        monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("http://", f"http://{USER_INFO}") + QUERY)
        for command in (
            "judge labels.jsonl --model m1",
            "cache info --json",
            "cache export tape.jsonl",
            "cache verify",
        ):
            main(command.split())
    captured = capsys.readouterr()
    outputs = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    outputs |= {"out": captured.out.encode(), "err": captured.err.encode(), "log": caplog.text.encode()}
    assert not _leaks(outputs)
    assert b"server answered 400: " in outputs["out"]
    assert b"***" in outputs["tape.jsonl"]
    assert b"/v1/chat/completions?***" in outputs["log"]


def test_no_worker_shows_a_secret(project: Project) -> None:
    with Echo() as server:
        outputs = _run(project, server, USER_INFO, "-n2")
    assert not _leaks(outputs)
    assert b"gw1" in outputs["printed.txt"]
    assert b"server answered 400: " in outputs["printed.txt"]


JUDGE_KEY = "sk-planted-key-of-the-judge"
NEW_KEY = "sk-planted-key-of-later"

TABLES = """
[tool.rageval.models.generator]
model = "m1"
api_key_command = [{python}, "-c", "{code}"]

[tool.rageval.models.judge]
model = "j1"
api_key_env = "WALLET_OF_THE_JUDGE"
parameters = {{ reasoning_effort = "low" }}
"""

PRINTS = "import os; print(os.environ['WALLET'])"
ENDS = (
    "import os, sys; print(os.environ['WALLET']); print(os.environ['WALLET'], file=sys.stderr); sys.exit(3)"
)
PRINTS_ANOTHER = (
    "import os; new = os.path.exists('ran'); open('ran', 'a').close(); "
    "print(os.environ['WALLET_OF_LATER' if new else 'WALLET'])"
)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(PRINTS, id="prints"),
        pytest.param(PRINTS_ANOTHER, id="renews", marks=pytest.mark.long),
        pytest.param(ENDS, id="fails"),
    ],
)
def test_two_servers_with_keys_of_their_own_show_neither(project, monkeypatch, code):
    monkeypatch.delenv("OPENAI_API_KEY")
    for name, key in (("WALLET", KEY), ("WALLET_OF_LATER", NEW_KEY), ("WALLET_OF_THE_JUDGE", JUDGE_KEY)):
        monkeypatch.setenv(name, key)
    project.ini()
    table = TABLES.format(python=json.dumps(sys.executable), code=code)
    project.path.joinpath("pyproject.toml").write_text(table, encoding="utf-8")
    project.test(MORE_TESTS, "test_more")
    with Echo(KEY, NEW_KEY) as server, Echo(JUDGE_KEY) as other:
        if code == PRINTS_ANOTHER:
            server.refuse = lambda _: None if f"Bearer {NEW_KEY}" in server.keys else Fault(401)
        monkeypatch.setenv("RAGEVAL_JUDGE_BASE_URL", other.url + QUERY)
        outputs = _run(project, server, "", "--tb=long")
    keys = {PRINTS: {KEY}, PRINTS_ANOTHER: {KEY, NEW_KEY}, ENDS: set()}[code]
    assert server.keys == {f"Bearer {key}" for key in keys}
    assert not _leaks(outputs)
    if code == ENDS:
        assert b"ended with exit status 3" in outputs["printed.txt"]
    else:
        assert other.keys == {f"Bearer {JUDGE_KEY}"}
        assert other.targets == {f"POST /v1/chat/completions{QUERY}"}
        _assert_hidden(outputs)


def test_the_search_finds_what_is_planted() -> None:
    """`_leaks` finds every secret, because each contains a text of `NEEDLES`."""
    for secret in (KEY, NEW_KEY, JUDGE_KEY, LOGIN, TOKEN, SIGNATURE, USER_INFO, QUERY):
        assert _leaks({"f": f"before {secret} after".encode()}), secret
