"""Scores over many runs as text: `rageval history` on a terminal, and a Mermaid chart for a pull request."""

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from math import ceil, log10
from typing import Final

from pytest_rageval.cli.console import echo, format_count, to_one_line
from pytest_rageval.extensions.history.history import (
    MAX_CHART_RUNS,
    Point,
    Run,
    ScoreKey,
    axis_range,
    filter_runs,
    read_history,
    series,
    severity_rank,
    value_range,
)
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.layout import align_columns, html_entities
from pytest_rageval.reports.terminal import number_text

BARS: Final = "▁▂▃▄▅▆▇█"
ASCII_BARS: Final = "_.-=*#"  # for a terminal whose encoding lacks `BARS`
COLOURS: Final = {
    "🟦": "#2f81f7",
    "🟧": "#f0883e",
    "🟪": "#a371f7",
    "🟩": "#3fb950",
    "🟫": "#9a6b45",
}
"""The colours of the lines of a chart, each with the square that stands for it in the legend below the chart.

Mermaid's charts have no legend.
"""

CONFIG: Final = (
    '%%{init: {"xyChart": {"width": 900, "height": 300, "xAxis": {"labelFontSize": 9}}, '
    '"themeVariables": {"xyChart": {"plotColorPalette": "PALETTE"}}}}%%'
).replace("PALETTE", ", ".join(COLOURS.values()))

# Of a line, the keys of what fails a run without a score that fails.
FAILURES_WITHOUT_SCORE: Final = {"missing": "gated tests are missing", "suite": "the suite got worse"}
MAX_LABEL_LENGTH: Final = 80  # maximum number of characters of a label in a chart
SPECIAL_CHARS: Final = re.compile(r"[^\w .,:@=/()\[\]+-]")
"""Characters that could end a label of a chart, or that have a meaning in it."""


MAX_SPARKLINE_RUNS = 40  # a sparkline has one character for each run


def sparkline(points: Sequence[Point | None], *, ascii_only: bool = False) -> str:
    """Return a bar for each point, and a space for None and for a point without a mean.

    The scale of the bars covers all intervals, so that noise looks flat. With `ascii_only` the bars are `ASCII_BARS`.
    """
    bars = ASCII_BARS if ascii_only else BARS
    low, high = value_range([point for point in points if point is not None])
    return "".join(
        " "
        if point is None or point.mean is None
        else bars[min(len(bars) - 1, int((point.mean - low) / ((high - low) or 1) * len(bars)))]
        for point in points
    )


def chart_lines(document: JsonObject) -> list[str]:
    """Return the last runs as a chart for a pull request, in lines of Markdown; empty if the run has no history.

    The lines of a chart cannot have gaps, and share an axis. Therefore the chart has only scores of this run that have
    values in the same runs, and of the same magnitude. From all groups of such scores the chart shows the group with
    the worst verdict, and the largest of several such groups.
    """
    runs = [Run.from_line(line) for line in document.get("history", ())][-MAX_CHART_RUNS:]
    groups: defaultdict[object, dict[ScoreKey, list[Run]]] = defaultdict(dict)
    for key in sorted(runs[-1].points, key=partial(_sort_key, runs[-1])) if runs else ():
        with_mean = [run for run in runs if key in run.points and run.points[key].mean is not None]
        if with_mean[-1:] == runs[-1:] and len(with_mean) > 1:
            groups[tuple(map(id, with_mean)), _axis_key(key, with_mean)][key] = with_mean
    if not groups:
        return []
    group = min(groups.values(), key=lambda keys: (_sort_key(runs[-1], next(iter(keys)))[0], -len(keys)))
    shown = list(group)[: len(COLOURS)]
    left_out = sum(map(len, groups.values())) - len(shown)
    more = [f"{counted(left_out, 'more score')}: <code>rageval history</code>"] if left_out else []
    return [*_chart(group[shown[0]], shown), "", " &nbsp; ".join([*_legend(group[shown[0]], shown), *more])]


def _sort_key(run: Run, key: ScoreKey) -> tuple[int, ScoreKey]:
    """Return the sort key of a score: failed thresholds come first, scores without a threshold last."""
    return severity_rank(run.points[key].verdict), key


def _axis_key(key: ScoreKey, runs: Sequence[Run]) -> tuple[int, bool]:
    """Return the power of ten of a score, and whether it is a mean. Scores with equal keys may share an axis."""
    largest = max(map(abs, _means(key, runs)))
    return ceil(log10(largest)) if largest else 0, runs[-1].points[key].statistic is None


def _means(key: ScoreKey, runs: Sequence[Run]) -> list[float]:
    return [mean for run in runs if (mean := run.points[key].mean) is not None]


def _chart(runs: Sequence[Run], keys: Sequence[ScoreKey]) -> list[str]:
    low, high = axis_range(value_range([run.points[key] for run in runs for key in keys]))
    return [
        "```mermaid",
        CONFIG,
        "xychart-beta",
        f"  x-axis [{', '.join(map(_label, _unique(run.name for run in runs)))}]",
        f"  y-axis {_decimal(low)} --> {_decimal(high)}",
        *(
            f"  line {_label(name)} [{', '.join(map(_decimal, _means(key, runs)))}]"
            for key, name in zip(keys, _names(keys), strict=True)
        ),
        "```",
    ]


