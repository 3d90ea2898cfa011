"""Stores that conftest.py and pytest plugins add. Commands look there for a URL scheme that no extension has.

Only the hook `pytest_rageval_register` is called, since a command does not run pytest. It is called in conftest.py of
the current folder, and in installed pytest plugins whose package requires pytest-rageval.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pytest_rageval.core.errors import InputError, summary_line
from pytest_rageval.core.extensions import others
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.stores.interface import StoreFactory

if TYPE_CHECKING:
    from pytest_rageval.run.registry import Registry

new_registry: Final = Lazy("run.registry", "Registry")  # imports all scores; cache commands rarely need it
HOOK: Final = "pytest_rageval_register"
CONFTEST: Final = "conftest"


def stores_for(place: Path | StoreURL) -> Mapping[str, StoreFactory]:
    """Return the store factories by scheme; with those of plugins if no extension has a store for the place's scheme.

    A folder needs no factory, and gets none.

    Raises:
        InputError: a conftest.py or plugin that adds a store cannot be imported, or its hook raises.
    """
    if isinstance(place, Path):
        return {}
    stores: Mapping[str, StoreFactory] = new_registry().stores
    return stores if place.scheme in stores else _load_plugin_stores(Path.cwd())


@cache
def _load_plugin_stores(folder: Path) -> Mapping[str, StoreFactory]:
    registry: Registry = new_registry()
    for name, module in _plugins(folder):
        try:
            getattr(module, HOOK, lambda *_: None)(registry)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - the hook is not our code
            raise InputError(f"{HOOK} of {name} fails: {summary_line(error)}.") from None
    return registry.stores


def _plugins(folder: Path) -> Iterator[tuple[str, object]]:
    """Yield the name and the module of each plugin that may implement the hook, and of conftest.py."""
    yield from others().items()
    if (file := folder / f"{CONFTEST}.py").is_file():
        yield str(file), _import_conftest(file)


def _import_conftest(file: Path) -> ModuleType:
    """Import a conftest.py as pytest does: with its folder first in sys.path, under the name `conftest`."""
    sys.path.insert(0, str(file.parent))
    sys.modules.pop(CONFTEST, None)
    try:
        return import_module(CONFTEST)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
        raise InputError(
            f"{file} cannot be imported, so that the stores which it adds are not known: {summary_line(error)}.\n"
            "Start the command in the environment of your project: python -m pytest_rageval cache …"
        ) from None
