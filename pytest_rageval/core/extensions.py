"""The extensions of this package: the folders in `pytest_rageval/extensions`, found by looking, known by no name.

An extension with hooks, options, markers or fixtures is imported in every run of pytest, so that the `__init__` of its
folder imports only what its declarations need; the others are imported when a run has a marked test, and by commands.
Deleting an extension removes the feature. Other plugins have the same hooks and
declarations, but for `OPTIONS`, `SCORES` and fields: they add options to pytest, and scores to the registry. Besides
hooks an extension may have:

- `OPTIONS`: its options, a tuple of `options.Option`.
- `MARKERS`: its markers, as pytest's ini key has them. They let a test be evaluated, as `rageval_threshold` does.
- `contradictions(settings)`: yields a message for each contradiction of its options with others.
- `COMMANDS`, see `options.command`.
- `PRESETS`: its presets by name, each with the path of its file, see `options.presets`.
- `SCORES`: for each of its modules with `SCORES`, as `scores.MODULES`. The name of a module begins at `extensions`.
- `NOTES`: texts of notes below the row of a score, by the key of its entry, each with the key of the note before it.
- `FIELDS`: the fields of an example that it reads, by name, each with a function `(value, check)` that checks a value;
  `check` is an `evalsets.records.Check`. The values are in `Example.added`. As a keyword of the marker
  `rageval_evalset`, a field holds for each example: a list is added to the example's own, another value is its default.
- `GOLD_FIELDS`: the same for the fields of a gold passage, whose values are in `Gold.added`, without a keyword.
"""

import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

PACKAGE: Final = "pytest_rageval.extensions"
FOLDER: Final = Path(__file__).parents[1] / "extensions"
OUR_REQUIREMENT: Final = re.compile(r"pytest[-_.]rageval\b", re.IGNORECASE)  # at the start of a requirement

IN_EVERY_RUN: Final = (b"\n@hookimpl", b"\nOPTIONS", b"\nMARKERS", b"\nFIXTURES")
"""How the declarations begin that every run of pytest needs."""


@cache
def at_start() -> Mapping[str, ModuleType]:
    """Return those of `installed` that every run of pytest needs. Their text is searched: no other is imported."""
    texts = {name: file.read_bytes() for name, file in _files().items()}
    needed = (name for name, text in texts.items() if any(start in text for start in IN_EVERY_RUN))
    return {name: _imported(name) for name in needed}


@cache
def installed() -> Mapping[str, ModuleType]:
    """Return the extensions of this package by name, in alphabetical order."""
    return {name: _imported(name) for name in _files()}


def _files() -> dict[str, Path]:
    return {file.parent.name: file for file in sorted(FOLDER.glob("*/__init__.py"))}


def _imported(name: str) -> ModuleType:
    """Import an extension from its path. In an idle run, pytest's import hook would take longer than all the imports.

    The hook rewrites the assertions of plugins, and reads and compiles each of their modules.
    """
    full_name = f"{PACKAGE}.{name}"
    if full_name not in sys.modules:
        spec = cast("ModuleSpec", spec_from_file_location(full_name, FOLDER / name / "__init__.py"))
        module = sys.modules[full_name] = module_from_spec(spec)
        try:
            cast("Loader", spec.loader).exec_module(module)
        except BaseException:
            del sys.modules[full_name]
            raise
        setattr(import_module(PACKAGE), name, module)
    return sys.modules[full_name]


@cache
def declared(name: str) -> Mapping[str, Any]:
    """Return the items of all mappings that the extensions of this package declare under a name, such as `SCORES`."""
    mappings: list[Mapping[str, object]] = [getattr(module, name, {}) for module in installed().values()]
    return {key: value for mapping in mappings for key, value in mapping.items()}


def others() -> Mapping[str, ModuleType]:
    """Return the installed pytest plugins whose package requires pytest-rageval, by name, in alphabetical order."""
    points = sorted(entry_points(group="pytest11"), key=lambda point: point.name)
    return {
        point.name: point.load()
        for point in points
        if point.dist is not None and any(map(OUR_REQUIREMENT.match, point.dist.requires or ()))
    }