def _legend(runs: Sequence[Run], keys: Sequence[ScoreKey]) -> Iterator[str]:
    for square, key, name in zip(COLOURS, keys, _names(keys), strict=False):
        means = _means(key, runs)
        yield f"{square} {_code(name)} {number_text(means[-2])} → {number_text(means[-1])}"
    for before, after in pairwise(runs):
        if any(before.points[key].evalset != after.points[key].evalset for key in keys):
            yield f"the eval set changed in {_code(after.name)}"


def _names(keys: Sequence[ScoreKey]) -> list[str]:
    counts = Counter(key.score for key in keys)
    return [
        f"{key.score} of {key.nodeid.rpartition('::')[2]}" if counts[key.score] > 1 else key.score
        for key in keys
    ]


def _unique(names: Iterator[str]) -> Iterator[str]:
    """Yield the names, with a number after a repeated name: a chart draws equal names at the same position."""
    counts = Counter[str]()
    for name in names:
        counts[name] += 1
        yield name if counts[name] == 1 else f"{name} ({counts[name]})"


def _label(text: str) -> str:
    """Return a label of a chart in quotes, cut at its beginning, with underscores in place of `SPECIAL_CHARS`.

    >>> _label('recall@3 [topic="a"] #35;')
    '"recall@3 [topic=_a_] _35_"'
    """
    line = SPECIAL_CHARS.sub("_", " ".join(text.split()))
    return f'"{line if len(line) <= MAX_LABEL_LENGTH else f"…{line[1 - MAX_LABEL_LENGTH :]}"}"'


def _decimal(number: float) -> str:
    """Return a number without an exponent, since Mermaid cannot parse exponents.

    >>> _decimal(0.5), _decimal(1e-7), _decimal(3.0)
    ('0.5', '0.0000001', '3')
    """
    return f"{number:.10f}".rstrip("0").rstrip(".")


def _code(text: str) -> str:
    return f"<code>{html_entities(' '.join(text.split()))}</code>"


def history_command(options: argparse.Namespace) -> int:
    runs = filter_runs(read_history(options.file), test=options.test, score=options.score)
    runs = runs[-options.last :] if options.last else runs
    if options.html is not None:
        from pytest_rageval.extensions.history.page import trend_page  # noqa: PLC0415 - imports Jinja2

        options.html.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.html, [trend_page(runs).encode()])
    if options.json:
        echo(json.dumps([run.line for run in runs], ensure_ascii=False, indent=2))
        return 0
    echo(*_lines(runs))
    if options.html is not None:
        echo(f"\nwrote {options.html}")
    return 0


def _lines(runs: Sequence[Run]) -> Iterator[str]:
    if not runs:
        yield "The history has no runs."
        return
    first, last = runs[0], runs[-1]
    of = f", the last of {to_one_line(last.name)}" if last.commit else ""
    yield f"{format_count(len(runs), 'run')} from {first.time:%Y-%m-%d %H:%M} to {last.time:%Y-%m-%d %H:%M}{of}"
    encoding = sys.stdout.encoding or "ascii"
    ascii_only = BARS.encode(encoding, "replace").decode(encoding) != BARS
    for nodeid, scores in groupby(series(runs).items(), key=lambda item: item[0].nodeid):
        yield ""
        yield to_one_line(nodeid)
        rows: list[tuple[str, ...]] = []
        notes: list[str] = []
        missing: list[str] = []
        for key, scored_runs in scores:
            points = {id(run): point for run, point in scored_runs}
            bars = sparkline(
                [points.get(id(run)) for run in runs[-MAX_SPARKLINE_RUNS:]], ascii_only=ascii_only
            )
            rows.append((to_one_line(key.score), *_cells([point for _, point in scored_runs]), bars))
            notes += _evalset_notes(scored_runs)
            if scored_runs[-1][0] is not last:
                missing.append(to_one_line(key.score))
        head = ("score", "lowest", "highest", "baseline", "before", "last", "runs", "verdict", "trend")
        yield from (f"  {line}" for line in align_columns([head, *rows], right=range(1, len(head) - 2)))
        if missing:
            names = "" if len(missing) == len(rows) else f": {', '.join(missing)}"
            notes.append(f"note: not in the last run{names}")
        yield from (f"  {note}" for note in dict.fromkeys(notes))
    for name, text in FAILURES_WITHOUT_SCORE.items():
        if last.line.get(name):
            yield f"\nthe last run failed: {text}"
    stopped = sum(run.stopped for run in runs)
    if stopped:
        yield ""
        yield f"note: {format_count(stopped, 'run')} ended early, and may lack tests"


def _cells(points: Sequence[Point]) -> tuple[str, ...]:
    means = [point.mean for point in points if point.mean is not None]
    last = points[-1]
    earlier = means if last.mean is None else means[:-1]
    before = earlier[-1] if earlier else None
    numbers = (min(means, default=None), max(means, default=None), last.baseline, before, last.mean)
    return (
        *("-" if number is None else number_text(number) for number in numbers),
        str(len(points)),
        last.verdict or "-",
    )


def _evalset_notes(scored_runs: Sequence[tuple[Run, Point]]) -> Iterator[str]:
    """Yield a note for each run in which the eval set changed: the means before it are of other questions."""
    for (_, before), (run, after) in pairwise(scored_runs):
        if before.evalset != after.evalset:
            yield f"note: the eval set changed in {to_one_line(run.name)}: means before it are of other questions"
