"""Optional packages: imported at first use, and named with their remedy where they are missing."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pytest_rageval.errors import InputError

__all__ = ["installed", "require"]


def installed(*modules: str) -> bool:
    """Whether all of these top-level modules can be imported; none of them is."""
    return all(find_spec(module) is not None for module in modules)


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module of an extra.

    Raises:
        InputError: it is not installed; the message says what it is for and what to install.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        message = (
            f"{purpose} needs the package {module!r}, which is not installed.\n"
            f"Install it with: pip install 'pytest-rageval[{extra}]'"
        )
        raise InputError(message) from None
