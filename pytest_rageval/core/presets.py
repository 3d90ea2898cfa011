"""Presets: the settings of published papers by name, read from `presets.toml`."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_rageval.core.errors import did_you_mean


@dataclass(frozen=True)
class Preset:
    """The settings of one paper.

    Attributes:
        name: the name that users type.
        source: the reference of the paper.
        settings: the values of options as in the ini file, by the name of the option.
        prompts: prompt templates by name, for models at a server.
        not_set: descriptions of the settings of the paper that a preset cannot set.
    """

    name: str
    source: str
    settings: Mapping[str, str]
    prompts: Mapping[str, str]
    not_set: tuple[str, ...]

    def without(self, names: Collection[str]) -> "Preset":
        """Return a copy without the settings of these names, which the user has set."""
        kept = {name: value for name, value in self.settings.items() if name not in names}
        return replace(self, settings=kept)

    def describe(self) -> str:
        """Return one line with the settings that the preset sets and those that it cannot set."""
        parts = [f"{name} {value}" for name, value in self.settings.items()]
        parts += [f"prompts {', '.join(self.prompts)}"] if self.prompts else []
        return f"preset {self.name} sets {'; '.join(parts) or 'nothing'}. It does not set: {'; '.join(self.not_set)}"


def read_preset(name: str) -> Preset:
    """Return the preset of this name; ValueError with the known names if there is none."""
    presets = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
    if name not in presets:
        hint = did_you_mean(name, presets).strip()
        raise ValueError(f"expected one of {', '.join(presets)}{f' ({hint})' if hint else ''}")
    table = presets[name]
    return Preset(name, table["source"], table["settings"], table.get("prompts", {}), tuple(table["not_set"]))
