"""`rageval init`: the written test passes at once, and fails with a broken retriever."""

import ast
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_rageval.cli import main
from pytest_rageval.extensions.first_test.workflow import LOCKED
from tests.foreign_plugins import WITHOUT

WRITTEN = {
    "conftest.py", "test_retriever.py", "evals/questions.jsonl", "pytest.ini", ".gitattributes",
    ".github/workflows/rageval.yml",
}  # fmt: skip

SEARCH = """
TEXTS = {"kb-1": "Refunds take five working days.", "kb-2": "Passwords are reset on the sign-in page."}

def search(query, k):
    best = sorted(TEXTS, key=lambda name: -len({*query.lower().split()} & {*TEXTS[name].lower().split()}))
    return [{"id": name, "text": TEXTS[name]} for name in best[:k]]

def build():
    return search
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which commands run; modules that another test imported are removed from `sys.modules`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in ("app", "app.search"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def collecting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast tests do not start the run of pytest that collects the new test; in slow ones it has few plugins."""
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(WITHOUT))
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("pytest_rageval.extensions.first_test.init.check_collected", lambda _test: True)


@pytest.fixture
def init(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """A function that writes files, runs the command, and returns what it printed."""

    def run(*arguments: str, files: Mapping[str, str] = {}, status: int = 0) -> Any:
        for name, text in files.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text, encoding="utf-8")
        assert main(["init", *arguments]) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    monkeypatch.delenv("CI", raising=False)

    def pytest_(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = "import sys, pytest; sys.exit(pytest.main())"
        return subprocess.run(
            [sys.executable, "-P", "-c", program, "-q", *arguments],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )

    return pytest_


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework",
    ["", *(pytest.param(name, marks=pytest.mark.long) for name in ("langchain", "llamaindex", "haystack"))],
)
def test_what_is_written_in_an_empty_folder_passes_and_a_broken_retriever_fails(
    framework, project, run, init
):
    module = {"langchain": "langchain_core", "llamaindex": "llama_index.core", "haystack": "haystack"}
    if framework:
        pytest.importorskip(module[framework])
    out = init(*(["--framework", framework] if framework else [])).out
    assert files(project).keys() == WRITTEN
    assert all(f"wrote {name}" in out for name in WRITTEN)
    update = ["--rageval-update-baseline"]
    for arguments in [update] if framework else ([], update, []):
        done = run(*arguments)
        assert done.returncode == 0, done.stdout
        assert "1 passed" in done.stdout
    conftest = project / "conftest.py"
    exchanged = "PASSAGES = [p | {'id': q['id']} for p, q in zip(PASSAGES, PASSAGES[1:] + PASSAGES)]\n"
    text = conftest.read_text(encoding="utf-8")
    assert text.count("\n]\n") == 1
    conftest.write_text(text.replace("\n]\n", f"\n]\n{exchanged}"), encoding="utf-8")
    done = run()
    assert done.returncode == 1, done.stdout
    assert "(allowed 0.02; minimum 0.9)" in done.stdout


NUMBERS = """
CALLS = []

def search(query, k):
    CALLS.append(query)
    n = int(query.split()[-1].rstrip("?"))
    return [{"id": f"kb-{m}", "text": f"Text {m}."} for m in range(n, n + 20)][:k]
"""


