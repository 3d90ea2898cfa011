"""`rageval demo`: runs the tests of an example project, as it is and with a worse retriever, so that a test fails."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pytest_rageval.cli.console import echo, echo_err
from pytest_rageval.core.errors import InputError

PACKAGE: Final = Path(__file__).parents[2]
EXAMPLES: Final = (PACKAGE / "_example", PACKAGE.parent / "example_project")
"""Possible folders of the example: in the package, when installed from a wheel; next to the package, in a checkout."""

CHANGED_FILE: Final = Path("support_bot", "search.py")
GOOD_LINE: Final = "    scores = index.get_scores(tokenize(query))\n"
WORSE_LINE: Final = "    scores = index.get_scores(query.split())\n"

PYTEST_ARGUMENTS: Final = ("test_retriever.py", "--rageval-replay")
PROJECT_FILES: Final = (
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg", "setup.py",
    "conftest.py",
)  # fmt: skip
"""Files in the root folder of a Python project. Its pytest collects tests from all folders below it."""

PASSED, FAILED = 0, 1  # exit statuses of pytest


def demo_command(options: argparse.Namespace) -> int:
    example = next((folder for folder in EXAMPLES if (folder / "pytest.ini").is_file()), None)
    if example is None:
        raise InputError(
            f"The example project is missing: neither {' nor '.join(map(str, EXAMPLES))} is there.\n"
            "Install the package again: pip install --force-reinstall pytest-rageval"
        )
    with _demo_folder(options.keep) as folder:
        shutil.copytree(
            example, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "__pycache__")
        )
        as_expected = _run_demo(folder)
        if options.keep is None:
            echo("The folder is removed now. `rageval demo --keep DIR` keeps it.")
        else:
            echo(
                f"The example is in {folder}, with the change taken back. Try it: cd {options.keep} && pytest"
            )
    echo("Your own project: `rageval init` writes a first test.")
    if not as_expected:
        echo_err("The tests did not end as they should: see above for what pytest printed.")
    return int(not as_expected)


@contextmanager
def _demo_folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with TemporaryDirectory(prefix="rageval-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(
            f"--keep {keep} is not empty.\nName a new or an empty folder; nothing is overwritten."
        )
    folder = keep.resolve()
    if project := _enclosing_project(folder):
        raise InputError(
            f"--keep {keep} is in the project {project}, whose pytest would run the example's tests too.\n"
            "Name a folder outside it, or one that begins with a dot, which pytest does not enter: --keep .rageval-demo"
        )
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def _enclosing_project(folder: Path) -> Path | None:
    """Return the project whose pytest would collect tests in a folder; it enters no folder that begins with a dot."""
    for parent in folder.parents:
        if any((parent / name).is_file() for name in PROJECT_FILES):
            is_hidden = any(part.startswith(".") for part in folder.relative_to(parent).parts)
            return None if is_hidden else parent
    return None


def _run_demo(folder: Path) -> bool:
    source = folder / CHANGED_FILE
    good = source.read_text(encoding="utf-8")
    echo(f"A support bot with 95 questions, in {folder}. No model is called: its answers are recorded.\n")
    echo("1. Its tests pass:\n")
    first = _run_pytest(folder, "-q")
    echo(f"\n2. Somebody simplifies the search: one line of {CHANGED_FILE.as_posix()} changes.\n")
    echo(f"-{GOOD_LINE}+{WORSE_LINE}")
    source.write_text(good.replace(GOOD_LINE, WORSE_LINE), encoding="utf-8")
    second = _run_pytest(folder)
    source.write_text(good, encoding="utf-8")
    echo("")
    return (first, second) == (PASSED, FAILED)


def _run_pytest(folder: Path, *options: str) -> int:
    arguments = (*options, *PYTEST_ARGUMENTS)
    echo(f"$ pytest {' '.join(arguments)}")
    sys.stdout.flush()
    # The user's settings and plugins are for the user's own projects.
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "RAGEVAL_", "OPENAI_"))
    }
    process = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-m", "pytest", *arguments, "-ppytest_rageval.plugin", "-pno:cacheprovider"],
        cwd=folder,
        env=environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )
    return process.returncode
