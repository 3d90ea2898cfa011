"""Plan: `--rageval-plan` counts the requests that a run would send, and sends none."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options import Effect, Option, switch

if TYPE_CHECKING:
    from collections import Counter

    import pytest

    from pytest_rageval.core.errors import Planned, RagevalError
    from pytest_rageval.core.outcome import Score
    from pytest_rageval.core.ranking import Ranking
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.models.usage import Usage
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.reports.document import TestEntry
    from pytest_rageval.run.test import TestRun
    from pytest_rageval.scores.annotator_agreement import Agreement, AgreementRequest

EFFECTS: Final[tuple[Effect, ...]] = (
    *("sends nothing", "lacks replies", "has placeholders", "needs no cassette"),
    *("compares nothing", "reports nothing"),
)
PLAN: Final[Option[bool]] = switch(
    "plan",
    "print the requests that a run would send and their cost, and send none",
    is_flag=True,
    effects=lambda settings: EFFECTS if settings[PLAN] else (),
)
OPTIONS: Final = (PLAN,)


def contradictions(settings: "Settings") -> Iterator[str]:
    for name, nothing in {"record": "is nothing", "update_baseline": "are no scores"}.items():
        if settings[PLAN] and getattr(settings, name):
            option = f"--rageval-{name.replace('_', '-')}"
            yield f"--rageval-plan sends no requests, so there {nothing} for {option} to write: leave one out."


@hookimpl
def pytest_rageval_start(config: "pytest.Config", settings: "Settings") -> Sequence[object]:
    if not settings[PLAN]:
        return ()
    import pytest  # noqa: PLC0415 - the commands import this module without pytest

    from pytest_rageval.extensions.plan.plugin import PlanningPlugin  # noqa: PLC0415 - few runs are plans

    if getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("--rageval-plan sends no requests and needs no workers: add -n0.")
    return (PlanningPlugin(),)


@hookimpl
def pytest_rageval_stand_in_for_component(
    name: str, component: object, settings: "Settings", remarks: "Counter[str]"
) -> object | None:
    if not settings[PLAN]:
        return None
    from pytest_rageval.calls.user_code import is_cached  # noqa: PLC0415 - few runs are plans
    from pytest_rageval.extensions.plan.plugin import PlannedComponent  # noqa: PLC0415 - likewise

    return None if is_cached(component) else PlannedComponent(name, component, remarks)


@hookimpl(tryfirst=True)
def pytest_rageval_evaluate(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str] | None:
    if not test.session.settings[PLAN]:
        return None
    return [*test.before(), *(map(str, _count(test, thresholds)) if thresholds else ())]


@hookimpl(tryfirst=True)
def pytest_rageval_evaluate_call(test: "TestRun", threshold: "Threshold") -> "Score | None":
    if not test.session.settings[PLAN]:
        return None
    for error in _count(test, [threshold]):
        raise error
    return cast("Score", pytest_rageval_stand_in(test, threshold))


@hookimpl
def pytest_rageval_evaluate_agreement(test: "TestRun", request: "AgreementRequest") -> "Agreement | None":
    if not test.session.settings[PLAN]:
        return None
    # Errors are ignored: in a run, the table lists these scores as missing.
    test.session.evaluator.outcomes(test.components, test.evalset, request.score_requests)
    return cast("Agreement", pytest_rageval_stand_in(test, request))


@hookimpl
def pytest_rageval_summary(
    settings: "Settings", tests: "Sequence[TestEntry]", usage_of: "Mapping[str, Usage]"
) -> Sequence[str] | None:
    if not settings[PLAN]:
        return None
    from pytest_rageval.extensions.plan.plugin import summary_lines  # noqa: PLC0415 - few runs are plans

    return summary_lines(settings, tests, usage_of)


@hookimpl
def pytest_rageval_stand_in(
    test: "TestRun", wanted: "Threshold | AgreementRequest | Ranking | str | Planned"
) -> object:
    from pytest_rageval.extensions.plan.plugin import stub_of  # noqa: PLC0415 - few runs have stubs

    return stub_of(test, wanted)


def _count(test: "TestRun", thresholds: "Sequence[Threshold]") -> "list[RagevalError]":
    from pytest_rageval.core.errors import RagevalError  # noqa: PLC0415 - few runs are plans

    outcomes = test.session.evaluator.outcomes(test.components, test.evalset, test.requests(thresholds))
    errors = [runs for runs in outcomes.values() if isinstance(runs, RagevalError)]
    return errors or [RagevalError(text) for text in test.after(thresholds)]
