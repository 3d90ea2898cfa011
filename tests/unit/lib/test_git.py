"""Calls of git."""

import shutil
from pathlib import Path

import pytest

from pytest_rageval.lib.git import GitError, commit_of, file_at, run_git
from tests.unit.plugin.test_revision import Repository, repository

__all__ = ["repository"]

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.mark.parametrize(
    "ref",
    ["", "-h", "--output=x", "--upload-pack=touch x", "a b", "a\nb", "a\0b", "main..main", "main:x", "^main"],
)
def test_a_name_that_is_no_commit_is_refused(repository: Repository, ref: str) -> None:
    with pytest.raises(GitError, match=r"is not the name of a commit|this checkout has no"):
        commit_of(repository.path, ref)
    assert not (repository.path / "x").exists()


@pytest.mark.parametrize("ref", ["main", "HEAD", "HEAD~0", "refs/heads/main", "@"])
def test_the_commit_of_a_name(repository: Repository, ref: str) -> None:
    assert commit_of(repository.path, ref) == repository.git("rev-parse", "HEAD")


def test_a_file_at_a_commit(repository: Repository) -> None:
    folder = repository.path / "below"
    folder.mkdir()
    (folder / "[a]*.json").write_text("old", encoding="utf-8")
    commit = repository.commit("more")
    (folder / "[a]*.json").write_text("new", encoding="utf-8")
    assert file_at(commit, folder / "[a]*.json") == b"old"
    assert file_at(commit, folder / "a.json") is None
    assert file_at(commit, folder) is None
    assert file_at(repository.git("rev-parse", "HEAD~1"), folder / "[a]*.json") is None


def test_the_reason_of_a_failed_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(GitError, match=r"^not a git repository"):
        commit_of(tmp_path, "HEAD")
    with pytest.raises(GitError, match=r"^there is no folder .*gone$"):
        run_git(tmp_path / "gone", "status")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitError, match=r"^git is not installed$"):
        commit_of(tmp_path, "HEAD")
