"""The stores under test, and processes that use them."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_rageval.llm.stores.interface import ReplyStore
from tests.store_kinds import KINDS, OPEN, Kind, opened

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """One kind of store after the other."""
    return request.param()


@pytest.fixture
def places(kind: Kind, tmp_path: Path) -> Iterator[str]:
    """Places of stores without entries."""
    found = kind.places(tmp_path)
    yield found
    found.close()


@pytest.fixture
def place(places: Iterator[str]) -> str:
    """One of them."""
    return next(places)


@pytest.fixture
def stores(place: str) -> Iterator[Callable[..., ReplyStore]]:
    """Opens the store, as each process has it open, and closes all."""
    made: list[ReplyStore] = []

    def make(elsewhere: str = "") -> ReplyStore:
        made.append(opened(elsewhere or place))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def start(place: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts code in a process of its own, in which `store` is the store; `shift` is how far its clock is off."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object, shift: float = 0.0) -> subprocess.Popen[str]:
        clock = f"import time\nreal = time.time\ntime.time = lambda: real() + {shift}\n" if shift else ""
        source = f"import os, random, sys, time\n{clock}{OPEN}store = opened({place!r})\n{code}"
        process = subprocess.Popen(
            [sys.executable, "-c", source, *map(str, arguments)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