@pytest.mark.slow
def test_another_order_is_red(project, run, init):
    """Attack: the gold passage is the first of five, and then the last; recall is the same."""
    lines = [
        f'{{"id": "q{n}", "question": "Where is {n}?", "gold": [{{"id": "kb-{n}"}}]}}\n' for n in range(6)
    ]
    written = {"own_search.py": NUMBERS, "mine.jsonl": "".join(lines)}
    init("--retriever", "own_search:search", "--evalset", "mine.jsonl", files=written)
    with (project / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(
            "\ndef pytest_sessionfinish():\n    import own_search\n    assert len(own_search.CALLS) == 6\n"
        )
    assert run("--rageval-update-baseline").returncode == 0
    reversed_ = f"{NUMBERS.replace('[:k]', '[:k][::-1]')}# changed\n"
    (project / "own_search.py").write_text(reversed_, encoding="utf-8")
    done = run()
    assert done.returncode == 1, done.stdout
    assert "ndcg@5 fell from 1.000 to 0.387 (allowed 0.05)" in done.stdout
    assert "6 lost: gold fell from rank 1 to 5: another order" in done.stdout
    assert "recall@5 fell" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "retriever", ["app.search:search", pytest.param("app.search:build()", marks=pytest.mark.long)]
)
def test_an_own_retriever_and_eval_set_pass(retriever, project, run, init):
    """With the user's retriever and eval set the threshold has no min, since the mean is not known yet.

    The set is small, and the score needs no model: no question may get worse.
    """
    lines = [
        f'{{"id": "q{n}", "question": "How many days do refunds take, case {n}?", "gold": [{{"id": "kb-1"}}]}}\n'
        for n in range(6)
    ]
    arguments = ("--retriever", retriever, "--evalset", "mine.jsonl")
    init(*arguments, files={"app/search.py": SEARCH, "mine.jsonl": "".join(lines)})
    assert "evals/questions.jsonl" not in files(project)
    test = (project / "test_retriever.py").read_text(encoding="utf-8")
    assert 'rageval_evalset("mine.jsonl")' in test
    assert 'rageval_threshold("recall@5", max_drop=0.02, policy="snapshot")' in test
    order = '# recall does not see the order of the passages:\n@pytest.mark.rageval_threshold("ndcg@5", max_'
    assert order in test
    for options in ([], ["--rageval-update-baseline"], []):
        done = run(*options)
        assert done.returncode == 0, done.stdout
    search = project / "app" / "search.py"
    search.write_text(SEARCH.replace("best[:k]", "best[1:k]"), encoding="utf-8")
    done = run("-v")
    assert done.returncode == 1
    assert "recall@5  0.000" in done.stdout
    numbered = [line.replace('"id": "q', f'"id": "{n}-q') for n, line in enumerate(lines * 17)]
    (project / "test_retriever.py").unlink()
    init(*arguments, files={"mine.jsonl": "".join(numbered)})
    test = (project / "test_retriever.py").read_text(encoding="utf-8")
    assert 'rageval_threshold("recall@5", max_drop=0.02)' in test


def test_nothing_is_overwritten(project, init):
    existing = {
        "conftest.py": "# mine\n",
        "test_retriever.py": "# mine\n",
        ".gitattributes": "*.png binary\n",
        "evals/questions.jsonl": '{"id": "mine", "question": "How?"}\n',
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-q"\n',
    }
    out = init(files=existing).out
    contents = files(project)
    assert {name: contents[name] for name in existing} == existing
    assert "pytest.ini" not in contents
    # Example questions are not suggested if the user has questions.
    assert "kept evals/questions.jsonl, which exists\n" in out
    for name in existing.keys() - {"evals/questions.jsonl"}:
        assert f"kept {name}, which exists. Add to it (" in out
    assert '    pythonpath = ["."]\n' in out
    assert "    def rageval_retriever():\n" in out
    assert "    rageval_baseline.json text eol=lf merge=rageval-baseline\n" in out
    assert "wrote .github/workflows/rageval.yml" in out
    steps = out.partition("Next:\n")[2]
    assert steps.startswith(
        "  1. Add the lines that are printed above to conftest.py, test_retriever.py, pyproject.toml"
    )


def test_repeated_it_keeps_the_eval_set_of_the_test(project, capsys):
    (project / "app.py").write_text(SEARCH, encoding="utf-8")
    record = {"id": "1", "question": "How?", "gold": [{"id": "a"}]}
    (project / "mine.jsonl").write_text(json.dumps(record), encoding="utf-8")
    assert main(["init", "--retriever", "app:search", "--evalset", "mine.jsonl"]) == 0
    capsys.readouterr()
    assert main(["init"]) == 0
    assert "placeholder" not in capsys.readouterr().out
    assert not (project / "evals").exists()


