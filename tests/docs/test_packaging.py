"""What is said of the package outside its code: metadata, workflows, templates."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.foreign_plugins import WITHOUT

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")]

SCHEMAS = {
    "workflows/*.yml": "vendor.github-workflows",
    "ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    "ISSUE_TEMPLATE/[!c]*.yml": "vendor.github-issue-forms",
}


def check_schema(schema, *files):
    """Hold files against a schema that check-jsonschema brings along."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def copied(page):
    """The whole files that a page gives to copy, by name."""
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n# (\S+)\n(.*?)```", text, re.DOTALL)
    return dict(blocks)


def test_the_dependency_group_is_the_extra():
    """Both install what the tests need."""
    assert PROJECT["dependency-groups"]["test"] == PROJECT["project"]["optional-dependencies"]["test"]


@pytest.mark.parametrize(("files", "schema"), SCHEMAS.items(), ids=SCHEMAS.values())
def test_our_own_workflows_and_forms_have_the_published_form(files, schema):
    """They cannot be run here."""
    found = list((ROOT / ".github").glob(files))
    assert found
    check_schema(schema, *found)


@pytest.mark.parametrize(
    ("page", "schema"), [("github-actions", "vendor.github-workflows"), ("gitlab-ci", "vendor.gitlab-ci")]
)
def test_a_workflow_to_copy_has_the_published_form(page, schema, tmp_path):
    """As readers save it."""
    for name, text in copied(page).items():
        file = tmp_path / name.replace("/", "-")
        file.write_text(text, encoding="utf-8")
        check_schema(schema, file)


def test_the_commands_of_the_workflows_to_copy_run(tmp_path):
    """Those that start pytest, on the example; what follows them reads the files that they write."""
    github = yaml.safe_load(copied("github-actions")[".github/workflows/retrieval.yml"])
    gitlab = yaml.safe_load(copied("gitlab-ci")[".gitlab-ci.yml"])
    commands = [
        *(step["run"] for step in github["jobs"]["rageval"]["steps"] if "run" in step),
        *gitlab["rageval"]["script"],
    ]
    ours = [command for command in commands if command.startswith("pytest")]
    assert len(ours) == 2
    for number, command in enumerate(ours):
        folder = tmp_path / str(number)
        shutil.copytree(ROOT / "example_project", folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        words = shlex.split(re.sub(r"\$\{\{.*?\}\}", "--rageval-replay", command).replace("\\\n", " "))
        done = subprocess.run(
            [sys.executable, "-m", *words, *WITHOUT], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        assert {path.name for path in folder.glob("rageval.*")} == {
            "rageval.md",
            "rageval.html",
            "rageval.json",
        }
        assert json.loads((folder / "rageval.json").read_text(encoding="utf-8"))["tests"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_that_are_there(path):
    """Of links within the repository the file, of others the form of an address."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    for target in targets:
        if target.startswith(("http:", "https:")):
            assert re.fullmatch(r"https://[\w.-]+\.[a-z]+(?:/[\w./~#?=&%-]*)?", target), target
        else:
            assert (path.parent / target.partition("#")[0]).exists(), target
