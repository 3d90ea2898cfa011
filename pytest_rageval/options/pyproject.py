"""`[tool.rageval]` in `pyproject.toml`: the options, and the tables of the models."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.lib.text import parse_failure
from pytest_rageval.options import MOVED, all_options
from pytest_rageval.options.parsers import (
    check_parameters,
    parse_amount,
    parse_base_url,
    parse_count,
    parse_positive_int,
    parse_rate,
    parse_seconds,
)
from pytest_rageval.options.settings import FILE, KEY_SOURCES, ROLES, Api, Tables


def parse_pyproject(text: str) -> tuple[dict[str, object], Tables]:
    """Return `[tool.rageval]`: options as in TOML, and the tables of the models."""
    try:
        tool = tomllib.loads(text).get("tool", {})
    except (ValueError, RecursionError) as error:
        raise InputError(f"{FILE} is not TOML: {parse_failure(error)}.") from None
    section = tool.get("rageval", {}) if isinstance(tool, dict) else {}
    if not isinstance(section, dict):
        raise InputError(f"{FILE}: [tool.rageval] is not a table.\nWrite a table of options.")
    options = {key: value for key, value in section.items() if key != "models"}
    tables = _table(section.get("models", {}), "tool.rageval.models", ROLES)
    return options, {
        role: _parse_table(tables[role], f"tool.rageval.models.{role}") for role in ROLES if role in tables
    }


def texts_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `[tool.rageval]` as texts, a list for a repeatable option."""
    options = {option.name: option for option in all_options()}
    texts: dict[str, object] = {}
    for name, value in table.items():
        where = f"{FILE}: [tool.rageval] has the key {name!r}"
        if name not in options:
            raise InputError(
                f"{where}, which is no option.{MOVED.get(name) or did_you_mean(name, [*options, 'models'])}\n"
                "`rageval settings` lists all options."
            )
        if not options[name].in_ini:
            raise InputError(f"{where}, an option of the command line alone: {options[name].example()}.")
        if isinstance(value, dict):
            texts[name] = json.dumps(value)
        elif isinstance(value, list):
            items = list(map(_toml_text, value))
            texts[name] = items if options[name].repeatable else ",".join(items)
        else:
            text = _toml_text(value)
            texts[name] = [text] if options[name].repeatable else text
    return texts


def _toml_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(value: object, name: str, known: tuple[str, ...]) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"{FILE}: [{name}] is not a table.\nWrite a table of {' and '.join(known)}.")
    for key in value:
        if key not in known:
            message = f"{FILE}: [{name}] has the unknown key {key!r}.{did_you_mean(key, known)}"
            raise InputError(f"{message}\nAllowed: {', '.join(known)}.")
    return value


def _parse_table(value: object, name: str) -> dict[str, object]:
    if isinstance(value, dict) and "api_key" in value:
        raise InputError(
            f"{FILE}: [{name}] has an api_key, and this file is read by all who see the project.\n"
            'Remove it, make a new key, and name the environment variable that has it: api_key_env = "MY_KEY".'
        )
    table = _table(value, name, tuple(TABLE_PARSERS))
    if all(source in table for source in KEY_SOURCES):
        raise InputError(f"{FILE}: [{name}] has {' and '.join(KEY_SOURCES)}.\nLeave one out.")
    values = {}
    for key, entry in table.items():
        try:
            values[key] = TABLE_PARSERS[key](entry)
        except ValueError as error:
            # The value is not quoted: it may be an API key that was written to the wrong place.
            message = f"{FILE}: {key} in [{name}] cannot be used: {error}."
        else:
            continue
        raise InputError(message)
    return values


def _parse_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a text")
    return value.strip()


def _parse_variable_name(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_]\w*", value, re.ASCII):
        raise ValueError("expected the name of an environment variable, not the key itself")
    return value


def _parse_command(value: object) -> tuple[str, ...]:
    """Parse a list of words, or a text that is split into words as a shell does. No shell runs the command."""
    allowed = 'expected a command, such as ["gcloud", "auth", "print-access-token"]'
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"{allowed}; a quotation mark is not closed") from None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(allowed)
    return tuple(words)


def _parse_api(value: object) -> str:
    if value not in get_args(Api):
        raise ValueError(f"expected {' or '.join(map(repr, get_args(Api)))}")
    return str(value)


def _number_from_toml(parse: Callable[[str], Any]) -> Callable[[object], Any]:
    def read(value: object) -> Any:
        # The type is compared, since True is an int. A text is rejected, even if it contains a number.
        hint = ", without quotation marks" if isinstance(value, str) else ""
        try:
            return parse(repr(value) if type(value) in (int, float) else "")
        except ValueError as error:
            raise ValueError(f"{error}{hint}") from None

    return read


TABLE_PARSERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "model": _parse_text,
    "base_url": lambda value: parse_base_url(_parse_text(value)),
    "api_key_env": _parse_variable_name,
    "api_key_command": _parse_command,
    "parameters": check_parameters,
    "api": _parse_api,
    "concurrency": _number_from_toml(parse_positive_int),
    "rpm": _number_from_toml(parse_rate),
    "tpm": _number_from_toml(parse_rate),
    "timeout": _number_from_toml(parse_seconds),
    "max_calls": _number_from_toml(parse_count),
    "max_cost": _number_from_toml(parse_amount),
}
