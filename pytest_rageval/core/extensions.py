"""The extensions of this package: the modules in `pytest_rageval.extensions`, found by looking, known by no name.

An extension is imported in every run of pytest, so that its module, or the `__init__` of its package, imports only what
its declarations need. Deleting it removes the feature. Other plugins have the same hooks and
declarations, but for `OPTIONS`: they add options to pytest. Besides hooks an extension may have:

- `OPTIONS`: its options, a tuple of `core.options.Option`.
- `MARKERS`: its markers, as pytest's ini key has them. They let a test be evaluated, as `rageval_threshold` does.
- `contradictions(settings)`: yields a message for each contradiction of its options with others.
- `COMMANDS`, see `core.command`.
"""

import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pytest_rageval.core.options import OPTIONS, Option

PACKAGE: Final = "pytest_rageval.extensions"
FOLDER: Final = Path(__file__).parents[1] / "extensions"
OUR_REQUIREMENT: Final = re.compile(r"pytest[-_.]rageval\b", re.IGNORECASE)  # at the start of a requirement


@cache
def installed() -> Mapping[str, ModuleType]:
    """Return the extensions of this package by name, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]))
    return {name: import_module(f"{PACKAGE}.{name}") for name in names}


def others() -> Mapping[str, ModuleType]:
    """Return the installed pytest plugins whose package requires pytest-rageval, by name, in alphabetical order."""
    points = sorted(entry_points(group="pytest11"), key=lambda point: point.name)
    return {
        point.name: point.load()
        for point in points
        if point.dist is not None and any(map(OUR_REQUIREMENT.match, point.dist.requires or ()))
    }


@cache
def all_options() -> tuple[Option[Any], ...]:
    """Return the options of the core and of the extensions."""
    own = [option for module in installed().values() for option in getattr(module, "OPTIONS", ())]
    core = (option for option in OPTIONS if not option.by_extension or option in own)
    return tuple(dict.fromkeys((*core, *own)))
