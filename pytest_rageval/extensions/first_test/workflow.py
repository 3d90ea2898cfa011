"""The GitHub workflow that `rageval init` writes: it installs the project as its files say, and runs the test."""

import json
import os
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

WORKFLOW: Final = """\
name: rageval

on:
  pull_request:
  push:
    branches: [main]

permissions:
  contents: read

concurrency:
  group: rageval-${{ github.ref }}
  cancel-in-progress: ${{ github.event_name == 'pull_request' }}

jobs:
"""
WORKFLOW_JOB: Final = """\
  @JOB@:@NAME@
    runs-on: ubuntu-latest
    permissions:
      contents: write # to commit the baseline at every merge
      pull-requests: write # for the comment
    steps:
      - uses: actions/checkout@v7
        with:
          fetch-depth: 0 # to say how the branch changed the baseline
      - uses: actions/setup-python@v7
        with:
          python-version: "3.13"
      - run: @BEFORE@pip install @INSTALL@@MORE@
      - uses: pytest-rageval/pytest-rageval/.github/actions/rageval@v@VERSION@@WITH@
        env:
          OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }} # not needed for scores of rankings
"""


class ProjectFile(NamedTuple):
    """A file of the user's project: it is written if it is missing; otherwise the lines to add are printed."""

    purpose: str
    content: str
    addition: str  # the lines to add to an existing file; empty if it needs none
    place: str = ""  # where to add them, such as "below `jobs:`"
    mark: str = ""  # a text that shows that a file has the lines already; default: the addition
    note: str = ""  # what is said besides of a file that has them


def repository_root() -> Path:
    """Return the root of the git repository, relative to the current folder; GitHub reads workflows only there."""
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    return Path(os.path.relpath(root, here))


def workflow(example_requires: Sequence[str] | None) -> ProjectFile:
    """Return the GitHub workflow; in a subfolder of a repository, its job and steps name the folder.

    `example_requires` are the packages of the example retriever; None: the test is of the user's own.
    """
    folder = Path(os.path.relpath(Path.cwd(), repository_root().resolve())).as_posix()
    job, name, inside = "rageval", "", ""
    if folder != ".":
        job = f"rageval-{re.sub(r'[^A-Za-z0-9_]+', '-', folder).strip('-')}"
        name = f"\n    name: {json.dumps(f'rageval {folder}')}"
        inside = f"\n        with:\n          name: {job}\n          working-directory: {json.dumps(folder)}"
    install, comment = _install_arguments(folder), ""
    if not install and not _lock_command(folder):
        comment = " # add what your retriever imports"
    install.append("pytest-rageval")
    if example_requires is not None:
        install += example_requires
        comment = ""
    values = {
        "BEFORE": _lock_command(folder),
        "JOB": job,
        "NAME": name,
        "INSTALL": " ".join(install),
        "MORE": comment,
        "WITH": inside,
    }
    text = WORKFLOW_JOB.replace("@VERSION@", version("pytest-rageval"))
    for placeholder, value in values.items():
        text = text.replace(f"@{placeholder}@", value)
    purpose = "runs the test on GitHub, and comments on the pull request"
    return ProjectFile(purpose, WORKFLOW + text, text, "below `jobs:`", f"\n  {job}:")


def _install_arguments(folder: str) -> list[str]:
    if Path("poetry.lock").exists():
        # Poetry has installed the project and its dependencies.
        return []
    own = ["." if folder == "." else shlex.quote(f"./{folder}")] if is_installed() else []
    if Path("uv.lock").exists():
        return ["-r", LOCKED, *own]
    requirements = shlex.quote("requirements.txt" if folder == "." else f"{folder}/requirements.txt")
    return [*(["-r", requirements] if Path("requirements.txt").exists() else []), *own]


LOCKED: Final = '"$RUNNER_TEMP/locked.txt"'  # a folder that GitHub empties after each job


def _lock_command(folder: str) -> str:
    """Return the command that installs what the project's lock file has, before pip; empty without such a file."""
    where = shlex.quote(folder)
    if Path("poetry.lock").exists():
        return (
            f"pip install poetry && poetry config virtualenvs.create false && poetry install -C {where} && "
        )
    if Path("uv.lock").exists():
        return f"pip install uv && uv export --project {where} --frozen --no-hashes --no-emit-project -o {LOCKED} && "
    return ""


def is_installed() -> bool:
    """Whether pip can install the project in this folder, as far as its files show."""
    tables: Mapping[str, object] = {}
    with suppress(OSError, ValueError):
        tables = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8-sig"))
    # If there are requirements or a lock, a table `project` alone often belongs to an application that cannot be built.
    is_application = Path("requirements.txt").exists() or Path("uv.lock").exists()
    return (
        Path("setup.py").exists() or "build-system" in tables or ("project" in tables and not is_application)
    )
