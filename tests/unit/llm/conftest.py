"""What the tests of this room share: databases that are closed, and code run in other processes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_rageval.llm.stores.sqlite_file import Database


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[Callable[..., Database]]:
    """Opens databases, in `tmp_path / "cache"` if no folder is given, and closes them."""
    opened: list[Database] = []

    def open_database(folder: Path | None = None) -> Database:
        opened.append(Database(folder or tmp_path / "cache"))
        return opened[-1]

    yield open_database
    for database in opened:
        database.close()


@pytest.fixture
def database(databases: Callable[..., Database]) -> Database:
    """One in a new folder."""
    return databases()


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python code in processes of their own, and ends those that still run."""
    started: list[subprocess.Popen[str]] = []

    def started_with(code: str, *args: object, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*before, sys.executable, "-c", code, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield started_with
    for process in started:
        process.kill()
        process.communicate()
