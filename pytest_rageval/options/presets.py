"""Presets: settings by name, below any option, table or keyword of the user's. Extensions declare them as `PRESETS`.

The file of a preset is TOML, and has these keys in the table of its name:

- `source`: where the settings are from. `not_set`: what the user has to choose.
- `settings`: options with their values as in the ini file. `prompts`: prompts for models at a server, by name.
"""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.core.extensions import installed, others


@dataclass(frozen=True)
class Preset:
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
    modules = (*installed().values(), *others().values())
    files = {name: path for module in modules for name, path in getattr(module, "PRESETS", {}).items()}
    if name not in files:
        expected = f"There are: {', '.join(files)}." if files else "No extension declares one."
        raise InputError(f"The preset {name!r} does not exist.{did_you_mean(name, files)}\n{expected}")
    table = tomllib.loads(files[name].read_text(encoding="utf-8"))[name]
    return Preset(name, table["source"], table["settings"], table.get("prompts", {}), tuple(table["not_set"]))
