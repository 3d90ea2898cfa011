"""`rageval badge`: writes a badge of a run, in the JSON form that shields.io reads from an endpoint."""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.shape import parse_json
from pytest_rageval.extensions.history.history import Run, filter_runs, history_entry, read_history
from pytest_rageval.lib.files import refuse_special, write_atomically
from pytest_rageval.lib.plural import counted
from pytest_rageval.reports.reading import check_report, is_report
from pytest_rageval.reports.terminal import FAILING_VERDICTS, number_text
from pytest_rageval.run.console import echo

__all__ = ["badge_command"]

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