def test_repeated_it_changes_nothing(project, init):
    init()
    before = files(project)
    out = init().out
    assert files(project) == before
    assert out.count(": it has the lines already\n") == len(WRITTEN)
    assert "Add to it" not in out
    # The result is the same if the line of the workflow that is already there installs something else.
    assert "Add to it" not in init(files={"requirements.txt": ""}).out


@pytest.mark.parametrize(
    ("conftest", "said"),
    [
        (
            "def rageval_retriever():\n    return search\n",
            "unchanged conftest.py: it has the lines already\n",
        ),
        ("def passages(rageval_retriever):\n    pass\n", "kept conftest.py, which exists. Add to it"),
    ],
    ids=["defined", "used alone"],
)
def test_a_fixture_is_suggested_where_the_conftest_defines_none(init, conftest, said):
    assert said in init(files={"conftest.py": conftest}).out


APPLICATION = """import pytest

from bot import ask


@pytest.fixture(scope="session")
def rageval_application():
    return ask
"""
ANSWERED = '{"id": "q1", "question": "How many days?", "answers": ["five"], "gold": [{"id": "kb-1"}]}\n'


@pytest.mark.parametrize("folder", [".", "tests"])
def test_an_application_is_what_the_test_uses(folder, project, init):
    """A fixture rageval_retriever takes precedence: the application would no longer be tested."""
    (project / folder).mkdir(exist_ok=True)
    for _ in range(2):
        out = init(files={"conftest.py": APPLICATION}).out
        assert (
            "unchanged conftest.py: it has the lines already. The test uses its rageval_application.\n" in out
        )
        for said in ("rageval_retriever", "Return your own retriever", "Add to it"):
            assert said not in out
        assert "Until then `pytest` fails: the eval set is a placeholder." in out
        assert (project / "conftest.py").read_text(encoding="utf-8") == APPLICATION
    written = files(project / folder)
    assert folder == "." or "conftest.py" not in written
    assert "replace-me" in written["evals/questions.jsonl"]
    test = written["test_retriever.py"]
    assert test.startswith('"""Tests the application. ')
    for score in ("recall@10", "ndcg@10", "answer.containment@10"):
        assert f'rageval_threshold("{score}", max_drop=' in test
    assert "min=" not in test


@pytest.mark.parametrize(("record", "scored"), [(ANSWERED, True), (ANSWERED.replace("answers", "x"), False)])
def test_an_application_is_scored_by_what_the_eval_set_has(record, scored, project, init):
    init("--evalset", "mine.jsonl", files={"conftest.py": APPLICATION, "mine.jsonl": record})
    test = (project / "test_retriever.py").read_text(encoding="utf-8")
    assert '"recall@10"' in test
    assert ('"answer.containment@10"' in test) == scored
    assert "evals/questions.jsonl" not in files(project)


def test_a_retriever_beside_an_application_takes_precedence(init):
    both = APPLICATION + APPLICATION.partition("ask\n\n\n")[2].replace("application", "retriever")
    said = "The test uses its rageval_retriever, and rageval_application is not asked: remove one.\n"
    assert said in init(files={"conftest.py": both}).out


