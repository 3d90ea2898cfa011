"""Marked tests: their scores are computed at setup and held against the thresholds at call.

So pytest's own words fit: a score out of its bounds is a failure, a score that
cannot be had is an error.
"""

import inspect
from collections.abc import Callable, Generator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.errors import RagevalError, places
from pytest_rageval.plugin.family import FamilyPlugin
from pytest_rageval.plugin.naming import plain_nodeid
from pytest_rageval.plugin.printing import failure
from pytest_rageval.plugin.together import together
from pytest_rageval.plugin.told import tell
from pytest_rageval.printable import printable

if TYPE_CHECKING:
    from pytest_rageval.embeddings.cached import CachedEncoder
    from pytest_rageval.evaluations.registry import Registry, Report
    from pytest_rageval.llm.complete import LLM
    from pytest_rageval.llm.usage import Usage
    from pytest_rageval.plugin.facade import Rageval
    from pytest_rageval.plugin.progress import Progress
    from pytest_rageval.prompts.asking import Prompts
    from pytest_rageval.session import Session

__all__ = ["MARKERS", "GatePlugin"]

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
        from pytest_rageval.prompts.replacing import read_templates  # noqa: PLC0415 - see session

        path = self.settings.prompts
        return {} if path is None else _told(lambda: read_templates(path))

    def check_prompts(self, prompts: object) -> None:
        """Let pass prompts that can be sent; a test with others ends here."""
        _worded(prompts)

    def default_generator(self, prompts: object) -> object:
        """What generates unless a conftest says otherwise, with these prompts."""
        from pytest_rageval.models import DefaultGenerator  # noqa: PLC0415 - see session

        return DefaultGenerator(self.session.models, _worded(prompts))

    def default_judge(self, prompts: object) -> object:
        """What compares answers unless a conftest says otherwise, with these prompts."""
        from pytest_rageval.models import DefaultJudge  # noqa: PLC0415 - see session

        return DefaultJudge(self.session.models, _worded(prompts))

    def llm(self) -> "LLM":
        """The model in force, for the user's own code."""
        return self.session.llm

    def encoder(self) -> "CachedEncoder":
        """The packaged encoder, for built-in retrievers."""
        return self.session.encoder

    def open(self, item: pytest.Item, retriever: object, generator: object, judge: object) -> "Rageval":
        """The object that a test receives, with the scores of its markers computed."""
        from pytest_rageval.plugin.facade import Rageval  # noqa: PLC0415 - see session
        from pytest_rageval.session import Parts  # noqa: PLC0415

        verbosity = self.config.get_verbosity()
        bench = Rageval(
            self.session,
            Parts(retriever, generator, judge),
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
        tell(call.excinfo)
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
        from pytest_rageval.reports.assertion import explain  # noqa: PLC0415 - loaded by now

        verbosity = self.config.get_verbosity()
        lines = explain(op, left, right, limit=SHOWN.get(verbosity, 3 if verbosity < 0 else None))
        return lines and list(map(printable, lines))

    def pytest_sessionfinish(self) -> None:
        """Let go of connections and processes; hand the replies to record to the reports."""
        if self._session is not None:
            self._session.close()

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
    from pytest_rageval.prompts.replacing import prompts_of  # noqa: PLC0415 - see session

    return _told(lambda: prompts_of(prompts, "rageval_prompts"))


def _told(make: Callable[[], T]) -> T:
    """What it makes; an error of the user's is told without our traceback."""
    try:
        return make()
    except RagevalError as error:
        said = str(error)
    raise failure(said)
