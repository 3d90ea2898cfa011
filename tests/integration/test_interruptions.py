"""Tests that end early or are marked late do not affect other tests."""

import time

import pytest

CONFTEST = """
import pytest

asked = []

def search(query, k):
    asked.append((query, k))
    if k == 3:
        {body}
    return [{{"id": "doc-1", "text": "x"}}]

@pytest.fixture(scope="session")
def rageval_retriever():
    return search
"""


@pytest.mark.parametrize("body", ["pytest.skip('not today')", "pytest.fail('too slow')"])
def test_requests_of_an_interrupted_test_are_not_sent_in_the_next(project, body):
    project.pytester.makeconftest(CONFTEST.format(body=body))
    project.evalset(10)
    project.test(
        "from conftest import asked\n"
        '@pytest.mark.rageval_threshold("recall@3", min=0.9)\ndef test_first(): pass\n'
        "def test_second(rageval):\n"
        "    asked.clear()\n"
        "    rageval.retrieve('another', k=1)\n"
        "    assert asked == [('another', 1)]\n"
        '@pytest.mark.rageval_threshold("recall@1", min=0.9)\ndef test_third(): pass\n'
    )
    result = project.run("-p", "no:randomly", "--import-mode=prepend")
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] == 1
    assert outcomes["failed"] == 1
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_third*"])


def test_a_retriever_that_exits_is_an_error_and_no_hang(project):
    project.pytester.makeconftest(
        "import pytest, sys\n"
        "async def search(query, k): sys.exit(3)\n"
        "@pytest.fixture(scope='session')\n"
        "def rageval_retriever(): return search\n"
    )
    project.gate("recall@1 min=0.9")
    project.run(errors=1, shows="rageval_retriever raised for *: SystemExit: 3")


@pytest.mark.parametrize("error", ["asyncio.CancelledError()", "GeneratorExit()"])
@pytest.mark.parametrize("options", [(), ("--rageval=threads=2",)])
def test_a_cancelled_call_is_unscored_and_the_next_test_is_its_own(project, error, options):
    project.change("    wanted =", f"    if query.endswith('3?'): raise {error}\n    wanted =")
    project.change("import pytest", "import asyncio\nimport pytest")
    project.evalset(9)
    project.test(
        "".join(
            f'@pytest.mark.rageval_threshold("recall@1", min=0.8)\ndef test_{name}(): pass\n'
            for name in ("first", "second")
        )
    )
    project.run("--rageval=max_unscored=0.2", "--rageval-report=report.json", *options, passed=2)
    document = project.read()
    assert [test["scores"][0]["unscored"] for test in document["tests"]] == [1, 1]


def test_an_exception_that_pytest_does_not_expect_is_an_error_of_its_test_alone(project):
    project.change("    wanted =", "    if k == 3: raise Stop('now')\n    wanted =")
    project.add("class Stop(BaseException): pass")
    project.test(
        '@pytest.mark.rageval_threshold("recall@3", min=0.8)\ndef test_first(): pass\n'
        '@pytest.mark.rageval_threshold("recall@1", min=0.8)\ndef test_second(): pass\n'
    )
    result = project.run(passed=1, errors=1, shows=["*Stop: now", "*conftest.py:* in search"])
    result.stdout.no_fnmatch_line("*AssertionError*")


def test_a_retriever_that_failed_in_one_test_is_asked_again_in_the_next(project):
    project.change("    wanted =", "    if not query: raise ValueError('empty query')\n    wanted =")
    project.test(
        "def test_own(rageval):\n"
        "    with pytest.raises(Exception, match='empty query'):\n"
        "        rageval.retrieve('', k=1)\n"
        '@pytest.mark.rageval_threshold("recall@1", min=0.9)\ndef test_gate(): pass\n'
    )
    project.run(passed=2)


def test_a_threshold_on_a_parameter_is_enforced(project):
    project.test(
        '@pytest.mark.parametrize("n", [0, pytest.param(1, marks='
        'pytest.mark.rageval_threshold("precision@2", min=0.99))])\n'
        "def test_gate(n): pass\n"
    )
    project.run(passed=1, failed=1)


def test_a_threshold_on_a_unittest_case_is_enforced(project):
    """A threshold mark on a unittest method is checked, although such tests have no fixture arguments."""
    project.test(
        "import unittest\n"
        "class TestCase(unittest.TestCase):\n"
        '    @pytest.mark.rageval_threshold("precision@2", min=0.99)\n'
        "    def test_gate(self): pass\n"
    )
    project.run(failed=1)


def test_odd_objects_in_other_peoples_modules_are_left_alone(project):
    """Objects that are named like tests and have an unusual `pytestmark` do not break collection."""
    project.pytester.makepyfile(
        "from unittest.mock import Mock\nimport pytest\n"
        "test_client = Mock()\n"
        "class test_helper:\n    pytestmark = pytest.mark.slow\n"
        "def test_plain(): pass\n"
    )
    project.run("-W", "ignore", passed=1)


def test_no_request_is_sent_if_its_reply_cannot_be_cached(project, llm):
    project.use(llm)
    (project.path / "taken").write_text("a file", encoding="utf-8")
    project.gate("llm_reteval@1 min=0.9")
    for refresh in ((), ("--rageval-refresh",)):
        project.run(
            "--rageval=cache_dir=taken",
            *refresh,
            errors=1,
            shows="The reply cache in *taken cannot be used: *taken is a file, not a folder.",
        )
    assert not llm.requests


def test_a_complete_cassette_needs_no_cache(project, llm):
    project.use(llm)
    project.gate("llm_reteval@1 min=0.9")
    project.run("--rageval-cassette=tape.jsonl", "--rageval-record")
    (project.path / "taken").write_text("a file", encoding="utf-8")
    requests_before = len(llm.requests)
    project.run("--rageval-cassette=tape.jsonl", "--rageval=cache_dir=taken", passed=1)
    assert len(llm.requests) == requests_before


@pytest.mark.slow
def test_what_was_in_flight_when_a_test_ended_is_asked_for_by_the_next(project, llm, tmp_path):
    """If a timeout ends a test, the next test uses the requests in flight: it neither hangs nor sends them again."""
    ended = tmp_path / "ended"
    answer = llm.model

    def slow(prompt):
        while not ended.exists():
            time.sleep(0.02)
        return answer(prompt)

    llm.model = slow
    project.use(llm)
    project.evalset(6)
    project.test(
        "import pathlib, signal\n"
        "@pytest.fixture\ndef alarm(rageval):\n"
        "    def late(*_): pytest.fail('too slow')\n"
        "    signal.signal(signal.SIGALRM, late)\n"
        "    signal.setitimer(signal.ITIMER_REAL, 1)\n"
        "    yield\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "def test_first(alarm, rageval): rageval.score('answer.em@1')\n"
        f"def test_second(rageval):\n    pathlib.Path({str(ended)!r}).touch()\n"
        "    assert rageval.score('answer.em@1')\n"
    )
    project.run_process("-p", "no:randomly", "--timeout=60", passed=1, failed=1)
    assert len(llm.requests) == 6
