"""The tables `[tool.rageval.models.generator]` and `[tool.rageval.models.judge]` of `pyproject.toml`."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from pytest_rageval.config.base_url import BaseURL
from pytest_rageval.config.models import Api, Role
from pytest_rageval.config.options import AMOUNT, COUNT, POSITIVE, RATE, SECONDS
from pytest_rageval.config.parameters import read_parameters
from pytest_rageval.errors import InputError, did_you_mean

__all__ = ["KEY_SOURCES", "ROLES", "Tables", "read_tables"]

Tables = dict[Role, dict[str, Any]]
"""By model, its keys with the values that were read; the base URL, for example, is a `BaseURL`."""

FILE: Final = "pyproject.toml"
KEY_SOURCES: Final = ("api_key_env", "api_key_command")
ROLES: Final[tuple[Role, ...]] = get_args(Role)


def read_tables(root: Path) -> Tables:
    """Return the tables of the file in this folder; none where there is no such file.

    Raises:
        InputError: the file is no TOML, or a key or a value of a table is not allowed.
    """
    try:
        text = (root / FILE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        # It is pytest's own file, which says what is wrong with it.
        return {}
    if "rageval" not in text:
        return {}
    import tomllib  # noqa: PLC0415 - every run of pytest imports this module

    try:
        tool = tomllib.loads(text).get("tool", {})
    except (ValueError, RecursionError) as error:
        raise InputError(f"{FILE} is not TOML: {error}.") from None
    section = tool.get("rageval", {}) if isinstance(tool, dict) else {}
    # Named apart, as options of pytest are looked for in `[tool.rageval]` by mistake.
    options = "The options of pytest have another place: rageval_NAME in [tool.pytest.ini_options]."
    models = _table(section, "tool.rageval", ("models",), options).get("models", {})
    tables = _table(models, "tool.rageval.models", ROLES)
    return {role: _read(tables[role], f"tool.rageval.models.{role}") for role in ROLES if role in tables}


def _table(found: object, name: str, known: tuple[str, ...], remedy: str = "") -> dict[str, Any]:
    """Return a table that has known keys only."""
    if not isinstance(found, dict):
        raise InputError(f"{FILE}: [{name}] is no table.\nWrite a table of {' and '.join(known)}.")
    for key in found:
        if key not in known:
            message = f"{FILE}: [{name}] has the unknown key {key!r}.{did_you_mean(key, known)}"
            raise InputError(f"{message}\nAllowed: {', '.join(known)}. {remedy}".rstrip())
    return found


def _read(found: object, name: str) -> dict[str, Any]:
    if isinstance(found, dict) and "api_key" in found:
        raise InputError(
            f"{FILE}: [{name}] has an api_key, and this file is read by all who see the project.\n"
            'Remove it, make a new key, and name the environment variable that has it: api_key_env = "MY_KEY".'
        )
    table = _table(found, name, tuple(KEYS))
    if all(source in table for source in KEY_SOURCES):
        raise InputError(f"{FILE}: [{name}] has {' and '.join(KEY_SOURCES)}.\nLeave one out.")
    values = {}
    for key, value in table.items():
        try:
            values[key] = KEYS[key](value)
        except ValueError as error:
            # The value is not shown: it may be a key in the wrong place.
            message = f"{FILE}: {key} in [{name}] cannot be used: {error}."
        else:
            continue
        raise InputError(message)
    return values


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a text")
    return value.strip()


def _variable(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_]\w*", value, re.ASCII):
        raise ValueError("expected the name of an environment variable, not the key itself")
    return value


def _command(value: object) -> tuple[str, ...]:
    """Read a list of words, or a text that is split as a shell does; no shell runs it."""
    allowed = 'expected a command, such as ["gcloud", "auth", "print-access-token"]'
    import shlex  # noqa: PLC0415 - likewise

    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"{allowed}; a quotation mark is not closed") from None
    if not isinstance(words, list) or not words or not all(isinstance(each, str) for each in words):
        raise ValueError(allowed)
    return tuple(words)


def _api(value: object) -> str:
    if value not in get_args(Api):
        raise ValueError(f"expected {' or '.join(map(repr, get_args(Api)))}")
    return str(value)


def _number(parse: Callable[[str], Any]) -> Callable[[object], Any]:
    def read(value: object) -> Any:
        # True is an int; a text is none, whatever is in it.
        hint = ", without quotation marks" if isinstance(value, str) else ""
        try:
            return parse(repr(value) if type(value) in (int, float) else "")
        except ValueError as error:
            raise ValueError(f"{error}{hint}") from None

    return read


KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "model": _text,
    "base_url": lambda value: BaseURL.parse(_text(value)),
    "api_key_env": _variable,
    "api_key_command": _command,
    "parameters": read_parameters,
    "api": _api,
    "concurrency": _number(POSITIVE),
    "rpm": _number(RATE),
    "tpm": _number(RATE),
    "timeout": _number(SECONDS),
    "max_calls": _number(COUNT),
    "max_cost": _number(AMOUNT),
}
