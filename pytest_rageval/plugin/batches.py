"""Runs in batches: `--rageval-batch` as one command, and its single steps."""

import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from pytest_rageval.config import ROLES
from pytest_rageval.errors import InputError, RagevalError, ReplyPending, ServerError
from pytest_rageval.llm.servers.client import RetryableError
from pytest_rageval.plugin.runner import GatePlugin, leave_out_others
from pytest_rageval.plugin.terminal import print_line, print_lines
from pytest_rageval.plural import counted
from pytest_rageval.session.batch_steps import StepReport, run_step

if TYPE_CHECKING:
    from pytest_rageval.llm.batches import Batch

__all__ = ["BatchCollectPlugin", "BatchLookPlugin", "BatchPlugin"]

MOST_STAGES: Final = 20  # after so many the tests ask something new each time
FIRST_POLL_S: Final = 1.0
LONGEST_POLL_S: Final = 60.0
POLL_FACTOR: Final = 1.5
SHOWN_EVERY_S: Final = 30.0  # how often progress is printed at most
RECENT_S: Final = 7 * 86400.0  # for how long a collected batch is listed
NOTING: Final = ("lfplugin", "nfplugin", "stepwiseplugin")  # pytest's names of its own plugins
SUBMITTING: Final = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}


def look(config: pytest.Config, *, collect: bool) -> "list[Batch]":
    """All batches, after a look at those of the servers of the options; those that have ended may be collected."""
    session = GatePlugin.of(config).session
    servers = [session.models.server(role) for role in ROLES]
    return session.loop.run(session.gateway.batches.refresh(servers, collect=collect))


class BatchPlugin:
    """In a run with `--rageval-batch`, before its tests: submits and collects until no reply is missing."""

    NAME: ClassVar[str] = "rageval-batch"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Run the steps; xdist's workers start after them."""
        gate = GatePlugin.of(self._config)
        try:
            self._run(gate.settings.run or gate.run)
        except BaseException as error:
            gate.pytest_sessionfinish()
            if not isinstance(error, RagevalError):
                raise
            text = str(error)
        else:
            return
        raise pytest.UsageError(text)

    def _run(self, run: str) -> None:
        for number in range(1, MOST_STAGES + 1):
            report = run_step("submit", self._arguments, folder=self._config.invocation_params.dir, run=run)
            for line in report.lines:
                self._say(f"stage {number}: {line}")
            if not report.missing:
                return
            self._wait(report.waited_for)
        raise InputError(
            f"After {MOST_STAGES} stages the tests still send new requests. Does a time, a random number or an order "
            "in their prompts change from run to run?\nRun them twice without --rageval-batch: the second run must "
            "send no requests."
        )

    @property
    def _arguments(self) -> list[str]:
        given = [str(argument) for argument in self._config.invocation_params.args]
        return [*given, "-n0"] if getattr(self._config.option, "numprocesses", None) else given

    def _wait(self, names: Sequence[str]) -> None:
        """Wait until these batches have ended, and their replies are kept."""
        delay, shown_at, before = FIRST_POLL_S, -SHOWN_EVERY_S, ""
        answered_at = time.monotonic()
        while True:
            try:
                batches = [batch for batch in look(self._config, collect=True) if batch.name in names]
            except RetryableError as error:
                if time.monotonic() - answered_at > GatePlugin.of(self._config).settings.patience:
                    text = f"The server of a batch does not answer: {error.reason}."
                    raise ServerError(f"{text}\nRun the same command again: it goes on from here.") from None
            else:
                answered_at = time.monotonic()
                waiting = [batch for batch in batches if not batch.collected]
                now = "; ".join(batch.line() for batch in waiting)
                if waiting and now != before and time.monotonic() - shown_at > SHOWN_EVERY_S:
                    shown_at, before = time.monotonic(), now
                    self._say(f"waiting for {now}")
                if not waiting:
                    break
            time.sleep(delay)
            delay = min(delay * POLL_FACTOR, LONGEST_POLL_S)
        came = GatePlugin.of(self._config).in_batches
        for batch in batches:
            numbers = ("replies", "tokens_in", "tokens_out", "cost_usd", "unpriced")
            came.update({"batches": 1, **{name: getattr(batch, name) for name in numbers}})
            self._say(f"collected {batch.line()}")
            if batch.status in {"failed", "cancelled"}:
                raise ServerError(
                    f"The batch {batch.line()}.\nThe same command submits what is missing again; without "
                    "--rageval-batch it is asked live."
                )

    def _say(self, text: str) -> None:
        print_line(self._config, f"rageval: {text}")


class _StepPlugin:
    """A run of pytest for one step, which leaves a report for the parent process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._report = StepReport()

    def _leave(self, session: pytest.Session, work: Callable[[], None]) -> None:
        """Do the work of the step, and leave the report."""
        try:
            work()
        except (RagevalError, pytest.fail.Exception) as error:
            self._report.error = str(error)
        except RetryableError as error:
            self._report.error = f"The server of a batch does not answer: {error.reason}."
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if self._report.error else pytest.ExitCode.OK
        self._report.write()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was found."""
        lines = self._report.error.splitlines() or self._report.lines
        print_lines(terminalreporter, lines, red=bool(self._report.error))


class BatchLookPlugin(_StepPlugin):
    """The steps "status" and "collect", which need no tests."""

    NAME: ClassVar[str] = "rageval-batch-look"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool:
        """Collect no tests."""
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Look at the batches, and collect those that have ended."""
        self._leave(session, self._look)

    def _look(self) -> None:
        collect = GatePlugin.of(self._config).settings.batch == "collect"
        batches = look(self._config, collect=collect)
        recent = [batch for batch in batches if time.time() - batch.made < RECENT_S or not batch.collected]
        self._report.lines = [batch.line() for batch in recent] or ["There are no batches."]
        self._report.unfinished = sum(not batch.ended for batch in batches)


class BatchCollectPlugin(_StepPlugin):
    """The step "submit": runs the tests as far as there are replies, and submits the missing requests."""

    NAME: ClassVar[str] = "rageval-batch-submit"

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the tests that ask no models."""
        leave_out_others(config, items)

    def pytest_collection_finish(self) -> None:
        """Let no plugin note how the tests of this step ended, for `--lf` and the like: that is for the run."""
        for name in NOTING:
            self._config.pluginmanager.unregister(name=name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a test as skipped, however it ended with what there is so far."""
        pending = call.excinfo is not None and isinstance(call.excinfo.value, ReplyPending)
        report = yield
        if pending or call.when == "call":
            path, line, _ = item.location
            report.outcome = "skipped"
            pending = pending or GatePlugin.of(item.config).has_stubs(item)
            reason = "waits for replies of a batch" if pending else "has all its replies"
            report.longrepr = (path, (line or 0) + 1, f"Skipped: {reason}")
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Submit what is missing, before the session is closed."""
        if exitstatus in SUBMITTING:
            self._leave(session, self._submit)

    def _submit(self) -> None:
        session = GatePlugin.of(self._config).session
        submission: Any = session.loop.run(session.gateway.batches.submit())
        self._report.missing = submission.missing
        self._report.waited_for = [batch.name for batch in submission.waited_for]
        self._report.unfinished = len(submission.waited_for)
        made = {batch.name for batch in submission.made}
        requests = counted(submission.missing, "request")
        self._report.lines = [
            f"{'submitted' if batch.name in made else 'waits for'} {batch.line()}"
            for batch in submission.waited_for
        ] or [f"{requests} without a reply" if submission.missing else "no reply is missing"]
