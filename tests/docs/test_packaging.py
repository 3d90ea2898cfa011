"""Metadata, workflows and templates of the package."""

import email
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from zipfile import ZipFile

import pytest
import yaml

from pytest_rageval.baseline import file as baseline_file
from pytest_rageval.cli import main
from pytest_rageval.extensions.history import history
from pytest_rageval.extensions.stores import redis
from pytest_rageval.models import cassette
from pytest_rageval.models.stores import sqlite_file
from pytest_rageval.reports import build as results
from tests.docs.pages import ROOT
from tests.foreign_plugins import WITHOUT

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]

SCHEMAS = {
    "workflows/*.yml": "vendor.github-workflows",
    "ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    "ISSUE_TEMPLATE/[!c]*.yml": "vendor.github-issue-forms",
    "actions/*/action.yml": "vendor.github-actions",
}


def check_schema(schema, *files):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def copied(page):
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n# (\S+)\n(.*?)```", text, re.DOTALL)
    return dict(blocks)


def test_the_dependency_group_is_the_extra():
    assert PROJECT["dependency-groups"]["test"] == PROJECT["project"]["optional-dependencies"]["test"]


def test_the_wheel_has_the_schema_an_author_and_extras_for_users(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    process = subprocess.run(build, capture_output=True, text=True, check=False)
    if "No matching distribution found" in process.stderr or "ConnectionError" in process.stderr:
        pytest.skip("no package index can be reached")
    assert process.returncode == 0, process.stderr
    (file,) = tmp_path.glob("*.whl")
    with ZipFile(file) as wheel:
        assert {"pytest_rageval/report.schema.json", "pytest_rageval/py.typed"} <= set(wheel.namelist())
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Author"] == "The pytest-rageval maintainers"
    assert metadata["License-Expression"] == "MIT"
    assert "handbook" in next(line for line in metadata.get_payload().splitlines() if "MIT licence" in line)
    extras = PROJECT["project"]["optional-dependencies"].keys()
    assert set(metadata.get_all("Provides-Extra")) == extras
    assert not extras & PROJECT["dependency-groups"].keys() - {"test"}


@pytest.mark.parametrize(("files", "schema"), SCHEMAS.items(), ids=SCHEMAS.values())
def test_our_own_workflows_and_forms_have_the_published_form(files, schema):
    """Workflows and forms, which cannot be run here, conform to their published schemas."""
    paths = list((ROOT / ".github").glob(files))
    assert paths
    check_schema(schema, *paths)


@pytest.mark.parametrize(
    ("page", "schema"), [("github-actions", "vendor.github-workflows"), ("gitlab-ci", "vendor.gitlab-ci")]
)
def test_a_workflow_to_copy_has_the_published_form(page, schema, tmp_path):
    for name, text in copied(page).items():
        file = tmp_path / name.replace("/", "-")
        file.write_text(text, encoding="utf-8")
        check_schema(schema, file)


def test_the_workflow_to_copy_is_the_one_that_init_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").touch()
    assert main(["init"]) == 0
    name = ".github/workflows/rageval.yml"
    assert copied("github-actions")[name] == (tmp_path / name).read_text(encoding="utf-8")
    action = ROOT / ".github" / "actions" / "rageval" / "action.yml"
    inputs = yaml.safe_load(action.read_text(encoding="utf-8"))["inputs"]
    page = (ROOT / "docs" / "how-to" / "github-actions.md").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^\| `([\w-]+)` \|", page) == list(inputs)
    used = {
        step["uses"]
        for step in yaml.safe_load(copied("github-actions")[name])["jobs"]["rageval"]["steps"]
        if "uses" in step
    }
    assert f"pytest-rageval/pytest-rageval/.github/actions/rageval@v{PROJECT['project']['version']}" in used


def test_the_comment_on_a_pull_request_from_a_fork_is_written_from_the_artifact(tmp_path):
    steps = yaml.safe_load(copied("github-actions")[".github/workflows/rageval-comment.yml"])["jobs"][
        "comment"
    ]["steps"]
    (step,) = steps
    gh = tmp_path / "gh"
    gh.write_text('#!/bin/sh\necho "$@" >> log\nif [ "$1" = api ]; then echo $FOUND; fi\n', encoding="utf-8")
    gh.chmod(0o755)
    variables = {"GH_TOKEN": "t", "GH_REPO": "o/r", "RUN": "5", "HEAD": "someone:patch $(id)"}
    assert step["env"].keys() == variables.keys()
    for pull_request in ("7", ""):
        subprocess.run(
            ["bash", "-e", "-c", step["run"]],  # noqa: S607 - any bash on PATH
            cwd=tmp_path,
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "FOUND": pull_request, **variables},
            check=True,
        )
    log = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert log[0] == "run download 5 --name rageval --dir report"
    assert "repos/o/r/pulls -f state=open -f head=someone:patch $(id) --jq" in log[1]
    assert [line for line in log if line.startswith("pr ")] == [
        "pr comment 7 --body-file report/rageval.md --edit-last --create-if-none"
    ]


def test_the_commands_of_the_gitlab_job_to_copy_run(tmp_path):
    gitlab = yaml.safe_load(copied("gitlab-ci")[".gitlab-ci.yml"])
    (command,) = (command for command in gitlab["rageval"]["script"] if command.startswith("pytest"))
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "example_project", folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    words = shlex.split(command.replace("\\\n", " "))
    done = subprocess.run(
        [sys.executable, "-m", *words, "--rageval-replay", *WITHOUT],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert {path.name for path in folder.glob("rageval.*")} == {"rageval.md", "rageval.html", "rageval.json"}
    assert (folder / gitlab["rageval"]["artifacts"]["reports"]["junit"]).exists()
    assert json.loads((folder / "rageval.json").read_text(encoding="utf-8"))["tests"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_that_are_there(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    for target in targets:
        if target.startswith(("http:", "https:")):
            assert re.fullmatch(r"https://[\w.-]+\.[a-z]+(?:/[\w./~#?=&%-]*)?", target), target
        else:
            assert (path.parent / target.partition("#")[0]).exists(), target


def test_the_page_on_compatibility_has_the_bounds_and_the_versions():
    text = (ROOT / "docs/reference/compatibility.md").read_text(encoding="utf-8")
    dependencies = dict(item.partition(">=")[::2] for item in PROJECT["project"]["dependencies"])
    for package in ("pytest", "openai"):
        assert f"| {package} | {dependencies[package]} or later |" in text
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert f"| Python | {pythons[0]} to {pythons[-1]} |" in text
    versions = {
        "baseline": f"schema {baseline_file.SCHEMA}",
        "cassette": f"version {cassette.VERSION}",
        "cache: SQLite": f"schema {sqlite_file.SCHEMA}",
        "cache: Redis, diskcache": f"version {redis.VERSION}, a part of each key",
        "JSON report": f"schema {results.SCHEMA}",
        "history": f"schema {history.SCHEMA}",
    }
    assert dict(re.findall(r"(?m)^\| ([^|]+) \| ((?:schema|version) \d[^|]*) \|", text)) == versions
