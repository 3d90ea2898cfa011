"""The hooks of marked tests: scores are computed in setup and compared with the thresholds at call.

So for pytest a violated threshold is a failure, and a score that cannot be computed is an error.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import pytest

from pytest_rageval.config import ROLES, Settings, kind_of
from pytest_rageval.errors import RagevalError, Unscored, places
from pytest_rageval.plugin.markers import EVALUATED, timeout_problem, unknown_mark
from pytest_rageval.plugin.progress import EvaluationProgress, Work
from pytest_rageval.plugin.terminal import (
    cut_traceback,
    fail_run,
    failure,
    place_failure,
    plain_nodeid,
    print_line,
    print_lines,
    terminal_width,
)
from pytest_rageval.plural import counted
from pytest_rageval.printable import printable

if TYPE_CHECKING:
    from pytest_rageval.evaluations.registry import Registry, Report
    from pytest_rageval.gate.baseline import Baseline
    from pytest_rageval.llm.api import LLM
    from pytest_rageval.llm.usage import Usage
    from pytest_rageval.plugin.rageval_fixture import Rageval
    from pytest_rageval.prompts.rendering import Prompts
    from pytest_rageval.serving.server import GatewayServer
    from pytest_rageval.session import Session
    from pytest_rageval.session.default_components import DefaultGenerator, DefaultJudge, Models
    from pytest_rageval.session.evaluated_test import EvaluatedTest

__all__ = [
    "GATEWAY",
    "GATEWAY_RUNS",
    "RECEIVED",
    "GatePlugin",
    "PlanningPlugin",
    "checked_prompts",
    "leave_out_others",
    "or_failure",
]

T = TypeVar("T")

GATEWAY: "pytest.StashKey[GatewayServer]" = pytest.StashKey()
"""The gateway that was started with the process."""

GATEWAY_RUNS: "pytest.StashKey[ExitStack]" = pytest.StashKey()
"""Closing it stops that gateway, and restores the environment."""

RECEIVED: "pytest.StashKey[bool]" = pytest.StashKey()
"""Set on a test that received the fixture `rageval`, by its arguments or by its name."""

OURS: Final = frozenset({"rageval", "rageval_gateway", "rageval_llm"})
"""Fixtures through which tests ask models."""

BRIEF: Final = frozenset({".md"})
"""Reports that show no more of questions than those that explain a verdict."""

XPASS: Final = "[XPASS(strict)] "
"""How pytest begins the failure of a test that should have failed."""

LIMITS: Final = {0: 10, 1: 25}
"""Number of lost questions that a failure shows, by verbosity: 3 below, all above."""


class GatePlugin:
    """The hooks of a process that runs tests, with the session that its tests share."""

    NAME: ClassVar[str] = "rageval-gate"

    def __init__(self, config: pytest.Config, settings: Settings, columns: int, running: str | None) -> None:
        self.config = config
        self.settings = settings
        self._session: Session | None = None
        self._gateway = config.stash.get(GATEWAY, None)
        self._progress: EvaluationProgress | None = None
        self._sharing: frozenset[str] | None = None
        self._tests: dict[str, EvaluatedTest] = {}
        self._usage_before: dict[str, Usage] = {}
        self._explained = False
        self._running = running
        self.in_batches: Counter[str] = Counter()
        """What came in batches before the tests, as in `Usage`."""
        sent = getattr(config, "workerinput", {})
        self.run: str = sent.get("rageval_run") or uuid.uuid4().hex
        self._width: int = sent.get("rageval_width", terminal_width(columns))

    @classmethod
    def of(cls, config: pytest.Config) -> "GatePlugin":
        """The plugin object of this process."""
        plugin = config.pluginmanager.get_plugin(cls.NAME)
        if not isinstance(plugin, cls):
            raise pytest.UsageError("the rageval plugin is not active in this process")
        return plugin

    @property
    def session(self) -> "Session":
        """What the tests share, made at the first use: here the heavy imports happen."""
        if self._session is None:
            from pytest_rageval.reports.layout import width  # noqa: PLC0415
            from pytest_rageval.session import RunContext, Session  # noqa: PLC0415

            self._progress = EvaluationProgress(self.config, self._work, self.running, self._width)
            width.set(self._width)
            registry, tick = self.registry, self._progress.tick
            run, workers = self.run, int(getattr(self.config, "workerinput", {}).get("workercount", 1))
            self._session = or_failure(
                lambda: Session(self.settings, context=RunContext(run, workers), registry=registry, tick=tick)
            )
        return self._session

    def gateway_to(self, client: object) -> "GatewayServer":
        """The server for the model calls of the application, started at the first use: it asks this client.

        One that was started with the process asks the server of the options: to that one the environment leads the
        user's client, too.
        """
        if self._gateway is None:
            from pytest_rageval.serving.server import GatewayServer  # noqa: PLC0415 - few runs have one

            self._gateway = or_failure(GatewayServer)
            self.config.add_cleanup(self._gateway.close)
            self._gateway.connect(lambda: self.session.backend(client))
        return self._gateway

    def models_of(self, client: object) -> "Models":
        """The models that the user's client asks, which the environment may have led to the process's own gateway."""
        models = or_failure(lambda: self.session.models_of(client))
        gateway = self._gateway
        if client is not None and gateway is not None:
            or_failure(lambda: gateway.refuse_itself(*map(models.server, ROLES)))
        return models

    def generator(self, prompts: object, client: object) -> "DefaultGenerator":
        """The generator of the options, with the user's prompts and client."""
        from pytest_rageval.session.default_components import DefaultGenerator  # noqa: PLC0415 - see session

        return DefaultGenerator(self.models_of(client), checked_prompts(prompts))

    def judge(self, prompts: object, client: object) -> "DefaultJudge":
        """The judge of the options, likewise."""
        from pytest_rageval.session.default_components import DefaultJudge  # noqa: PLC0415 - see session

        return DefaultJudge(self.models_of(client), checked_prompts(prompts))

    def llm(self, prompts: object, client: object) -> "LLM":
        """The model in force for the user's own code, likewise."""
        return self.session.llm_of(self.models_of(client), checked_prompts(prompts))

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those of `--rageval-prompts`, then of the preset."""
        path, given = self.settings.prompts, self.settings.preset.prompts if self.settings.preset else {}
        if path is None:
            return given
        from pytest_rageval.prompts.rendering import read_templates  # noqa: PLC0415 - few runs have such a file

        return {**given, **or_failure(lambda: read_templates(path))}

    @cached_property
    def registry(self) -> "Registry":
        """The built-in scores, formats and reports, with those that other plugins add."""
        from pytest_rageval.evaluations.registry import Registry  # noqa: PLC0415 - see session

        registry = Registry()
        try:
            self.config.hook.pytest_rageval_register(registry=registry)
        except RagevalError as error:
            # The innermost line outside this package is in the plugin whose hook failed.
            text = "\n  ".join([str(error), *places(error)[-1:]])
        else:
            return registry
        raise failure(text)

    @property
    def reports(self) -> "Mapping[str, Report]":
        """The report writers of other plugins, by suffix; empty where registering failed, which tests report."""
        try:
            return self.registry.reports
        except pytest.fail.Exception:
            return {}

    def evaluate(  # noqa: PLR0913 - the values of fixtures
        self,
        item: pytest.Item,
        retriever: object,
        generator: object,
        judge: object,
        *,
        prompts: object,
        executor: object,
        reference: Callable[[], object],
    ) -> "Rageval":
        """Evaluate the markers of a test, and return the object that the test receives.

        `prompts` are those of the fixture, `executor` is where the retriever runs, or None; `reference` returns the
        retriever that others are timed beside.
        """
        # Checked also where generator and judge are the user's own, and send no prompts.
        checked_prompts(prompts)
        from pytest_rageval.plugin.rageval_fixture import Rageval, marked_test  # noqa: PLC0415 - see session
        from pytest_rageval.session import Components  # noqa: PLC0415
        from pytest_rageval.session.evaluated_test import EvaluatedTest  # noqa: PLC0415

        test = EvaluatedTest(
            self.session,
            Components(retriever, generator, judge, executor=executor),
            marked_test(item, reference),
            sharing=self._tests_with_drops(item.session),
            limit=self._limit,
        )
        self._tests[item.nodeid] = test
        item.stash[RECEIVED] = True
        finished = self._progress.clear if self._progress else lambda: None
        try:
            problems = test.evaluate_markers()
        finally:
            finished()
        if problems:
            # An error does not hide which scores are out of their bounds.
            raise failure("\n\n".join([*dict.fromkeys(problems), *test.failures()]))
        return Rageval(self.session, test, finished=finished)

    def _tests_with_drops(self, session: pytest.Session) -> frozenset[str]:
        """The selected tests whose markers test a drop: they share one error rate."""
        if self._sharing is None:
            self._sharing = frozenset(
                plain_nodeid(item.nodeid)
                for item in session.items
                for marker in item.iter_markers("rageval_threshold")
                if marker.kwargs.get("max_total_drop") is not None
                or (marker.kwargs.get("max_drop") is not None and not marker.kwargs.get("strict"))
            )
        return self._sharing

    def has_stubs(self, item: pytest.Item) -> bool:
        """Whether a test received a stub in place of a result."""
        test = self._tests.get(item.nodeid)
        return test is not None and test.has_stubs

    def running(self) -> "tuple[str, Usage] | None":
        """The test that runs, and what it has asked of models; None where no test runs."""
        if self._session is None or self._running is None:
            return None
        from pytest_rageval.llm.usage import Usage  # noqa: PLC0415 - see session

        return self._running, self._session.usage - self._usage_before.get(self._running, Usage())

    @property
    def baseline(self) -> "Baseline | None":
        """The baseline, where a test of this process was compared with it."""
        return None if self._session is None else vars(self._session).get("baseline")

    def recorded(self) -> dict[str, str]:
        """The replies that this process used and that are to be recorded, as lines of a cassette."""
        if self._session is None or not self.settings.record:
            return {}
        from pytest_rageval.llm.cassette import entry_line  # noqa: PLC0415 - few runs record

        return {key: entry_line(entry) for key, entry in self._session.gateway.used.items()}

    def begin(self, item: pytest.Item) -> None:
        """Refuse a test with a mark that does not work; give the fixture to tests whose mark came late.

        As from a parameter, or from another plugin.
        """
        if problem := unknown_mark(item) or timeout_problem(item):
            raise failure(problem)
        self._explained, self._running = False, item.nodeid
        if self._session is not None:
            self._usage_before[item.nodeid] = self._session.usage
        names = getattr(item, "fixturenames", None)
        if names is not None and "rageval" not in names and any(map(item.get_closest_marker, EVALUATED)):
            # A list of its own: parametrized tests share one.
            item.fixturenames = [*names, "rageval"]  # type: ignore[attr-defined]

    def check(self, item: pytest.Item) -> None:
        """Fail a test whose markers' scores are out of bounds."""
        if item.nodeid in self._tests:
            test = self._tests[item.nodeid]
            if failures := test.failures():
                raise failure("\n\n".join(failures), test.summary)
        elif late := next(filter(item.get_closest_marker, EVALUATED), None):
            raise failure(
                f"{late} does nothing here: it came when the test had begun, or the test has no fixtures.\n"
                "Mark the test in its file, or in pytest_collection_modifyitems."
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Let the gateway that was started with the process answer."""
        if self.config.pluginmanager.has_plugin("dsession"):
            # xdist's controller needed it only for its conftests. Its workers inherit the environment, and have
            # gateways of their own, which ask the real server.
            self.config.stash.get(GATEWAY_RUNS, ExitStack()).close()
        elif self._gateway is not None:
            try:
                backend = self.session.backend
            except pytest.fail.Exception as error:
                # It is the error of each test that needs the session, too.
                self._gateway.refuse(str(error))
            else:
                self._gateway.connect(backend)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the results to the last of the test's reports, which xdist sends to its controller."""
        ended = call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception)
        if call.when == "call" and ended and (violations := self._violations(item)):
            try:
                raise failure(violations)
            except pytest.fail.Exception as error:
                call.excinfo = pytest.ExceptionInfo.from_exception(error)
        cut_traceback(call.excinfo)
        report = yield
        if item.nodeid in self._tests and self._tests[item.nodeid].is_left_to_merge:
            _note_expected(item, report)
        if report.failed and call.excinfo is not None and self._is_ours(call.excinfo.value):
            place_failure(report, item, call.excinfo.value)
        if report.when == "teardown":
            self._running = None
        if report.when == "teardown" and (results := self._results(item)):
            report.rageval = results  # type: ignore[attr-defined]
        return report

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> list[str] | None:
        """Explain a failed assertion on a score or a ranking by the questions behind it."""
        if self._session is None:
            return None
        from pytest_rageval.reports.questions import explain_assertion  # noqa: PLC0415 - loaded by now

        lines = explain_assertion(op, left, right, limit=self._limit)
        self._explained = bool(lines)
        return lines and list(map(printable, lines))

    def pytest_sessionfinish(self) -> None:
        """Close the session; warn where the user's code holds that up."""
        if self._gateway is not None:
            self._gateway.disconnect()
        if self._session is None:
            return
        from pytest_rageval.reports.layout import WIDTH, width  # noqa: PLC0415 - loaded by now

        # The files that follow do not depend on the terminal.
        width.set(WIDTH)
        blocking = self._session.close()
        if blocking is not None:
            what = "async code still runs and blocks the event loop, so that connections and files are not closed"
            print_line(self.config, f"rageval: warning: {what}: {blocking}")

    def pytest_unconfigure(self) -> None:
        """Let go of all that was evaluated: pytest then searches every object for garbage, several times."""
        if self._session is not None:
            from pytest_rageval.evalsets.loading import forget  # noqa: PLC0415 - loaded by now

            forget()
            self._session = None

    def _violations(self, item: pytest.Item) -> str:
        """The thresholds of `score` calls that a test did not keep though it ended well, as text."""
        violations = self._tests[item.nodeid].violations() if item.nodeid in self._tests else []
        head = (
            "A threshold failed, and the test caught the failure, or skipped itself behind it.\n"
            "Where that is meant, leave out the bound and assert on the score."
        )
        return "\n\n".join([head, *violations]) if violations else ""

    def _results(self, item: pytest.Item) -> dict[str, Any] | None:
        """A test's entry for the report, with what it asked of models; None for a test that is not ours."""
        # A marked test without a score, because its retriever failed for instance, is reported too.
        ours = "rageval" in getattr(item, "fixturenames", ()) or RECEIVED in item.stash
        if not ours and self._session is None:
            return None
        from pytest_rageval.llm.usage import Usage  # noqa: PLC0415 - see session
        from pytest_rageval.plugin.rageval_fixture import parametrization  # noqa: PLC0415

        usage = Usage() if self._session is None else self._session.usage
        asked = usage - self._usage_before.pop(item.nodeid, Usage())
        test = self._tests.pop(item.nodeid, None)
        if not ours and asked == Usage():
            return None
        found = {} if test is None else {**parametrization(item), **self._results_of(test)}
        nodeid = plain_nodeid(item.nodeid)
        return {"nodeid": nodeid, "evalset": None, "scores": [], **found, "llm": asked.plain()}

    def _is_ours(self, error: BaseException) -> bool:
        """Whether the text of a failure is this package's: then its summary is one line."""
        ours = isinstance(error, RagevalError | Unscored) or hasattr(error, "rageval_summary")
        return ours or (self._explained and isinstance(error, AssertionError))

    def _results_of(self, test: "EvaluatedTest") -> dict[str, Any]:
        """The results with what this run shows: counting the tokens of all passages takes time, texts take memory."""
        reports = set(map(kind_of, self.settings.report))
        return test.results(
            describe=bool(reports) or self.config.get_verbosity() > 0,
            # A plugin may replace a built-in report.
            explain=any(kind not in BRIEF or kind in self.reports for kind in reports),
        )

    @property
    def _limit(self) -> int | None:
        verbosity = self.config.get_verbosity()
        return LIMITS.get(verbosity, 3 if verbosity < 0 else None)

    def _work(self) -> Work:
        usage, (rankings, ranked) = self.session.usage, self.session.pipelines.rankings
        return Work(
            rankings,
            ranked,
            # Examples that wait ask for as much as those before them.
            round(usage.requests / self.session.pipelines.share_begun),
            usage.cached + usage.live + usage.failed,
            live=usage.live,
            cost_usd=usage.cost_usd,
            unpriced=usage.unpriced,
        )


