"""Workers of pytest-xdist in a run without options: the controller starts the plugin after a worker has."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from pytest_rageval.plugin import progress

pytestmark = pytest.mark.slow

UNMARKED = "def test_unmarked(): pass\n"
THRESHOLD = '@pytest.mark.rageval_threshold("recall@2", {})\ndef test_{}(): pass\n'
PASSES = THRESHOLD.format("min=0.5", "passes")
FAILS = THRESHOLD.format("max=0.5", "fails")
MARKED_LATE = """
def pytest_collection_modifyitems(items):
    items[-1].add_marker(pytest.mark.rageval_threshold("recall@2", max=0.5))
"""
GETS_FIXTURE = "def test_gets(request):\n    request.getfixturevalue('rageval').score('recall@2', max=0.5)\n"
DIES = "def test_zdies(rageval):\n    import os; os._exit(3)\n"


def _said(result):
    """Return the lines below the reports of failures, without those with the number and the times of processes."""
    *_, text = str(result.stdout).partition("= rageval =")
    return [line for line in text.splitlines()[:-1] if not line.startswith("!!!")]


@pytest.mark.parametrize(
    ("tests", "conftest", "arguments"),
    [
        (UNMARKED + PASSES + FAILS, "", ()),
        (UNMARKED + PASSES + FAILS, "", ("--dist=loadgroup",)),
        (UNMARKED + PASSES + FAILS, "", ("-x",)),
        (UNMARKED, MARKED_LATE, ()),
        (UNMARKED + GETS_FIXTURE, "", ()),
    ],
    ids=["marked", "groups", "first failure", "marked late", "fixture by name"],
)
def test_the_summary_is_that_of_one_process(project, monkeypatch, tests, conftest, arguments):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    project.test(tests)
    project.add(conftest)
    alone = project.run_process("-n0", *(argument for argument in arguments if argument == "-x"))
    said = _said(alone)
    assert any(re.match(r"  fail +recall@2 +1.000 +≤ 0.5", line) for line in said), said
    assert any(line.startswith("::error file=") for line in said)
    result = project.run_process("-n1" if "-x" in arguments else "-n2", *arguments)
    assert sorted(_said(result)) == sorted(said)
    assert result.ret == (pytest.ExitCode.INTERRUPTED if "-x" in arguments else alone.ret)


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        (
            "@pytest.mark.rageval_treshold('recall@2')\ndef test_gate(): pass\n",
            "has the mark rageval_treshold",
        ),
        ("import nowhere_to_be_found\n", "No module named 'nowhere_to_be_found'"),
    ],
)
def test_a_module_that_a_worker_cannot_collect_is_annotated(project, monkeypatch, tests, message):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    project.test(tests)
    result = project.run_process("-n2")
    assert result.ret not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    annotations = [line for line in result.outlines if line.startswith("::error file=test_it.py,")]
    assert [message in line for line in annotations] == [True]


def test_a_worker_that_crashes_loses_no_earlier_test(project, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    project.test(PASSES + FAILS + DIES)
    result = project.run_process("-n1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines_random([r"  pass +recall@2", r"  fail +recall@2"])
    result.stdout.fnmatch_lines(
        ["::error file=test_it.py,title=test_it.py%3A%3Atest_zdies::*crashed while running*"]
    )


def test_an_eval_set_that_no_selected_test_scores_is_a_warning(project):
    """The workers run no test: they tell of the marks when they end."""
    project.test(UNMARKED)
    project.run_process("-n2", "-k", "none", shows="warning: rageval_evalset('evals.jsonl') on *")


def test_a_test_that_is_marked_late_has_progress(project, monkeypatch):
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0.2)
    project.change("    wanted =", "    import time; time.sleep(0.3)\n    wanted =")
    project.evalset(8)
    project.test(UNMARKED)
    project.add(MARKED_LATE)
    result = project.run("-n1")
    assert re.search(r"rageval: \d of 8 questions retrieved", str(result.stdout))
    result.stdout.re_match_lines([r"  fail +recall@2"])


INTERRUPTED = """
import asyncio, pathlib

@pytest.fixture(scope="session")
def rageval_generator():
    async def answer(question, passages):
        if "item-4" in question:
            await asyncio.sleep(2)  # workers send their progress once a second
            pathlib.Path("began").touch()
            await asyncio.sleep(60)
        return "c"
    return answer

def pytest_collection_modifyitems(items):
    items[-1].add_marker(pytest.mark.rageval_threshold("answer.em@2", max=0.5))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_an_interrupted_run_tells_of_its_only_test(project):
    project.test(UNMARKED)
    project.add(INTERRUPTED)
    start = "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command = [sys.executable, "-c", f"{start}sys.exit(pytest.main())", *project.arguments, "-n1"]
    process = subprocess.Popen(
        command, cwd=project.path, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    while not (project.path / "began").exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, printed
    assert "answers of rageval_generator, your own function, are cached within this run only" in printed
