"""The benchmarks run by hand; that they can be run at all is seen here."""

import importlib
from pathlib import Path

import pytest

FILES = sorted(path.stem for path in (Path(__file__).parent / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", FILES)
def test_what_a_benchmark_uses_is_there(name: str) -> None:
    """Whatever was renamed since it was last run."""
    module = importlib.import_module(f"tests.benchmarks.{name}")
    assert module.__doc__
