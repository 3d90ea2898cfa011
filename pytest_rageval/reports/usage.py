"""What was asked of models, as data and in lines."""

from collections.abc import Mapping
from typing import Any

from pytest_rageval.llm.usage import Usage

__all__ = ["usage_entry", "usage_lines"]


def usage_entry(usage: Usage) -> dict[str, Any]:
    """What was asked of models; the cost is null where a price is not known: it is not guessed."""
    numbers = {**usage.plain(), "cost_usd": None if usage.unpriced else round(usage.cost_usd, 6)}
    order = ("requests", "cached", "live", "failed", "tokens_in", "tokens_out", "cost_usd")
    return {name: numbers[name] for name in (*order, "unpriced", "cut", "remarks")}


def usage_lines(entry: Mapping[str, Any]) -> list[str]:
    """What was asked of models, in a line, and what to know about it, a line each.

    Args:
        entry: as in the JSON report, under `llm`.
    """
    parts = [f"{entry['requests']} replies: {entry['cached']} cached, {entry['live']} live"]
    if entry["failed"]:
        parts.append(f"{entry['failed']} failed")
    if entry["live"]:
        parts.append(f"{entry['tokens_in']} tokens in, {entry['tokens_out']} out")
        parts.append("price not known" if entry["cost_usd"] is None else f"{entry['cost_usd']:.4f} USD")
    lines = [", ".join(parts)] if entry["requests"] else []
    if entry["cut"]:
        lines.append(f"{entry['cut']} replies were cut by the token limit")
    return lines + [f"{count} × {remark}" for remark, count in entry["remarks"].items()]
