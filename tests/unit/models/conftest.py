"""Fixtures of the tests of `llm`: databases, and processes that run Python code."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_rageval.models.stores.sqlite_file import Database


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[Callable[..., Database]]:
    opened: list[Database] = []

    def open_database(folder: Path | None = None) -> Database:
        opened.append(Database(folder or tmp_path / "cache"))
        return opened[-1]

    yield open_database
    for database in opened:
        database.close()


@pytest.fixture
def database(databases: Callable[..., Database]) -> Database:
    return databases()


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Yield a function that runs Python code in another process; processes that still run are killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start_code(code: str, *args: object, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*before, sys.executable, "-c", code, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start_code
    for process in started:
        process.kill()
        process.communicate()
