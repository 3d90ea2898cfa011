"""Attack: an event that a run waits for never happens.

Promise: the run ends with the reason, and caches its replies.
"""

import itertools
import json
import re
import sys
from types import SimpleNamespace

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.cli import main
from pytest_rageval.core.errors import CallableError
from pytest_rageval.models import rate_limits
from tests.integration.conftest import on_a_terminal
from tests.llm_server import Fault, clerk

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("answer.em@1", min=0.9)\ndef {}(): pass\n'
ENDS_S = 240
"""Timeout of a run in seconds, far longer than any of these runs takes."""

BUSY = Fault(429, {"retry-after": "inf"}, "too many requests")


def _ends(project, *arguments):
    """Run in a separate process, which must end before the timeout."""
    return project.pytester.runpytest_subprocess(*project.arguments, *arguments, timeout=ENDS_S)


def _use(project, llm):
    """Configure the server, and import slow modules in the conftest, before any time limit starts."""
    project.use(llm)
    source = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.pytester.makeconftest(f"import openai, pytest_rageval.plugin.rageval_fixture\n{source}")


def _answers_first(n):
    """Return a model that answers n requests, and then always replies 429."""
    count = itertools.count(1)
    return lambda prompt: clerk(prompt) if next(count) <= n else BUSY


# A server that always replies 429.


def test_one_patience_for_a_server_and_not_one_for_each_question(project, llm):
    _use(project, llm)
    project.evalset(20)
    llm.model = lambda _: BUSY
    project.test(
        GATE.format("test_a")
        + GATE.format("test_b").replace("@1", "@2")
        + '@pytest.mark.rageval_threshold("recall@1", min=0.9)\ndef test_c(): pass\n'
    )
    result = _ends(project, "--rageval=patience=3")
    result.assert_outcomes(errors=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "rageval: waiting for http://127.0.0.1:* (20 requests, * of at most 3 s): *429: too many requests",
            "The server at http://127.0.0.1:*/v1 answered nothing for 3 s, while 20 requests waited *429*",
            "*--rageval patience=SECONDS*the next run requests the rest.",
        ]
    )
    # A retry-after of "inf" does not delay retries for ever, and the second test sends no request.
    assert len(llm.requests) <= 16


def test_received_replies_are_cached_and_the_next_run_requests_the_rest(project, llm):
    _use(project, llm)
    project.evalset(12)
    project.test(GATE.format("test_a"))
    llm.model = _answers_first(5)
    _ends(project, "--rageval=patience=2").assert_outcomes(errors=1)
    assert len(llm.paid) == 5
    llm.model = clerk
    _ends(project).assert_outcomes(passed=1)
    assert len(llm.paid) == 12


def test_workers_say_what_they_wait_for(project, llm):
    """The controller prints what the workers wait for; each worker has its own patience, and both end."""
    _use(project, llm)
    project.evalset(8)
    llm.model = lambda _: BUSY
    project.test(GATE.format("test_a") + GATE.format("test_b").replace("@1", "@2"))
    result = _ends(project, "-n2", "--rageval=patience=8")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["rageval: waiting for http://127.0.0.1:* requests, * of at most 8 s): *"])


@pytest.mark.long
def test_a_terminal_shows_what_is_waited_for(project, llm):
    _use(project, llm)
    llm.model = lambda _: BUSY
    project.test(GATE.format("test_a"))
    shown = on_a_terminal(project.path, *project.arguments, "--rageval=patience=8", status=1)
    print(repr(shown))
    assert re.search(
        r"rageval: waiting for http://127\.0\.0\.1:\d+/v1 \(4 requests, \d of at most 8 s\)", shown
    )


