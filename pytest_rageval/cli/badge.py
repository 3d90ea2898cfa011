"""`rageval badge`: a run as a badge, in the form that shields.io reads from an endpoint."""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from pytest_rageval.cli.console import say
from pytest_rageval.errors import InputError
from pytest_rageval.files import write_whole
from pytest_rageval.plural import counted
from pytest_rageval.reports.history import Run, filter_runs, history_entry, read_history
from pytest_rageval.reports.terminal import FAILING_VERDICTS, number_text

__all__ = ["badge_command"]

COLOURS: Final = {
    "fail": "red",
    "error": "red",
    "inconclusive": "yellow",
    "pass": "brightgreen",
    "expected": "blue",
}
"""By verdict, with names that shields.io knows."""

UNJUDGED: Final = "blue"


def badge_command(options: argparse.Namespace) -> int:
    """Write the badge of a run, and print its two sides."""
    run = _last_run(options.file)
    [run] = filter_runs([run], test=options.test, score=options.score)
    label, message, color = _overall(run) if options.score is None else _of_score(run)
    label = label if options.label is None else options.label
    # The schema allows no other keys than those it knows.
    badge = {"schemaVersion": 1, "label": label, "message": message, "color": color}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.output, [json.dumps(badge).encode(), b"\n"])
    say(f"{label}: {message} ({color})")
    return 0


def _last_run(path: Path) -> Run:
    """The run of a JSON report, or the last one of a history.

    Raises:
        InputError: it is none of them, or has no scores.
    """
    document = _report(path)
    if document is None:
        runs = read_history(path)
        if runs:
            return runs[-1]
    else:
        try:
            entry = history_entry(document)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(
                f"{path} is not a JSON report of pytest-rageval: {type(error).__name__}: {error}.\n"
                f"Write one with: pytest --rageval-report {path.name}"
            ) from None
        if entry:
            return Run.from_line(entry)
    raise InputError(f"{path} has no scores to make a badge of.")


def _report(path: Path) -> dict[str, Any] | None:
    """The document of a JSON report; None where the file is something else, such as a history."""
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and isinstance(document.get("tests"), list) else None


def _overall(run: Run) -> tuple[str, str, str]:
    verdicts = Counter(point.verdict for point in run.points.values() if point.verdict is not None)
    failed = sum(verdicts[verdict] for verdict in FAILING_VERDICTS)
    others = sum(outcome in {"failed", "error"} for outcome in run.outcomes.values())
    total = counted(verdicts.total(), "score")
    if failed:
        message, color = f"{failed} of {total} failed", "red"
    elif others:
        message, color = f"{counted(others, 'test')} failed", "red"
    elif run.stopped:
        message, color = "stopped early", "lightgrey"
    elif verdicts["inconclusive"]:
        message, color = f"{verdicts['inconclusive']} of {total} inconclusive", "yellow"
    elif verdicts["pass"]:
        message, color = f"{counted(verdicts['pass'], 'score')} passed", "brightgreen"
    elif verdicts:
        message, color = f"{total} failed as expected", COLOURS["expected"]
    else:
        message, color = f"{len(run.points)} scored", UNJUDGED
    return "rageval", message, color


def _of_score(run: Run) -> tuple[str, str, str]:
    """The badge of the only score that is left.

    Raises:
        InputError: there are several.
    """
    if len(run.points) > 1:
        listed = "".join(f"\n  {key.nodeid} {key.score}" for key in sorted(run.points))
        raise InputError(f"A badge has one score. Name it with --score and --test; these have it:{listed}")
    [(key, point)] = run.points.items()
    if point.mean is None:
        return key.score, point.verdict or "no score", COLOURS.get(point.verdict or "", "lightgrey")
    return key.score, number_text(point.mean), COLOURS.get(point.verdict or "", UNJUDGED)