@pytest.mark.slow
def test_an_application_passes(run, init):
    bot = 'def ask(question):\n    return "It is five.", [{"id": "kb-1", "text": "Five."}]\n'
    records = [ANSWERED.replace("q1", f"q{n}").replace("days", f"days in case {n}") for n in range(6)]
    written = {"bot.py": bot, "conftest.py": APPLICATION, "mine.jsonl": "".join(records)}
    init("--evalset", "mine.jsonl", files=written)
    for arguments in ([], ["--rageval-update-baseline"], []):
        done = run(*arguments)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_missing_key_is_what_is_said(project, monkeypatch, init):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    bot = "from openai import OpenAI\n\nclient = OpenAI()\n\ndef ask(question):\n    return '', []\n"
    err = init(files={"conftest.py": APPLICATION, "bot.py": bot}).err
    assert (
        "warning: pytest does not collect test_retriever.py: openai.OpenAIError: Missing credentials." in err
    )
    assert "export OPENAI_API_KEY=" in err
    assert "Add the lines that are named above" not in err
    with (project / "pytest.ini").open("a", encoding="utf-8") as settings:
        settings.write("rageval_gateway = true\n")
    out, err = init()
    assert "collected test_retriever.py" in out
    assert not err


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
def test_a_dangling_link_is_not_written_through(project, tmp_path_factory):
    """A dangling symbolic link is not written through, since its target may be outside the project."""
    outside = tmp_path_factory.mktemp("outside") / "conftest.py"
    (project / "conftest.py").symlink_to(outside)
    assert main(["init"]) == 0
    assert not outside.exists()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"pytest.ini": "[pytest]\n"}, "pytest.ini"),
        ({".pytest.ini": "[pytest]\n"}, ".pytest.ini"),
        ({"tox.ini": "[pytest]\n"}, "tox.ini"),
        ({"setup.cfg": "[tool:pytest]\n"}, "setup.cfg"),
        ({"pyproject.toml": "[tool.pytest]\n"}, "pyproject.toml"),
        ({"pyproject.toml": "[project]\nname = 'x'\n", "tox.ini": "[tox]\n"}, None),
        ({"pyproject.toml": "not toml", "setup.cfg": "not ini"}, None),
    ],
)
def test_settings_go_where_pytest_reads_them(settings, name, project, init):
    """If pytest already reads a settings file, no pytest.ini is written, since it would override that file."""
    assert (f"kept {name}" if name else "wrote pytest.ini") in init(files=settings).out
    assert (project / "pytest.ini").exists() == (name in (None, "pytest.ini"))


