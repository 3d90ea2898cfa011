"""`rageval batch`: sends the requests of a run to the batch API of the server, one step per command."""

import argparse
from pathlib import Path

from pytest_rageval.extensions.batches.steps import Step, StepReport, run_step
from pytest_rageval.run.console import echo, echo_err, format_count

__all__ = ["collect_command", "status_command", "submit_command"]


def submit_command(options: argparse.Namespace) -> int:
    """Submit the requests of the tests that have no reply in the cache."""
    report = _run("submit", options)
    if report.missing:
        echo_err(
            f"{format_count(report.missing, 'reply')} missing: collect them with `rageval batch collect`, and submit "
            "again."
        )
    else:
        echo_err("Run pytest: it sends no request that has a reply from a batch.")
    return 0


def status_command(options: argparse.Namespace) -> int:
    """Print the batches and their progress; return 1 if a batch has not ended."""
    return int(_run("status", options).unfinished > 0)


def collect_command(options: argparse.Namespace) -> int:
    """Write the replies of ended batches to the cache; return 1 if a batch has not ended."""
    report = _run("collect", options)
    if not report.unfinished:
        echo_err("Submit the next stage with `rageval batch submit`, until no reply is missing.")
    return int(report.unfinished > 0)


def _run(step: Step, options: argparse.Namespace) -> StepReport:
    arguments = options.arguments[options.arguments[:1] == ["--"] :]
    report = run_step(step, arguments, folder=Path.cwd())
    for line in report.lines:
        echo(line)
    return report
