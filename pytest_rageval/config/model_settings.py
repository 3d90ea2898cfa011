"""The settings of generator and judge, from options and from tables of `pyproject.toml`."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.secret import BaseURL, Secret

__all__ = [
    "AMOUNT",
    "COUNT",
    "KEYS",
    "KEY_SOURCES",
    "LENGTHS",
    "POSITIVE",
    "RATE",
    "REFUSED",
    "ROLES",
    "SECONDS",
    "Api",
    "ModelSettings",
    "Role",
    "ServerSettings",
    "Tables",
    "combined",
    "number",
    "parse_parameters",
    "read_tables",
]

N = TypeVar("N", int, float)

Role = Literal["generator", "judge"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

Api = Literal["chat", "responses"]
"""The path that models are asked at: `/chat/completions` or `/responses`, for models that have no other."""


@dataclass(frozen=True)
class ServerSettings:
    """A server, its key, and its limits. A judge without its own limits has those of the generator."""

    role: Role = "generator"  # the model that it is set for
    base_url: BaseURL | None = None  # None for OpenAI's
    api_key: Secret | None = None
    key_name: str = "OPENAI_API_KEY"  # the environment variable that has the key
    needs_key: bool = False  # the user has named that variable, so an empty one is a mistake
    key_command: tuple[str, ...] = ()  # prints the key
    api: Api = "chat"
    concurrency: int = 16
    timeout: float = 60.0
    rpm: float | None = None
    tpm: float | None = None
    max_calls: int | None = None  # of this server; the run has a limit of its own
    max_cost: float | None = None


@dataclass(frozen=True)
class ModelSettings:
    """A model, the parameters that the user adds to its requests, and its server."""

    model: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)


def number(kind: Callable[[str], N], fits: Callable[[N], bool], allowed: str) -> Callable[[str], N]:
    """A parser of numbers; NaN fits no comparison."""

    def parse(text: str) -> N:
        with suppress(ValueError):
            value = kind(text)
            if fits(value):
                return value
        raise ValueError(f"expected {allowed}")

    return parse


INFINITY: Final = float("inf")

COUNT: Final = number(int, lambda value: value >= 0, "a whole number, at least 0")
POSITIVE: Final = number(int, lambda value: value >= 1, "a whole number, at least 1")
SECONDS: Final = number(float, lambda value: 0 < value < INFINITY, "a number of seconds above 0")
RATE: Final = number(float, lambda value: 0 < value < INFINITY, "a number above 0")
AMOUNT: Final = number(float, lambda value: 0 <= value < INFINITY, "an amount, at least 0")

_CONNECTION: Final = (
    *("organization", "project", "base_url", "http_client", "default_headers", "default_query"),
    *("extra_headers", "extra_query"),
)

REFUSED: Final = {
    "n": "one reply is used of each request",
    "stream": "a reply is kept whole",
    "timeout": "it is an option: --rageval-timeout, or the key timeout of the table of a model",
    "max_retries": "it is an option: --rageval-retries",
    "api_key": "it is read from the environment, and written nowhere",
    **dict.fromkeys(_CONNECTION, "it belongs to the connection, not to a request"),
}
"""Arguments that clients accept and no request takes, and why."""

_FIXED: Final = {
    "model": "it is an option: --rageval-model, --rageval-judge-model",
    "messages": "the prompts are the package's own, or those of --rageval-prompts",
    "input": "the prompts are the package's own, or those of --rageval-prompts",
    "response_format": "the prompts say the form of each reply",
}

LENGTHS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Parameters that limit the tokens of a reply."""


def parse_parameters(text: str) -> dict[str, Any]:
    """Read a JSON object of parameters, or raise ValueError with what is allowed.

    >>> parse_parameters('{"reasoning_effort": "low"}')
    {'reasoning_effort': 'low'}
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return read_parameters(found)


def read_parameters(found: object) -> dict[str, Any]:
    """Return an object of parameters, or raise ValueError with what is allowed."""
    if not isinstance(found, dict):
        message = 'expected an object of parameters, such as {"reasoning_effort": "low"}'
        raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
    for name in found:
        if why := {**REFUSED, **_FIXED}.get(name):
            raise ValueError(f"expected parameters of a request, without {name!r}: {why}")
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            "expected values that JSON has: texts, numbers, booleans, lists and objects"
        ) from None
    return found


def combined(ours: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request: the user's replace ours; a limit of the length does by any of its names.

    >>> combined({"temperature": 0.5, "max_tokens": 20}, {"max_completion_tokens": 500})
    {'temperature': 0.5, 'max_completion_tokens': 500}
    """
    limited = not given.keys().isdisjoint(LENGTHS)
    kept = {name: value for name, value in ours.items() if not (limited and name in LENGTHS)}
    return {**kept, **given}


Tables = dict[Role, dict[str, Any]]
"""By model, its keys with the values that were read; the base URL, for example, is a `BaseURL`."""

FILE: Final = "pyproject.toml"
KEY_SOURCES: Final = ("api_key_env", "api_key_command")


def read_tables(root: Path) -> Tables:
    """Return the tables of the file in this folder; none where there is no such file.

    Raises:
        InputError: the file is not TOML, or a key or a value of a table is not allowed.
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
        raise InputError(f"{FILE}: [{name}] is not a table.\nWrite a table of {' and '.join(known)}.")
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


def _from_toml(parse: Callable[[str], Any]) -> Callable[[object], Any]:
    def read(value: object) -> Any:
        # True is an int; a text is not accepted, even if it contains a number.
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
    "concurrency": _from_toml(POSITIVE),
    "rpm": _from_toml(RATE),
    "tpm": _from_toml(RATE),
    "timeout": _from_toml(SECONDS),
    "max_calls": _from_toml(COUNT),
    "max_cost": _from_toml(AMOUNT),
}
