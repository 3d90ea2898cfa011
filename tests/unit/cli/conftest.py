"""Fixtures: a reply cache, and the command `rageval cache`."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_rageval.cli import main
from pytest_rageval.core import extensions
from tests.unit.cli.folders import CacheFolder, Done, entry


@pytest.fixture
def cache(tmp_path: Path) -> CacheFolder:
    """Return a cache of four replies: three of a model, one of them cut by the token limit; one without a summary."""
    folder = CacheFolder(tmp_path / "cache")
    folder.put([entry(0), entry(1), entry(2, finish_reason="length"), entry(3, summary={}, model="alt")])
    return folder


@pytest.fixture
def rageval(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Done]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Done:
        try:
            status = main(["cache", "--cache-dir", "cache", *map(str, arguments)])
        except SystemExit as ended:
            status = int(ended.code or 0)
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "rageval_trees.py"
    point = EntryPoint("trees", file.stem, "pytest11")
    required = SimpleNamespace(
        name="trees", load=point.load, dist=SimpleNamespace(requires=["pytest-rageval"])
    )
    monkeypatch.setattr(extensions, "entry_points", lambda **_: [required])
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, file.stem, raising=False)
    return file
