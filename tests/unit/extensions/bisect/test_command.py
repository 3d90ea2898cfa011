"""`rageval bisect` in real repositories, with real runs of pytest."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from pytest_rageval.cli import main
from pytest_rageval.extensions.bisect import command
from pytest_rageval.extensions.bisect.command import _environment
from pytest_rageval.options.settings import Settings
from tests.foreign_plugins import WITHOUT
from tests.llm_server import LLMServer

FILES = {
    "app.py": "KEPT = 60\n\n\ndef search(query):\n    n = int(query.split()[-1])\n"
    "    return [{'id': f'd{n}' if n < KEPT else 'other'}]\n",
    "conftest.py": "import pytest\n\nfrom app import search\n\n\n"
    "@pytest.fixture\ndef rageval_retriever():\n    return search\n",
    "test_retriever.py": "import pytest\n\n\n"
    '@pytest.mark.rageval_evalset("questions.jsonl")\n@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)\n'
    "def test_the_passage_is_found():\n    pass\n",
    "questions.jsonl": "".join(
        json.dumps({"id": f"q{n}", "question": f"Where is {n}", "gold": [{"id": f"d{n}"}]}) + "\n"
        for n in range(60)
    ),
    "pytest.ini": "[pytest]\npythonpath = .\n",
    ".gitignore": ".rageval_cache/\n__pycache__/\n.pytest_cache/\nindex.txt\n",
}
RUN = ["--", "-q"]


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> str:
        own = ("user.name=Ann Author", "user.email=ann@example.org", "init.defaultBranch=main")
        settings = (word for each in (*own, "protocol.file.allow=always") for word in ("-c", each))
        command = ["git", *settings, *arguments]
        done = subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, subject: str, **files: str) -> str:
        for name, text in files.items():
            (self.folder / name.replace("_py", ".py")).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "--short=7", "HEAD")

    def change(self, old: str, new: str, subject: str) -> str:
        return self.commit(subject, app_py=(self.folder / "app.py").read_text().replace(old, new))

    def left(self) -> tuple[str, str]:
        return self.git("worktree", "list"), self.git("status", "--porcelain")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for name in ("project", "scratch"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(WITHOUT))
    for name, text in FILES.items():
        (tmp_path / "project" / name).write_text(text)
    made = Repository(tmp_path / "project")
    made.git("init", "--quiet")
    return made


def run(repository: Repository, *arguments: str, folder: str = ".") -> tuple[int, str]:
    command, streams = [sys.executable, "-m", *arguments], {"stdout": PIPE, "stderr": STDOUT}
    done = subprocess.run(command, cwd=repository.folder / folder, check=False, text=True, **streams)
    return done.returncode, done.stdout


def bisect(repository: Repository, *arguments: str, folder: str = ".") -> tuple[int, str]:
    before = repository.left()
    found = run(repository, "pytest_rageval", "bisect", *arguments, folder=folder)
    assert repository.left() == before
    assert not list(Path(os.environ["TMPDIR"]).glob("rageval-bisect-*"))
    return found


def commit_baseline(repository: Repository) -> str:
    status, output = run(repository, "pytest", "-q", "--rageval-update-baseline")
    assert status == 0, output
    return repository.commit("baseline")


@pytest.mark.slow
def test_the_commit_is_found_on_a_branch_beside_one_that_cannot_be_built(repository: Repository) -> None:
    """The branch was merged; before the loss there is a smaller one, which the gate cannot decide."""
    repository.commit("start")
    good = commit_baseline(repository)
    repository.git("checkout", "--quiet", "-b", "branch")
    repository.change("n < KEPT", "1 < n < KEPT", "two are lost")
    guilty = repository.change("KEPT = 60", "KEPT = 48", "twelve are lost")
    repository.commit("note", note="")
    repository.git("checkout", "--quiet", "main")
    broken = repository.commit("broken", conftest_py="import nothing_of_this_name")
    repository.commit("repaired", conftest_py=FILES["conftest.py"])
    repository.git("merge", "--quiet", "--no-edit", "branch")
    bad = repository.commit("last", other="")
    (repository.folder / "untracked.txt").touch()

    status, output = bisect(repository, *RUN)
    assert status == 0, output
    assert "note: untracked files are in no commit, and left out: untracked.txt" in output
    assert f"good    {good} baseline: 1.000 pass" in output
    assert f"bad     {bad} last: 0.767 fail" in output
    assert "two are lost: 0.967 inconclusive\n        the verdict was unsure: counts as good" in output
    test = "test_retriever.py::test_the_passage_is_found"
    assert f"\n{guilty} is the first commit that fails recall@1 of {test}" in output
    assert "Ann Author, " in output
    assert "changed files (1):\n    app.py\n  lost questions (12):\n    q48  Where is 48\n" in output
    assert "q0 " not in output

    status, output = bisect(repository, broken, "HEAD", "--score", "recall@1", *RUN)
    assert status == 2
    assert f"The good commit {broken} cannot be judged: pytest ended with status 4 and without" in output


@pytest.mark.slow
@pytest.mark.long
def test_the_index_is_built_at_each_commit_from_its_submodule(repository: Repository, tmp_path: Path) -> None:
    """The project is in a folder of the repository; a commit whose index cannot be built is skipped."""
    library = Repository(tmp_path / "library")
    library.folder.mkdir()
    library.git("init", "--quiet")
    library.commit("data", data="60")
    repository.git("submodule", "--quiet", "add", str(library.folder), "library")
    repository.git("config", "protocol.file.allow", "always")
    repository.commit("start", app_py=FILES["app.py"].replace("60", "int(open('index.txt').read())"))
    setup = "cp library/data index.txt"
    (repository.folder / "index.txt").write_text("60")
    commit_baseline(repository)
    repository.commit("note", note="")
    repository.git("rm", "--quiet", "library")
    skipped = repository.commit("no library")
    repository.git("revert", "--no-edit", "HEAD")
    repository.git("submodule", "--quiet", "update", "--init")
    library.commit("less data", data="40")
    repository.git("-C", "library", "fetch", "--quiet", "origin")
    repository.git("-C", "library", "checkout", "--quiet", "FETCH_HEAD")
    guilty = repository.commit("new data")
    repository.commit("last", other="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_COUNT", "1")
        patch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
        patch.setenv("GIT_CONFIG_VALUE_0", "always")
        status, output = bisect(repository, "--setup", setup, *RUN)
        assert status == 0, output
        assert f"{guilty} is the first commit that fails" in output
        assert "changed files (1):\n    library\n" in output
        assert f"skipped {skipped} no library: the setup failed with status 1: cp: " in output


@pytest.mark.slow
@pytest.mark.long
def test_replies_come_from_the_cache(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the passages that a commit changed are paid for."""
    questions = "".join(
        json.dumps({"id": f"q{n}", "question": f"Which code has item-{n}?", "reference": f"X{n}"}) + "\n"
        for n in range(60)
    )
    app = (
        "KEPT = 60\n\n\ndef search(query):\n    n = int(query[:-1].split('-')[1])\n"
        "    return [{'id': str(n), 'text': f'item-{n} has the code X{n}' if n < KEPT else 'nothing'}]\n"
    )
    test = FILES["test_retriever.py"].replace("recall@1", "answer.em@1")
    repository.commit("start", **{"app.py": app, "test_retriever.py": test, "questions.jsonl": questions})
    with LLMServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        (repository.folder / "pytest.ini").write_text("[pytest]\npythonpath = .\nrageval_model = clerk\n")
        commit_baseline(repository)
        first = len(server.requests)
        for n in range(3):
            repository.commit(f"note {n}", note=str(n))
        guilty = repository.change("KEPT = 60", "KEPT = 45", "fifteen are lost")
        repository.commit("last", other="")
        status, output = bisect(repository, *RUN)
        later = len(server.requests)
    assert status == 0, output
    assert f"{guilty} is the first commit that fails answer.em@1" in output
    assert (first, later - first) == (60, 15)


