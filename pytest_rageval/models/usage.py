"""The usage of models (requests, tokens, cost), which is summed over tests and processes, and the models' prices."""

import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.files import refuse_special
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.text import counted, parse_failure

SHIPPED_FILE: Final = Path(__file__).with_name("prices.toml")
OPTION: Final = "--rageval prices=FILE"
MILLION: Final = 1_000_000
ANY_SERVER: Final = ""  # the base URL of an override that names only a model, and so applies at any server
TABLE_HELP: Final = (
    "A model's table has input and output, USD per million tokens (numbers, at least 0), and may have "
    "max_output, tokens of one reply (a whole number, at least 1), and the lower prices flex_input and flex_output, "
    "batch_input and batch_output."
)

Tier = Literal["flex", "batch"]
"""The cheaper service tiers: requests that the server answers when it has time, and requests in batches."""

TIERS: Final[tuple[Tier, ...]] = ("flex", "batch")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model's tokens in USD per million, at least 0."""

    input: float
    output: float
    max_output: int | None = None  # the most tokens of one reply, or None if that is not known
    tiers: Mapping[Tier, "Price"] = field(
        default_factory=dict, hash=False
    )  # the known prices in cheaper tiers

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


COUNTERS: Final = ("cost_at", "unpriced_at", "batches")


UNKNOWN_ANSWER_TOKENS: Final = 200
"""The estimated length of an answer of the user's generator, which a plan does not call."""

ESTIMATED: Final = (
    "requests on an answer of your own function, which is not known: tokens in and cost are an estimate, with "
    f"{UNKNOWN_ANSWER_TOKENS} tokens an answer"
)
"""The remark of a plan about such requests."""


@dataclass
class Usage:
    """The numbers of requests of a run, and the tokens and cost of its live requests."""

    requests: int = 0
    cached: int = 0  # requests answered by the cache, the cassette or another process
    live: int = 0  # requests answered by a server in this run
    failed: int = 0  # requests without a reply
    tokens_in: int = 0  # tokens of the prompts of live requests
    tokens_out: int = 0  # tokens of the replies to live requests
    cost_usd: float = 0.0  # cost of live requests
    unpriced: int = 0  # live requests without a known price; `cost_usd` does not include them
    dependent: int = 0  # in a plan, live requests that depend on missing replies
    unbounded: int = 0  # in a plan, live requests whose replies have no length limit
    cost_at: Counter[str] = field(default_factory=Counter)  # in a plan, by tier, the cost in USD
    # In a plan, by tier, the number of live requests without a known price.
    unpriced_at: Counter[str] = field(default_factory=Counter)
    # The collected batches of this run, whose replies count as cached above: "batches", "replies", "tokens_in",
    # "tokens_out", "cost_usd", and "unpriced", the number of replies that count with their highest possible cost.
    batches: Counter[str] = field(default_factory=Counter)
    cut: int = 0  # replies that the token limit cut, live or cached
    remarks: Counter[str] = field(default_factory=Counter)  # remarks for the report, with their counts
    # The live requests by server; the numbers above include them.
    servers: dict[str, "Usage"] = field(default_factory=dict, compare=False)

    def __add__(self, other: "Usage") -> "Usage":
        return self._combine(operator.add, other)

    def __sub__(self, other: "Usage") -> "Usage":
        return self._combine(operator.sub, other)

    def _combine(self, combine: Callable[[Any, Any], Any], other: "Usage") -> "Usage":
        names = vars(self).keys() - {"servers"}
        numbers = {name: combine(getattr(self, name), getattr(other, name)) for name in names}
        nothing = Usage()
        servers = {
            name: combine(self.servers.get(name, nothing), other.servers.get(name, nothing))
            for name in {**self.servers, **other.servers}
        }
        return Usage(**numbers, servers={name: usage for name, usage in servers.items() if usage.live})

    def with_server(self, server: str) -> "tuple[Usage, Usage]":
        """Return this usage and the usage of a server, so that the caller counts in both."""
        return self, self.servers.setdefault(server, Usage())

    def count_live(self, tokens_in: int, tokens_out: int, cost_usd: float | None) -> None:
        self.live += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.unpriced += cost_usd is None
        self.cost_usd += cost_usd or 0.0

    @property
    def sorted_remarks(self) -> dict[str, int]:
        return dict(sorted(self.remarks.items(), key=lambda remark: (-remark[1], remark[0])))

    def to_dict(self) -> dict[str, object]:
        servers = {name: usage.to_dict() for name, usage in sorted(self.servers.items())}
        # Plain dicts: xdist sends no subclasses of dict.
        counters = {name: dict(getattr(self, name)) for name in COUNTERS}
        return {**vars(self), **counters, "remarks": self.sorted_remarks, "servers": servers}

    @classmethod
    def from_dict(cls, plain: JsonObject) -> "Usage":
        servers = {name: cls.from_dict(usage) for name, usage in plain["servers"].items()}
        counters = {name: Counter[str](plain[name]) for name in (*COUNTERS, "remarks")}
        # A later version may count more.
        known = {name: plain[name] for name in vars(cls()) if name in plain}
        return cls(**{**known, **counters, "servers": servers})


