"""The usage of models, in numbers that add up over tests and processes, and their prices."""

import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from pytest_rageval.errors import InputError
from pytest_rageval.files import refuse_special

__all__ = ["Price", "Prices", "Tier", "Usage"]

SHIPPED_FILE: Final = Path(__file__).with_name("prices.toml")
OPTION: Final = "--rageval-prices"
MILLION: Final = 1_000_000
ANY_SERVER: Final = ""  # the base URL of an override that names only a model: it holds at every server
TABLE_HELP: Final = (
    "A model's table has input and output, USD per million tokens (numbers, at least 0), and may have "
    "max_output, tokens of one reply (a whole number, at least 1), and the lower prices flex_input and flex_output, "
    "batch_input and batch_output."
)

Tier = Literal["flex", "batch"]
"""What is cheaper than a usual request: one that is answered when there is time, or one in a batch."""

TIERS: Final[tuple[Tier, ...]] = ("flex", "batch")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model's tokens in USD per million, at least 0, and the most tokens of one reply, if known."""

    input: float
    output: float
    max_output: int | None = None
    tiers: Mapping[Tier, "Price"] = field(default_factory=dict, hash=False)  # the known ones

    def for_tier(self, tier: Tier) -> "Price | None":
        """Return the price in a cheaper tier; None where it is not known. A free model is free there too."""
        return self.tiers.get(tier, None if self.input or self.output else self)

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of a prompt and a reply of so many tokens, in USD."""
        return (self.input * tokens_in + self.output * tokens_out) / MILLION


FREE: Final = Price(0, 0)
Table = Mapping[tuple[str, str], Price]  # prices by base URL, without a slash at its end, and model


class Prices:
    """The user's prices and the shipped ones.

    A price is never guessed: a model behind another base URL, or with a similar name, may cost anything.
    """

    def __init__(self, overrides: Table | None = None) -> None:
        self._overrides: Table = overrides or {}

    @classmethod
    def load(cls, override: Path | None = None) -> "Prices":
        """Return the shipped prices, overridden by those of a TOML file if there is one.

        In the file, a table named by a model, `["gpt-4o"]`, holds at every base URL; one named by base URL and
        model, `["https://proxy.example/v1"."gpt-4o"]`, holds there and comes first.

        Raises:
            InputError: the file cannot be read, is not TOML, or a table is not a price; names file and model.
        """
        return cls(_read(override) if override is not None else None)

    def get(self, base_url: str, model: str) -> Price | None:
        """Return the price of a model at a server; None where it is not known.

        A base URL that begins with "embedded" is this machine and costs nothing. The query and a final slash of
        a base URL do not matter; otherwise both names must be equal.
        """
        if base_url.startswith("embedded"):
            return FREE
        here = base_url.partition("?")[0].rstrip("/"), model
        own = self._overrides.get(here) or self._overrides.get((ANY_SERVER, model))
        return own or _shipped_prices().get(here)


@cache
def _shipped_prices() -> Table:
    return _read(SHIPPED_FILE)


def _read(file: Path) -> Table:
    import tomllib  # noqa: PLC0415 - runs with every reply in the cache need no prices

    try:
        refuse_special(file)
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{OPTION} names {str(file)!r}, which cannot be read: {error.strerror or error}.\n"
            "Name a TOML file of prices, or leave the option out for the shipped ones."
        ) from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or nested too deeply
        raise InputError(f"{OPTION} names {str(file)!r}, which is not TOML: {error}.\n{TABLE_HELP}") from None
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
        here = name.partition("?")[0].rstrip("/")
        for model, fields in value.items():
            table[here, model] = _price(fields, f"{file}: model {model!r} at {name}")
    return table


def _price(fields: Any, where: str) -> Price:
    """Return the price in a TOML table; errors begin with `where`."""
    if not isinstance(fields, dict):
        raise InputError(f"{where} is {fields!r}, expected a table.\n{TABLE_HELP}")
    pairs = {tier: (f"{tier}_input", f"{tier}_output") for tier in TIERS}
    if unknown := sorted(set(fields) - {"input", "output", "max_output"}.union(*pairs.values())):
        # Without quotes, a name with a dot is a table within a table.
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
    most = fields.get("max_output")
    if most is not None and (type(most) is not int or most < 1):
        raise InputError(f"{where} has max_output = {most!r}.\n{TABLE_HELP}")
    lower = {tier: Price(float(fields[inp]), float(fields[out]), most) for tier, (inp, out) in tiers.items()}
    return Price(float(fields["input"]), float(fields["output"]), most, lower)


COUNTERS: Final = ("cost_at", "unpriced_at", "batches")


@dataclass
class Usage:
    """The requests of a run and their cost; tokens and cost are those of the live ones."""

    requests: int = 0
    cached: int = 0  # answered by the cache, the cassette or another process
    live: int = 0  # answered by a server now
    failed: int = 0  # without a reply
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0  # live ones without a known price, whose cost is not counted
    dependent: int = 0  # in a plan, live ones that depend on missing replies
    unbounded: int = 0  # in a plan, live ones whose replies have no length limit
    cost_at: Counter[str] = field(default_factory=Counter)  # in a plan, the cost in USD in each tier
    unpriced_at: Counter[str] = field(
        default_factory=Counter
    )  # likewise, live ones without a known price there
    # What came in batches for this run, whose replies are counted as cached above: batches, replies, tokens_in,
    # tokens_out, cost_usd, and unpriced, the replies whose cost is the most that they can cost.
    batches: Counter[str] = field(default_factory=Counter)
    cut: int = 0  # replies that the token limit ended, live or cached
    remarks: Counter[str] = field(default_factory=Counter)  # what readers of the scores should know
    # The live ones of each server, which are counted above too.
    servers: "UsageByServer" = field(default_factory=lambda: UsageByServer(), compare=False)  # noqa: PLW0108 - defined below

    def __add__(self, other: "Usage") -> "Usage":
        return self._each(operator.add, other)

    def __sub__(self, other: "Usage") -> "Usage":
        return self._each(operator.sub, other)

    def _each(self, combine: Callable[[Any, Any], Any], other: "Usage") -> "Usage":
        return Usage(**{name: combine(value, getattr(other, name)) for name, value in vars(self).items()})

    def with_server(self, server: str) -> "tuple[Usage, Usage]":
        """Return this usage and that of the server, to count in both."""
        return self, self.servers.setdefault(server, Usage())

    def count_live(self, tokens_in: int, tokens_out: int, cost_usd: float | None) -> None:
        """Count a reply of a server; its cost is None where the price is not known."""
        self.live += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.unpriced += cost_usd is None
        self.cost_usd += cost_usd or 0.0

    @property
    def sorted_remarks(self) -> dict[str, int]:
        """The remarks with their counts, the most frequent first, then by text."""
        return dict(sorted(self.remarks.items(), key=lambda each: (-each[1], each[0])))

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        servers = {name: usage.to_dict() for name, usage in sorted(self.servers.items())}
        # Plain dicts: xdist sends no other ones.
        counters = {name: dict(getattr(self, name)) for name in COUNTERS}
        return {**vars(self), **counters, "remarks": self.sorted_remarks, "servers": servers}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Usage":
        """Return the usage that `to_dict` wrote."""
        servers = UsageByServer({name: cls.from_dict(each) for name, each in plain["servers"].items()})
        counters = {name: Counter(plain[name]) for name in (*COUNTERS, "remarks")}
        return cls(**{**plain, **counters, "servers": servers})


class UsageByServer(dict[str, Usage]):
    """The usage of servers by name; sum and difference leave out those that were asked nothing."""

    def __add__(self, other: "UsageByServer") -> "UsageByServer":
        return self._each(operator.add, other)

    def __sub__(self, other: "UsageByServer") -> "UsageByServer":
        return self._each(operator.sub, other)

    def _each(self, combine: Callable[[Usage, Usage], Usage], other: "UsageByServer") -> "UsageByServer":
        names = {**self, **other}
        each = {name: combine(self.get(name, Usage()), other.get(name, Usage())) for name in names}
        return UsageByServer({name: usage for name, usage in each.items() if usage.live})