def _note_expected(item: pytest.Item, report: pytest.TestReport) -> None:
    """Note in the report of a shard that the test is expected to fail, and let it pass: the merge judges its scores.

    Where an exception is named, as in `xfail(raises=ValueError)`, a score out of its bounds is not expected.
    """
    if any("raises" in mark.kwargs for mark in item.iter_markers("xfail")):
        return
    strict = isinstance(report.longrepr, str) and report.longrepr.startswith(XPASS)
    if strict:
        report.wasxfail = str(report.longrepr).removeprefix(XPASS)
        report.outcome, report.longrepr = "passed", None
    if hasattr(report, "wasxfail"):
        report.rageval_expected = {"reason": report.wasxfail, "strict": strict}  # type: ignore[attr-defined]


def checked_prompts(prompts: object) -> "Prompts | None":
    """The value of the fixture `rageval_prompts`, as prompts that can be sent; None where it replaces none."""
    if prompts == {}:
        return None
    from pytest_rageval.prompts.rendering import prompts_of  # noqa: PLC0415 - see session

    return or_failure(lambda: prompts_of(prompts, "rageval_prompts"))


def or_failure(make: Callable[[], T]) -> T:
    """The result; an error becomes a failure without our traceback."""
    try:
        return make()
    except RagevalError as error:
        text = str(error)
    raise failure(text)