def usage_entry(usage: Usage) -> dict[str, Any]:
    """Return the model usage: in total, of each server with requests, and of batches."""
    numbers = {**usage.to_dict(), "cost_usd": _cost(usage)}
    order = ("requests", "cached", "live", "failed", "tokens_in", "tokens_out", "cost_usd")
    entry = {name: numbers[name] for name in (*order, "unpriced", "cut", "remarks")}
    servers = {
        name: {key: getattr(server, key) for key in ("live", "tokens_in", "tokens_out")}
        | {"cost_usd": _cost(server)}
        for name, server in sorted(usage.servers.items())
    }
    totals = usage.batches
    batches = {
        **{name: totals[name] for name in ("batches", "replies", "tokens_in", "tokens_out")},
        "cost_usd": None if totals["unpriced"] else round(totals["cost_usd"], 6),
    }
    return (
        entry
        | ({"servers": servers} if servers else {})
        | ({"batches": batches} if totals["batches"] else {})
    )


def _cost(usage: Usage) -> float | None:
    return None if usage.unpriced else round(usage.cost_usd, 6)


def usage_lines(entry: JsonObject) -> list[str]:
    """Return the model usage in lines: the total, each server if there are several, and remarks."""
    parts = [f"{counted(entry['requests'], 'reply')}: {entry['cached']} cached, {entry['live']} live"]
    if entry["failed"]:
        parts.append(f"{entry['failed']} failed")
    if entry["live"]:
        parts += _token_and_cost_texts(entry)
    lines = [", ".join(parts)] if entry["requests"] else []
    if batches := entry.get("batches"):
        replies = f"{counted(batches['replies'], 'reply')} came in {counted(batches['batches'], 'batch')}"
        lines.append(", ".join([replies, *_token_and_cost_texts(batches)]))
    servers = entry.get("servers", {})
    if len(servers) > 1:
        lines += [
            ", ".join([f"{name}: {server['live']} live", *_token_and_cost_texts(server)])
            for name, server in servers.items()
        ]
    if entry["cut"]:
        lines.append(
            f"{entry['cut']} {'reply was' if entry['cut'] == 1 else 'replies were'} cut by the token limit"
        )
    return lines + [f"{count} × {remark}" for remark, count in entry["remarks"].items()]


def _token_and_cost_texts(entry: JsonObject) -> list[str]:
    """Return the tokens and the cost of an entry, such as "120 tokens in, 8 out" and "0.0021 USD"."""
    cost = entry["cost_usd"]
    price = "price not known" if cost is None else f"{cost:.4f} USD"
    return [f"{entry['tokens_in']} tokens in, {entry['tokens_out']} out", price]
