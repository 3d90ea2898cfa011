"""The extensions of this package: the modules in `pytest_rageval.extensions`, found by looking, known by no name.

An extension is imported in every run of pytest, so that its module, or the `__init__` of its package, imports only what
its declarations need. Deleting it removes the feature.
"""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

PACKAGE: Final = "pytest_rageval.extensions"
FOLDER: Final = Path(__file__).parents[1] / "extensions"


@cache
def installed() -> Mapping[str, ModuleType]:
    """Return the extensions of this package by name, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]))
    return {name: import_module(f"{PACKAGE}.{name}") for name in names}
