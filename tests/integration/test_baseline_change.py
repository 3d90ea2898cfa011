"""A baseline that the branch under test changed, and `--rageval baseline_ref=REF`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_rageval.lib.git import run_git
from tests.docs.test_report_schema import check
from tests.integration.conftest import Project

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("git") is None, reason="needs git")]

UPDATE = "--rageval-update-baseline=force"
NODEID = "test_it.py::test_gate"
GATE = '@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)\ndef test_gate(): pass\n'
HEAD = "the baseline differs from the merge base's ({} at ???????):"
LOWER = "  test_it.py::test_gate recall@1: 1.000 → 0.400, 12 of 20 worse, 0 better"
UNKNOWN = "whether this branch changed the baseline is not known: {}"
MERGE_REQUEST = ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "CI_MERGE_REQUEST_DIFF_BASE_SHA")
CI_VARIABLES = ("GITHUB_BASE_REF", *MERGE_REQUEST, "CI_DEFAULT_BRANCH")


def git(*arguments: str, folder: Path | None = None) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    command = ["git", *identity, *arguments]
    completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return completed.stdout.strip()


def commit(message: str) -> str:
    git("add", ".")
    git("commit", "-m", message)
    return git("rev-parse", "HEAD")


@pytest.fixture
def branch(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", *CI_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CI", "true")
    project.evalset(20)
    project.test(GATE)
    (project.path / ".gitignore").write_text("report*\n__pycache__\n.rageval_cache\n", encoding="utf-8")
    project.run(UPDATE, passed=1)
    git("init", "-b", "main")
    commit("good")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("remote", "add", "origin", "nowhere")
    git("checkout", "-b", "worse")
    project.lose(*range(1, 13))
    project.run(UPDATE, passed=1)
    commit("worse")
    return project


def _line(project: Project, *arguments: str, expected: str = HEAD.format("origin/main")) -> pytest.RunResult:
    return project.run("-q", *arguments, shows=expected)


def test_a_baseline_that_the_branch_changed_is_reported(branch):
    """Attack: the pull request makes the retriever worse, and updates the baseline. All reports say how it differs."""
    result = _line(branch, *(f"--rageval-report=report.{kind}" for kind in ("json", "md", "html")))
    assert result.ret == 0
    result.stdout.fnmatch_lines([HEAD.format("origin/main"), LOWER])
    change = check(branch.path / "report.json")["gate"]["change"]
    assert (change["ref"], change["commit"]) == ("origin/main", git("rev-parse", "main"))
    assert change["others"] == []
    [score] = change["scores"]
    assert (score.pop("nodeid"), score.pop("name"), score.pop("lower")) == (NODEID, "recall@1", True)
    assert score == {"before": 1.0, "after": 0.4, "n": 20, "worse": 12, "better": 0, "lost": 0}
    for kind in ("md", "html"):
        text = (branch.path / f"report.{kind}").read_text(encoding="utf-8")
        assert LOWER.strip() in text
        assert "the baseline differs from the merge base" in text


def test_the_merge_base_counts_and_not_the_tip(branch):
    head = git("rev-parse", "HEAD")
    git("checkout", "-b", "other", "main")
    (branch.path / "rageval_baseline.json").write_text("{}", encoding="utf-8")
    git("update-ref", "refs/remotes/origin/main", commit("another"))
    git("checkout", "worse")
    assert git("rev-parse", "HEAD") == head
    _line(branch).stdout.fnmatch_lines([LOWER])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_BASE_REF", "release"),
        ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "release"),
        ("SYSTEM_PULLREQUEST_TARGETBRANCH", "refs/heads/release"),
        ("CI_DEFAULT_BRANCH", "release"),
    ],
)
def test_the_target_of_the_pull_request_is_that_of_the_build_server(branch, monkeypatch, name, value):
    git("update-ref", "refs/remotes/origin/release", "HEAD")
    monkeypatch.setenv(name, value)
    branch.run("-q").stdout.no_fnmatch_line("*baseline differs*")
    git("update-ref", "refs/remotes/origin/release", "HEAD~1")
    _line(branch, expected=HEAD.format("origin/release"))
    monkeypatch.delenv(name)
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/release")
    _line(branch, expected=HEAD.format("origin/release"))


def test_gitlab_names_the_merge_base(branch, monkeypatch):
    monkeypatch.setenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")
    monkeypatch.setenv("CI_MERGE_REQUEST_DIFF_BASE_SHA", git("rev-parse", "main"))
    git("update-ref", "-d", "refs/remotes/origin/main")
    _line(branch)
    monkeypatch.setenv("CI_MERGE_REQUEST_DIFF_BASE_SHA", "--output=stolen")
    _line(branch, expected=UNKNOWN.format("'--output=stolen' is not the name of a commit or a branch"))
    assert not (branch.path / "stolen").exists()


@pytest.mark.parametrize("detached", [True, False])
def test_there_is_nothing_to_say_on_the_main_branch(branch, detached):
    git("checkout", *(["--detach"] if detached else []), "main")
    result = branch.run("-q")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*baseline*")
    git("checkout", "-b", "better", "main")
    (branch.path / "notes.txt").write_text("", encoding="utf-8")
    commit("notes")
    branch.run("-q").stdout.no_fnmatch_line("*baseline*")


def test_without_a_remote_it_is_the_branch_main(branch):
    git("remote", "remove", "origin")
    _line(branch, expected=HEAD.format("main"))


def test_a_baseline_under_another_name_is_reported(branch):
    """Attack: the pull request compares with a new file."""
    (branch.path / "rageval_baseline.json").rename(branch.path / "new.json")
    expected = "the merge base has no such baseline (origin/main at ???????): its scores are those of this *"
    assert _line(branch, "--rageval-baseline=new.json", expected=expected).ret == 0


def test_removed_and_edited_entries_are_reported(branch):
    git("checkout", "main")
    more = GATE.replace("test_gate", "test_more")
    branch.test(GATE.replace("\ndef", '\n@pytest.mark.rageval_threshold("mrr@1", max_drop=0.1)\ndef') + more)
    branch.run(UPDATE, passed=2)
    git("update-ref", "refs/remotes/origin/main", commit("more"))
    git("checkout", "-b", "fewer")
    path = branch.path / "rageval_baseline.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["tests"]["test_it.py::test_more"]
    entry = document["tests"]["test_it.py::test_gate"]
    del entry["questions"]["q1"], entry["scores"]["mrr@1"]
    for question in entry["questions"].values():
        del question["scores"]["mrr@1"]
    entry["questions"]["q2"]["digest"] = "edited"
    entry["questions"]["q99"] = {"digest": "new", "scores": {}}
    entry["scores"]["recall@1"]["fingerprint"] |= {"k": 7}
    path.write_text(json.dumps(document), encoding="utf-8")
    lines = [
        HEAD.format("origin/main"),
        "  test_it.py::test_gate mrr@1: removed",
        "  test_it.py::test_gate recall@1: made with other settings",
        "  test_it.py::test_gate: 1 question removed, 1 question new, 1 question edited",
        "  test_it.py::test_more: removed",
    ]
    branch.run("-q", shows=lines)


def test_what_cannot_be_compared_is_said_on_a_build_server(branch, monkeypatch, tmp_path_factory):
    shallow = tmp_path_factory.mktemp("shallow") / "clone"
    git("clone", "--depth=1", f"file://{branch.path}", str(shallow))
    monkeypatch.chdir(shallow)
    reason = "this checkout has no refs/remotes/origin/main, as it is a shallow clone: fetch *(fetch-depth: *"
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    _line(branch, expected=UNKNOWN.format(reason))
    monkeypatch.delenv("GITHUB_BASE_REF")
    git("remote", "set-head", "origin", "--delete")
    _line(branch, expected=UNKNOWN.format("*fetch-depth: 0 of actions/checkout)"))
    shutil.rmtree(shallow / ".git")
    _line(branch, expected=UNKNOWN.format("not a git repository*"))
    monkeypatch.setenv("PATH", "")
    result = _line(branch, "--rageval-report=report.json", expected=UNKNOWN.format("git is not installed"))
    assert result.ret == 0
    assert check(shallow / "report.json")["gate"]["change"] == {"unknown": "git is not installed"}
    monkeypatch.delenv("CI")
    branch.run("-q").stdout.no_fnmatch_line("*is not known*")


@pytest.mark.skipif(os.name == "nt", reason="needs a shell script")
def test_a_git_that_hangs_does_not_delay_the_run(branch, monkeypatch):
    folder = branch.path / "bin"
    folder.mkdir()
    (folder / "git").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setitem(run_git.__kwdefaults__, "timeout_s", 0.2)
    _line(branch, expected=UNKNOWN.format("git rev-parse took longer than 0.2 s"))


def test_a_run_compares_with_the_baseline_of_another_commit(branch):
    assert branch.run().ret == 0
    for ref in ("origin/main", "main", "HEAD~1", git("rev-parse", "main")):
        result = branch.run("-q", f"--rageval=baseline_ref={ref}")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        line = f"compared with the baseline of {ref} (--rageval baseline_ref={ref})"
        result.stdout.fnmatch_lines([line, "FAILED test_it.py::test_gate - recall@1 drop 0.600 > 0.02"])
        result.stdout.no_fnmatch_line("*baseline differs*")
        # An update in this branch would change nothing.
        result.stdout.no_fnmatch_line("*accept this drop*")
    branch.ini(rageval_baseline_ref="origin/main")
    assert branch.run("-q").ret == pytest.ExitCode.TESTS_FAILED
    # The entries of the file are not in force.
    (branch.path / "rageval_baseline.json").unlink()
    assert branch.run("-q").ret == pytest.ExitCode.TESTS_FAILED
    branch.test("def test_other(): pass\n")
    branch.run("-q", shows="  test_it.py::test_gate: not collected: *")
    branch.test(GATE)
    assert branch.run("-q", UPDATE).ret == 0


def test_a_merge_compares_with_the_baseline_of_another_commit(branch):
    for ref, status in (("HEAD", 0), ("origin/main", 1)):
        for index in (1, 2):
            arguments = (f"--rageval-shard={index}/2", f"--rageval-report=report{index}.json")
            branch.run(*arguments, f"--rageval=baseline_ref={ref}")
        command = ("-m", "pytest_rageval", "merge", "report1.json", "report2.json")
        result = branch.pytester.run(sys.executable, *command)
        assert result.ret == status
        result.stderr.fnmatch_lines([f"compared with the baseline of {ref} (--rageval baseline_ref={ref})"])


@pytest.mark.parametrize("ref", ["--output=stolen", "-h", "a b", "main\x00x"])
def test_a_name_that_git_would_read_as_an_option_is_refused(branch, ref):
    result = branch.run(f"--rageval=baseline_ref={ref}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = "*--rageval baseline_ref is *: expected a commit or a branch, such as origin/main."
    result.stderr.fnmatch_lines([line])
    assert not (branch.path / "stolen").exists()


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("origin/nowhere", "The baseline rageval_baseline.json of origin/nowhere cannot be read: this *"),
        ("before", "before (???????) has no rageval_baseline.json, which --rageval baseline_ref=REF *"),
        ("broken", "The baseline *rageval_baseline.json of broken is not JSON: *"),
        ("HEAD:conftest.py", "The baseline * cannot be read: this checkout has no HEAD:conftest.py."),
    ],
)
def test_a_commit_without_a_baseline_is_an_error(branch, ref, message):
    (branch.path / "rageval_baseline.json").write_text("{", encoding="utf-8")
    git("branch", "broken", commit("broken"))
    git("rm", "rageval_baseline.json")
    git("branch", "before", commit("none"))
    branch.run(f"--rageval=baseline_ref={ref}", errors=1, shows=message)


def test_no_hook_of_the_repository_runs(branch):
    hooks = branch.path / ".git" / "hooks"
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc", "post-index-change"):
        (hooks / name).write_text("#!/bin/sh\ntouch stolen\n", encoding="utf-8")
        (hooks / name).chmod(0o755)
    (branch.path / ".gitattributes").write_text("*.json diff=x filter=x\n", encoding="utf-8")
    for key in ("diff.x.textconv", "diff.x.command", "filter.x.clean", "filter.x.smudge", "core.pager"):
        git("config", key, "touch stolen")
    _line(branch)
    assert not (branch.path / "stolen").exists()
