"""The revision under test, as reported by git and CI variables."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_rageval.lib.git import run_git
from pytest_rageval.plugin.files import head_commit, run_entry

GITHUB = {
    "GITHUB_SHA": "c" * 40,
    "GITHUB_HEAD_REF": "",
    "GITHUB_REF_NAME": "feature",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "o/r",
    "GITHUB_RUN_ID": "7",
}
GITLAB = {
    "CI_COMMIT_SHA": "d" * 40,
    "CI_COMMIT_REF_NAME": "main",
    "CI_JOB_URL": "https://gitlab.com/o/r/-/jobs/7",
}

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


class Repository:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.baseline = path / "rageval_baseline.json"
        self.git("init", "-b", "main")
        self.baseline.write_text("{}", encoding="utf-8")
        self.commit("baseline")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        command = ["git", *identity, *arguments]
        completed = subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=True)
        return completed.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", ".")
        self.git("commit", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    return Repository(tmp_path)


@needs_git
def test_a_checkout_has_its_commit_its_branch_and_that_of_the_baseline(repository: Repository) -> None:
    """The baseline's commit is the last one that changed the file; untracked files do not make a run dirty."""
    first = head_commit(repository.path)
    (repository.path / "search.py").write_text("k = 3", encoding="utf-8")
    second = repository.commit("search")
    (repository.path / "notes.txt").write_text("unknown to git", encoding="utf-8")
    entry = run_entry(repository.path, repository.baseline, {})
    date = repository.git("log", "-1", "--format=%cI", str(first))
    assert entry == {
        "commit": second,
        "branch": "main",
        "title": "search",
        "dirty": False,
        "baseline": {"path": "rageval_baseline.json", "commit": first, "date": date},
    }
    (repository.path / "search.py").write_text("k = 5", encoding="utf-8")
    assert run_entry(repository.path, repository.baseline, {})["dirty"] is True


@needs_git
def test_what_a_run_writes_makes_it_not_dirty(repository, tmp_path_factory):
    history = repository.path / "evals [1]" / "history.jsonl"
    history.parent.mkdir()
    history.write_text("one\n", encoding="utf-8")
    repository.commit("history")
    history.write_text("one\ntwo\n", encoding="utf-8")

    def dirty(*written: Path) -> bool:
        return bool(run_entry(repository.path, repository.baseline, {}, written=written)["dirty"])

    assert dirty()
    assert not dirty(history, tmp_path_factory.mktemp("other") / "history.jsonl")
    repository.baseline.write_text("changed", encoding="utf-8")
    assert dirty(history)


@needs_git
def test_a_detached_checkout_of_ci_has_the_branch_that_ci_names(repository: Repository) -> None:
    """The commit comes from git, since CI may have checked out a merge; the branch comes from CI."""
    repository.git("checkout", "--detach")
    entry = run_entry(repository.path, repository.baseline, GITHUB)
    assert entry["commit"] == head_commit(repository.path)
    assert (entry["branch"], entry["url"]) == ("feature", "https://github.com/o/r/actions/runs/7")
    assert "branch" not in run_entry(repository.path, repository.baseline, {})


@needs_git
def test_a_shallow_clone_does_not_know_when_the_baseline_was_made(repository, tmp_path_factory):
    (repository.path / "search.py").write_text("k = 3", encoding="utf-8")
    last = repository.commit("search")
    clone = tmp_path_factory.mktemp("clone")
    repository.git("clone", "--depth", "1", repository.path.as_uri(), str(clone))
    entry = run_entry(clone, clone / "rageval_baseline.json", {})
    assert entry["commit"] == last
    assert entry["baseline"] == {"path": "rageval_baseline.json"}


@needs_git
def test_a_repository_without_a_commit_has_a_branch_alone(tmp_path: Path) -> None:
    command = ["git", "init", "-b", "main"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "base.json").write_text("{}", encoding="utf-8")
    assert run_entry(tmp_path, tmp_path / "base.json", {}) == {
        "branch": "main",
        "baseline": {"path": "base.json"},
    }


def test_without_git_the_variables_of_ci_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = tmp_path / "rageval_baseline.json"
    assert run_entry(tmp_path, missing, {}) == {}
    assert run_entry(tmp_path, missing, GITLAB) == {
        "commit": "d" * 40,
        "branch": "main",
        "url": "https://gitlab.com/o/r/-/jobs/7",
    }
    assert run_entry(tmp_path, missing, GITHUB | {"GITHUB_HEAD_REF": "topic"})["branch"] == "topic"
    assert head_commit(tmp_path) is None


def test_only_an_address_of_the_web_is_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert run_entry(tmp_path, tmp_path / "none.json", {"BUILD_URL": "javascript:alert(1)"}) == {}


def test_a_git_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If git does not respond, for example on a network drive, it is stopped after a timeout."""
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\nsleep 60\n", encoding="utf-8")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setitem(run_git.__kwdefaults__, "timeout_s", 0.1)
    assert run_entry(tmp_path, tmp_path / "none.json", {}) == {}


def test_a_baseline_elsewhere_has_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    root, baseline = tmp_path / "root", tmp_path / "base.json"
    root.mkdir()
    baseline.write_text("{}", encoding="utf-8")
    assert run_entry(root, baseline, {})["baseline"] == {"path": str(baseline)}
