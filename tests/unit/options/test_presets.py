"""Presets that extensions and other plugins declare; the presets here need no extension."""

from pathlib import Path
from types import ModuleType

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.options import presets
from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.options.settings import Settings

NIGHTLY = '[nightly]\nsource = "us"\nnot_set = ["the model"]\n[nightly.settings]\n'


@pytest.fixture
def declare(monkeypatch, tmp_path):
    """Let two plugins have presets, one of them of this package."""

    def declare(settings: str) -> None:
        (tmp_path / "presets.toml").write_text(f"{NIGHTLY}{settings}\n", encoding="utf-8")
        ours, other = ModuleType("ours"), ModuleType("other")
        ours.PRESETS, other.PRESETS = {"weekly": Path()}, {"nightly": tmp_path / "presets.toml"}
        monkeypatch.setattr(presets, "installed", lambda: {"a": ours, "b": ModuleType("without")})
        monkeypatch.setattr(presets, "others", lambda: {"c": other})

    return declare


def _resolve(name: str) -> Settings:
    here = Path("/somewhere")
    return resolve_options({"preset": name}, {"seed": "7"}, {}, invoked_in=here, root=here)


def test_a_preset_of_another_plugin_is_below_the_users_settings(declare):
    declare('repeat = "3"\nseed = "1"')
    settings = _resolve("nightly")
    assert (settings.repeat, settings.seed, settings.sources["repeat"]) == (3, 7, "preset nightly")
    assert settings.applied_preset.describe() == "preset nightly sets repeat 3. It does not set: the model"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "nigthly",
            "",
            "The preset 'nigthly' does not exist. Did you mean nightly?\nThere are: weekly, nightly.",
        ),
        ("nightly", 'repeats = "3"', "The preset nightly sets repeats, which is no option."),
        ("nightly", 'repeat = "0"', "preset nightly: repeat is '0': expected a whole number, at least 1."),
    ],
)
def test_what_cannot_be_used_is_an_error(declare, name, settings, message):
    declare(settings)
    with pytest.raises(InputError) as caught:
        _resolve(name)
    assert str(caught.value) == message


def test_without_extensions_there_is_no_preset(monkeypatch):
    monkeypatch.setattr(presets, "installed", dict)
    monkeypatch.setattr(presets, "others", dict)
    with pytest.raises(InputError, match="No extension declares one"):
        _resolve("nightly")