@pytest.mark.parametrize(
    "framework",
    [[], ["--framework", "langchain"], ["--framework", "llamaindex"], ["--framework", "haystack"]],
)
def test_what_is_written_is_formatted(framework, project):
    """The written files are formatted as `ruff format` does, so that the user's linter does not complain."""
    pytest.importorskip("ruff")
    assert main(["init", *framework]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=120", "--diff", "."],
        capture_output=True, text=True, check=False, cwd=project,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    for line in (project / "evals" / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line)
    assert yaml.safe_load((project / ".github/workflows/rageval.yml").read_text(encoding="utf-8"))["jobs"]


METADATA = "[project]\nname = 'app'\nversion = '1'\n"
BUILD = "[build-system]\nrequires = ['hatchling']\nbuild-backend = 'hatchling.build'\n"


@pytest.mark.parametrize(
    ("contents", "framework", "installed"),
    [
        ({"requirements.txt": ""}, "haystack", "-r requirements.txt pytest-rageval haystack-ai"),
        ({"requirements.txt": ""}, None, "-r requirements.txt pytest-rageval"),
        ({"pyproject.toml": METADATA}, None, ". pytest-rageval"),
        ({"setup.py": ""}, None, ". pytest-rageval"),
        # Metadata next to requirements may belong to an application that cannot be built.
        ({"pyproject.toml": METADATA, "requirements.txt": ""}, None, "-r requirements.txt pytest-rageval"),
        (
            {"pyproject.toml": METADATA + BUILD, "requirements.txt": ""},
            None,
            "-r requirements.txt . pytest-rageval",
        ),
        ({"pyproject.toml": "[tool.ruff]\n"}, None, "pytest-rageval # add what your retriever imports"),
        ({}, None, "pytest-rageval # add what your retriever imports"),
        ({}, "langchain", "pytest-rageval langchain-core"),
        ({"uv.lock": "", "pyproject.toml": METADATA}, None, f"-r {LOCKED} pytest-rageval"),
        ({"uv.lock": "", "pyproject.toml": METADATA + BUILD}, None, f"-r {LOCKED} . pytest-rageval"),
        ({"poetry.lock": "", "pyproject.toml": METADATA + BUILD}, None, "pytest-rageval"),
    ],
)
def test_the_workflow_installs_the_project(contents, framework, installed, project, init):
    chosen = ["--framework", framework] if framework else ["--retriever", "app:search"]
    init(*chosen, files={**contents, "app.py": SEARCH})
    workflow = (project / ".github/workflows/rageval.yml").read_text(encoding="utf-8")
    assert f"pip install {installed}\n" in workflow
    for lock, command in (("uv", "uv export --project . --frozen "), ("poetry", "poetry install -C . && ")):
        assert (command in workflow) == (f"{lock}.lock" in contents)
    assert yaml.safe_load(workflow)["jobs"]["rageval"]["steps"][2]["run"].startswith("pip install ")


def test_in_a_part_of_a_repository_the_workflow_is_at_its_root(project, monkeypatch, init):
    (project / ".git").mkdir()
    service = project / "services" / "search"
    service.mkdir(parents=True)
    monkeypatch.chdir(service)
    out = init(files={"services/search/pyproject.toml": "[project]\nname = 'search'\n"}).out
    assert "wrote ../../.github/workflows/rageval.yml: " in out
    workflow = project / ".github" / "workflows" / "rageval.yml"
    written = workflow.read_text(encoding="utf-8")
    job = yaml.safe_load(written)["jobs"]["rageval-services-search"]
    assert job["name"] == "rageval services/search"
    assert job["steps"][2] == {"run": "pip install ./services/search pytest-rageval"}
    inputs = {"name": "rageval-services-search", "working-directory": "services/search"}
    assert job["steps"][3]["with"] == inputs
    moved = {"conftest.py", "test_retriever.py", "evals/questions.jsonl"}
    others = {".gitattributes", "pytest.ini", "pyproject.toml"}
    assert files(service).keys() == {f"tests/{name}" for name in moved} | others
    # A second service gets a job to add, and no second workflow.
    billing = project / "services" / "billing"
    billing.mkdir()
    monkeypatch.chdir(billing)
    out = init().out
    assert workflow.read_text(encoding="utf-8") == written
    head = "kept ../../.github/workflows/rageval.yml, which exists. Add to it below `jobs:` (runs the test on GitHub"
    assert head in out
    added = out.partition(head)[2].partition("\n")[2].partition("\n\nNext:")[0]
    jobs = yaml.safe_load(written + textwrap.indent(textwrap.dedent(added), "  "))
    assert jobs["jobs"].keys() == {"rageval-services-search", "rageval-services-billing"}
    assert "permissions:\n  contents" not in added


def test_a_file_name_stays_a_name_in_the_test(project, init):
    name = 'a "b"\n\\c.jsonl' if sys.platform != "win32" else "a 'b'.jsonl"
    written = {name: '{"id": "q1", "question": "How?", "gold": [{"id": "a"}]}\n', "app.py": SEARCH}
    init("--retriever", "app:search", "--evalset", name, files=written)
    source = ast.parse((project / "test_retriever.py").read_text(encoding="utf-8"))
    assert name in {node.value for node in ast.walk(source) if isinstance(node, ast.Constant)}


@pytest.mark.parametrize(
    ("arguments", "written", "message"),
    [
        (["--retriever", "search"], {}, "--retriever 'search' is not of the form MODULE:NAME."),
        (["--retriever", "a.b:c; import os"], {}, "support_bot.search:search"),
        (["--evalset", "mine.jsonl"], {}, "--evalset mine.jsonl needs --retriever"),
        (
            ["--retriever", "app:search", "--evalset", "mine.jsonl"],
            {"mine.jsonl": '{"id": "q1", "question": "How?"}\n'},
            "No question of mine.jsonl has gold passages or answers",
        ),
        (["--retriever", "app:search", "--evalset", "none.jsonl"], {}, "none.jsonl"),
        (
            ["--retriever", "app:search", "--framework", "langchain"],
            {},
            "--framework langchain writes an example retriever, and --retriever names yours.",
        ),
        (["--retriever", "app:search"], {}, "--retriever app:search: there is no module 'app', neither in "),
        (
            ["--retriever", "app:search"],
            {"conftest.py": APPLICATION},
            "conftest.py has rageval_application, and a rageval_retriever would take its place",
        ),
        (
            ["--framework", "langchain"],
            {"conftest.py": APPLICATION},
            "and rageval_application in conftest.py is yours.\nLeave --framework out",
        ),
    ],
)
def test_what_cannot_be_used_writes_nothing(arguments, written, message, project, init):
    assert message in init(*arguments, files=written, status=2).err
    assert files(project) == written


def test_an_eval_set_with_answers_alone_gets_a_score_that_needs_no_gold(project, init):
    written = {"mine.jsonl": '{"id": "q1", "question": "How?", "answers": ["so"]}\n', "app.py": SEARCH}
    init("--retriever", "app:search", "--evalset", "mine.jsonl", files=written)
    test = (project / "test_retriever.py").read_text(encoding="utf-8")
    assert 'rageval_threshold("contains.hit@5", ' in test


@pytest.mark.parametrize(
    ("retriever", "source", "message"),
    [
        ("app:serach", SEARCH, "app has no 'serach'. Did you mean search?"),
        (
            "app:TEXTS",
            SEARCH,
            "app.TEXTS is of type dict, which cannot be called.\nName a function (query, k)",
        ),
        ("app:TEXTS()", SEARCH, "app.TEXTS is of type dict, which cannot be called."),
        (
            "app:client",
            'client = type("QdrantClient", (), {"__module__": "qdrant_client"})()',
            'lambda query, k: client.query_points("passages", ',
        ),
        ("app:search.nothing()", SEARCH, "app.search has no 'nothing'."),
        ("app:build", SEARCH, "app.build is a function without arguments.\nIf it makes the retriever, write"),
        ("app:Search", "class Search: pass\n", "app.Search is a class.\nIf it makes the retriever, write"),
        ("app.search:search", SEARCH, "there is no module 'app.search'"),
    ],
)
def test_a_name_that_is_not_a_retriever_writes_nothing(retriever, source, message, project, init):
    err = init("--retriever", retriever, files={"app.py": source}, status=2).err
    assert f"--retriever {retriever}: " in err
    assert message in err
    assert files(project).keys() == {"app.py"}


@pytest.mark.parametrize(
    "source",
    [
        "def search(query, k):\n    raise SystemExit('called')\nbuild = search\n",
        "class New:\n    def invoke(self, query):\n        raise SystemExit('called')\nsearch, build = New(), New\n",
    ],
)
@pytest.mark.parametrize("retriever", ["app:search", "app:build()"])
def test_a_retriever_is_imported_and_not_called(retriever, source, init):
    """`rageval init` imports the retriever and does not call it, since a call may cost money or need a server."""
    assert init("--retriever", retriever, files={"app.py": source}).err == ""


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import none_such\n", "ModuleNotFoundError: No module named 'none_such' (app.py:1)"),
        ("raise SystemExit('no key')\n", "SystemExit: no key (app.py:1)"),
    ],
)
def test_a_module_that_cannot_be_imported_is_a_warning(source, error, project, init):
    """A module that cannot be imported is a warning, since the tests may run in another environment."""
    err = init("--retriever", "app:search", files={"app.py": source}).err
    assert f"warning: app cannot be imported here, so that pytest will fail: {error}" in err
    assert (project / "conftest.py").exists()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = ['src']\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = 'src'\n"),
        ("pytest.toml", "[pytest]\npythonpath = ['src']\n"),
        ("tox.ini", "[pytest]\npythonpath = src\n"),
        ("setup.cfg", "[tool:pytest]\npythonpath = lib src\n"),
    ],
)
def test_the_retriever_is_found_where_pytest_finds_it(file, text, init):
    init("--retriever", "app:search", files={file: text, "src/app.py": SEARCH})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['checks']\n"}, "checks"),
        (
            {
                "pytest.ini": "[pytest]\ntestpaths = no_such_* tests\n",
                "tests/test_own.py": "def test_own(): pass\n",
            },
            "tests",
        ),
        ({"tests/test_own.py": "def test_own(): pass\n"}, "tests"),
        ({"pyproject.toml": METADATA}, "tests"),
        ({}, "."),
    ],
)
def test_the_test_is_where_pytest_collects(settings, place, project, run, init):
    test = (Path(place) / "test_retriever.py").as_posix()
    assert f"collected {test}" in init(files=settings).out
    assert "evals/questions.jsonl" in files(project / place)
    done = run("-v")
    assert done.returncode == 0, done.stdout
    assert f"{test}::test_the_passage_is_found" in done.stdout.replace("\\\\", "/")


