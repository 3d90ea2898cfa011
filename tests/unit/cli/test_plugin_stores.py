"""How commands use stores that conftest.py and plugins register."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_rageval.cli import plugin_stores
from pytest_rageval.cli.command_session import registry_for
from pytest_rageval.cli.plugin_stores import stores_for
from pytest_rageval.core import extensions
from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.run.registry import Registry

TEAM = StoreURL.parse("team://host")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a temporary folder, without installed plugins, and with one extension: it adds the store "shared"."""

    def new_registry() -> Registry:
        registry = Registry()
        registry.stores.clear()
        registry.add_store("shared", print)
        return registry

    monkeypatch.setattr(plugin_stores, "new_registry", new_registry)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extensions, "entry_points", lambda **_: [])
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.delitem(sys.modules, "conftest", raising=False)
    return tmp_path


def _write(folder: Path, body: str) -> None:
    text = f"def pytest_rageval_register(registry):\n    {body}\n"
    (folder / "conftest.py").write_text(text, encoding="utf-8")


def test_nothing_is_imported_for_a_store_of_an_extension(folder: Path) -> None:
    (folder / "conftest.py").write_text("raise RuntimeError\n", encoding="utf-8")
    assert stores_for(folder) == {}
    assert stores_for(StoreURL.parse("shared://host")) == {"shared": print}


def test_the_conftest_of_the_folder_is_loaded(folder: Path) -> None:
    _write(folder, "registry.add_store('team', print)")
    assert stores_for(TEAM)["team"] is print
    assert registry_for(TEAM).stores["team"] is print


@pytest.mark.usefixtures("folder")
def test_without_a_conftest_the_stores_of_extensions_are_known() -> None:
    assert stores_for(TEAM) == {"shared": print}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("1 / 0", r"pytest_rageval_register of .*conftest.py fails: ZeroDivisionError: .*\(conftest.py:2\)"),
        ("registry.add_store('shared', print)", "There is a store 'shared' already"),
        ("pass\nimport nowhere", r"conftest.py cannot be imported, .*: ModuleNotFoundError: .*nowhere"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(folder: Path, body: str, message: str) -> None:
    _write(folder, body)
    with pytest.raises(InputError, match=message):
        stores_for(TEAM)


@pytest.mark.parametrize(
    ("requires", "known"), [(["redis", "pytest_rageval>=0.1"], True), (["pytest"], False)]
)
def test_a_plugin_is_asked_that_requires_this_package(folder, monkeypatch, requires, *, known):
    (folder / "team_store.py").write_text(
        "def pytest_rageval_register(registry): registry.add_store('team', print)\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(folder)
    point = EntryPoint("team", "team_store", "pytest11")
    plugin = SimpleNamespace(name="team", load=point.load, dist=SimpleNamespace(requires=requires))
    monkeypatch.setattr(extensions, "entry_points", lambda **_: [plugin])
    assert ("team" in stores_for(TEAM)) == known
