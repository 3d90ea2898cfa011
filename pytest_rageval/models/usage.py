"""The usage of models (requests, tokens, cost), which is summed over tests and processes."""

import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.text import counted

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