@pytest.mark.slow
@pytest.mark.long
def test_commits_between_which_nothing_is_lost_are_a_clear_error(repository: Repository) -> None:
    repository.commit("start")
    good = commit_baseline(repository)
    bad = repository.change("KEPT = 60", "KEPT = 40", "loss")
    repository.commit("last", other="")
    nothing = f"No score fails at the bad commit {good}, so that there is nothing to find.\n  recall@1"
    test = "test_retriever.py::test_the_passage_is_found"
    for arguments, problem in (
        ([f"{good}~1", good], nothing),
        ([bad], f"The good commit {bad} fails recall@1 of {test} too.\nName"),
        (
            ["--score", "recal@1"],
            "has no score 'recal@1' with a bound. It has recall@1. Did you mean recall@1?",
        ),
    ):
        status, output = bisect(repository, *arguments, *RUN)
        assert (status, problem in output) == (2, True), output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["a", "b", "c"], "'c' is a third commit: write the arguments of pytest after --"),
        (["a", "-k", "x", "--", "tests"], "unrecognized arguments: -k"),
        (["--score"], "--score: expected one argument"),
    ],
)
def test_wrong_arguments_are_a_usage_error(arguments, problem, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bisect", *arguments])
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


def test_commits_that_are_no_range_are_a_clear_error(repository, monkeypatch, capsys):
    first = repository.commit("start")
    last = repository.commit("last", other="")
    for arguments, problem in (
        (["nosuch"], "needs a git repository with these commits: this checkout has no nosuch"),
        ([last, first], f"{first} does not contain the good commit {last}.\nName one that it contains"),
        ([first, first], f"{first} is both the good and the bad commit.\nName an older one"),
        ([], "rageval_baseline.json.\nName the last good commit: rageval bisect GOOD"),
    ):
        monkeypatch.chdir(repository.folder)
        settings = Settings(baseline=Path.cwd() / "rageval_baseline.json")
        monkeypatch.setattr(command, "settings_of", lambda _, settings=settings: settings)
        assert main(["bisect", *arguments]) == 2
        assert problem in capsys.readouterr().err
    (repository.folder / "app.py").write_text("")
    assert main(["bisect"]) == 2
    assert "There are changes that are not committed, in app.py.\nCommit them" in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_removes_the_worktree(repository: Repository) -> None:
    repository.commit("start")
    commit_baseline(repository)
    repository.change("KEPT = 60", "KEPT = 40", "loss")
    before = repository.left()
    words = [sys.executable, "-m", "pytest_rageval", "bisect", "--setup", "echo > ../started; sleep 60"]
    process = subprocess.Popen(words, cwd=repository.folder, start_new_session=True)
    started = Path(os.environ["TMPDIR"])
    while not list(started.glob("rageval-bisect-*/started")):
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    assert repository.left() == before
    assert not list(started.iterdir())


def test_an_editable_installation_is_replaced_by_the_worktree(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "inherited")
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "src"), str(tmp_path.parent), sys.prefix])
    assert _environment(tmp_path)["PYTHONPATH"].split(os.pathsep) == [str(Path("{}", "src")), "inherited"]