class PlanningPlugin:
    """The hooks of a run with `--rageval-plan`."""

    NAME: ClassVar[str] = "rageval-planning"

    def __init__(self) -> None:
        self._unfinished: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the tests that ask no models."""
        leave_out_others(config, items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a planned test as skipped, however its statements ended with stubs."""
        report = yield
        if call.when == "call":
            why = _ended_early(item, call)
            if why:
                self._unfinished.append(f"{item.nodeid}: {why}")
            path, line, _ = item.location
            report.outcome = "skipped"
            reason = f"planned in part, it ended at {why}" if why else "planned, nothing was asked"
            report.longrepr = (path, (line or 0) + 1, f"Skipped: {reason}")
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run whose plan counts too little."""
        if self._unfinished:
            fail_run(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the tests that were not planned to their end."""
        if n := len(self._unfinished):
            tests = f"{counted(n, 'test')} could not be planned to the end"
            head = f"{tests}; what is asked behind these places is not counted:"
            print_lines(terminalreporter, [head, *(f"  {line}" for line in self._unfinished)], red=True)


def leave_out_others(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that ask no models."""
    if others := [item for item in items if not _asks(item)]:
        config.hook.pytest_deselected(items=others)
        items[:] = filter(_asks, items)


def _asks(item: pytest.Item) -> bool:
    return not OURS.isdisjoint(getattr(item, "fixturenames", ()))


def _ended_early(item: pytest.Item, call: pytest.CallInfo[None]) -> str:
    """Where and why a planned test ended before its last statement; empty where it did not."""
    if call.excinfo is None:
        return ""
    error = call.excinfo.value
    if isinstance(error, pytest.skip.Exception) and not GatePlugin.of(item.config).has_stubs(item):
        # It skips itself in a run too.
        return ""
    place = call.excinfo.traceback[-1]
    own = next((each for each in reversed(call.excinfo.traceback) if each.path == item.path), place)
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    return f"line {own.lineno + 1}, {first}"
