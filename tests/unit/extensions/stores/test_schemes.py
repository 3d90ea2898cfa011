"""The schemes of the extension's stores."""

from pathlib import Path

import pytest

from pytest_rageval.cli.command_session import registry_for
from pytest_rageval.cli.plugin_stores import stores_for
from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.run.registry import Registry

SCHEMES = {"diskcache", "redis", "rediss"}


def test_commands_know_them_without_a_conftest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a scheme of the extension, or a folder, conftest.py is not imported."""
    (tmp_path / "conftest.py").write_text("raise RuntimeError\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    redis = StoreURL.parse("redis://host/0")
    assert stores_for(redis).keys() == SCHEMES
    for place in (tmp_path, redis):
        assert registry_for(place).stores.keys() == SCHEMES


def test_a_plugin_cannot_take_them() -> None:
    """A second store of a scheme is an error: it would depend on the order of the plugins which one is opened."""
    registry = Registry()
    for scheme in SCHEMES:
        with pytest.raises(InputError, match=f"There is a store '{scheme}' already"):
            registry.add_store(scheme, print)
