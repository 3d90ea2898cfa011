"""`rageval demo`: an example project whose retriever gets worse, and the test that fails."""

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

from pytest_rageval.cli.console import note, say
from pytest_rageval.errors import InputError

__all__ = ["demo_command"]

PACKAGE: Final = Path(__file__).parents[1]
EXAMPLES: Final = (PACKAGE / "_example", PACKAGE.parent / "example_project")
"""Where the example is: in a wheel, and beside the package in a checkout."""

CHANGED: Final = Path("support_bot", "search.py")
GOOD: Final = "    scores = index.get_scores(tokenize(query))\n"
WORSE: Final = "    scores = index.get_scores(query.split())\n"

ARGUMENTS: Final = ("-q", "test_retriever.py", "--rageval-replay")
OF_PROJECT: Final = (
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg", "setup.py",
    "conftest.py",
)  # fmt: skip
"""Files that say that the folder is a Python project, whose pytest looks for tests in the folders below."""

PASSED, FAILED = 0, 1  # pytest's exit status


def demo_command(options: argparse.Namespace) -> int:
    """Run the example as it is, and with a worse retriever; 1 if that ends in another way."""
    example = next((folder for folder in EXAMPLES if (folder / "pytest.ini").is_file()), None)
    if example is None:
        raise InputError(
            f"The example project is missing: neither {' nor '.join(map(str, EXAMPLES))} is there.\n"
            "Install the package again: pip install --force-reinstall pytest-rageval"
        )
    with _folder(options.keep) as folder:
        shutil.copytree(
            example, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "__pycache__")
        )
        as_expected = _show(folder)
        if options.keep is None:
            say("The folder is removed now. `rageval demo --keep DIR` keeps it.")
        else:
            say(
                f"The example is in {folder}, with the change taken back. Try it: cd {options.keep} && pytest"
            )
    say("Your own project: `rageval init` writes a first test.")
    if not as_expected:
        note("The tests did not end as they should: see above for what pytest printed.")
    return int(not as_expected)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with TemporaryDirectory(prefix="rageval-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(
            f"--keep {keep} is not empty.\nName a new or an empty folder; nothing is overwritten."
        )
    folder = keep.resolve()
    if project := _project_of(folder):
        raise InputError(
            f"--keep {keep} is in the project {project}, whose pytest would run the example's tests too.\n"
            "Name a folder outside it, or one that begins with a dot, which pytest does not enter: --keep .rageval-demo"
        )
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def _project_of(folder: Path) -> Path | None:
    """The project whose tests those in the folder would be; None without one."""
    for above in folder.parents:
        if any((above / name).is_file() for name in OF_PROJECT):
            return None if any(part.startswith(".") for part in folder.relative_to(above).parts) else above
    return None


def _show(folder: Path) -> bool:
    """Print what is done and what pytest prints; return whether the tests passed, and then failed."""
    source = folder / CHANGED
    good = source.read_text(encoding="utf-8")
    say(f"A support bot with 95 questions, in {folder}. No model is asked: its answers are recorded.\n")
    say("1. Its tests pass:\n")
    first = _pytest(folder)
    say(f"\n2. Somebody simplifies the search: one line of {CHANGED.as_posix()} changes.\n")
    say(f"-{GOOD}+{WORSE}")
    source.write_text(good.replace(GOOD, WORSE), encoding="utf-8")
    second = _pytest(folder)
    source.write_text(good, encoding="utf-8")
    say("")
    return (first, second) == (PASSED, FAILED)


def _pytest(folder: Path) -> int:
    say(f"$ pytest {' '.join(ARGUMENTS)}")
    sys.stdout.flush()
    # The user's settings and plugins are for other projects.
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "RAGEVAL_", "OPENAI_"))
    }
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-m", "pytest", *ARGUMENTS, "-ppytest_rageval.plugin", "-pno:cacheprovider"],
        cwd=folder,
        env=environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )
    return done.returncode