@pytest.mark.slow
def test_a_test_that_is_not_collected_is_pointed_out(init):
    out, err = init(files={"pytest.ini": "[pytest]\npython_files = check_*.py\n"})
    assert "warning: pytest does not collect test_retriever.py: no tests collected" in err
    assert "1. Run `pytest`: it passes" not in out


@pytest.mark.slow
def test_a_retriever_that_pytest_cannot_import_yet_is_pointed_out(init):
    """The command pytest does not import from the current folder: the printed pythonpath is needed first."""
    written = {
        "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
        "own_search.py": "def search(query, k): return []\n",
    }
    out, err = init("--retriever", "own_search:search", files=written)
    assert "warning: pytest does not collect tests/test_retriever.py: " in err
    assert "No module named 'own_search'" in err
    assert "Add the lines that are named above, if any." in err
    assert "Do what the warning above says" in out
    assert "it passes" not in out


def test_in_a_folder_of_a_project_nothing_is_written(project, monkeypatch, init):
    """A pytest.ini in a folder of tests would replace the project's settings for it: it is refused."""
    (project / "tests").mkdir()
    monkeypatch.chdir(project / "tests")
    err = init(files={"pyproject.toml": "[tool.pytest.ini_options]\n"}, status=2).err
    assert f"Run rageval init in {project}." in err
    assert not files(project / "tests")


