"""Presets: the settings of papers, by name; `presets.toml` has them."""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_rageval.errors import did_you_mean

__all__ = ["Preset", "read_preset"]


@dataclass(frozen=True)
class Preset:
    """The settings of a paper.

    Attributes:
        name: as users type it.
        source: the paper.
        settings: options by name, each with its value as in the ini file.
        prompts: templates by name, for models at a server.
        not_set: what it cannot set, each as text.
    """

    name: str
    source: str
    settings: Mapping[str, str]
    prompts: Mapping[str, str]
    not_set: tuple[str, ...]

    def without(self, names: Collection[str]) -> "Preset":
        """The preset without these settings, which the user has."""
        kept = {name: value for name, value in self.settings.items() if name not in names}
        return replace(self, settings=kept)

    def described(self) -> str:
        """What it sets, and what it cannot set, in a line."""
        found = [f"{name} {value}" for name, value in self.settings.items()]
        found += [f"prompts {', '.join(self.prompts)}"] if self.prompts else []
        return f"preset {self.name} sets {'; '.join(found) or 'nothing'}. It does not set: {'; '.join(self.not_set)}"


def read_preset(name: str) -> Preset:
    """Return the preset of this name; ValueError with the known names."""
    presets = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
    if name not in presets:
        hint = did_you_mean(name, presets).strip()
        raise ValueError(f"expected one of {', '.join(presets)}{f' ({hint})' if hint else ''}")
    found = presets[name]
    return Preset(name, found["source"], found["settings"], found.get("prompts", {}), tuple(found["not_set"]))
