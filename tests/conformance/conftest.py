"""Fixtures: the stores under test, and processes that use them."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_rageval.models.stores.interface import ReplyStore
from tests.store_kinds import KINDS, OPEN, Kind, opened

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param()


@pytest.fixture
def places(kind: Kind, tmp_path: Path) -> Iterator[str]:
    empty_places = kind.places(tmp_path)
    yield empty_places
    empty_places.close()


@pytest.fixture
def place(places: Iterator[str]) -> str:
    return next(places)


@pytest.fixture
def stores(place: str) -> Iterator[Callable[..., ReplyStore]]:
    opened_stores: list[ReplyStore] = []

    def open_store(other_place: str = "") -> ReplyStore:
        opened_stores.append(opened(other_place or place))
        return opened_stores[-1]

    yield open_store
    for store in opened_stores:
        store.close()


@pytest.fixture
def start(place: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
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
