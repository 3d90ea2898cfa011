"""The table of a plan: the requests of each test, their tokens and their cost, and notes on what bounds them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pytest_rageval.lib.text import counted
from pytest_rageval.models.usage import ESTIMATED, Usage
from pytest_rageval.options import all_options
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.document import TestEntry
from pytest_rageval.reports.layout import align_columns
from pytest_rageval.reports.terminal import FAILING_OUTCOMES

HEAD: Final = ("requests", "cached", "live", "tokens in", "tokens out", "USD")


def summary_lines(settings: Settings, tests: Sequence[TestEntry], usage_of: Mapping[str, Usage]) -> list[str]:
    if not (usage_of or settings.report):
        return []
    notes = [option.plan_note for option in all_options() if option.plan_note and settings[option]]
    if settings.cassette is not None and not settings.cassette.exists():
        notes.append(f"{settings.cassette} does not exist: planned as if nothing were recorded.")
    if settings.report:
        notes.append("no report: a plan has no results")
    failed = {test["nodeid"] for test in tests if test["outcome"] in FAILING_OUTCOMES} & usage_of.keys()
    return [*plan_lines(sorted(usage_of.items()), settings.tiers, failed=failed), *notes]


def plan_lines(
    planned: Sequence[tuple[str, Usage]], tiers: Sequence[str] = (), *, failed: Collection[str] = ()
) -> list[str]:
    total = sum((usage for _, usage in planned), Usage())
    with_requests = [(nodeid, usage) for nodeid, usage in planned if usage.requests or usage.remarks]
    titles = (*HEAD, *(f"USD {tier}" for tier in tiers))
    cells = [titles, *(_plan_cells(usage, tiers) for _, usage in with_requests), _plan_cells(total, tiers)]
    head, *rows = (f"    {row}" for row in align_columns(cells, right=range(len(titles))))
    lines = [head]
    for (nodeid, _), row in zip([*with_requests, ("in total", total)], rows, strict=True):
        lines += [nodeid, row]
    shown = {nodeid for nodeid, _ in with_requests}
    if others := sum(nodeid not in shown and nodeid not in failed for nodeid, _ in planned):
        lines.append(f"{counted(others, 'other test')} {'sends' if others == 1 else 'send'} no requests.")
    if failed:
        lines.append(f"The plan may lack requests of {counted(len(failed), 'test')} that ended as an error.")
    if len(total.servers) > 1:
        lines += [_server_plan_line(name, usage) for name, usage in sorted(total.servers.items())]
    return lines + _plan_notes(total, tiers)


def _plan_cells(usage: Usage, tiers: Sequence[str] = ()) -> tuple[str, ...]:
    at_most = "≤ " if usage.dependent else ""
    # The length of answers of the user's own function bounds nothing.
    about = "≈ " if ESTIMATED in usage.remarks else ""
    tokens_out = "unbounded" if usage.unbounded else f"≤ {usage.tokens_out:,}" if usage.live else "0"
    costs = [
        (usage.cost_usd, usage.unpriced),
        *((usage.cost_at[tier], usage.unpriced_at[tier]) for tier in tiers),
    ]
    return (
        f"{at_most}{usage.requests:,}",
        f"{usage.cached:,}",
        f"{at_most}{usage.live:,}",
        f"{about or at_most}{usage.tokens_in:,}",
        tokens_out,
        *("unknown" if unpriced else f"{about or '≤ '}{usd:.4f}" if usd else "0" for usd, unpriced in costs),
    )


def _server_plan_line(server: str, usage: Usage) -> str:
    _, _, live, tokens_in, tokens_out, cost = _plan_cells(usage)
    price = "price not known" if usage.unpriced else f"{cost} USD"
    return f"{server}: {live} live, {tokens_in} tokens in, {tokens_out} out, {price}"


def _plan_notes(total: Usage, tiers: Sequence[str]) -> list[str]:
    notes = []
    if total.dependent:
        notes.append(
            f"{total.dependent} of the live requests are an upper bound: they depend on replies that do not exist yet "
            "(a judge's request on an answer, the repair of a rating)."
        )
    if total.live:
        notes.append("Tokens in are counted by an estimate; tokens out are bounded, and mostly far fewer.")
    if total.unbounded:
        notes.append(
            f"Nothing bounds the length of {counted(total.unbounded, 'reply')}. Set --rageval max_tokens=N, or "
            "max_output in the file of --rageval prices=FILE."
        )
    if total.unpriced:
        notes.append(
            f"The cost of {counted(total.unpriced, 'reply')} is not known: --rageval prices=FILE names prices."
        )
    for tier in tiers:
        if unpriced := total.unpriced_at[tier] - total.unpriced:
            price = f"{tier}_input and {tier}_output in the file of --rageval prices=FILE"
            notes.append(
                f"The cost of {counted(unpriced, 'reply')} in the {tier} tier is not known: {price}."
            )
    return notes + [f"{count} × {remark}" for remark, count in total.sorted_remarks.items()]