@pytest.mark.parametrize(
    ("name", "text", "advised"),
    [
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\n",
            ['pythonpath = ["."]', 'required_plugins = ["pytest-rageval"]'],
        ),
        ("pytest.ini", "[pytest]\npythonpath = .\n", ["required_plugins = pytest-rageval"]),
        (
            "pyproject.toml",
            '[tool.pytest.ini_options]\npythonpath = ["src"]\nrequired_plugins = ["pytest-cov"]\n',
            ["# In place of its required_plugins:", 'required_plugins = ["pytest-cov", "pytest-rageval"]'],
        ),
        ("tox.ini", "[pytest]\nrequired_plugins = pytest-cov pytest-rageval\n", ["pythonpath = ."]),
    ],
)
def test_the_missing_settings_are_advised(name, text, advised, init):
    shown = init(files={name: text}).out.partition("(pytest's settings):\n")[2].splitlines()
    assert [line.strip() for line in shown[: len(advised)]] == advised
    assert not shown[len(advised)].startswith("    ")


def test_a_framework_that_is_not_installed_is_named(monkeypatch, init):
    """Without the framework's package, pytest would fail: the command to install it is printed."""
    monkeypatch.setattr("pytest_rageval.extensions.first_test.init.find_spec", lambda _name: None)
    out, err = init("--framework", "langchain")
    assert "langchain-core is not installed for " in err
    assert err.endswith(": pip install langchain-core\n")
    assert "1. Run `pytest`: it passes" not in out
