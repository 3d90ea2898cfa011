"""The stages of a run in batches: each runs pytest in a separate process, which leaves a report."""

import json
import os
import subprocess  # nosec B404 # runs our own interpreter with the user's arguments
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from pytest_rageval.config import RUN_VARIABLE
from pytest_rageval.errors import InputError
from pytest_rageval.files import write_atomically

__all__ = ["Report", "Step", "run_step"]

Step = Literal["submit", "status", "collect"]

REPORT: Final = "RAGEVAL_BATCH_REPORT"  # the environment variable with the file for the step's report
SHOWN: Final = 4000  # characters at the end of pytest's output that an error shows


@dataclass
class Report:
    """The result of a step: lines for the terminal, and the state that the next step needs."""

    lines: list[str] = field(default_factory=list)
    missing: int = 0  # requests without a reply
    waited_for: list[str] = field(default_factory=list)  # the names of the batches that have them
    unfinished: int = 0  # batches that have not ended
    error: str = ""

    def leave(self) -> None:
        """Write it where the process that runs this step wants it."""
        if target := os.environ.get(REPORT):
            write_atomically(Path(target), [json.dumps(asdict(self)).encode()])


def run_step(step: Step, arguments: Sequence[str], *, folder: Path, run: str = "") -> Report:
    """Run pytest for a step, with the arguments of the run, in this folder.

    Raises:
        InputError: it did not come to its end.
    """
    with TemporaryDirectory(prefix="rageval-batch-", ignore_cleanup_errors=True) as name:
        report, output = Path(name, "report.json"), Path(name, "output.txt")
        environ = {**os.environ, REPORT: str(report), **({RUN_VARIABLE: run} if run else {})}
        # `pytest` does not put the current folder into the path, `python -m pytest` does.
        safe = [] if str(folder) in sys.path or "" in sys.path else ["-P"]
        command = [sys.executable, *safe, "-m", "pytest", *arguments, f"--rageval-batch={step}"]
        with output.open("wb") as file:
            status = subprocess.run(  # noqa: S603 - our own interpreter
                command, cwd=folder, env=environ, stdout=file, stderr=subprocess.STDOUT, check=False
            ).returncode
        if report.exists():
            found = Report(**json.loads(report.read_text(encoding="utf-8")))
            if found.error:
                raise InputError(found.error)
            return found
        printed = output.read_text(encoding="utf-8", errors="replace")[-SHOWN:]
    raise InputError(
        f"pytest, which was to {step} batches, ended before that, with status {status}:\n{printed.rstrip()}"
    )
