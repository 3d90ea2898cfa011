"""The prices of models: those of the package, and the user's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.files import refuse_special
from pytest_rageval.lib.text import parse_failure
from pytest_rageval.options.settings import Tier

SHIPPED_FILE: Final = Path(__file__).with_name("prices.toml")
OPTION: Final = "--rageval prices=FILE"
MILLION: Final = 1_000_000
ANY_SERVER: Final = ""  # the base URL of an override that names only a model, and so applies at any server
TABLE_HELP: Final = (
    "A model's table has input and output, USD per million tokens (numbers, at least 0), and may have "
    "max_output, tokens of one reply (a whole number, at least 1), and the lower prices flex_input and flex_output, "
    "batch_input and batch_output."
)

TIERS: Final[tuple[Tier, ...]] = get_args(Tier)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model's tokens in USD per million, at least 0."""

    input: float
    output: float
    max_output: int | None = None  # the most tokens of one reply, or None if that is not known
    # The known prices in cheaper tiers.
    tiers: Mapping[Tier, "Price"] = field(default_factory=dict, hash=False)

    def for_tier(self, tier: Tier) -> "Price | None":
        """Return the price in a cheaper tier, or None if it is not known. A free model is free in every tier."""
        return self.tiers.get(tier, None if self.input or self.output else self)

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        return (self.input * tokens_in + self.output * tokens_out) / MILLION


FREE: Final = Price(0, 0)
Table = Mapping[tuple[str, str], Price]  # prices by base URL (without a final slash) and model


class Prices:
    """The user's prices and the shipped prices.

    A price is never guessed: the same model at another base URL, or a model with a similar name, may have any price.
    """

    def __init__(self, overrides: Table | None = None) -> None:
        self._overrides: Table = overrides or {}

    @classmethod
    def load(cls, override: Path | None = None) -> "Prices":
        """Return the shipped prices, overridden by those in a TOML file if one is given.

        A table named by a model, `["gpt-4o"]`, applies at every base URL; one named by base URL and model takes
        precedence.
        """
        return cls(_read(override) if override is not None else None)

    def get(self, base_url: str, model: str) -> Price | None:
        """Return the price of a model at a server, or None if it is not known.

        The query and a final slash of a base URL are ignored; otherwise base URL and model must match exactly.
        """
        if base_url.startswith("embedded"):
            return FREE
        name = base_url.partition("?")[0].rstrip("/"), model
        override = self._overrides.get(name) or self._overrides.get((ANY_SERVER, model))
        return override or _shipped_prices().get(name)


@cache
def _shipped_prices() -> Table:
    return _read(SHIPPED_FILE)


def _read(file: Path) -> Table:
    import tomllib  # noqa: PLC0415 - a run with all replies in the cache needs no prices

    try:
        refuse_special(file)
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"{OPTION} names {str(file)!r}, which cannot be read: {error.strerror or error}.\n"
            "Name a TOML file of prices, or leave the option out for the shipped ones."
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{OPTION} names {str(file)!r}, which is not TOML: {parse_failure(error)}.\n{TABLE_HELP}"
        ) from None
    table = {}
    for name, value in content.items():
        if not name.startswith(("http://", "https://")):
            table[ANY_SERVER, name] = _price(value, f"{file}: model {name!r}")
            continue
        if not isinstance(value, dict):
            raise InputError(
                f"{file}: {name!r} is {value!r}, expected a table of models by name.\n"
                f'Write ["{name}"."MODEL"]. {TABLE_HELP}'
            )
        base_url = name.partition("?")[0].rstrip("/")
        for model, fields in value.items():
            table[base_url, model] = _price(fields, f"{file}: model {model!r} at {name}")
    return table


def _price(fields: Any, where: str) -> Price:
    if not isinstance(fields, dict):
        raise InputError(f"{where} is {fields!r}, expected a table.\n{TABLE_HELP}")
    pairs = {tier: (f"{tier}_input", f"{tier}_output") for tier in TIERS}
    if unknown := sorted(set(fields) - {"input", "output", "max_output"}.union(*pairs.values())):
        # A name with a dot and without quotes is a table within a table in TOML.
        nested = isinstance(fields[unknown[0]], dict)
        quotes = ' A name with dots needs quotes: ["gpt-4.1"].' if nested else ""
        raise InputError(f"{where} has the unknown key {unknown[0]!r}.{quotes}\n{TABLE_HELP}")
    tiers = {tier: keys for tier, keys in pairs.items() if not fields.keys().isdisjoint(keys)}
    for key in ("input", "output", *(key for keys in tiers.values() for key in keys)):
        if key not in fields:
            raise InputError(f"{where} has no {key!r}.\n{TABLE_HELP}")
        price = fields[key]
        if type(price) not in (int, float) or not 0 <= price < math.inf:
            raise InputError(f"{where} has {key} = {price!r}.\n{TABLE_HELP}")
    max_output = fields.get("max_output")
    if max_output is not None and (type(max_output) is not int or max_output < 1):
        raise InputError(f"{where} has max_output = {max_output!r}.\n{TABLE_HELP}")
    lower = {
        tier: Price(float(fields[input_key]), float(fields[output_key]), max_output)
        for tier, (input_key, output_key) in tiers.items()
    }
    return Price(float(fields["input"]), float(fields["output"]), max_output, lower)
