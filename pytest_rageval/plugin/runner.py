"""`EvaluationPlugin`: the hooks that compute scores in a test's setup, and compare them with thresholds in its call.

So a violated threshold is a failure of the test, and a score that cannot be computed is an error. `Process` has what
the tests of a process share.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import TYPE_CHECKING, Final, TypeVar

import pytest

from pytest_rageval.core.errors import RagevalError, ReplyPending, Unscored, user_frames
from pytest_rageval.lib.spool import rare_collection
from pytest_rageval.lib.text import printable
from pytest_rageval.options.parsers import destination_kind
from pytest_rageval.options.settings import Settings
from pytest_rageval.plugin.markers import (
    CALLS,
    EVALUATED_MARKERS,
    async_fixture_error,
    fixture_error,
    second_evalset_error,
    timeout_mark_error,
    unknown_marker_error,
)
from pytest_rageval.plugin.progress import EvaluationProgress, Work
from pytest_rageval.plugin.terminal import (
    cut_traceback,
    failure,
    place_failure,
    plain_nodeid,
    print_line,
    terminal_width,
)

if TYPE_CHECKING:
    import pluggy

    from pytest_rageval.answers.judge.default import DefaultJudge
    from pytest_rageval.baseline import Baseline
    from pytest_rageval.models import ConfiguredModels, DefaultGenerator
    from pytest_rageval.models.api import LLM
    from pytest_rageval.models.prompt_rendering import Prompts
    from pytest_rageval.models.usage import Usage
    from pytest_rageval.plugin.rageval_fixture import Rageval
    from pytest_rageval.reports.failures import Room
    from pytest_rageval.reports.layout import AddedTable
    from pytest_rageval.run.registry import Registry, Report
    from pytest_rageval.run.session import Session
    from pytest_rageval.run.test import TestRun

T = TypeVar("T")

PROCESS: "pytest.StashKey[Process]" = pytest.StashKey()

RECEIVED_FIXTURE: "pytest.StashKey[bool]" = pytest.StashKey()
"""True for a test that received the fixture `rageval`, as an argument or by `request.getfixturevalue`."""

WAITS_FOR_BATCH: Final = "waits for replies of a batch"

BRIEF_REPORTS: Final = frozenset({".md"})  # they show only the questions that explain a verdict


class Process:
    """The session that the tests of a process share, with their usage of models, and the hooks that close it.

    `run` is the name of the run, equal in all of its processes, and `columns` the width of its terminal; `batch_usage`
    is the usage of the batches that were collected before the tests.
    """

    def __init__(
        self, config: pytest.Config, settings: Settings, run: str, columns: int, running_nodeid: str | None
    ) -> None:
        self._config = config
        config.stash[PROCESS] = self
        self.settings = settings
        self.run = run
        self.batch_usage: Counter[str] = Counter()
        self._session: Session | None = None
        self._progress: EvaluationProgress | None = None
        self._usage_before: dict[str, Usage] = {}
        self._running_nodeid = running_nodeid
        self._width = terminal_width(columns)

    @staticmethod
    def get(config: pytest.Config) -> "Process":
        return config.stash[PROCESS]

    @property
    def has_session(self) -> bool:
        return self._session is not None

    @property
    def session(self) -> "Session":
        """The session that the tests share. The first use builds it and loads most modules of the package."""
        if self._session is None:
            self._session = self._build_session()
        return self._session

    @rare_collection()
    def _build_session(self) -> "Session":
        from pytest_rageval.reports.layout import width  # noqa: PLC0415
        from pytest_rageval.run.session import RunContext, Session  # noqa: PLC0415

        self._progress = EvaluationProgress(self._config, self._work, self.running_test, self._width)
        width.set(self._width)
        registry, tick = self.registry, self._progress.tick
        run, workers = self.run, int(getattr(self._config, "workerinput", {}).get("workercount", 1))
        return fail_on_error(
            lambda: Session(self.settings, context=RunContext(run, workers), registry=registry, tick=tick)
        )

    def models_of(self, client: object) -> "ConfiguredModels":
        """Return the models that use the user's client; fail if a plugin refuses it."""
        models = fail_on_error(lambda: self.session.models_of(client))
        if client is not None:
            fail_on_error(lambda: self._config.hook.pytest_rageval_client(models=models))
        return models

    def generator(self, prompts: object, client: object) -> "DefaultGenerator":
        from pytest_rageval.models import DefaultGenerator  # noqa: PLC0415 - see session

        return DefaultGenerator(self.models_of(client), parse_prompts(prompts))

    def judge(self, prompts: object, client: object) -> "DefaultJudge":
        from pytest_rageval.answers.judge.default import DefaultJudge  # noqa: PLC0415 - see session

        return DefaultJudge(self.models_of(client), parse_prompts(prompts))

    def llm(self, prompts: object, client: object) -> "LLM":
        return self.session.llm_of(self.models_of(client), parse_prompts(prompts))

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts of the preset, replaced by those of `--rageval prompts=FILE`, by name."""
        path, preset = self.settings.prompts, self.settings.applied_preset
        preset_prompts = preset.prompts if preset else {}
        if path is None:
            return preset_prompts
        from pytest_rageval.models.prompt_rendering import read_templates  # noqa: PLC0415 - few runs have such a file

        return {**preset_prompts, **fail_on_error(lambda: read_templates(path))}

    @cached_property
    def registry(self) -> "Registry":
        from pytest_rageval.run.registry import Registry  # noqa: PLC0415 - see session

        try:
            off = [name.removeprefix("-") for name in self._config.getini("rageval_extensions")]
            return Registry(self._config.hook, off=off)
        except RagevalError as error:
            # The innermost frame outside this package is in the plugin whose hook failed.
            text = "\n  ".join([str(error), *user_frames(error)[-1:]])
        raise failure(text)

    @property
    def writers(self) -> "Mapping[str, Report]":
        """The writers of reports by kind; the built-in ones if a registration fails, which is an error of each test."""
        try:
            return self.registry.writers
        except pytest.fail.Exception:
            from pytest_rageval.reports import KINDS  # noqa: PLC0415 - loaded by now

            return KINDS

    @property
    def tables(self) -> "Sequence[AddedTable]":
        """The tables that extensions add; none if a registration fails."""
        with suppress(pytest.fail.Exception):
            return self.registry.tables
        return ()

    def begin_test(self, nodeid: str) -> None:
        self._running_nodeid = nodeid
        if self._session is not None:
            self._usage_before[nodeid] = self._session.usage

    def end_test(self, nodeid: str) -> "Usage":
        """Return the usage of models by a test, which has ended."""
        usage = self.usage_of(nodeid)
        self._usage_before.pop(nodeid, None)
        self._running_nodeid = None
        return usage

    def usage_of(self, nodeid: str) -> "Usage":
        """Return the usage of models by a test so far."""
        from pytest_rageval.models.usage import Usage  # noqa: PLC0415 - see session

        usage = Usage() if self._session is None else self._session.usage
        return usage - self._usage_before.get(nodeid, Usage())

    def running_test(self) -> "tuple[str, Usage] | None":
        """Return the node id of the running test and its usage of models so far; None if no test runs."""
        if self._session is None or self._running_nodeid is None:
            return None
        return self._running_nodeid, self.usage_of(self._running_nodeid)

    @property
    def baseline(self) -> "Baseline | None":
        """The baseline, if a test of this process has read it; else None."""
        return None if self._session is None else vars(self._session).get("baseline")

    def recorded_lines(self) -> dict[str, str]:
        if self._session is None or "keeps replies" not in self.settings.effects:
            return {}
        from pytest_rageval.models.cassette import entry_line  # noqa: PLC0415 - few runs record

        return {key: entry_line(entry) for key, entry in self._session.gateway.used.items()}

    def clear_progress(self) -> None:
        if self._progress is not None:
            self._progress.clear()

    def pytest_sessionfinish(self) -> None:
        if self._session is None:
            return
        from pytest_rageval.reports.layout import WIDTH, width  # noqa: PLC0415 - loaded by now

        # The text of report files must not depend on the terminal.
        width.set(WIDTH)
        usage = self._session.usage
        blocking = self._session.close()
        for remark in (self._session.usage - usage).remarks:
            # The reports of the tests, which have the other remarks, are complete.
            print_line(self._config, f"rageval: {remark}")
        if blocking is not None:
            problem = "async code still runs and blocks the event loop, so that connections and files are not closed"
            print_line(self._config, f"rageval: warning: {problem}: {blocking}")

    def pytest_unconfigure(self) -> None:
        """Release all evaluated objects: pytest then runs several garbage collections, which visit every object."""
        if self._session is not None:
            from pytest_rageval.evalsets.loading import clear_last_evalset  # noqa: PLC0415 - loaded by now

            clear_last_evalset()
            self._session = None

    def _work(self) -> Work:
        usage, (rankings, ranked) = self.session.usage, self.session.pipelines.rankings
        return Work(
            rankings,
            ranked,
            # An estimate: waiting examples will send as many requests on average as those that have begun.
            round(usage.requests / self.session.pipelines.share_begun),
            usage.cached + usage.live + usage.failed,
            live=usage.live,
            cost_usd=usage.cost_usd,
            unpriced=usage.unpriced,
        )


class EvaluationPlugin:
    """The hooks of a process that runs tests."""

    def __init__(self, config: pytest.Config, process: Process) -> None:
        self.config = config
        self.process = process
        self._sharing_alpha: frozenset[str] | None = None
        self._tests: dict[str, TestRun] = {}
        # True if pytest's message about the failed assertion has been replaced by an explanation of this package.
        self._explained = False
        self._failures = 0

    @rare_collection()
    def evaluate(  # noqa: PLR0913 - the values of fixtures
        self,
        item: pytest.Item,
        retriever: object,
        generator: object,
        judge: object,
        *,
        prompts: object,
        components: Mapping[str, object],
        reference: Callable[[], object],
    ) -> "Rageval":
        """Evaluate the markers of a test, and return the object that the test receives."""
        # Invalid prompts are an error even if generator and judge are the user's own, which do not use them.
        parse_prompts(prompts)
        from pytest_rageval.plugin.rageval_fixture import Rageval, configuration_of, marked_test  # noqa: PLC0415 - see session
        from pytest_rageval.run.inputs import Components  # noqa: PLC0415
        from pytest_rageval.run.test import TestRun  # noqa: PLC0415

        test = TestRun(
            self.process.session,
            Components(retriever, generator, judge, added=components, configuration=configuration_of(item)),
            marked_test(item, reference),
            sharing_alpha=self._tests_sharing_alpha(item.session),
            room=self._room,
        )
        self._tests[item.nodeid] = test
        item.stash[RECEIVED_FIXTURE] = True
        try:
            problems = test.evaluate_markers()
        except ReplyPending:
            # Another BaseException would leave the fixture unfinished: pytest then fails the next test that uses it.
            raise pytest.skip.Exception(WAITS_FOR_BATCH) from None
        finally:
            self.process.clear_progress()
        if problems:
            # The message of an error also names the scores that are out of their bounds.
            raise failure("\n\n".join([*dict.fromkeys(problems), *test.failures()]))
        return Rageval(self.process.session, test, clear_progress=self.process.clear_progress)

    def _tests_sharing_alpha(self, session: pytest.Session) -> frozenset[str]:
        """Return the node ids of the selected tests that share one error rate: their markers test a drop."""
        if self._sharing_alpha is None:
            from pytest_rageval.core.policy import policies_of  # noqa: PLC0415 - runs without marked tests
            from pytest_rageval.gate.threshold import tests_a_drop  # noqa: PLC0415 - as above

            policies = policies_of(self.process.settings.policy)
            self._sharing_alpha = frozenset(
                plain_nodeid(item.nodeid)
                for item in session.items
                for marker in item.iter_markers("rageval_threshold")
                if tests_a_drop(marker.kwargs, policies)
            )
        return self._sharing_alpha

    def test_of(self, item: pytest.Item) -> "TestRun | None":
        """Return the evaluation of a test, from its setup to its teardown; None if the test has none."""
        return self._tests.get(item.nodeid)

    def prepare(self, item: pytest.Item) -> None:
        """Prepare a test at the beginning of its setup; fail if it has a mark that does not work.

        A test whose mark was added after the collection, by a parameter or another plugin, gets the fixture here.
        """
        for find_error in (unknown_marker_error, second_evalset_error, timeout_mark_error, fixture_error):
            if problem := find_error(item):
                raise failure(problem)
        self._explained = False
        self.process.begin_test(item.nodeid)
        names = getattr(item, "fixturenames", None)
        has_marker = any(map(item.get_closest_marker, EVALUATED_MARKERS))
        if names is not None and ("rageval" in names or has_marker):
            # The last one: other fixtures of the test may configure what is evaluated. A new list, because the items of
            # a parametrized test share one list.
            item.fixturenames = [*(name for name in names if name != "rageval"), "rageval"]  # type: ignore[attr-defined]

    def check_thresholds(self, item: pytest.Item) -> None:
        """Fail a test if a score of its markers is out of bounds, or if a marker had no effect."""
        if item.nodeid in self._tests:
            test = self._tests[item.nodeid]
            if failures := test.failures():
                raise failure("\n\n".join(failures), test.summary)
        elif late_marker := next(filter(item.get_closest_marker, EVALUATED_MARKERS), None):
            raise failure(
                f"{late_marker} does nothing here: it was added after the test had begun, or the test has no "
                "fixtures.\nMark the test in its file, or in pytest_collection_modifyitems."
            )

    # A wrapper of the newer kind would be a frame in the traceback of each error of a fixture.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, "pluggy.Result[object]", None]:
        """Say what an async fixture of a component has to be, if no other plugin awaits it."""
        name, function = fixturedef.argname, fixturedef.func
        result = yield
        is_async = iscoroutinefunction(function) or isasyncgenfunction(function)
        if name in CALLS and is_async and isinstance(result.exception, pytest.fail.Exception):
            result.force_exception(failure(async_fixture_error(name)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the results of a test to the report of its teardown, which xdist sends to the controller."""
        passed_or_skipped = call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception)
        if call.when == "call" and passed_or_skipped and (violations := self._violations(item)):
            try:
                raise failure(violations)
            except pytest.fail.Exception as error:
                call.excinfo = pytest.ExceptionInfo.from_exception(error)
        cut_traceback(call.excinfo)
        report = yield
        if (
            self._explained
            and report.failed
            and call.excinfo is not None
            and item.config.getoption("tbstyle", "auto") == "auto"
        ):
            # The explanation says what the test's source and its arguments would.
            report.longrepr = pytest.Item.repr_failure(item, call.excinfo, style="short")
        if report.failed and call.excinfo is not None and self.is_own_message(call.excinfo.value):
            place_failure(report, item, call.excinfo.value)
            self._failures += not self._explained
        if report.when == "teardown" and (results := self._results(item)):
            report.rageval = results  # type: ignore[attr-defined]
        return report

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> list[str] | None:
        """Explain a failed assertion on a score or a ranking by the questions that caused it."""
        if not self.process.has_session:
            return None
        from pytest_rageval.reports.failures import explain_assertion  # noqa: PLC0415 - loaded by now

        lines = explain_assertion(op, left, right, self._room())
        self._explained = bool(lines)
        return lines and list(map(printable, lines))

    def _violations(self, item: pytest.Item) -> str:
        """Return a message about the failed thresholds of `score` calls in a test that passed or was skipped."""
        violations = self._tests[item.nodeid].violations() if item.nodeid in self._tests else []
        head = (
            "A threshold failed, and the test caught the failure, or skipped itself after it.\n"
            "If that is intended, leave out the bound and assert on the score."
        )
        return "\n\n".join([head, *violations]) if violations else ""

    def _results(self, item: pytest.Item) -> dict[str, object] | None:
        """Return a test's entry for the report, with its usage of models; None if it uses neither scores nor models.

        A test with the fixture `rageval` has an entry even without a score, for instance if its retriever failed.
        """
        has_fixture = "rageval" in getattr(item, "fixturenames", ()) or RECEIVED_FIXTURE in item.stash
        if not has_fixture and not self.process.has_session:
            return None
        usage = self.process.end_test(item.nodeid)
        from pytest_rageval.models.usage import Usage  # noqa: PLC0415 - see session
        from pytest_rageval.plugin.rageval_fixture import parametrization  # noqa: PLC0415

        test = self._tests.pop(item.nodeid, None)
        if not has_fixture and usage == Usage():
            return None
        results = {} if test is None else {**parametrization(item), **self._results_of(test)}
        if test is not None and test.is_recorded:
            results["judged_later"] = True
        nodeid = plain_nodeid(item.nodeid)
        return {"nodeid": nodeid, "evalset": None, "scores": [], **results, "llm": usage.to_dict()}

    def is_own_message(self, error: BaseException) -> bool:
        """Return True if the message of a failure is from this package, so that it can be shortened to one line."""
        is_own = isinstance(error, RagevalError | Unscored) or hasattr(error, "rageval_summary")
        return is_own or (self._explained and isinstance(error, AssertionError))

    def _results_of(self, test: "TestRun") -> dict[str, object]:
        """Return the results of a test, as detailed as the outputs of this run need them.

        Details cost time, since the tokens of all passages are counted, and memory for the texts.
        """
        reports = set(map(destination_kind, self.process.settings.report))
        with rare_collection():
            return test.results(
                describe=bool(reports) or self.config.get_verbosity() > 0,
                # A plugin may replace a built-in report by one with more details.
                explain=any(
                    kind not in BRIEF_REPORTS or kind in self.process.registry.reports for kind in reports
                ),
            )

    def _room(self) -> "Room":
        from pytest_rageval.reports.failures import Room  # noqa: PLC0415 - loaded by now

        return Room.of(self.config.get_verbosity(), self._failures)


def parse_prompts(prompts: object) -> "Prompts | None":
    """Return the prompts of the fixture `rageval_prompts`; None if it is empty. Fail if they are invalid."""
    if prompts == {}:
        return None
    from pytest_rageval.models.prompt_rendering import build_prompts  # noqa: PLC0415 - see session

    return fail_on_error(lambda: build_prompts(prompts, "rageval_prompts"))


def fail_on_error(function: Callable[[], T]) -> T:
    try:
        return function()
    except RagevalError as error:
        text = str(error)
    raise failure(text)
