"""The settings of the generator and the judge, and the tables of `pyproject.toml` that set them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pytest_rageval.core.errors import InputError, did_you_mean, parse_failure
from pytest_rageval.core.options import DEFAULT_CONCURRENCY, DEFAULT_TIMEOUT_S
from pytest_rageval.core.parsers import (
    parse_amount,
    parse_count,
    parse_positive_int,
    parse_rate,
    parse_seconds,
)
from pytest_rageval.core.request_parameters import check_parameters
from pytest_rageval.lib.secret import BaseURL, Secret

Role = Literal["generator", "judge"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

Api = Literal["chat", "responses"]
"""The API of a model: `/chat/completions`, or `/responses` for models without chat completions."""


@dataclass(frozen=True)
class ServerSettings:
    """A server, its key, and the limits of its requests.

    Attributes:
        role: the model whose settings name this server.
        base_url: the base URL; None for OpenAI's server.
        api_key: the key; None if there is none.
        key_name: the environment variable that contains the key.
        needs_key: True if the user has named that variable, so that an empty one is a mistake.
        key_command: the command that prints the key; empty for none.
        api: the API of the model.
        concurrency: the most requests in flight.
        timeout: the longest wait for one reply, in seconds.
        rpm: the most requests per minute; None for no limit.
        tpm: the most tokens per minute; None for no limit.
        max_calls: the most calls of this server, in addition to the limit of the run; None for no limit.
        max_cost: the largest cost at this server in USD, in addition to the limit of the run; None for no limit.
    """

    role: Role = "generator"
    base_url: BaseURL | None = None
    api_key: Secret | None = None
    key_name: str = "OPENAI_API_KEY"
    needs_key: bool = False
    key_command: tuple[str, ...] = ()
    api: Api = "chat"
    concurrency: int = DEFAULT_CONCURRENCY
    timeout: float = DEFAULT_TIMEOUT_S
    rpm: float | None = None
    tpm: float | None = None
    max_calls: int | None = None
    max_cost: float | None = None


@dataclass(frozen=True)
class ModelSettings:
    """A model, the request parameters that the user sets, and its server."""

    model: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)


Tables = dict[Role, dict[str, Any]]
"""The parsed values of a model's table, by role and key. The base URL, for example, is a `BaseURL`."""

FILE: Final = "pyproject.toml"
KEY_SOURCES: Final = ("api_key_env", "api_key_command")


def read_pyproject(root: Path) -> tuple[dict[str, Any], Tables]:
    """Return what `[tool.rageval]` in the `pyproject.toml` of a folder has: the options, and the tables of the models.

    The values of the options are as in TOML. Without the file or the table, both are empty.

    Raises:
        InputError: the file is not TOML, or a key or a value of a table of a model is not allowed.
    """
    try:
        text = (root / FILE).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        # pytest reads the same file, and reports the error.
        return {}, {}
    if "rageval" not in text:
        return {}, {}
    import tomllib  # noqa: PLC0415 - every run of pytest imports this module

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


def _table(value: object, name: str, known: tuple[str, ...]) -> dict[str, Any]:
    """Return a value that is a table with known keys only; else raise InputError."""
    if not isinstance(value, dict):
        raise InputError(f"{FILE}: [{name}] is not a table.\nWrite a table of {' and '.join(known)}.")
    for key in value:
        if key not in known:
            message = f"{FILE}: [{name}] has the unknown key {key!r}.{did_you_mean(key, known)}"
            raise InputError(f"{message}\nAllowed: {', '.join(known)}.")
    return value


def _parse_table(value: object, name: str) -> dict[str, Any]:
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
    import shlex  # noqa: PLC0415 - every run of pytest imports this module

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
    """Return a function that parses a TOML number with a parser of texts."""

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
    "base_url": lambda value: BaseURL.parse(_parse_text(value)),
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
