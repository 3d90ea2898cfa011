"""Runs beside other plugins: pytest's own ones switched off, and plugins of other packages."""

import json
import sys
from fnmatch import fnmatch

import pytest
from _pytest.config import default_plugins, essential_plugins

pytestmark = pytest.mark.slow

SWITCHABLE = tuple(name for name in default_plugins if name not in {*essential_plugins, "python"})
"""pytest's own plugins that can be switched off, except the one that collects tests."""

OFTEN = {"terminal", "capture", "cacheprovider", "skipping", "logging", "assertion"}
"""Those with hooks that ours depend on, or that users switch off."""

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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name not in OFTEN else []) for name in SWITCHABLE]
)
def test_each_plugin_of_pytest_can_be_switched_off(project, name):
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
        (["--rageval-report=out.html", "--rageval-update-baseline"], "out.html"),
        (["--rageval-report=no/such/folder/out.json"], None),
        (["-n2", "--rageval-report=out.json"], "out.json"),
        *(
            pytest.param(options, file, marks=pytest.mark.long)
            for options, file in (
                (["--rageval-report=out.md"], "out.md"),
                (["--rageval-report=otlp:http://127.0.0.1:9"], None),
                (["--rageval=history=history.jsonl"], "history.jsonl"),
                (["--rageval-shard=1/2", "--rageval-report=out.json"], "out.json"),
                (["--junitxml=junit.xml"], "junit.xml"),
                (["--rageval-update-baseline"], "rageval_baseline.json"),
                (["--rageval-update-baseline", "--rageval-baseline=no/such/folder/base.json"], None),
                (["--rageval-record", "--rageval-cassette=replies.jsonl"], "replies.jsonl"),
                (["--rageval-plan"], None),
                (["--rageval=annotations=true"], None),
                (["--rageval=require_baseline=true"], None),
            )
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_output_is_written_without_a_terminal(project, llm, options, file):
    project.use(llm)
    project.lose(1)
    project.test(
        OUTCOMES + '@pytest.mark.rageval_threshold("answer.em@2", min=0.9)\ndef test_model(): pass\n'
    )
    result = project.run_process("-p", "no:terminal", *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED, str(result.stderr)
    assert "INTERNALERROR" not in str(result.stdout)
    assert file is None or (project.path / file).stat().st_size


@pytest.fixture
def beside(project):
    def run(*options, plugins=("socket", "recording")):
        project.arguments = [
            option for option in project.arguments if option.removeprefix("-pno:") not in plugins
        ]
        return project.run_process("-q", *options)

    return run


BLOCKS = ["--disable-socket", "--allow-hosts=192.0.2.1", "--block-network"]
"""Options with which a test can open no socket, or can connect it to no model server."""

ASYNC = """
async def search_async(query, k): return search(query, k)

@pytest.fixture(scope="session")
def rageval_retriever(): return search_async
"""


@pytest.mark.skipif(sys.platform == "win32", reason="event loops of Windows need a pair of sockets")
@pytest.mark.parametrize(
    "option", [BLOCKS[0], *(pytest.param(each, marks=pytest.mark.long) for each in BLOCKS[1:])]
)
def test_nothing_that_sends_no_request_needs_a_socket(project, llm, beside, option):
    project.use(llm)
    source = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.test(
        '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.9)\n'
        '@pytest.mark.rageval_threshold("recall@1", min=0.9)\ndef test_gate(): pass\n'
        "def test_own(rageval, rageval_llm):\n"
        "    assert rageval.retrieve('item-1', k=1).ids == ('doc-1',)\n"
        "    assert rageval_llm.complete('item-1 has the code c1x').text == 'c1x'\n"
    )
    beside().assert_outcomes(passed=2)
    for conftest in (source, source + ASYNC):
        project.pytester.makeconftest(conftest)
        result = beside("--rageval-replay", option)
        result.assert_outcomes(passed=2)
        result.stdout.no_fnmatch_line("*warning*")


CLIENTS = {
    "server": "",
    "client": """
@pytest.fixture(scope="session")
def rageval_client():
    import openai
    return openai.AsyncOpenAI(max_retries=0).chat.completions.create
""",
    "embedded": "",
}


@pytest.mark.parametrize(
    ("client", "options", "message", "allow"),
    [
        (
            "server",
            "--disable-socket",
            "*pytest-socket *--allow-hosts=127.0.0.1 *",
            "--allow-hosts=127.0.0.1",
        ),
        ("client", "--block-network", "*pytest-recording *'127.0.0.1'*", None),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (
                    "server",
                    "--allow-hosts=192.0.2.1",
                    '*pytest-socket *"127.0.0.1"*',
                    "--allow-hosts=127.0.0.1",
                ),
                ("server", "--block-network", "*pytest-recording *'127.0.0.1'*", "--allowed-hosts=127.0.0.1"),
                ("client", "--disable-socket", "*pytest-socket *--allow-hosts=127.0.0.1 *", None),
                ("embedded", "--disable-socket", "*pytest-socket *--allow-hosts=127.0.0.1 *", None),
            )
        ),
    ],
)
def test_a_blocked_request_is_one_error_that_names_the_option(  # noqa: PLR0913, PLR0917 - the table
    project, llm, beside, client, options, message, allow
):
    project.use(llm)
    if client == "embedded":
        project.ini(rageval_model="embedded")
    project.add(CLIENTS[client])
    project.gate("answer.em@1 min=0.0")
    result = beside(options)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*: pytest-* blocks the sockets of this test (*).", "Allow * --rageval-replay *"]
    )
    text = " ".join(result.outlines)
    assert fnmatch(text, message), text
    assert not llm.requests
    assert "Traceback" not in text
    assert len(result.outlines) < 30
    if allow is not None:
        beside(options, allow).assert_outcomes(passed=1)


