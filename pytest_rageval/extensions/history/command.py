"""`rageval history`: prints how the scores of a project changed from run to run, and writes a page of charts.

`rageval badge`: writes a badge of a run, in the JSON form that shields.io reads from an endpoint.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.shape import parse_json
from pytest_rageval.extensions.history.history import (
    Point,
    Run,
    filter_runs,
    history_entry,
    read_history,
    series,
)
from pytest_rageval.extensions.history.trend import BARS, sparkline
from pytest_rageval.lib.files import refuse_special, write_atomically
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.layout import align_columns
from pytest_rageval.reports.reading import check_report, is_report
from pytest_rageval.reports.terminal import FAILING_VERDICTS, number_text
from pytest_rageval.run.console import echo, format_count, to_one_line

MAX_SPARKLINE_RUNS = 40  # a sparkline has one character for each run


def history_command(options: argparse.Namespace) -> int:
    """Print a line for each score, and write the page if --html is set."""
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
    """Return the cells of a score's row between its name and its sparkline."""
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


COLOURS: Final = {
    "fail": "red",
    "error": "red",
    "inconclusive": "yellow",
    "pass": "brightgreen",
    "expected": "blue",
}
"""The colour of a badge by verdict, as shields.io names it."""

NO_VERDICT_COLOUR: Final = "blue"


def badge_command(options: argparse.Namespace) -> int:
    """Write the badge of a run, and print its label and message."""
    run = _last_run(options.file)
    [run] = filter_runs([run], test=options.test, score=options.score)
    label, message, color = _run_badge(run) if options.score is None else _score_badge(run)
    label = label if options.label is None else options.label
    # The schema of shields.io allows no further keys.
    badge = {"schemaVersion": 1, "label": label, "message": message, "color": color}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(options.output, [json.dumps(badge).encode(), b"\n"])
    echo(f"{label}: {message} ({color})")
    return 0


def _last_run(path: Path) -> Run:
    """Return the run of a JSON report, or the last run of a history.

    Raises:
        InputError: the file is neither, or has no scores.
    """
    document = _parse_json(path)
    if is_report(document):
        remedy = f"Write one with: pytest --rageval-report {path.name}"
        check_report(path, document, remedy)
        try:
            entry = history_entry(document)
            if entry:
                return Run.from_line(entry)
        except (KeyError, ValueError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(f"{path} is not a JSON report of pytest-rageval: {reason}.\n{remedy}") from None
    elif (runs := read_history(path)) and runs[-1].points:
        return runs[-1]
    raise InputError(f"{path} has no scores to make a badge of.")


def _parse_json(path: Path) -> Any:
    """Return the JSON document in a file; None if the file is not JSON, as a history, which is JSON lines."""
    try:
        refuse_special(path)
        return parse_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError:
        return None


def _run_badge(run: Run) -> tuple[str, str, str]:
    """Return label, message and colour of the badge with the verdicts of a whole run."""
    verdicts = Counter(point.verdict for point in run.points.values() if point.verdict is not None)
    failed = sum(verdicts[verdict] for verdict in FAILING_VERDICTS)
    failed_tests = sum(outcome in {"failed", "error"} for outcome in run.outcomes.values())
    total = counted(verdicts.total(), "score")
    if failed:
        message, color = f"{failed} of {total} failed", "red"
    elif failed_tests:
        message, color = f"{counted(failed_tests, 'test')} failed", "red"
    elif run.missing:
        message, color = f"{counted(run.missing, 'gated test')} missing", "red"
    elif run.stopped:
        message, color = "stopped early", "lightgrey"
    elif verdicts["inconclusive"]:
        message, color = f"{verdicts['inconclusive']} of {total} inconclusive", "yellow"
    elif verdicts["pass"]:
        message, color = f"{counted(verdicts['pass'], 'score')} passed", "brightgreen"
    elif verdicts:
        message, color = f"{total} failed as expected", COLOURS["expected"]
    else:
        message, color = f"{len(run.points)} scored", NO_VERDICT_COLOUR
    return "rageval", message, color


def _score_badge(run: Run) -> tuple[str, str, str]:
    """Return label, message and colour of the badge with the mean of the only score in the run.

    Raises:
        InputError: the run has several scores.
    """
    if len(run.points) > 1:
        candidates = "".join(f"\n  {key.nodeid} {key.score}" for key in sorted(run.points))
        raise InputError(
            f"A badge has one score. Name it with --score and --test; these have it:{candidates}"
        )
    [(key, point)] = run.points.items()
    if point.mean is None:
        return key.score, point.verdict or "no score", COLOURS.get(point.verdict or "", "lightgrey")
    return key.score, number_text(point.mean), COLOURS.get(point.verdict or "", NO_VERDICT_COLOUR)
