"""Marked tests: their scores are computed at setup and compared with the thresholds at call.

So pytest's own words fit: a score out of its bounds is a failure, a score that cannot be computed is an
error.
"""

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.errors import RagevalError, Unscored, places
from pytest_rageval.plugin.terminal import failure, print_lines
from pytest_rageval.plugin.xdist import plain_nodeid, together
from pytest_rageval.printable import printable

if TYPE_CHECKING:
    from pytest_rageval.embeddings.encoder import CachedEncoder
    from pytest_rageval.evaluations.registry import Registry, Report
    from pytest_rageval.llm.api import LLM
    from pytest_rageval.llm.usage import Usage
    from pytest_rageval.plugin.progress import Progress
    from pytest_rageval.plugin.rageval_fixture import Rageval
    from pytest_rageval.prompts.rendering import Prompts
    from pytest_rageval.session import Session

__all__ = ["MARKERS", "FamilyPlugin", "GatePlugin", "PlanningPlugin", "cut_traceback"]

PACKAGE: Final = Path(__file__).parents[1]


def cut_traceback(excinfo: pytest.ExceptionInfo[BaseException] | None) -> None:
    """Cut the frames from the first of ours on, and what was raised before: the error's text says it all.

    Also where the user's own exception came of ours, or is a group of several: pytest shows these too,
    and with `--showlocals` the variables of each frame.

    Args:
        excinfo: what ended a phase of a test, where anything did.
    """
    if excinfo is None:
        return
    for error in _shown(excinfo.value):
        if isinstance(error, RagevalError | Unscored):
            error.__cause__, error.__suppress_context__ = None, True
            _cut(error)
    # Who printed it before, as `--debug` does, has made it keep the frames.
    excinfo.traceback = type(excinfo.traceback)(excinfo.tb)


def _shown(error: BaseException) -> Iterator[BaseException]:
    """An exception and all that it came of or consists of."""
    found, seen = [error], set[int]()
    while found:
        each = found.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        found += [one for one in (each.__cause__, each.__context__) if one is not None]
        found += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        yield each


def _cut(error: BaseException) -> None:
    here = error.__traceback__
    if here is not None and _is_ours(here):
        error.__traceback__ = None
        return
    while here is not None and here.tb_next is not None:
        if _is_ours(here.tb_next):
            here.tb_next = None
            return
        here = here.tb_next


def _is_ours(here: TracebackType) -> bool:
    return Path(here.tb_frame.f_code.co_filename).is_relative_to(PACKAGE)


class FamilyPlugin:
    """The hooks of a process that runs tests."""

    NAME: ClassVar[str] = "rageval-family"

    def __init__(self) -> None:
        self.size = 0
        """How many thresholds with `max_drop` the markers of the selected tests declare."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count, when nothing is deselected any more."""
        self.size = sum(
            marker.kwargs.get("max_drop") is not None
            for item in session.items
            for marker in item.iter_markers("rageval_threshold")
        )


OURS: Final = {"rageval", "rageval_llm"}
"""Tests that have none of these fixtures ask nothing through us."""


