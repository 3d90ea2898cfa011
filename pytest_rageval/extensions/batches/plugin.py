"""Runs in batches. Each step runs pytest in a separate process, which writes a report of the step.

`BatchPlugin` runs all steps of `--rageval-batch`, `rageval batch` and the other plugins one step each.
"""

import argparse
import json
import os
import subprocess  # nosec B404 # runs our own interpreter with the user's arguments
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, cast

import pytest

from pytest_rageval.cli.console import echo, echo_err, format_count
from pytest_rageval.core.errors import InputError, RagevalError, ReplyPending, ServerError
from pytest_rageval.extensions.batches.api import Batch
from pytest_rageval.extensions.batches.batches import BatchSource
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.lib.text import counted
from pytest_rageval.models.client import RetryableError
from pytest_rageval.options.resolution import RUN_VARIABLE
from pytest_rageval.options.settings import ROLES
from pytest_rageval.plugin.completeness import deselect_tests_without_requests, report_as_skipped
from pytest_rageval.plugin.lazy_start import get_evaluation_plugin
from pytest_rageval.plugin.runner import WAITS_FOR_BATCH, Process
from pytest_rageval.plugin.terminal import print_line, print_lines
from pytest_rageval.run.session import Session

Step = Literal["submit", "status", "collect"]

REPORT_VARIABLE: Final = "RAGEVAL_BATCH_REPORT"  # the variable with the path of the report of the step
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
    """Return the report of a step, which runs pytest; `run` names the run that its processes share."""
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
    echo(*report.lines)
    return report


MAX_STAGES: Final = 20
"""Number of stages after which the run ends as an error: its requests probably differ from stage to stage."""

INITIAL_POLL_S: Final = 1.0
MAX_POLL_S: Final = 60.0
POLL_FACTOR: Final = 1.5
"""The wait between two polls of a batch grows by this factor, from `INITIAL_POLL_S` to `MAX_POLL_S`."""

PROGRESS_INTERVAL_S: Final = 30.0  # minimum time between two lines about the progress of batches
RECENT_S: Final = 7 * 86400.0  # age up to which a collected batch is listed
OUTCOME_CACHING_PLUGINS: Final = ("lfplugin", "nfplugin", "stepwiseplugin")
"""pytest's names of its plugins that store the outcomes of tests for the next run."""

SUBMITTING_STATUSES: Final = {
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
}


def refresh_batches(config: pytest.Config, *, collect: bool) -> list[Batch]:
    """Return all batches, after requesting their state at the servers of the options, and their replies."""
    session = Process.get(config).session
    servers = [session.models.server(role) for role in ROLES]
    return session.loop.run(_source(session).refresh(servers, collect=collect))


def _source(session: Session) -> BatchSource:
    return cast("BatchSource", session.gateway.source)


