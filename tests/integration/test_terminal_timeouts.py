"""With pytest-timeout: the evaluation runs in the first test's setup, which a limit per test may interrupt."""

import pytest

from tests.integration.conftest import Project

pytestmark = pytest.mark.slow

pytest.importorskip("pytest_timeout")

HEADER = (
    "rageval: timeout = 60 s counts the evaluation too, which is the setup of the first test that needs a score: a run "
    "without cached replies may exceed it. Set timeout_func_only = true."
)
MARKED = (
    '@pytest.mark.timeout({})\n@pytest.mark.rageval_threshold("recall@1", min=0.5)\ndef test_gate(): pass\n'
)


@pytest.mark.parametrize("where", ["ini", "option", "environment"])
def test_the_header_says_that_a_timeout_counts_the_evaluation(project, monkeypatch, where):
    project.gate("recall@1 min=0.5")
    options = ["--timeout=60"] if where == "option" else []
    keys = {"timeout": "60"} if where == "ini" else {}
    if where == "environment":
        monkeypatch.setenv("PYTEST_TIMEOUT", "60")
    project.ini(**keys)
    result = project.run(*options, passed=1)
    assert HEADER in result.outlines
    project.ini(**keys, timeout_func_only="true")
    assert "timeout = 60" not in str(project.run(*options).stdout)
    project.ini(**keys)
    assert "timeout = 60" not in str(project.run("-pno:timeout").stdout)


def test_without_a_timeout_the_header_says_nothing(project: Project) -> None:
    project.test("def test_plain(): pass\n")
    assert "counts the evaluation" not in str(project.run().stdout)
    assert "counts the evaluation" not in str(project.run("--timeout=0").stdout)


@pytest.mark.parametrize("arguments", ["10", "timeout=10", "10, func_only=False", "10, 'signal'"])
def test_a_timeout_mark_on_a_marked_test_is_refused_with_the_remedy(project: Project, arguments: str) -> None:
    project.test(MARKED.format(arguments))
    project.run(
        errors=1,
        shows=[
            "test_it.py::test_gate has the mark timeout, which counts the evaluation too: it is this test's setup, *",
            "Write @pytest.mark.timeout(10, func_only=True), or set timeout_func_only = true in pytest's *",
        ],
    )


def test_a_timeout_mark_that_does_no_harm_is_allowed(project: Project) -> None:
    for arguments in ("10, func_only=True", "0"):
        project.test(MARKED.format(arguments))
        project.run(passed=1)
    project.test(MARKED.format("10"))
    project.run("-pno:timeout", "-W", "ignore", passed=1)
    project.ini(timeout_func_only="true")
    project.run(passed=1)
    project.test("@pytest.mark.timeout(10)\ndef test_plain(): pass\n")
    project.run(passed=1)
