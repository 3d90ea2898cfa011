"""`rageval batch`: sends the requests of a run to the batch API of the server, one step per command.

The steps of a run in batches. Each step runs pytest in a separate process, which writes a report of the step.
"""

import argparse
import json
import os
import subprocess  # nosec B404 # runs our own interpreter with the user's arguments
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from pytest_rageval.cli.console import echo, echo_err, format_count
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.resolution import RUN_VARIABLE
from pytest_rageval.lib.files import write_atomically

Step = Literal["submit", "status", "collect"]

REPORT_VARIABLE: Final = "RAGEVAL_BATCH_REPORT"
"""The environment variable with the path of the file that the step writes its report to."""

MAX_OUTPUT_LENGTH: Final = 4000  # number of characters at the end of pytest's output that an error shows


@dataclass
class StepReport:
    lines: list[str] = field(default_factory=list)  # for the terminal
    missing: int = 0  # requests without a reply
    waited_for: list[str] = field(default_factory=list)  # the names of the batches with these requests
    unfinished: int = 0  # batches that have not ended
    error: str = ""

    def write(self) -> None:
        """Write the report to the file that the parent process reads; do nothing without a parent process."""
        if target := os.environ.get(REPORT_VARIABLE):
            write_atomically(Path(target), [json.dumps(asdict(self)).encode()])


def run_step(step: Step, arguments: Sequence[str], *, folder: Path, run: str = "") -> StepReport:
    """Run pytest for a step, and return the report of the step; InputError if it reported an error, or no report.

    `run` names the run, which its processes share; empty for a new name.
    """
    with TemporaryDirectory(prefix="rageval-batch-", ignore_cleanup_errors=True) as name:
        report, output = Path(name, "report.json"), Path(name, "output.txt")
        environ = {**os.environ, REPORT_VARIABLE: str(report), **({RUN_VARIABLE: run} if run else {})}
        # `python -m pytest` adds the current folder to `sys.path`, `pytest` does not. -P prevents it.
        safe_path = [] if str(folder) in sys.path or "" in sys.path else ["-P"]
        command = [sys.executable, *safe_path, "-m", "pytest", *arguments, f"--rageval-batch={step}"]
        with output.open("wb") as file:
            status = subprocess.run(  # noqa: S603 - our own interpreter
                command, cwd=folder, env=environ, stdout=file, stderr=subprocess.STDOUT, check=False
            ).returncode
        if report.exists():
            step_report = StepReport(**json.loads(report.read_text(encoding="utf-8")))
            if step_report.error:
                raise InputError(step_report.error)
            return step_report
        end_of_output = output.read_text(encoding="utf-8", errors="replace")[-MAX_OUTPUT_LENGTH:]
    raise InputError(
        f"pytest, which was to {step} batches, ended before that, with status {status}:\n{end_of_output.rstrip()}"
    )


def submit_command(options: argparse.Namespace) -> int:
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
    return int(_run("status", options).unfinished > 0)


def collect_command(options: argparse.Namespace) -> int:
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
