"""Usage of models in numbers that add up over tests and processes, and what requests cost."""

import math
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.files import refuse_special

__all__ = ["Price", "Prices", "Usage"]

SHIPPED: Final = Path(__file__).with_name("prices.toml")
OPTION: Final = "--rageval-prices"
MILLION: Final = 1_000_000
ANYWHERE: Final = ""
"""Stands for every base URL, under which an override names a model alone."""

ALLOWED: Final = (
    "A model's table has input and output, USD per million tokens (numbers, at least 0), and may have "
    "max_output, tokens of one reply (a whole number, at least 1)."
)


@dataclass(frozen=True, slots=True)
class Price:
    """What a model's tokens cost.

    Attributes:
        input: USD per million tokens of the prompt, at least 0.
        output: USD per million tokens of the reply, at least 0.
        max_output: tokens that one reply may have, at least 1; None where that is not known.
    """

    input: float
    output: float
    max_output: int | None = None

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """USD for a prompt and a reply of so many tokens; 0 tokens cost 0."""
        return (self.input * tokens_in + self.output * tokens_out) / MILLION


FREE: Final = Price(0, 0)

Table = Mapping[tuple[str, str], Price]
"""Prices by base URL, without a slash at its end, and model."""


class Prices:
    """The prices known to this run: the user's over the shipped ones.

    A price is looked up and never guessed: a vendor's model behind another
    base URL may cost anything, and so may one whose name only begins alike.
    """

    def __init__(self, overrides: Table | None = None) -> None:
        self._overrides: Table = overrides or {}

    @classmethod
    def load(cls, override: Path | None = None) -> "Prices":
        """The shipped prices, and over them those of a TOML file of the user's.

        In that file a table named as a model, `["gpt-4o"]`, holds at every base
        URL; one named as a base URL, `["https://proxy.example/v1"."gpt-4o"]`,
        holds there alone, and before the former. The shipped file is read at
        the first look-up that needs it.

        Args:
            override: the file; None for the shipped prices alone.

        Raises:
            InputError: the file cannot be read, is not TOML, or has a table that is no price; it
                names the file and the model, and says what is allowed.
        """
        return cls(_read(override) if override is not None else None)

    def of(self, base_url: str, model: str) -> Price | None:
        """The price of a model at a server; None where it is not known.

        A server whose name begins with "embedded" is this machine and costs
        nothing. A slash at the end of a base URL does not matter, nor does its query; all
        else of both names must match to the letter.
        """
        if base_url.startswith("embedded"):
            return FREE
        here, anywhere = (base_url.partition("?")[0].rstrip("/"), model), (ANYWHERE, model)
        for key in (here, anywhere):
            if key in self._overrides:
                return self._overrides[key]
        return _shipped().get(here)


@cache
def _shipped() -> Table:
    return _read(SHIPPED)


def _read(file: Path) -> Table:
    try:
        refuse_special(file)
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        message = (
            f"{OPTION} names {str(file)!r}, which cannot be read: {error.strerror or error}.\n"
            "Name a TOML file of prices, or leave the option out for the shipped ones."
        )
        raise InputError(message) from None
    except (ValueError, RecursionError) as error:  # not UTF-8, or not TOML, or nested without end
        message = f"{OPTION} names {str(file)!r}, which is not TOML: {error}.\n{ALLOWED}"
        raise InputError(message) from None
    table = {}
    for name, value in content.items():
        if name.startswith(("http://", "https://")):
            if not isinstance(value, dict):
                message = (
                    f"{file}: {name!r} is {value!r}, expected a table of models by name.\n"
                    f'Write ["{name}"."MODEL"]. {ALLOWED}'
                )
                raise InputError(message)
            for model, fields in value.items():
                table[name.partition("?")[0].rstrip("/"), model] = _price(
                    fields, f"{file}: model {model!r} at {name}"
                )
        else:
            table[ANYWHERE, name] = _price(value, f"{file}: model {name!r}")
    return table


def _price(fields: Any, where: str) -> Price:
    """A price from a table of TOML; `where` begins the errors."""
    if not isinstance(fields, dict):
        raise InputError(f"{where} is {fields!r}, expected a table.\n{ALLOWED}")
    if unknown := sorted(set(fields) - {"input", "output", "max_output"}):
        # A name with a dot in it, written without quotes, is a table within a table.
        quotes = (
            ' A name with dots needs quotes: ["gpt-4.1"].' if isinstance(fields[unknown[0]], dict) else ""
        )
        raise InputError(f"{where} has the unknown key {unknown[0]!r}.{quotes}\n{ALLOWED}")
    for key in ("input", "output"):
        if key not in fields:
            raise InputError(f"{where} has no {key!r}.\n{ALLOWED}")
        if not _is_price(fields[key]):
            raise InputError(f"{where} has {key} = {fields[key]!r}.\n{ALLOWED}")
    most = fields.get("max_output")
    # A bool is an int to Python; it is none to a reader.
    if most is not None and (type(most) is not int or most < 1):
        raise InputError(f"{where} has max_output = {most!r}.\n{ALLOWED}")
    return Price(float(fields["input"]), float(fields["output"]), most)


def _is_price(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


@dataclass(slots=True)
class Usage:
    """What a run asked for.

    Attributes:
        requests: replies asked for, however they were had.
        cached: of these, had from the cache or the cassette, or from a process that asked for it.
        live: of these, had from a server now.
        failed: of these, not had.
        tokens_in: of the live ones.
        tokens_out: of the live ones.
        cost_usd: of the live ones whose price is known.
        unpriced: live ones whose price is not known.
        dependent: of the live ones of a plan, those that depend on replies not there yet.
        unbounded: of the live ones of a plan, those whose replies may be of any length.
        cut: replies that the token limit ended, live or cached.
        remarks: what a reader of the scores should know, with how many replies it concerns.
    """

    requests: int = 0
    cached: int = 0
    live: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    dependent: int = 0
    unbounded: int = 0
    cut: int = 0
    remarks: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Usage") -> "Usage":
        numbers = {name: getattr(self, name) + getattr(other, name) for name in NUMBERS}
        return Usage(**numbers, remarks=self.remarks + other.remarks)

    def __sub__(self, other: "Usage") -> "Usage":
        numbers = {name: getattr(self, name) - getattr(other, name) for name in NUMBERS}
        return Usage(**numbers, remarks=self.remarks - other.remarks)

    @property
    def told(self) -> dict[str, int]:
        """The remarks with their counts, the most frequent first, then by their text: not as they came up."""
        return dict(sorted(self.remarks.items(), key=lambda each: (-each[1], each[0])))

    def plain(self) -> dict[str, Any]:
        """As JSON; see `of`."""
        return {**{name: getattr(self, name) for name in NUMBERS}, "remarks": self.told}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Usage":
        """The inverse of `plain`."""
        return cls(**{**plain, "remarks": Counter(plain["remarks"])})


NUMBERS: Final = tuple(each.name for each in fields(Usage) if each.name != "remarks")
