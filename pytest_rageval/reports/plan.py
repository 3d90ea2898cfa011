"""What a run would ask and cost, as a table; nothing was asked for it."""

from collections.abc import Sequence
from typing import Final

from pytest_rageval.llm.usage import Usage

__all__ = ["plan_lines"]

HEAD: Final = ("requests", "cached", "live", "tokens in", "tokens out", "USD")


def plan_lines(planned: Sequence[tuple[str, Usage]]) -> list[str]:
    """A block for each test that asks: its name, then a row of numbers; the total of all at the end.

    Args:
        planned: node ids, and what each test would ask that those before it did not.
    """
    total = sum((usage for _, usage in planned), Usage())
    asking = [(nodeid, usage) for nodeid, usage in planned if usage.requests or usage.remarks]
    rows = [HEAD, *(_cells(usage) for _, usage in asking), _cells(total)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_line(HEAD, widths)]
    for nodeid, usage in asking:
        lines += [nodeid, _line(_cells(usage), widths)]
    lines += ["in total", _line(_cells(total), widths)]
    if len(asking) < len(planned):
        lines.append(f"{len(planned) - len(asking)} other tests ask nothing.")
    return lines + _notes(total)


def _cells(usage: Usage) -> tuple[str, ...]:
    most = "≤ " if usage.dependent else ""
    out = "unbounded" if usage.unbounded else f"≤ {usage.tokens_out:,}" if usage.live else "0"
    cost = "unknown" if usage.unpriced else f"≤ {usage.cost_usd:.4f}" if usage.cost_usd else "0"
    return (
        f"{most}{usage.requests:,}",
        f"{usage.cached:,}",
        f"{most}{usage.live:,}",
        f"{most}{usage.tokens_in:,}",
        out,
        cost,
    )


def _notes(total: Usage) -> list[str]:
    notes = []
    if total.dependent:
        notes.append(
            f"{total.dependent} of the live requests depend on replies that are not there yet (a judge's on "
            "an answer, the repair of a rating): an upper bound."
        )
    if total.live:
        notes.append("Tokens in are counted by an estimate; tokens out are bounded, and mostly far fewer.")
    if total.unbounded:
        notes.append(
            f"Nothing bounds the length of {total.unbounded} replies: --rageval-max-tokens, or max_output in "
            "the file of --rageval-prices, does."
        )
    if total.unpriced:
        notes.append(f"The cost of {total.unpriced} replies is not known: --rageval-prices names prices.")
    return notes + [f"{count} × {remark}" for remark, count in total.told.items()]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return f"    {'  '.join(padded)}".rstrip()