class BatchPlugin:
    """Before the tests of a run with `--rageval-batch`, submits and collects batches until no reply is missing."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Run all stages. This hook is called before xdist starts its workers."""
        process = Process.get(self._config)
        try:
            self._run_stages(process.settings.run or process.run)
        except BaseException as error:
            process.pytest_sessionfinish()
            if isinstance(error, RagevalError):
                raise pytest.UsageError(str(error)) from None
            raise

    def _run_stages(self, run: str) -> None:
        for number in range(1, MAX_STAGES + 1):
            report = run_step("submit", self._arguments, folder=self._config.invocation_params.dir, run=run)
            for line in report.lines:
                self._print(f"stage {number}: {line}")
            if not report.missing:
                return
            self._wait(report.waited_for)
        raise InputError(
            f"After {MAX_STAGES} stages the tests still send new requests. Does a time, a random number or an order "
            "in their prompts change from run to run?\nRun them twice without --rageval-batch: the second run must "
            "send no requests."
        )

    @property
    def _arguments(self) -> list[str]:
        arguments = [str(argument) for argument in self._config.invocation_params.args]
        return [*arguments, "-n0"] if getattr(self._config.option, "numprocesses", None) else arguments

    def _wait(self, names: Sequence[str]) -> None:
        delay, shown_at, before = INITIAL_POLL_S, -PROGRESS_INTERVAL_S, ""
        answered_at = time.monotonic()
        while True:
            try:
                all_batches = refresh_batches(self._config, collect=True)
                batches = [batch for batch in all_batches if batch.name in names]
            except RetryableError as error:
                if time.monotonic() - answered_at > Process.get(self._config).settings.patience:
                    text = f"The server of a batch does not answer: {error.reason}."
                    raise ServerError(f"{text}\nRun the same command again: it goes on from here.") from None
            else:
                answered_at = time.monotonic()
                waiting = [batch for batch in batches if not batch.collected]
                now = "; ".join(batch.line() for batch in waiting)
                if waiting and now != before and time.monotonic() - shown_at > PROGRESS_INTERVAL_S:
                    shown_at, before = time.monotonic(), now
                    self._print(f"waiting for {now}")
                if not waiting:
                    break
            time.sleep(delay)
            delay = min(delay * POLL_FACTOR, MAX_POLL_S)
        usage = Process.get(self._config).batch_usage
        for batch in batches:
            numbers = ("replies", "tokens_in", "tokens_out", "cost_usd", "unpriced")
            usage.update({"batches": 1, **{name: getattr(batch, name) for name in numbers}})
            self._print(f"collected {batch.line()}")
            if batch.status in {"failed", "cancelled"}:
                raise ServerError(
                    f"The batch {batch.line()}.\nThe same command submits the missing requests again; "
                    "without --rageval-batch they are sent one by one."
                )

    def _print(self, text: str) -> None:
        print_line(self._config, f"rageval: {text}")


class _StepPlugin:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._report = StepReport()

    def _run_step(self, session: pytest.Session, step: Callable[[], None]) -> None:
        try:
            step()
        except (RagevalError, pytest.fail.Exception) as error:
            self._report.error = str(error)
        except RetryableError as error:
            self._report.error = f"The server of a batch does not answer: {error.reason}."
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if self._report.error else pytest.ExitCode.OK
        self._report.write()

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        lines = self._report.error.splitlines() or self._report.lines
        print_lines(terminalreporter, lines, red=bool(self._report.error))


class BatchStatusPlugin(_StepPlugin):
    """The steps "status" and "collect", which need no tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool:
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._run_step(session, self._refresh)

    def _refresh(self) -> None:
        collect = Process.get(self._config).settings.value_of("batch") == "collect"
        batches = refresh_batches(self._config, collect=collect)
        recent = [batch for batch in batches if time.time() - batch.made < RECENT_S or not batch.collected]
        self._report.lines = [batch.line() for batch in recent] or ["There are no batches."]
        self._report.unfinished = sum(not batch.ended for batch in batches)


class BatchSubmitPlugin(_StepPlugin):
    """The step "submit": runs the tests as far as they have replies, and submits the missing requests."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        deselect_tests_without_requests(config, items)

    def pytest_collection_finish(self) -> None:
        """Unregister the plugins of `--lf` and the like: they must store the outcomes of the run, not of this step."""
        for name in OUTCOME_CACHING_PLUGINS:
            self._config.pluginmanager.unregister(name=name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a test as skipped, whatever outcome it had with the replies so far."""
        pending = call.excinfo is not None and isinstance(call.excinfo.value, ReplyPending)
        report = yield
        if pending or call.when == "call":
            test = get_evaluation_plugin(item.config).test_of(item)
            pending = pending or (test is not None and test.has_stubs)
            reason = WAITS_FOR_BATCH if pending else "has all its replies"
            report_as_skipped(report, item, reason)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Submit the missing requests, before the session is closed."""
        if exitstatus in SUBMITTING_STATUSES:
            self._run_step(session, self._submit)

    def _submit(self) -> None:
        session = Process.get(self._config).session
        submission = session.loop.run(_source(session).submit())
        self._report.missing = submission.missing
        self._report.waited_for = [batch.name for batch in submission.waited_for]
        self._report.unfinished = len(submission.waited_for)
        submitted = {batch.name for batch in submission.made}
        requests = counted(submission.missing, "request")
        self._report.lines = [
            f"{'submitted' if batch.name in submitted else 'waits for'} {batch.line()}"
            for batch in submission.waited_for
        ] or [f"{requests} without a reply" if submission.missing else "no reply is missing"]
