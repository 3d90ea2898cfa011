"""Presets: the settings of published papers by name, read from `presets.toml`."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_rageval.core.errors import did_you_mean


@dataclass(frozen=True)
class Preset:
    """The settings of one paper by name of the option, its prompts, and what a preset cannot set."""

    name: str
    source: str
    settings: Mapping[str, str]
    prompts: Mapping[str, str]
    not_set: tuple[str, ...]

    def without(self, names: Collection[str]) -> "Preset":
        kept = {name: value for name, value in self.settings.items() if name not in names}
        return replace(self, settings=kept)

    def describe(self) -> str:
        parts = [f"{name} {value}" for name, value in self.settings.items()]
        parts += [f"prompts {', '.join(self.prompts)}"] if self.prompts else []
        return f"preset {self.name} sets {'; '.join(parts) or 'nothing'}. It does not set: {'; '.join(self.not_set)}"


def read_preset(name: str) -> Preset:
    presets = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
    if name not in presets:
        hint = did_you_mean(name, presets).strip()
        raise ValueError(f"expected one of {', '.join(presets)}{f' ({hint})' if hint else ''}")
    table = presets[name]
    return Preset(name, table["source"], table["settings"], table.get("prompts", {}), tuple(table["not_set"]))
