"""The benchmarks are run by hand. These tests check that they can be imported."""

import importlib
from pathlib import Path

import pytest

FILES = sorted(path.stem for path in (Path(__file__).parent / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", FILES)
def test_a_benchmark_can_be_imported(name: str) -> None:
    """A benchmark that imports a name that was renamed since its last run fails here."""
    module = importlib.import_module(f"tests.benchmarks.{name}")
    assert module.__doc__
