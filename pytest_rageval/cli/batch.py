"""`rageval batch`: sends the requests of a run in batches, one step at a time."""

import argparse
from pathlib import Path

from pytest_rageval.cli.console import count, note, say
from pytest_rageval.session.batch_steps import Step, StepReport, run_step

__all__ = ["collect_command", "status_command", "submit_command"]


def submit_command(options: argparse.Namespace) -> int:
    """Submit what the tests would ask and no reply is there for."""
    report = _run("submit", options)
    if report.missing:
        note(
            f"{count(report.missing, 'reply')} missing: collect them with `rageval batch collect`, and submit again."
        )
    else:
        note("Run pytest: it sends no request that has a reply from a batch.")
    return 0


def status_command(options: argparse.Namespace) -> int:
    """Show the batches; 1 if one has not ended."""
    return int(_run("status", options).unfinished > 0)


def collect_command(options: argparse.Namespace) -> int:
    """Keep the replies of batches that have ended; 1 if one has not."""
    report = _run("collect", options)
    if not report.unfinished:
        note("Submit the next stage with `rageval batch submit`, until no reply is missing.")
    return int(report.unfinished > 0)


def _run(step: Step, options: argparse.Namespace) -> StepReport:
    arguments = options.arguments[options.arguments[:1] == ["--"] :]
    report = run_step(step, arguments, folder=Path.cwd())
    for line in report.lines:
        say(line)
    return report
