"""`--rageval history=FILE`: which runs append a line, and what the line contains."""

import json
import subprocess

import pytest

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("recall@2", min=0.9)\ndef test_gate(): pass\n'
OTHER = '@pytest.mark.rageval_threshold("mrr@2", min=0.1)\ndef test_other(): pass\n'


@pytest.fixture
def project(project):
    project.ini(rageval_history="out/history.jsonl")
    return project


def lines(project):
    path = project.path / "out" / "history.jsonl"
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    )


@pytest.mark.parametrize(
    "arguments", [["--collect-only"], ["--rageval-plan"], ["-k", "plain"], ["-k", "nothing"]]
)
def test_a_run_without_scores_is_no_line(project, arguments):
    project.test(f"{GATE}def test_plain(): pass\n")
    project.run(*arguments)
    assert lines(project) == []


@pytest.mark.parametrize(
    "hook",
    [
        "def pytest_runtest_setup(item):\n    if item.name == 'test_other': pytest.exit('enough')",
        "def pytest_runtest_setup(item):\n    if item.name == 'test_other': raise KeyboardInterrupt",
        "def pytest_runtest_logfinish(nodeid): raise RuntimeError('in a hook')",
        "def pytest_configure(config): config.option.maxfail = 1",
    ],
    ids=["exit", "interrupt", "internal error", "maxfail"],
)
def test_a_stopped_run_says_so(project, hook):
    project.test(f"{GATE}{OTHER}")
    project.lose(3)
    project.run()
    project.add(hook)
    project.run_process()
    whole, stopped = lines(project)
    assert stopped["stopped"] is True
    assert list(stopped["tests"]) == ["test_it.py::test_gate"]
    assert "stopped" not in whole
    assert list(whole["tests"]) == ["test_it.py::test_gate", "test_it.py::test_other"]


def test_a_damaged_file_keeps_its_lines_and_gets_the_new_one(project):
    project.test(GATE)
    path = project.path / "out" / "history.jsonl"
    path.parent.mkdir()
    path.write_text("<<<<<<< HEAD", encoding="utf-8")
    result = project.run("--rageval-report=r.md", passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [f"{path}, line 1: it is the mark of a merge conflict*", "Reports have no chart of it."]
    )
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert first == "<<<<<<< HEAD"
    assert json.loads(second)["schema"] == 1


def test_a_file_that_cannot_be_written_fails_the_run(project):
    project.test(GATE)
    (project.path / "out" / "history.jsonl").mkdir(parents=True)
    result = project.run("--rageval-report=r.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [f"The history {project.path}/out/history.jsonl cannot be written: Is a directory."]
    )
    assert "history" not in project.read("r.json")


def test_workers_append_one_line(project):
    project.test(f"{GATE}{OTHER}")
    project.run_process("-n2", "-p", "xdist", passed=2)
    [run] = lines(project)
    assert len(run["tests"]) == 2


def test_the_line_has_the_commit_and_git_merges_lines_of_two_branches(project):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        command = ["git", *identity, *arguments]
        subprocess.run(command, cwd=project.path, check=True, capture_output=True)

    project.test(GATE)
    (project.path / ".gitattributes").write_text("out/history.jsonl merge=union\n", encoding="utf-8")
    (project.path / ".gitignore").write_text("__pycache__\n.rageval_cache\n", encoding="utf-8")
    git("init", "-b", "main")
    for subject in ("first", "second"):
        git("add", ".")
        git("commit", "--allow-empty", "-m", subject)
        project.run()
    git("checkout", "-b", "feature")
    git("commit", "-am", "feature")
    project.run()
    git("commit", "-am", "its history")
    git("checkout", "main")
    git("commit", "--allow-empty", "-m", "third")
    project.run()
    git("commit", "-am", "history")
    git("merge", "feature")
    runs = sorted(lines(project), key=lambda run: run["title"])
    assert {(run["title"], run["branch"]) for run in runs} >= {
        ("first", "main"),
        ("second", "main"),
        ("feature", "feature"),
        ("third", "main"),
    }
    assert not any("dirty" in run for run in runs)
