"""Runs beside other plugins: pytest's own ones switched off, and plugins of other packages."""

import json

import pytest
from _pytest.config import default_plugins, essential_plugins

pytestmark = pytest.mark.slow

SWITCHABLE = tuple(name for name in default_plugins if name not in {*essential_plugins, "python"})
"""pytest's own plugins that can be switched off, except the one that collects tests."""

OUTCOMES = """
@pytest.mark.rageval_threshold("recall@2", min=0.5)
def test_passes(): pass

@pytest.mark.rageval_threshold("recall@2", min=0.9, max_drop=0.1)
def test_fails(): pass

@pytest.mark.rageval_threshold("recal@2", min=0.9)
def test_error(): pass

def test_own(rageval):
    assert rageval.score("recall@1") > 1

def test_ranking(rageval):
    assert "doc-9" in rageval.retrieve("item-1", k=1)
"""


def _outcomes(path):
    return {
        test["nodeid"].partition("::")[2]: test["outcome"]
        for test in json.loads(path.read_text(encoding="utf-8"))["tests"]
    }


@pytest.mark.parametrize("name", SWITCHABLE)
def test_each_plugin_of_pytest_can_be_switched_off(project, name):
    """A test that passes, and tests that fail in each way, end as they do with all of pytest's plugins."""
    project.lose(1)
    project.test(OUTCOMES)
    result = project.run("-p", f"no:{name}", "--rageval-report=out.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED, str(result.stderr)
    assert _outcomes(project.path / "out.json") == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_error": "error",
        "test_own": "failed",
        "test_ranking": "failed",
    }


@pytest.mark.parametrize(
    ("options", "file"),
    [
        (["--rageval-report=out.md"], "out.md"),
        (["--rageval-report=out.html"], "out.html"),
        (["--rageval-report=no/such/folder/out.json"], None),
        (["--rageval-report=otlp:http://127.0.0.1:9"], None),
        (["--rageval-history=history.jsonl"], "history.jsonl"),
        (["--rageval-shard=1/2", "--rageval-report=out.json"], "out.json"),
        (["--junitxml=junit.xml"], "junit.xml"),
        (["--rageval-update-baseline"], "rageval_baseline.json"),
        (["--rageval-update-baseline", "--rageval-baseline=no/such/folder/base.json"], None),
        (["--rageval-record", "--rageval-cassette=replies.jsonl"], "replies.jsonl"),
        (["--rageval-plan"], None),
        (["--rageval-annotations"], None),
        (["--rageval-require-baseline"], None),
        (["-n2", "--rageval-report=out.json"], "out.json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_output_is_written_without_a_terminal(project, llm, options, file):
    """With `-p no:terminal` the files are written, and the exit status is that of the failed tests."""
    project.use(llm)
    project.lose(1)
    project.test(
        OUTCOMES + '@pytest.mark.rageval_threshold("answer.em@2", min=0.9)\ndef test_model(): pass\n'
    )
    result = project.run_process("-p", "no:terminal", *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED, str(result.stderr)
    assert "INTERNALERROR" not in str(result.stdout)
    assert file is None or (project.path / file).stat().st_size
