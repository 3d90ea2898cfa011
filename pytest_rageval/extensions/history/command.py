"""`rageval history`: prints how the scores of a project changed from run to run, and writes a page of charts."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from pytest_rageval.cli.console import echo, format_count, to_one_line
from pytest_rageval.extensions.history.history import (
    Point,
    Run,
    filter_runs,
    read_history,
    series,
)
from pytest_rageval.extensions.history.trend import BARS, sparkline
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.reports.layout import align_columns
from pytest_rageval.reports.terminal import number_text

MAX_SPARKLINE_RUNS = 40  # a sparkline has one character for each run


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
    for line in _lines(runs):
        echo(line)
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
    ascii_only = not _encodable(BARS)
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


def _encodable(text: str) -> bool:
    """Return True if the encoding of stdout has all characters of a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