def test_a_gateway_that_may_not_listen_is_one_error(project, llm, beside):
    pytest.importorskip("uvicorn")
    project.use(llm)
    project.test("def test_application(rageval_gateway): pass\n")
    result = beside("--disable-socket")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "The gateway cannot listen: pytest-socket blocks the sockets of this test *",
            "*--allow-hosts=127.0.0.1 or *",
        ]
    )
    beside("--disable-socket", "--allow-hosts=127.0.0.1").assert_outcomes(passed=1)


GATED = '@pytest.mark.rageval_threshold("recall@1", max_drop=0.1)\ndef test_gate(): pass\n'


@pytest.mark.parametrize("way", ["option", "mark"])
def test_a_repeated_test_without_a_baseline_names_our_repetition(project, way, monkeypatch):
    project.arguments = [option for option in project.arguments if not option.endswith(":repeat")]
    project.test(GATED)
    project.run("--rageval-update-baseline", passed=1)
    monkeypatch.setenv("CI", "true")
    if way == "mark":
        project.test(f"@pytest.mark.repeat(2)\n{GATED}")
    result = project.run(*(["--count=2"] if way == "option" else []))
    assert result.parseoutcomes()["errors"] == 2
    result.stdout.fnmatch_lines(
        [
            "*has no entry for test_it.py::test_gate[[]1-2]: pytest-repeat runs *",
            "*--rageval-repeat N scores *",
        ]
    )
    result.stdout.no_fnmatch_line("*renamed from*")
    project.run("-k", "none", deselected=1 if way == "option" else 2)


def test_the_gate_survives_a_run_that_testmon_shortens(project, beside, monkeypatch):
    """After a change of data alone pytest-testmon runs nothing: CI refuses it, and no entry is deleted."""
    plugins = ["pytest-testmon", "cacheprovider"]
    project.test(GATED)
    baseline = project.path / "rageval_baseline.json"
    beside("--testmon", "--rageval-update-baseline", plugins=plugins).assert_outcomes(passed=1)
    monkeypatch.setenv("CI", "true")
    project.evalset(3)
    result = beside("--testmon", plugins=plugins)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["1 of 1 gated test was not compared with*", "  test_it.py::test_gate: *", "*pytest --no-testmon"]
    )
    result.stdout.no_fnmatch_line("*removes what*")
    monkeypatch.delenv("CI")
    project.pytester.makepyfile(
        test_other='import pytest\npytestmark = pytest.mark.rageval_evalset("evals.jsonl")\n' + GATED
    )
    beside("--testmon", "--rageval-update-baseline", plugins=plugins).assert_outcomes(passed=1)
    entries = json.loads(baseline.read_text(encoding="utf-8"))["tests"]
    assert entries.keys() == {"test_it.py::test_gate", "test_other.py::test_gate"}
    result = beside("--testmon", plugins=plugins)
    result.stdout.no_fnmatch_line("*not compared with*")
    assert result.ret == pytest.ExitCode.OK