class PlanningPlugin:
    """The hooks of a run with `--rageval-plan`."""

    NAME: ClassVar[str] = "rageval-planning"

    def __init__(self) -> None:
        self._unfinished: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the tests that ask nothing of us."""
        ours: list[pytest.Item] = []
        rest: list[pytest.Item] = []
        for item in items:
            (ours if OURS & set(getattr(item, "fixturenames", ())) else rest).append(item)
        if rest:
            config.hook.pytest_deselected(items=rest)
            items[:] = ours

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A test that was only counted is skipped, whatever its statements made of stand-ins."""
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
        """A plan that counts too little must not be approved by its exit status."""
        if self._unfinished and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which tests were not planned to their end."""
        if not self._unfinished:
            return
        n = len(self._unfinished)
        what = f"{n} test{'' if n == 1 else 's'} could not be planned to the end"
        lines = [f"{what}; what is asked behind these places is not counted:"]
        lines += [f"  {line}" for line in self._unfinished]
        print_lines(terminalreporter, lines, red=True)


def _ended_early(item: pytest.Item, call: pytest.CallInfo[None]) -> str:
    """Where and why a test ended before its last statement; empty where it did not."""
    if call.excinfo is None:
        return ""
    error = call.excinfo.value
    if isinstance(error, pytest.skip.Exception) and not GatePlugin.of(item.config).stood_in(item):
        # It skips itself in a run too.
        return ""
    place = call.excinfo.traceback[-1]
    own = next((each for each in reversed(call.excinfo.traceback) if each.path == item.path), place)
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    return f"line {own.lineno + 1}, {first}"


T = TypeVar("T")

MARKERS: Final = ("rageval_threshold", "rageval_calibration")
"""Markers that are the test."""

SHOWN: Final = {0: 10, 1: 25}
"""How many lost questions a failure shows, by verbosity: 3 below these, all above."""


class GatePlugin:
    """The hooks of a process that runs tests, and what its tests share."""

    NAME: ClassVar[str] = "rageval-gate"

    def __init__(self, config: pytest.Config, settings: Settings, family: FamilyPlugin) -> None:
        self.config = config
        self.settings = settings
        self._family = family
        self._session: Session | None = None
        self._progress: Progress | None = None
        self._benches: dict[str, Rageval] = {}
        self._before: dict[str, Usage] = {}

    @classmethod
    def of(cls, config: pytest.Config) -> "GatePlugin":
        """The one of this process."""
        plugin = config.pluginmanager.get_plugin(cls.NAME)
        if not isinstance(plugin, cls):
            message = "the rageval plugin is not active in this process"
            raise pytest.UsageError(message)
        return plugin

    @property
    def session(self) -> "Session":
        """What the tests share, made for the first that asks: here the heavy imports happen."""
        if self._session is None:
            from pytest_rageval.plugin.progress import Progress  # noqa: PLC0415
            from pytest_rageval.session import Session  # noqa: PLC0415

            self._progress = Progress(self.config, self._progress_line)
            registry, tick = self.registry, self._progress.tick
            self._session = _told(
                lambda: Session(self.settings, together=together(self.config), registry=registry, tick=tick)
            )
        return self._session

    @cached_property
    def registry(self) -> "Registry":
        """What there is, built in and added by other plugins, which are asked once a process."""
        from pytest_rageval.evaluations.registry import Registry  # noqa: PLC0415 - see session

        registry = Registry()
        try:
            self.config.hook.pytest_rageval_register(registry=registry)
        except RagevalError as error:
            # Whose hook it was, the innermost line outside this package says.
            said = "\n  ".join([str(error), *places(error)[-1:]])
        else:
            return registry
        raise failure(said)

    @property
    def reports(self) -> "Mapping[str, Report]":
        """What other plugins write reports with, by suffix; nothing where what they add is wrong, as tests tell."""
        try:
            return self.registry.reports
        except pytest.fail.Exception:
            return {}

    def prompts(self) -> Mapping[str, str]:
        """The prompts of the user's file."""
        from pytest_rageval.prompts.rendering import read_templates  # noqa: PLC0415 - see session

        path = self.settings.prompts
        return {} if path is None else _told(lambda: read_templates(path))

    def check_prompts(self, prompts: object) -> None:
        """Let pass prompts that can be sent; a test with others ends here."""
        _worded(prompts)

    def default_generator(self, prompts: object) -> object:
        """What generates unless a conftest says otherwise, with these prompts."""
        from pytest_rageval.session.models import DefaultGenerator  # noqa: PLC0415 - see session

        return DefaultGenerator(self.session.models, _worded(prompts))

    def default_judge(self, prompts: object) -> object:
        """What compares answers unless a conftest says otherwise, with these prompts."""
        from pytest_rageval.session.models import DefaultJudge  # noqa: PLC0415 - see session

        return DefaultJudge(self.session.models, _worded(prompts))

    def llm(self) -> "LLM":
        """The model in force, for the user's own code."""
        return self.session.llm

    def encoder(self) -> "CachedEncoder":
        """The packaged encoder, for built-in retrievers."""
        return self.session.encoder

    def open(self, item: pytest.Item, retriever: object, generator: object, judge: object) -> "Rageval":
        """The object that a test receives, with the scores of its markers computed."""
        from pytest_rageval.plugin.rageval_fixture import Rageval  # noqa: PLC0415 - see session
        from pytest_rageval.session import Components  # noqa: PLC0415

        verbosity = self.config.get_verbosity()
        bench = Rageval(
            self.session,
            Components(retriever, generator, judge),
            item,
            limit=SHOWN.get(verbosity, 3 if verbosity < 0 else None),
            family=self._family.size,
            finished=self._progress.clear if self._progress else lambda: None,
        )
        self._benches[item.nodeid] = bench
        bench.measure()
        return bench

    def stood_in(self, item: pytest.Item) -> bool:
        """Whether a test was given what only stands for a result."""
        bench = self._benches.get(item.nodeid)
        return bench is not None and bench.stood_in

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(
        self, collector: pytest.Module | pytest.Class, name: str, obj: object
    ) -> None:
        """Give a test with thresholds the fixture `rageval`, which it need not name.

        As a mark, and before the item is made: then pytest knows the fixture's
        own fixtures, and a parametrized retriever multiplies the test.
        """
        if not (inspect.isfunction(obj) and collector.funcnamefilter(name)):
            return
        own = getattr(obj, "pytestmark", [])
        if any(mark.name in MARKERS for mark in own) or any(map(collector.get_closest_marker, MARKERS)):
            pytest.mark.usefixtures("rageval")(obj)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Give the fixture to tests whose mark came later: from a parameter, or from another plugin."""
        if self._session is not None:
            self._before[item.nodeid] = self._session.usage
        names = getattr(item, "fixturenames", None)
        if names is None or not any(map(item.get_closest_marker, MARKERS)):
            return
        if "rageval" not in names:
            names.append("rageval")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Hold the scores against the thresholds, before the test's own statements."""
        if item.nodeid in self._benches:
            self._benches[item.nodeid].enforce()
            return
        late = next(filter(item.get_closest_marker, MARKERS), None)
        if late is not None:
            # A threshold that is not held must not look like one that is kept.
            message = (
                f"{late} does nothing here: it came when the test had begun, or the test has no fixtures.\n"
                "Mark the test in its file, or in pytest_collection_modifyitems."
            )
            raise failure(message)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send the results with the last of the test's reports: it also crosses to xdist's controller."""
        if call.when == "call" and (
            call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception)
        ):
            self._look_again(item, call)
        cut_traceback(call.excinfo)
        report = yield
        # A test of ours that came to no score, as its retriever broke, is told of too.
        ours = "rageval" in getattr(item, "fixturenames", ())
        if report.when == "teardown" and (ours or self._session is not None):
            from pytest_rageval.llm.usage import Usage  # noqa: PLC0415 - see session

            bench = self._benches.pop(item.nodeid, None)
            used = Usage() if self._session is None else self._session.usage
            asked = used - self._before.pop(item.nodeid, Usage())
            if ours or asked != Usage():
                results: dict[str, Any] = {"nodeid": plain_nodeid(item.nodeid), "evalset": None, "scores": []}
                results |= bench.results() if bench is not None else {}
                report.rageval = {**results, "llm": asked.plain()}  # type: ignore[attr-defined]
        return report

    def _look_again(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Fail a test that came to its end, or skipped itself, behind a threshold that was not kept."""
        bench = self._benches.get(item.nodeid)
        if bench is not None:
            try:
                bench.enforce_asked()
            except pytest.fail.Exception as failure:
                call.excinfo = pytest.ExceptionInfo.from_exception(failure)

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> list[str] | None:
        """Explain a failed assertion on a score or a ranking by the questions behind it."""
        if self._session is None:
            return None
        from pytest_rageval.reports.questions import explain  # noqa: PLC0415 - loaded by now

        verbosity = self.config.get_verbosity()
        lines = explain(op, left, right, limit=SHOWN.get(verbosity, 3 if verbosity < 0 else None))
        return lines and list(map(printable, lines))

    def pytest_sessionfinish(self) -> None:
        """Let go of connections and processes; hand the replies to record to the reports."""
        if self._session is None:
            return
        held_up = self._session.close()
        if held_up is not None:
            from pytest_rageval.plugin.progress import print_line  # noqa: PLC0415 - rare

            print_line(
                self.config,
                "rageval: warning: async code still runs and blocks the event loop, so that connections and files are "
                f"not closed: {held_up}",
            )

    def recorded(self) -> dict[str, str]:
        """The replies that this process used, as a cassette's lines, where they are to be recorded."""
        if self._session is None:
            return {}
        from pytest_rageval.llm.cassette import entry_line  # noqa: PLC0415 - see session

        return {key: entry_line(entry) for key, entry in self._session.door.used.items()}

    def _progress_line(self) -> str:
        usage = self.session.door.usage
        return f"{usage.requests} replies asked for, {usage.cached} from the cache, {usage.live} live"


def _worded(prompts: object) -> "Prompts":
    """What the fixture `rageval_prompts` gave."""
    from pytest_rageval.prompts.rendering import prompts_of  # noqa: PLC0415 - see session

    return _told(lambda: prompts_of(prompts, "rageval_prompts"))


def _told(make: Callable[[], T]) -> T:
    """What it makes; an error of the user's is told without our traceback."""
    try:
        return make()
    except RagevalError as error:
        said = str(error)
    raise failure(said)
