"""The steps of the GitHub action, run as a runner would, with a fake `gh` command."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.foreign_plugins import WITHOUT

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "rageval"
STEPS = {
    step.get("name", step.get("uses")): step
    for step in yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
}
INPUTS = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))["inputs"]

GH = '''#!{python}
"""Stands for the command gh: keeps the comments in a file, and what it was called with."""
import json, os, pathlib, re, sys
store = pathlib.Path(os.environ["STORE"])
comments = json.loads(store.read_text())
words = sys.argv[1:]
with store.with_suffix(".log").open("a") as log:
    log.write(" ".join(words) + chr(10))
assert words[0] == "api"
address = next(word for word in words if word.startswith("repos/"))
if "--method" not in words:
    assert re.fullmatch(r"repos/o/r/issues/7/comments", address), address
    assert words[words.index("--jq") + 1].endswith(
        'select(.user.type == "Bot" and (.body | startswith(env.MARK))) | .id'
    )
    for comment in comments:
        if comment["user"] == "Bot" and comment["body"].startswith(os.environ["MARK"]):
            print(comment["id"])
    sys.exit()
name, _, file = words[words.index("--field") + 1].partition("=@")
body = pathlib.Path(file).read_text(encoding="utf-8")
if words[words.index("--method") + 1] == "PATCH":
    number = int(re.fullmatch(r"repos/o/r/issues/comments/(\\d+)", address)[1])
    next(comment for comment in comments if comment["id"] == number)[name] = body
else:
    assert address == "repos/o/r/issues/7/comments"
    comments.append({{"id": len(comments) + 1, "user": "Bot", name: body}})
store.write_text(json.dumps(comments))
'''

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt" or shutil.which("bash") is None, reason="the steps are bash"),
]


class Runner:
    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        shutil.copytree(
            ROOT / "example_project",
            self.workspace / "app",
            ignore=shutil.ignore_patterns(".*", "__pycache__"),
        )
        self.summary = folder / "summary.md"
        self.store = folder / "comments.json"
        self.store.write_text("[]", encoding="utf-8")
        tools = folder / "bin"
        tools.mkdir()
        shim = (
            f'#!/bin/sh\nexec "{sys.executable}" -P -c "import sys, pytest; sys.exit(pytest.main())" "$@"\n'
        )
        for name, text in {
            "pytest": shim,
            "gh": GH.format(python=sys.executable),
            "python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
        }.items():
            (tools / name).write_text(text, encoding="utf-8")
            (tools / name).chmod(0o755)
        self.env = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "STORE": str(self.store),
            "ARGUMENTS": f"{' '.join(WITHOUT)} -q -k 'found or nothing'",
            "REPLAY": "",
            "ACTION": str(ACTION),
            "GH_TOKEN": "t",
            "REPOSITORY": "o/r",
            "PR": "7",
            "NAME": "rageval",
        }

    def run(self, name: str, **more: str) -> subprocess.CompletedProcess[str]:
        step = STEPS[name]
        assert step["shell"] == "bash"
        provided = {"PATH", "CI", "GITHUB_ACTIONS", "GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY", "STORE"}
        declared = {*provided, *step.get("env", {})}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],  # noqa: S607
            cwd=self.workspace / "app",
            env={key: value for key, value in (self.env | more).items() if key in declared},
            capture_output=True,
            text=True,
            check=False,
        )

    def comments(self) -> list[dict[str, str]]:
        return json.loads(self.store.read_text(encoding="utf-8"))

    def break_retriever(self) -> None:
        source = self.workspace / "app" / "support_bot" / "search.py"
        text = source.read_text(encoding="utf-8")
        source.write_text(text.replace("scores(tokenize(query))", "scores(query.split())"), encoding="utf-8")


@pytest.fixture
def runner(tmp_path):
    return Runner(tmp_path)


def test_a_regression_is_in_the_summary_the_comment_and_at_the_test(runner):
    done = runner.run("Run pytest")
    assert done.returncode == 0
    assert "::error" not in done.stdout
    assert runner.run("Comment on the pull request").returncode == 0
    good = runner.comments()[0]["body"]
    assert good.startswith("<!-- pytest-rageval: rageval -->\n### rageval: ")

    runner.break_retriever()
    ran = runner.run("Run pytest")
    assert ran.returncode == 1
    assert {path.name for path in (runner.workspace / "app").glob("rageval.*")} == {
        *("rageval.md", "rageval.html", "rageval.json")
    }
    assert runner.run("Job summary").returncode == 0
    assert "❌" in runner.summary.read_text(encoding="utf-8")

    (annotation,) = [line for line in ran.stdout.splitlines() if line.startswith("::error")]
    match = re.fullmatch(r"::error file=app/test_retriever\.py,line=(\d+),title=(\S+)::(.*)", annotation)
    source = (runner.workspace / "app" / "test_retriever.py").read_text(encoding="utf-8").splitlines()
    # The annotation is at the first line of the test, which is its first decorator.
    assert source[int(match[1]) - 1].startswith('@pytest.mark.rageval_threshold("recall@3", min=0.85')
    assert match[2] == "test_retriever.py%3A%3Atest_the_passage_is_found"
    assert match[3].startswith("recall@3 fell from 0.940 to 0.593 (allowed 0.02; minimum 0.85): 32 of 91")

    done = runner.run("Comment on the pull request")
    assert done.returncode == 0, done.stderr
    (comment,) = runner.comments()
    assert "❌" in comment["body"]
    assert comment["body"] != good


def test_only_its_own_comment_is_replaced(runner):
    (runner.workspace / "app" / "rageval.md").write_text("new\n", encoding="utf-8")
    others = [
        {"id": 1, "user": "User", "body": "<!-- pytest-rageval: rageval -->\nmine"},
        {"id": 2, "user": "Bot", "body": "<!-- pytest-rageval: other -->\nold"},
    ]
    runner.store.write_text(json.dumps(others), encoding="utf-8")
    for _ in range(2):
        assert runner.run("Comment on the pull request").returncode == 0
    assert runner.comments()[:2] == others
    assert [comment["body"] for comment in runner.comments()[2:]] == [
        "<!-- pytest-rageval: rageval -->\nnew\n"
    ]


def test_without_a_report_nothing_is_written(runner):
    for suffix in ("md", "html", "json"):
        (runner.workspace / "app" / f"rageval.{suffix}").write_text("old", encoding="utf-8")
    assert runner.run("Run pytest", ARGUMENTS="--no-such-option").returncode == 4
    for step in ("Job summary", "Comment on the pull request"):
        done = runner.run(step)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert not runner.summary.exists()
    assert runner.comments() == []


def test_a_pull_request_from_a_fork_asks_nothing(runner):
    """A pull request from a fork runs with --rageval-replay, so that no request is sent without a key."""
    done = runner.run("Run pytest", REPLAY="--rageval-replay")
    assert done.returncode == 0, done.stdout
    fork = STEPS["Run pytest"]["env"]["REPLAY"]
    assert "head.repo.full_name != github.repository && '--rageval-replay'" in fork
    assert "head.repo.full_name == github.repository" in STEPS["Comment on the pull request"]["if"]


def test_a_push_to_the_default_branch_writes_the_baseline(tmp_path):
    update = STEPS["Run pytest"]["env"]["UPDATE"]
    assert "github.event_name == 'push'" in update
    assert "github.event.repository.default_branch && '--rageval-update-baseline=force'" in update
    assert "$UPDATE" in STEPS["Run pytest"]["run"]
    assert 'baseline.sh" "$BASELINE"' in STEPS["Commit the baseline"]["run"]

    def git(folder, *arguments):
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments],  # noqa: S607
            cwd=folder, capture_output=True, check=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()

    def script(folder):
        return subprocess.run(
            ["bash", ACTION / "baseline.sh", "rageval_baseline.json", "main"],  # noqa: S607
            cwd=folder, capture_output=True, check=False, text=True,
        )  # fmt: skip

    origin, one, other = (tmp_path / name for name in ("origin.git", "one", "other"))
    git(tmp_path, "init", "--quiet", "--bare", "-b", "main", str(origin))
    git(tmp_path, "clone", "--quiet", str(origin), str(one))
    (one / "a.txt").write_text("a")
    git(one, "add", ".")
    git(one, "commit", "--quiet", "-m", "first")
    git(one, "push", "--quiet", "origin", "HEAD:main")
    git(tmp_path, "clone", "--quiet", str(origin), str(other))

    assert "as before" in script(one).stdout
    for folder, text in ((one, "1"), (other, "2")):
        (folder / "rageval_baseline.json").write_text(text)
    done = script(one)
    assert done.returncode == 0, done.stderr
    assert git(origin, "show", "main:rageval_baseline.json") == "1"
    assert git(origin, "log", "-1", "--format=%s", "main").endswith("[skip ci]")
    done = script(other)
    assert (done.returncode, "a newer baseline" in done.stdout) == (0, True)
    assert git(origin, "show", "main:rageval_baseline.json") == "1"
    # Jobs of two projects run on the same commit: the second push follows the first.
    git(other, "reset", "--quiet", "--hard", "HEAD^")
    (other / "b").mkdir()
    (other / "b" / "rageval_baseline.json").write_text("2")
    assert script(other / "b").returncode == 0
    assert git(origin, "show", "main:b/rageval_baseline.json") == "2"
    assert git(origin, "show", "main:rageval_baseline.json") == "1"
    # one does not have that commit, and a commit of a user has a run of its own.
    (other / "a.txt").write_text("b")
    git(other, "commit", "--quiet", "-am", "second")
    git(other, "push", "--quiet", "origin", "HEAD:main")
    (one / "rageval_baseline.json").write_text("3")
    done = script(one)
    assert (done.returncode, "newer commits" in done.stdout) == (0, True)
    git(one, "reset", "--quiet", "--hard", "FETCH_HEAD")

    hook = origin / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (one / "rageval_baseline.json").write_text("3")
    done = script(one)
    assert (done.returncode, "cannot be pushed" in done.stdout) == (1, True)


def test_every_expression_names_what_there_is():
    """The action uses only declared inputs, and its shell code has no expressions."""
    text = (ACTION / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"\binputs\.([\w-]+)", text)) == set(INPUTS)
    # Values of expressions reach a shell as variables, never as code.
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
