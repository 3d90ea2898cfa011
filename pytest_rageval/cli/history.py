"""`rageval history`: the scores of a project over its runs, as a table or as a page."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from pytest_rageval.cli.console import count, plain, say
from pytest_rageval.files import write_whole
from pytest_rageval.reports.history import Point, Run, filter_runs, read_history, series
from pytest_rageval.reports.layout import align_columns
from pytest_rageval.reports.terminal import number_text
from pytest_rageval.reports.trend import BARS, sparkline

__all__ = ["history_command"]

WIDEST = 40  # runs in a sparkline


def history_command(options: argparse.Namespace) -> int:
    """Print a line for each score, or write the page."""
    runs = filter_runs(read_history(options.file), test=options.test, score=options.score)
    runs = runs[-options.last :] if options.last else runs
    if options.html is not None:
        from pytest_rageval.reports.trend_page import trend_page  # noqa: PLC0415 - imports Jinja2

        options.html.parent.mkdir(parents=True, exist_ok=True)
        write_whole(options.html, [trend_page(runs).encode()])
    if options.json:
        say(json.dumps([run.line for run in runs], ensure_ascii=False, indent=2))
        return 0
    for line in _lines(runs):
        say(line)
    if options.html is not None:
        say(f"\nwrote {options.html}")
    return 0


def _lines(runs: Sequence[Run]) -> Iterator[str]:
    if not runs:
        yield "The history has no runs."
        return
    first, last = runs[0], runs[-1]
    of = f", the last of {plain(last.name)}" if last.commit else ""
    yield f"{count(len(runs), 'run')} from {first.time:%Y-%m-%d %H:%M} to {last.time:%Y-%m-%d %H:%M}{of}"
    ascii_only = not _encodable(BARS)
    for nodeid, scores in groupby(series(runs).items(), key=lambda item: item[0].nodeid):
        yield ""
        yield plain(nodeid)
        rows: list[tuple[str, ...]] = []
        notes: list[str] = []
        missing: list[str] = []
        for key, found in scores:
            points = {id(run): point for run, point in found}
            bars = sparkline([points.get(id(run)) for run in runs[-WIDEST:]], ascii_only=ascii_only)
            rows.append((plain(key.score), *_cells([point for _, point in found]), bars))
            notes += _breaks(found)
            if found[-1][0] is not last:
                missing.append(plain(key.score))
        head = ("score", "lowest", "highest", "baseline", "before", "last", "runs", "verdict", "trend")
        yield from (f"  {line}" for line in align_columns([head, *rows], right=range(1, len(head) - 2)))
        if missing:
            named = "" if len(missing) == len(rows) else f": {', '.join(missing)}"
            notes.append(f"note: not in the last run{named}")
        yield from (f"  {note}" for note in dict.fromkeys(notes))
    stopped = sum(run.stopped for run in runs)
    if stopped:
        yield ""
        yield f"note: {count(stopped, 'run')} ended early, and may lack tests"


def _cells(points: Sequence[Point]) -> tuple[str, ...]:
    means = [point.mean for point in points if point.mean is not None]
    last = points[-1]
    earlier = means if last.mean is None else means[:-1]
    before = earlier[-1] if earlier else None
    numbers = (min(means, default=None), max(means, default=None), last.baseline, before, last.mean)
    return (
        *("-" if each is None else number_text(each) for each in numbers),
        str(len(points)),
        last.verdict or "-",
    )


def _breaks(found: Sequence[tuple[Run, Point]]) -> Iterator[str]:
    """Yield a note for each run in which the eval set changed: the means before it are of other questions."""
    for (_, before), (run, after) in pairwise(found):
        if before.evalset != after.evalset:
            yield f"note: the eval set changed in {plain(run.name)}: means before it are of other questions"


def _encodable(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
