"""The plots of an eval set for the HTML report: how its questions changed since the baseline.

Each mark of a plot has a label, which is shown where the pointer or the keyboard focus is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from typing import Final, NamedTuple

from pytest_rageval.lib.text import counted, join_counted
from pytest_rageval.reports.document import EvaluatedQuestion
from pytest_rageval.reports.html.question_rows import Details, QuestionTable, documents_of

WIDTH: Final = 320
LEFT: Final = 64
RIGHT: Final = 16
TOP: Final = 8
HEIGHT: Final = 190  # of the marks; the label of a mark is below

MAX_DEPTH: Final = 20  # the largest k of the plot of recall@k
ROW_HEIGHT: Final = 18  # of a topic
MAX_TICKS: Final = 6
MAX_NAMED: Final = 3  # maximum number of questions that a label names
NOT_FOUND_GAP: Final = 1.0  # distance of "not found" from the last rank, in ranks


class Ranks(NamedTuple):
    """The ranks of the gold passages of a question; a rank is None if the passage is not in the ranking.

    `before` and `depth_before` are None if the baseline's ranking is unknown.
    """

    now: Sequence[int | None]
    depth: int
    before: Sequence[int | None] | None
    depth_before: int | None


class Mark(NamedTuple):
    """A mark of a plot: its class, its geometry as the numbers that its template needs, and its label."""

    kind: str
    at: Sequence[float]
    label: str


class Plot(NamedTuple):
    name: str
    shape: str  # "slope", "curve" or "bars"
    marks: Sequence[Mark]  # in the order in which the arrow keys visit them
    lines: Sequence[tuple[str, str]]  # polylines below the marks, each with its class
    ticks: Sequence[tuple[float, str]]  # the texts at the left side, each with its place
    feet: Sequence[tuple[float, str]]  # the texts below the marks
    height: float
    summary: str  # what it shows, in a sentence


def plots_of(table: QuestionTable, known: Sequence[tuple[str, Ranks]]) -> list[Plot]:
    """Return the plots of a table; `known` has its questions with ranks, by id, the worst first."""
    plots = [
        _slopes([(name, each) for name, each in known if each.before is not None]),
        _curves([each for _, each in known]),
        _bars(table),
    ]
    return [plot for plot in plots if plot is not None]


def ranks_of(variants: Sequence[Details]) -> Ranks | None:
    """Return the ranks of a question's gold passages; None if it has none, or no ranking of its retriever is known."""
    compared = next(
        (each for each in variants if any(example.get("before") is not None for example in each.examples)),
        None,
    )
    details = compared or variants[0]
    entry = details.entry
    if not (gold := entry.get("gold")) or "gold_ranks" not in entry:
        return None
    now = [entry["gold_ranks"].get(label) for label in dict.fromkeys(gold)]
    depth = len(entry.get("retrieved", ()))
    before = None if compared is None else _labels_before(details)
    if before is None or _matched_otherwise(entry, gold):
        return Ranks(now, depth, None, None)
    ranks = [before.index(label) + 1 if label in before else None for label in dict.fromkeys(gold)]
    return Ranks(now, depth, ranks, len(before))


def _labels_before(details: Details) -> list[str] | None:
    if details.before:
        return [label for label, _ in details.before]
    examples = [example for example in details.examples if example.get("before") is not None]
    # The report has the ranking of the baseline only where it differs from the present one.
    depths = [each["k"] for each in examples if "k" in each]
    return documents_of(details.entry)[: max(depths)] if depths else None


def _matched_otherwise(entry: EvaluatedQuestion, gold: Sequence[str]) -> bool:
    """Return True if a gold passage was found by its text, so that its label tells nothing about the baseline."""
    return any(
        passage.get("gold") and passage["document"] not in gold for passage in entry.get("retrieved", ())
    )


def _slopes(known: Sequence[tuple[str, Ranks]]) -> Plot | None:
    """Return the rank of the first gold passage of each question, before and now; equal pairs are one line."""
    pairs: dict[tuple[int | None, int | None], list[str]] = {}
    for name, each in known:
        then, now = (min(filter(None, ranks), default=None) for ranks in (each.before or (), each.now))
        # Of two rankings of different lengths, the shorter one says nothing of the ranks beyond its end.
        now = None if then is None and (now or 0) > (each.depth_before or 0) else now
        then = None if now is None and (then or 0) > each.depth else then
        pairs.setdefault((then, now), []).append(name)
    if not pairs:
        return None
    depth = max(2, *(max(each.depth, each.depth_before or 0) for _, each in known))
    step = HEIGHT / (depth - 1 + NOT_FOUND_GAP)

    def y(rank: int | None) -> float:
        return TOP + (depth - 1 + NOT_FOUND_GAP if rank is None else rank - 1) * step

    def place(rank: int | None) -> float:
        return depth + 1 if rank is None else rank

    marks = []
    counts: Counter[str] = Counter()
    # Losses are drawn last, over the other lines.
    for (then, now), names in sorted(
        pairs.items(), key=lambda item: (place(item[0][1]) > place(item[0][0]), len(item[1]))
    ):
        kind = "same" if then == now else "lost" if place(now) > place(then) else "gained"
        counts[kind] += len(names)
        thickness = 1.5 + 9 * sqrt(len(names) / len(known))
        label = f"{_rank_text(then)} → {_rank_text(now)}: {_names(names)}"
        marks.append(Mark(kind, (y(then), y(now), thickness), label))
    ticks = [(y(rank), str(rank)) for rank in _some(depth)]
    summary = f"{counts['lost']} lower, {counts['gained']} higher, {counts['same']} as before"
    ticks.append((y(None), "not found"))
    feet = [(LEFT, "before"), (WIDTH - RIGHT, "now")]
    return Plot("Rank of the first gold passage", "slope", marks, (), ticks, feet, HEIGHT, summary)