@pytest.mark.parametrize(
    "call", ["rageval_llm.complete('hello')", "asyncio.run(rageval_llm.acomplete('hello'))"]
)
def test_the_users_own_requests_wait_no_longer(project, llm, call):
    """Requests of the user's code end after the patience too, in the test's thread and in an event loop of the test."""
    _use(project, llm)
    llm.model = lambda _: BUSY
    project.test(f"import asyncio\ndef test_own(rageval_llm):\n    {call}\n")
    result = _ends(project, "--rageval=patience=4", "-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["rageval: waiting for *", "E *ServerError: The server at * answered nothing for 4 s, *"]
    )


@pytest.mark.parametrize("value", ["inf", "1e400", "-1", "nan", "9" * 300, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_no_retry_after_delays_a_run_without_limit(project, llm, value):
    """An infinite, huge, negative or invalid retry-after does not extend the patience."""
    _use(project, llm)
    project.evalset(4)
    llm.model = lambda _: Fault(429, {"retry-after": value})
    project.test(GATE.format("test_a"))
    result = _ends(project, "--rageval=patience=1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["The server at * answered nothing for 1 s, *"])


def test_a_command_says_what_it_waits_for(llm, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rate_limits, "ANNOUNCE_AFTER_S", 0.2)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.chdir(tmp_path)
    label = {"id": "l1", "question": "What?", "references": ["small"], "prediction": "tiny", "human": [True]}
    (tmp_path / "labels.jsonl").write_text(json.dumps(label), encoding="utf-8")
    answers = itertools.chain([Fault(429, {"retry-after": "1"})] * 3, itertools.repeat("yes"))
    llm.model = lambda _: next(answers)
    assert main(["judge", "labels.jsonl", "--model", "m1", "--base-url", llm.url]) == 0
    assert "rageval: waiting for http://127.0.0.1:" in capsys.readouterr().err


# User code that blocks.

BLOCKS = {
    "async def": "async def search(query, k):\n    time.sleep(3600)\n",
    "busy loop": "async def search(query, k):\n    while True: pass\n",
    "uncancellable": (
        "async def search(query, k):\n"
        "    while True:\n"
        "        try: await asyncio.sleep(3600)\n"
        "        except asyncio.CancelledError: pass\n"
    ),
    "never returns": "async def search(query, k):\n    await asyncio.Event().wait()\n",
    "thread of asyncio": "async def search(query, k):\n    await asyncio.to_thread(time.sleep, 3600)\n",
    "sync": "def search(query, k):\n    time.sleep(3600)\n",
}


def _blocking(project, code):
    pytest.importorskip("pytest_timeout")
    project.pytester.makeconftest(
        f"import asyncio, time\nimport pytest, pytest_rageval.plugin.rageval_fixture\n{code}\n"
        "@pytest.fixture(scope='session')\ndef rageval_retriever(): return search\n"
    )
    project.test(
        '@pytest.mark.rageval_threshold("recall@1", min=0.9)\ndef test_gate(): pass\ndef test_other(): pass\n'
    )


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_retriever_that_blocks_is_ended_by_a_signal(project, kind, threads):
    _blocking(project, BLOCKS[kind])
    result = _ends(project, "--timeout=5", "--timeout-method=signal", f"--rageval=threads={threads}")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*Timeout (>5.0s) from pytest-timeout."])
    if kind in {"async def", "busy loop"}:
        result.stdout.fnmatch_lines(
            ["rageval: warning: async code still runs and blocks the event loop, *conftest.py:* in search"]
        )
    if kind == "uncancellable":
        result.stdout.fnmatch_lines(["rageval: warning: *: a coroutine that goes on after it was cancelled"])


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_retriever_that_blocks_is_ended_by_a_thread(project, kind):
    _blocking(project, BLOCKS[kind])
    result = _ends(project, "--timeout=5", "--timeout-method=thread")
    assert result.ret != 0
    assert " Timeout " in str(result.stdout) + str(result.stderr)


def test_a_generator_that_blocks_is_ended_too(project):
    _blocking(project, BLOCKS["async def"].replace("search(query, k)", "answer(question, passages)"))
    project.change("rageval_retriever(): return search", "rageval_generator(): return answer")
    project.add(
        "@pytest.fixture(scope='session')\n"
        "def rageval_retriever(): return lambda query, k: ['Of all things, item-1 has the code c1x.']\n"
    )
    project.test(GATE.format("test_gate") + "def test_other(): pass\n")
    result = _ends(project, "--timeout=5", "--timeout-method=signal")
    result.assert_outcomes(passed=1, errors=1)


# User code that ends, stops or cancels what it runs in.

DISTURBANCES = {
    "interrupt": "raise KeyboardInterrupt",
    "exception": "raise Stop('now')",
    "skip": "pytest.skip('not today')",
    "cancel": "[task.cancel() for task in asyncio.all_tasks()]",
    "stop": "asyncio.get_running_loop().stop()",
    "exit": "asyncio.ensure_future(leave()).add_done_callback(lambda task: task.exception()); await asyncio.sleep(0)",
}

DISTURBED = """
import asyncio

class Stop(BaseException): pass

async def leave(): raise SystemExit(3)

async def disturb(text):
    if "item-3" in text:
        {code}

async def search_async(query, k):
    {retriever}
    return search(query, k)

async def complete(model, messages, **parameters):
    {client}
    return {{"choices": [{{"message": {{"content": "c1x"}}}}]}}

@pytest.fixture(scope="session")
def rageval_retriever(): return search_async

@pytest.fixture(scope="session")
def rageval_client(): return complete
"""


def _disturb(project, kind, part):
    places = {"retriever": "pass", "client": "pass"}
    places[part] = f"await disturb({'query' if part == 'retriever' else 'str(messages)'})"
    project.add(DISTURBED.format(code=DISTURBANCES[kind], **places))
    project.ini(rageval_model="m1")
    project.test(
        "".join(
            f'@pytest.mark.rageval_threshold("answer.f1@1", min=0.0)\ndef test_{name}(): pass\n'
            for name in ("first", "second")
        )
        + "def test_other(): pass\n"
    )
    return _ends(project)


@pytest.mark.parametrize("part", ["retriever", "client"])
def test_a_keyboard_interrupt_of_async_code_ends_the_run(project, part):
    """A KeyboardInterrupt in the event loop is Ctrl-C: the run ends and names the line that raised it."""
    result = _disturb(project, "interrupt", part)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*! KeyboardInterrupt !*", "*conftest.py:*: KeyboardInterrupt"])
    assert not re.search("Traceback|never retrieved", f"{result.stdout}{result.stderr}")


@pytest.mark.parametrize("part", ["retriever", "client"])
@pytest.mark.parametrize(
    ("kind", "outcomes", "line"),
    [
        ("exception", {"errors": 2}, "*Stop: now"),
        ("skip", {"skipped": 2}, "*"),
        (
            "cancel",
            {"errors": 2},
            "The evaluation was cancelled by code that it called in its event loop, such as",
        ),
        ("stop", {"passed": 2}, "*"),
        ("exit", {"passed": 2}, "*"),
    ],
)
def test_async_code_that_disturbs_the_loop_ends_in_a_report(project, part, kind, outcomes, line):
    result = _disturb(project, kind, part)
    result.assert_outcomes(**{**outcomes, "passed": outcomes.get("passed", 0) + 1})
    result.stdout.fnmatch_lines([line])
    assert not re.search("Traceback|never retrieved|never awaited", f"{result.stdout}{result.stderr}")


# Forked processes, and processes that gevent or eventlet has patched.

FORKS = {
    "os.fork": (
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        try: {call}\n"
        "        except BaseException as error: os.write(2, str(error).encode())\n"
        "        os._exit(3)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3\n"
    ),
    "multiprocessing": (
        "    child = multiprocessing.get_context('fork').Process(target=lambda: {call})\n"
        "    child.start()\n"
        "    child.join()\n"
        "    assert child.exitcode == 1\n"
    ),
}
CALLS = ["rageval.score('recall@1')", "rageval.retrieve('item-1', k=1)", "rageval_llm.complete('hello')"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fork", FORKS)
def test_a_forked_child_gets_an_error(project, llm, fork, call):
    """A forked child has no event loop thread: a call of rageval raises an error instead of waiting for ever."""
    _use(project, llm)
    project.test(
        "import multiprocessing, os\n"
        "def test_own(rageval, rageval_llm):\n"
        "    rageval.retrieve('item-2', k=1)\n" + FORKS[fork].format(call=call)
    )
    result = _ends(project, "-s", "-W", "ignore")
    result.assert_outcomes(passed=1)
    result.stderr.fnmatch_lines(["*rageval was called in a forked process, *"])


@pytest.mark.parametrize(
    ("library", "patch"),
    [
        ("gevent", "from gevent import monkey; monkey.patch_all()"),
        ("gevent", "from gevent import monkey; monkey.patch_select()"),
        ("gevent", "from gevent import monkey; monkey.patch_queue()"),
        ("eventlet", "import eventlet; eventlet.monkey_patch()"),
        ("eventlet", "import eventlet; eventlet.monkey_patch(thread=True)"),
    ],
)
def test_a_patched_process_gets_an_error(project, library, patch):
    """If gevent or eventlet has replaced threads by greenlets, the event loop's thread cannot work: it is an error."""
    pytest.importorskip(library)
    project.gate("recall@1 min=0.9")
    source = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.pytester.makeconftest(f"{patch}\n{source}")
    result = _ends(project, "-W", "ignore")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"rageval cannot work in this process: {library}.monkey* has replaced *"])


@pytest.mark.parametrize(
    ("module", "question", "patched"),
    [
        ("gevent.monkey", "is_module_patched", "threading"),
        ("gevent.monkey", "is_module_patched", "select"),
        ("gevent.monkey", "is_module_patched", "queue"),
        ("eventlet.patcher", "is_monkey_patched", "thread"),
        ("eventlet.patcher", "is_monkey_patched", "select"),
    ],
)
def test_a_client_patched_by_a_library_is_recognised(monkeypatch, module, question, patched):
    for name, refused in ((patched, True), ("time", False)):
        stand_in = SimpleNamespace(**{question: lambda queried_module, name=name: queried_module == name})
        monkeypatch.setitem(sys.modules, module, stand_in)
        loop = BackgroundEventLoop()
        if refused:
            with pytest.raises(CallableError, match=module.partition(".")[0]):
                loop.run(_nothing())
            assert not loop.started
        else:
            loop.run(_nothing())
            loop.close()


async def _nothing():
    pass


# Event loops of other libraries.

TRIO = """
import trio

def test_own(rageval_llm):
    async def one(n, said):
        said[n] = (await rageval_llm.acomplete(f"item-{n} has the code c{n}x")).text

    async def main():
        said = {}
        async with trio.open_nursery() as nursery:
            for n in range(60):
                nursery.start_soon(one, n, said)
        assert said == {n: f"c{n}x" for n in range(60)}
        with trio.move_on_after(0.01) as scope:
            await one(1000, said)
        assert scope.cancelled_caught

    trio.run(main)

def test_cached(rageval_llm):
    async def double(n): return 2 * n
    assert trio.run(rageval_llm.cached(double, version="1"), 4) == 8
    with pytest.raises(Exception, match="works only under asyncio"):
        trio.run(rageval_llm.cached(double), 4)
"""


def test_a_test_under_trio_asks_as_others_do(project, llm):
    """`acomplete` and async cached functions work under trio: the trio task waits in a thread for the asyncio loop."""
    pytest.importorskip("trio")
    _use(project, llm)
    llm.model = lambda prompt: "never" if "item-1000" in prompt else clerk(prompt)
    llm.latency_s = 0.05
    project.test(TRIO)
    result = _ends(project, "--rageval-report=out.json")
    result.assert_outcomes(passed=2)
    report = project.read("out.json")
    assert report["llm"]["live"] >= 60
