"""The settings of the generator and the judge, and the tables of `pyproject.toml` that set them."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

from pytest_rageval.core.errors import InputError, did_you_mean, parse_failure
from pytest_rageval.lib.options import DEFAULT_CONCURRENCY, DEFAULT_TIMEOUT_S
from pytest_rageval.lib.secret import BaseURL, Secret

N = TypeVar("N", int, float)

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


def number_parser(kind: Callable[[str], N], fits: Callable[[N], bool], allowed: str) -> Callable[[str], N]:
    """Return a parser of numbers that raises ValueError for any other text.

    Args:
        kind: converts the text, such as `int`.
        fits: whether a number is allowed. NaN is rejected, since every comparison with it is false.
        allowed: the description of the allowed numbers, for the message.
    """

    def parse(text: str) -> N:
        with suppress(ValueError):
            value = kind(text)
            if fits(value):
                return value
        raise ValueError(f"expected {allowed}")

    return parse


INFINITY: Final = float("inf")

parse_count: Final = number_parser(int, lambda value: value >= 0, "a whole number, at least 0")
parse_positive_int: Final = number_parser(int, lambda value: value >= 1, "a whole number, at least 1")
parse_seconds: Final = number_parser(float, lambda value: 0 < value < INFINITY, "a number of seconds above 0")
parse_rate: Final = number_parser(float, lambda value: 0 < value < INFINITY, "a number above 0")
parse_amount: Final = number_parser(float, lambda value: 0 <= value < INFINITY, "an amount, at least 0")

_CONNECTION_ARGUMENTS: Final = (
    *("organization", "project", "base_url", "http_client", "default_headers", "default_query"),
    *("extra_headers", "extra_query"),
)

REJECTED_ARGUMENTS: Final = {
    "n": "one reply is used of each request",
    "stream": "a reply is kept whole",
    "timeout": "it is an option: --rageval-timeout, or the key timeout of the table of a model",
    "max_retries": "it is an option: --rageval-retries",
    "api_key": "it is read from the environment, and written nowhere",
    **dict.fromkeys(_CONNECTION_ARGUMENTS, "it belongs to the connection, not to a request"),
}
"""Arguments that client libraries accept and that requests of this package must not have, with the reason."""

_FIXED_PARAMETERS: Final = {
    "model": "it is an option: --rageval-model, --rageval-judge-model",
    "messages": "the prompts are the package's own, or those of --rageval-prompts",
    "input": "the prompts are the package's own, or those of --rageval-prompts",
    "response_format": "the prompts say the form of each reply",
}

LENGTH_PARAMETERS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Names of the parameter that limits the number of tokens of a reply."""


def parse_parameters(text: str) -> dict[str, Any]:
    """Parse a JSON object of request parameters. ValueError says what is allowed.

    >>> parse_parameters('{"reasoning_effort": "low"}')
    {'reasoning_effort': 'low'}
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return check_parameters(value)


def check_parameters(value: object) -> dict[str, Any]:
    """Return an object of request parameters unchanged. ValueError says what is allowed."""
    if not isinstance(value, dict):
        message = 'expected an object of parameters, such as {"reasoning_effort": "low"}'
        raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
    for name in value:
        if why := {**REJECTED_ARGUMENTS, **_FIXED_PARAMETERS}.get(name):
            raise ValueError(f"expected parameters of a request, without {name!r}: {why}")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            "expected values that JSON has: texts, numbers, booleans, lists and objects"
        ) from None
    return value


def merge_parameters(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the package's default parameters of a request, replaced by those of the user.

    A length limit of the user replaces every length limit of the package, whatever its name is.

    >>> merge_parameters({"temperature": 0.5, "max_tokens": 20}, {"max_completion_tokens": 500})
    {'temperature': 0.5, 'max_completion_tokens': 500}
    """
    limited = not own.keys().isdisjoint(LENGTH_PARAMETERS)
    kept = {name: value for name, value in defaults.items() if not (limited and name in LENGTH_PARAMETERS)}
    return {**kept, **own}


Tables = dict[Role, dict[str, Any]]
"""The parsed values of a model's table, by role and key. The base URL, for example, is a `BaseURL`."""

FILE: Final = "pyproject.toml"
KEY_SOURCES: Final = ("api_key_env", "api_key_command")


def read_tables(root: Path) -> Tables:
    """Return the tables of the models in the `pyproject.toml` of a folder; an empty dict if there is none.

    Raises:
        InputError: the file is not TOML, or a key or a value of a table is not allowed.
    """
    try:
        text = (root / FILE).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        # pytest reads the same file, and reports the error.
        return {}
    if "rageval" not in text:
        return {}
    import tomllib  # noqa: PLC0415 - every run of pytest imports this module

    try:
        tool = tomllib.loads(text).get("tool", {})
    except (ValueError, RecursionError) as error:
        raise InputError(f"{FILE} is not TOML: {parse_failure(error)}.") from None
    section = tool.get("rageval", {}) if isinstance(tool, dict) else {}
    # Named in the message, since users may look for the options of pytest in `[tool.rageval]`.
    options = "The options of pytest have another place: rageval_NAME in [tool.pytest.ini_options]."
    models = _table(section, "tool.rageval", ("models",), options).get("models", {})
    tables = _table(models, "tool.rageval.models", ROLES)
    return {
        role: _parse_table(tables[role], f"tool.rageval.models.{role}") for role in ROLES if role in tables
    }


def _table(value: object, name: str, known: tuple[str, ...], remedy: str = "") -> dict[str, Any]:
    """Return a value that is a table with known keys only; else raise InputError."""
    if not isinstance(value, dict):
        raise InputError(f"{FILE}: [{name}] is not a table.\nWrite a table of {' and '.join(known)}.")
    for key in value:
        if key not in known:
            message = f"{FILE}: [{name}] has the unknown key {key!r}.{did_you_mean(key, known)}"
            raise InputError(f"{message}\nAllowed: {', '.join(known)}. {remedy}".rstrip())
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