def _some(depth: int) -> Sequence[int]:
    return range(1, depth + 1) if depth <= MAX_TICKS else sorted({1, (depth + 1) // 2, depth})


def _rank_text(rank: int | None) -> str:
    return "not found" if rank is None else f"rank {rank}"


def _names(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'question')} ({join_counted(names, MAX_NAMED)})"


def _curves(known: Sequence[Ranks]) -> Plot | None:
    """Return recall@k for each k up to the end of the rankings, before and now, over the questions that have both."""
    both = [each for each in known if each.before is not None]
    known = both or known
    depth = min(MAX_DEPTH, max((max(each.depth, each.depth_before or 0) for each in known), default=0))
    if not depth:
        return None
    curves = {"mean": [(each.now, each.depth) for each in known]}
    if both:
        curves = {"baseline": [(each.before or (), each.depth_before or 0) for each in both], **curves}

    def x(k: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ((k - 1) / (depth - 1) if depth > 1 else 0.5)

    values = {kind: list(_recalls(rankings, depth)) for kind, rankings in curves.items()}
    words = {"baseline": "before", "mean": "now"}
    marks = [
        Mark(
            kind,
            (x(k), TOP + HEIGHT * (1 - values[kind][k - 1])),
            f"recall@{k}: "
            + ", ".join(
                f"{each[k - 1]:.3f} {words[name]}" for name, each in values.items() if len(each) >= k
            ),
        )
        for kind in values
        for k in range(1, len(values[kind]) + 1)
    ]
    lines = [
        (kind, " ".join(f"{x(k):.1f},{TOP + HEIGHT * (1 - value):.1f}" for k, value in enumerate(each, 1)))
        for kind, each in values.items()
    ]
    ticks = [(TOP + HEIGHT * (1 - value), f"{value:g}") for value in (0.0, 0.5, 1.0)]
    feet = [(x(k), f"@{k}") for k in _some(depth)]
    words["baseline"] = "before (dashed)"
    summary = ", ".join(f"{words[kind]} {each[-1]:.3f} @{len(each)}" for kind, each in values.items())
    return Plot("Gold passages found in the first k", "curve", marks, lines, ticks, feet, HEIGHT, summary)


def _recalls(rankings: Iterable[tuple[Sequence[int | None], int]], depth: int) -> Iterator[float]:
    """Yield recall@k for k from 1 to the end of the longest ranking, at most `depth`."""
    rankings = list(rankings)
    end = min(depth, max(length for _, length in rankings))
    for k in range(1, end + 1):
        shares = [sum(rank is not None and rank <= k for rank in ranks) / len(ranks) for ranks, _ in rankings]
        yield sum(shares) / len(shares)


def _bars(table: QuestionTable) -> Plot | None:
    """Return the lost and gained questions of each group; None without groups, or without a change."""
    losses = [sum("lost" in row.states for row in rows) for _, rows in table.groups]
    gains = [
        sum("gained" in row.states and "lost" not in row.states for row in rows) for _, rows in table.groups
    ]
    most_lost, most_gained = max(losses, default=0), max(gains, default=0)
    if not table.tag or not most_lost + most_gained:
        return None
    names = [name or f"no {table.tag}" for name, _ in table.groups]
    left = LEFT + 40
    unit = (WIDTH - left - RIGHT) / (most_lost + most_gained)
    middle = left + most_lost * unit
    marks = [
        Mark(
            "lost",
            (TOP + at * ROW_HEIGHT, middle - lost * unit, lost * unit, middle, gained * unit),
            f"{names[at]}: {lost} lost, {gained} gained of {counted(len(rows), 'question')}",
        )
        for at, ((_, rows), lost, gained) in enumerate(zip(table.groups, losses, gains, strict=True))
    ]
    ticks = [(TOP + (at + 0.5) * ROW_HEIGHT, value) for at, value in enumerate(names)]
    feet = [(left, f"{most_lost} lost")] if most_lost else []
    feet += [(WIDTH - RIGHT, f"{most_gained} gained")] if most_gained else []
    height, summary = len(names) * ROW_HEIGHT, f"{sum(losses)} lost, {sum(gains)} gained"
    return Plot(f"Lost and gained by {table.tag}", "bars", marks, (), ticks, feet, height, summary)
