"""The hooks of this plugin. Its own extensions use them, and other plugins and conftest.py may.

A hook is a function of this name in a plugin module or conftest.py. It may leave out arguments that it does not need.
The hooks with a `test` are called in the process that runs the test, between its setup and its report. `test` is a
`pytest_rageval.run.test.TestRun`, whose `state` an extension may use for what it has to remember. The hooks that say so
are called by `rageval merge` too; there `test` is a `pytest_rageval.run.judged.JudgedTest`, with the record of the
test, and without the user's components.

`VERSION` is raised when a hook, or a meaning of one of its arguments, changes.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pluggy

if TYPE_CHECKING:
    from collections import Counter

    import pytest

    from pytest_rageval.calls.event_loop import BackgroundEventLoop
    from pytest_rageval.core.errors import Planned
    from pytest_rageval.core.evalset import EvalSet
    from pytest_rageval.core.outcome import Score
    from pytest_rageval.core.ranking import Ranking
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.gate.verdict import ThresholdInput, ThresholdResult
    from pytest_rageval.models import ConfiguredModels
    from pytest_rageval.models.sources import MakeSource
    from pytest_rageval.models.usage import Usage
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.reports.document import TestEntry
    from pytest_rageval.retrievers import Retriever
    from pytest_rageval.retrievers.adapters import Adapter
    from pytest_rageval.run import FinishedRun
    from pytest_rageval.run.inputs import Components
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.registry import Registry
    from pytest_rageval.run.test import PartialScores, TestRun
    from pytest_rageval.scores.annotator_agreement import Agreement, AgreementRequest

VERSION: Final = 1

hookspec: Final = pluggy.HookspecMarker("pytest")
hookimpl: Final = pluggy.HookimplMarker("pytest")
"""The decorator of functions and methods that implement a hook, of this plugin or of pytest."""


@hookspec
def pytest_rageval_register(registry: "Registry") -> None:
    """Add scores, comparators, answer measures, retriever adapters, eval-set formats, reports, stores and providers.

    The hook is called once in each process, before the first score is computed or the first report is written.

    Args:
        registry: see `pytest_rageval.run.registry.Registry` for its methods.
    """


@hookspec(firstresult=True)
def pytest_rageval_reply_source(settings: "Settings") -> "MakeSource | None":
    """Return what makes the `pytest_rageval.models.sources.Source` of a run, which obtains replies that are not stored.

    The hook is called once in each process that sends requests, and has no effect with `--rageval-plan` and
    `--rageval-replay`. None leaves the source to the next plugin, and at last to the core, which sends the requests.
    """


@hookspec(firstresult=True)
def pytest_rageval_adapt_retriever(  # noqa: PLR0913, PLR0917 - an implementation may leave some out
    retriever: object,
    components: "Components",
    name: str,
    loop: "BackgroundEventLoop",
    adapters: "Sequence[Adapter]",
    id_path: str,
) -> "Retriever | None":
    """Return the object of a fixture as a `pytest_rageval.retrievers.Retriever`; None to leave it to the adapters.

    Args:
        retriever: the object.
        components: the values of all fixtures of the test.
        name: the name of the fixture.
        loop: the event loop of the run.
        adapters: the adapters, in the order in which they are tried.
        id_path: the path of the field with the ids of the documents; empty: the usual names.
    """


@hookspec(firstresult=True)
def pytest_rageval_stand_in_for_component(
    name: str, component: object, settings: "Settings", remarks: "Counter[str]"
) -> object | None:
    """Return what is called in place of the user's generator or judge, as in a plan; None to call it.

    Args:
        name: the name of the fixture.
        component: its value, whose methods the result has too.
        settings: the settings of the run.
        remarks: the remarks on the run, with how often each applies; a call may add some.
    """


@hookspec(firstresult=True)
def pytest_rageval_default_fixture(name: str, request: "pytest.FixtureRequest") -> object | None:
    """Return the value of `rageval_retriever` or `rageval_generator` if the user does not define it; None to leave it.

    Args:
        name: the name of the fixture.
        request: the request of the fixture, whose scope is the session.
    """


@hookspec
def pytest_rageval_start(config: "pytest.Config", settings: "Settings") -> Sequence[object] | None:
    """Return plugins of pytest that this run needs besides, such as those of a mode.

    The hook is called once in each process, when the rest of the plugin is started: before the tests are collected if
    an option, an ini key or an environment variable configures it, otherwise at the first test that uses it; in the
    controller of pytest-xdist, after a worker has started it.

    Raises:
        UsageError: the options contradict each other.
    """


@hookspec
def pytest_rageval_client(models: "ConfiguredModels") -> None:
    """Refuse the models that the user's own client calls, the value of the fixture `rageval_client`.

    Raises:
        RagevalError: each test with the client ends as this error.
    """


@hookspec(firstresult=True)
def pytest_rageval_part(settings: "Settings", evalset: "EvalSet") -> "EvalSet | None":
    """Return the part of an eval set that this run scores; None to leave it to the core, which draws the sample."""


@hookspec
def pytest_rageval_before_test(test: "JudgedTest") -> "Sequence[str] | None":
    """Do what a test needs besides its thresholds, before their scores are evaluated; return errors. A merge calls it.

    Raises:
        RagevalError: it ends the test as an error.
    """


@hookspec(firstresult=True)
def pytest_rageval_evaluate(test: "TestRun", thresholds: "Sequence[Threshold]") -> "Sequence[str] | None":
    """Evaluate the thresholds of a test's markers in place of the core, which then gives no verdicts; return errors.

    None leaves the evaluation to the next plugin, and at last to the core.
    """


@hookspec
def pytest_rageval_before_call(test: "TestRun", call: str) -> None:
    """Refuse a call of the object `rageval`, such as "rageval.score()".

    Raises:
        RagevalError: the call is the error.
    """


@hookspec(firstresult=True)
def pytest_rageval_evaluate_call(test: "TestRun", threshold: "Threshold") -> "Score | None":
    """Return the score of a call of `rageval.score` in place of the core; None to leave it to the core."""


@hookspec(firstresult=True)
def pytest_rageval_evaluate_agreement(test: "TestRun", request: "AgreementRequest") -> "Agreement | None":
    """Return the table of a call of `rageval.agreement` in place of the core; None to leave it to the core."""


@hookspec(firstresult=True)
def pytest_rageval_stand_in(
    test: "TestRun", wanted: "Threshold | AgreementRequest | Ranking | str | Planned"
) -> object | None:
    """Return what a test receives in place of a result that depends on replies that are missing, as in a plan.

    With a stub the test continues to its next request; None ends it, while a batch is collected.

    Args:
        test: the test, whose `has_stubs` is set to True.
        wanted: the score or the agreement; or the ranking or the answer as they are without the replies.
    """


@hookspec(firstresult=True)
def pytest_rageval_partial_scores(
    test: "TestRun", thresholds: "Sequence[Threshold]"
) -> "PartialScores | None":
    """Return scores of some thresholds that need not all questions: a `PartialScores`; None for no such threshold."""


@hookspec(firstresult=True)
def pytest_rageval_before_judge(
    test: "JudgedTest", threshold_input: "ThresholdInput"
) -> "ThresholdInput | None":
    """Return a threshold with its score and baseline as it is to be judged; None if it stays as it is.

    A merge calls it.

    Raises:
        RagevalError: it takes the place of the verdict.
    """


@hookspec
def pytest_rageval_after_test(test: "TestRun", thresholds: "Sequence[Threshold]") -> "Sequence[str] | None":
    """Do more with the test after the scores of these thresholds were evaluated; return errors."""


@hookspec
def pytest_rageval_score_entry(
    test: "JudgedTest",
    threshold: "Threshold",
    score: "Score | None",
    result: "ThresholdResult | None",
) -> Mapping[str, object] | None:
    """Return more keys for the entry of a score in the report; the result is None for a score without a bound.

    A merge calls it.
    """


@hookspec
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object] | None:
    """Return more keys for the entry of a test in the report; lists of `warnings` and `notes` are joined.

    Warnings and notes are lines, the notes below the scores of the test. A merge calls it.
    """


@hookspec
def pytest_rageval_baseline_entry(test: "JudgedTest") -> Mapping[str, object] | None:
    """Return more keys for the entry of a test in the baseline, which an update writes. A merge calls it."""


@hookspec
def pytest_rageval_gate_entry(settings: "Settings") -> Mapping[str, Any] | None:
    """Return more keys for the entry of the gate in the report; not called with `--rageval baseline_ref=REF`.

    A merge calls it.
    """


@hookspec
def pytest_rageval_run_finished(run: "FinishedRun") -> Mapping[str, object] | None:
    """Do what follows the last test, before the reports are written; return more keys for the JSON report.

    It is called in the process that writes the reports, but not in a plan, and by `rageval merge`.

    Raises:
        RagevalError: the run fails, with this message.
    """


@hookspec(firstresult=True)
def pytest_rageval_summary(
    settings: "Settings", tests: "Sequence[TestEntry]", usage_of: "Mapping[str, Usage]"
) -> Sequence[str] | None:
    """Return the lines that a run prints at its end in place of the table, with -q too; None to leave it to the core.

    Args:
        settings: the resolved options.
        tests: the entries of the tests in the report.
        usage_of: the usage of models by each test that has results, by node id.
    """


@hookspec
def pytest_rageval_failures(test: "JudgedTest", limit: int | None) -> "Sequence[str] | None":
    """Return failures of a test besides its thresholds, each a text with at most `limit` questions; None for all.

    A merge calls it.
    """
