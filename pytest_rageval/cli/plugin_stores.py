"""Stores that conftest.py and plugins of pytest add: commands look there for a scheme that is not built in.

No other hook is called: a command does not run pytest. A plugin is asked where its package requires this one.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pytest_rageval.errors import InputError, summary_line
from pytest_rageval.lazy import Lazy
from pytest_rageval.llm.stores import STORES, StoreFactory
from pytest_rageval.secret import StoreURL

if TYPE_CHECKING:
    from pytest_rageval.evaluations.registry import Registry

__all__ = ["registry_for", "stores_for"]

new_registry: Final = Lazy(
    "evaluations.registry", "Registry"
)  # with scores, which no command of the cache needs
HOOK: Final = "pytest_rageval_register"
OURS: Final = re.compile(r"pytest[-_.]rageval\b", re.IGNORECASE)  # at the start of a requirement
CONFTEST: Final = "conftest"


def stores_for(place: Path | StoreURL) -> Mapping[str, StoreFactory]:
    """The stores by scheme, with those that others add where the place is in none of the built-in ones.

    Raises:
        InputError: what adds a store cannot be imported, or fails.
    """
    if isinstance(place, Path) or place.scheme in STORES:
        return STORES
    return _added(Path.cwd())


def registry_for(place: Path | StoreURL) -> "Registry":
    """The registry of a session, with the stores for this place."""
    registry: Registry = new_registry()
    registry.stores.update(stores_for(place))
    return registry


@cache
def _added(folder: Path) -> Mapping[str, StoreFactory]:
    registry: Registry = new_registry()
    for name, module in _plugins(folder):
        try:
            getattr(module, HOOK, lambda *_: None)(registry)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - code of others
            raise InputError(f"{HOOK} of {name} fails: {summary_line(error)}.") from None
    return registry.stores


def _plugins(folder: Path) -> Iterator[tuple[str, object]]:
    """Yield what may implement the hook, with its name."""
    for point in entry_points(group="pytest11"):
        if point.dist is not None and any(map(OURS.match, point.dist.requires or ())):
            yield point.name, point.load()
    if (file := folder / f"{CONFTEST}.py").is_file():
        yield str(file), _conftest(file)


def _conftest(file: Path) -> ModuleType:
    """Import a conftest.py, as pytest does."""
    sys.path.insert(0, str(file.parent))
    sys.modules.pop(CONFTEST, None)
    try:
        return import_module(CONFTEST)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
        raise InputError(
            f"{file} cannot be imported, so that the stores which it adds are not known: {summary_line(error)}.\n"
            "Start the command in the environment of your project: python -m pytest_rageval cache …"
        ) from None
