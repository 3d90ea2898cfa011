"""Progress without a terminal and with workers, and the cost of an interrupted run."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from pytest_rageval.plugin import progress
from pytest_rageval.plugin.progress import Work
from tests.integration.conftest import Project
from tests.llm_server import Fault, LLMServer

pytestmark = pytest.mark.slow

PRICES = '["m1"]\ninput = 1000\noutput = 1000\n'
GATE = '@pytest.mark.rageval_threshold("answer.em@1", min=0.1)\ndef test_gate(): pass\n'
SLOW = ("--rageval=concurrency=2", "--rageval=prices=prices.toml")
LINE = re.compile(
    r"rageval: (\d+) of (\d+) replies \((\d+)%\), \d+\.\d a second, about \d+ s left, (\d\.\d{4}) USD"
)


@pytest.fixture
def slow(project: Project, llm: LLMServer) -> Project:
    """A project whose evaluation takes some seconds, with a price per token."""
    llm.latency_s = 0.2
    project.use(llm)
    project.evalset(16)
    project.test(GATE)
    (project.path / "prices.toml").write_text(PRICES, encoding="utf-8")
    return project


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["0", "2"])
def test_without_a_terminal_progress_is_a_line_at_a_time(slow, monkeypatch, workers):
    """Without a terminal each progress line has share, rate, time left and cost, and no carriage return."""
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0.3)
    slow.test(GATE + GATE.replace("test_gate", "test_other").replace("em@1", "em@2"))
    result = slow.run(*SLOW, *workers, passed=2)
    printed = f"{result.stdout}{result.stderr}"
    assert "\r" not in printed
    matches = [tuple(map(float, match)) for match in LINE.findall(printed)]
    assert matches
    for done, total, percent, _ in matches:
        assert done <= total
        assert percent == pytest.approx(100 * done / total, abs=0.51)
    assert matches[-1][3] > 0
    assert {"16", "32"} & {str(int(total)) for _, total, *_ in matches}


def test_with_q_a_log_says_that_a_server_is_waited_for(slow, monkeypatch):
    """A job of CI that prints nothing for minutes is taken for dead."""
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0.3)
    result = slow.run("-q", *SLOW)
    assert " replies (" in str(result.stdout)


def test_a_slow_retriever_has_progress_too_but_not_with_q(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0.2)
    project.change("    wanted =", "    import time; time.sleep(0.15)\n    wanted =")
    project.evalset(8)
    project.gate("recall@1 min=0.1")
    assert "questions retrieved" not in str(project.run("-q").stdout)
    printed = str(project.run().stdout)
    assert re.search(
        r"rageval: \d of 8 questions retrieved \(\d+%\), \d+\.\d a second, about \d s left\n", printed
    )


def test_a_server_that_refuses_is_named_within_ten_seconds_of_waiting(slow, llm, monkeypatch):
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0.3)
    monkeypatch.setattr(progress, "STALL_S", 0.2)
    llm.model = lambda _: Fault(429, message="slow down")
    slow.run(
        *SLOW,
        "--rageval=patience=2",
        errors=1,
        shows="rageval: waiting for http://127.0.0.1* of at most 2 s): *429*",
    )


FIRST = '@pytest.mark.rageval_threshold("recall@1", min=0.1)\ndef test_first(): pass\n'
SECOND = GATE.replace("test_gate", "test_second")
THIRD = GATE.replace("test_gate", "test_third").replace("@1", "@2")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.parametrize(
    ("tests", "workers", "replies"),
    [(FIRST + SECOND, (), 16), (FIRST + SECOND + THIRD, ("-n2",), 32)],
    ids=["0", "2"],
)
def test_an_interrupted_run_prints_the_table_so_far_and_the_cost(slow, llm, tests, workers, replies):
    llm.latency_s = 1.0
    slow.test(tests)
    # A shell's background process ignores SIGINT, and its children inherit that.
    start = "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "sys.exit(pytest.main())"
    command = [sys.executable, "-c", start, *slow.arguments, "-pno:randomly", *SLOW, *workers]
    command += ["--rageval-report=report.json"]
    process = subprocess.Popen(
        command, cwd=slow.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ,
        start_new_session=True,
    )  # fmt: skip
    # Two of eight rounds of concurrent requests per process are sent.
    while len(llm.requests) < replies // 4:
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, printed
    assert "Traceback" not in printed
    assert re.search(r"^  pass +recall@1 +1\.000", printed, re.MULTILINE)
    paid = re.search(
        rf"^{replies} replies: 0 cached, (\d+) live, .*, (\d+\.\d{{4}}) USD$", printed, re.MULTILINE
    )
    assert paid is not None, printed
    # The requests in flight, up to two per process, are not counted as paid.
    assert replies // 8 <= int(paid[1]) <= len(llm.requests) < replies
    assert float(paid[2]) > 0
    report = slow.read()
    assert (report["llm"]["live"], len(report["tests"])) == (int(paid[1]), 1)


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (
            Work(4, 4, 10, 5, 0, 2.0, 5, 0.5),
            "5 of 10 replies (50%), 2.0 a second, about 2 s left, 0.5000 USD",
        ),
        (Work(4, 1, 0, 0), "1 of 4 questions retrieved (25%)"),
        (
            Work(4, 1, 2, 1, 0.5, 2.0),
            "1 of 4 questions retrieved, 1 of 2 replies (33%), 2.0 a second, about 6 s left",
        ),
        (
            Work(0, 0, 9000, 9, 0, 1.0, 1, 0, 1),
            "9 of 9000 replies (0%), 1.0 a second, about 150 min left, price not known",
        ),
        (Work(), "0 of 0 questions retrieved (0%)"),
    ],
)
def test_work_as_text(work: Work, text: str) -> None:
    assert str(work) == text
    assert str(Work.total([work, Work()])) == text
