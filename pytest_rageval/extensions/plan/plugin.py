"""What a run with `--rageval-plan` does: its hooks and its table; the stubs of results, and of the user's functions.

Every comparison with a stub of a result is true, so that the test continues to its next request.
"""

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, NoReturn, Self

import pytest

from pytest_rageval.core.errors import Planned, exception_text
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.text import counted
from pytest_rageval.models.messages import has_placeholder
from pytest_rageval.models.usage import ESTIMATED, Usage
from pytest_rageval.options import all_options
from pytest_rageval.options.settings import Settings
from pytest_rageval.plugin.completeness import deselect_tests_without_requests, report_as_skipped
from pytest_rageval.plugin.lazy_start import get_evaluation_plugin
from pytest_rageval.plugin.runner import Process
from pytest_rageval.plugin.terminal import fail_run, print_lines
from pytest_rageval.reports.document import TestEntry
from pytest_rageval.reports.layout import align_columns
from pytest_rageval.reports.terminal import FAILING_OUTCOMES
from pytest_rageval.run.judged import score_of_slice
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.annotator_agreement import Agreement, AgreementRequest, Association
from pytest_rageval.stats.intervals import UNIT

PLACEHOLDER_NUMBER: Final = 0.5  # the value of a stub for a number


def _always_true(self: object, other: object) -> bool:  # noqa: ARG001 - the signature of an operator
    return True


class _UnknownNumber:
    """The operators of a number that is unknown: comparisons are true, and results of arithmetic are unknown too."""

    def _unknown_result(self, *_: object) -> "PlannedNumber":
        return PlannedNumber()

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _always_true
    __hash__ = float.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = (
        _unknown_result
    )
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _unknown_result
    __neg__ = __pos__ = __abs__ = __round__ = _unknown_result


class PlannedNumber(_UnknownNumber, float):  # type: ignore[misc]
    def __new__(cls, *_: object) -> Self:
        return super().__new__(cls, PLACEHOLDER_NUMBER)

    def __getnewargs__(self) -> tuple[()]:  # type: ignore[override]
        return ()


class PlannedScore(_UnknownNumber, Score):  # type: ignore[misc]
    """Stub for a score: it has an outcome with an unknown value for every example."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return float.__new__(cls, PLACEHOLDER_NUMBER)

    @property
    def ci95(self) -> tuple[float, float] | None:
        return PlannedNumber(), PlannedNumber()

    @property
    def spread(self) -> float | None:
        return PlannedNumber() if self.repeats else None

    def counting(self, value: float, *causes: Any) -> float:  # noqa: ARG002 - the signature of `Score.counting`
        return PlannedNumber()

    @property
    def reach(self) -> tuple[float, float]:
        return self.scale


class PlannedText(str):
    """Stub for the text of a reply that was not requested: it contains and equals every text."""

    __slots__ = ()

    def _return_self(self, *_: object, **__: object) -> "PlannedText":
        return self

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __contains__ = _always_true
    __hash__ = str.__hash__
    lower = upper = casefold = title = capitalize = swapcase = _return_self
    strip = lstrip = rstrip = removeprefix = removesuffix = replace = translate = expandtabs = _return_self

    def startswith(self, *_: object) -> bool:
        return True

    endswith = isalnum = isalpha = isascii = isdecimal = isdigit = isnumeric = isprintable = startswith


class PlannedRanking(Ranking):
    """Stub for a ranking that depends on a missing reply: it contains every document."""

    def __contains__(self, item: object) -> bool:
        return True


class PlannedAgreement(Agreement):
    """Stub for a table of correlations, all unknown, so that any measure may agree best."""

    def best(self, annotator: str, k: int) -> Association:
        association = super().best(annotator, k)
        return replace(association, measure=PlannedText(association.measure))


class PlannedComponent:
    """Stub for the user's generator or judge: a call is not made, and is counted as a remark.

    It has the same methods as the replaced object, so that a missing method is an error in a plan too.
    """

    def __init__(self, name: str, component: object, remarks: Counter[str]) -> None:
        self._remark = f"calls of {name}, your own function: their requests are not counted"
        self._component = component
        self._remarks = remarks

    def __getattr__(self, method: str) -> Any:
        value = getattr(self._component, method)
        return self.__call__ if callable(value) else value

    async def __call__(self, *_: object, **__: object) -> NoReturn:
        self._remarks[self._remark] += 1
        raise Planned("not called in a plan")


def stub_of(test: TestRun, wanted: Threshold | AgreementRequest | Ranking | str | Planned) -> Any:
    """Return a stub for a score, an agreement, a ranking or an answer of a test; see the hook."""
    if isinstance(wanted, Ranking):
        if not any(has_placeholder(document.text) for document in wanted):
            return wanted
        return PlannedRanking(**{field.name: getattr(wanted, field.name) for field in fields(wanted)})
    test.has_stubs = True
    if isinstance(wanted, Threshold):
        return _score(test, wanted)
    if isinstance(wanted, AgreementRequest):
        return _agreement(wanted, len(test.evalset))
    return PlannedText(wanted) if isinstance(wanted, Planned) or has_placeholder(wanted) else wanted


def _score(test: TestRun, threshold: Threshold) -> Score:
    outcomes = [Outcome(example, PlannedNumber()) for example in test.evalset]
    repeats = [outcomes] * (test.session.runs_per_question(threshold.request) - 1)
    scale = test.definition(threshold).scale or UNIT
    return score_of_slice(PlannedScore(threshold.spec, outcomes, repeats=repeats, scale=scale), threshold)


def _agreement(request: AgreementRequest, n: int) -> PlannedAgreement:
    associations = [
        Association(annotator, measure, k, PlannedNumber(), PlannedNumber(), n)
        for annotator, measure, k in request.combinations()
    ]
    return PlannedAgreement(request.label, tuple(associations), {})


class PlanningPlugin:
    """Reports each test as skipped, and the tests that could not be planned to the end."""

    def __init__(self) -> None:
        self._unfinished: list[str] = []
        self._deselected_all = False
        self._gave_placeholders = False
        # The exceptions of fixtures that received a placeholder. pytest raises them again for the next test.
        self._fixture_errors: list[BaseException] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        found = bool(items)
        deselect_tests_without_requests(config, items)
        self._deselected_all = found and not items

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a planned test as skipped, whatever outcome it had with stubs."""
        report = yield
        self._gave_placeholders |= _has_placeholders(item)
        if call.when == "call" or (call.when == "setup" and self._is_unplanned_setup(item, call)):
            early_end = self._early_end(item, call)
            if early_end:
                self._unfinished.append(f"{item.nodeid}: {early_end}")
            in_part = f"planned in part, it ended at {early_end}"
            report_as_skipped(report, item, in_part if early_end else "planned, no request was sent")
        return report

    def _is_unplanned_setup(self, item: pytest.Item, call: pytest.CallInfo[None]) -> bool:
        if call.excinfo is None:
            return False
        error = call.excinfo.value
        if get_evaluation_plugin(item.config).is_own_message(error):
            return False
        if _has_placeholders(item):
            self._fixture_errors.append(error)
        return any(error is known for known in self._fixture_errors)

    def _early_end(self, item: pytest.Item, call: pytest.CallInfo[None]) -> str:
        """Return where and why a planned test ended early; "" if it did not, or ends there in a run too."""
        if call.excinfo is None:
            return ""
        error = call.excinfo.value
        ends_in_a_run = isinstance(error, pytest.skip.Exception) or not self._gave_placeholders
        if call.when == "call" and ends_in_a_run and not _has_placeholders(item):
            return ""
        innermost = call.excinfo.traceback[-1]
        frames = reversed(call.excinfo.traceback)
        frame = next((frame for frame in frames if frame.path == item.path), innermost)
        first_line, *_ = exception_text(error).splitlines()
        return f"line {frame.lineno + 1}, {first_line}"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run whose plan is incomplete; a plan without requests is complete."""
        if self._unfinished:
            fail_run(session)
        elif self._deselected_all and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        if n := len(self._unfinished):
            tests = f"{counted(n, 'test')} could not be planned to the end"
            head = f"{tests}; requests after these places are not counted:"
            print_lines(terminalreporter, [head, *(f"  {line}" for line in self._unfinished)], red=True)


def _has_placeholders(item: pytest.Item) -> bool:
    """Return True if a test has received a stub, or a placeholder in place of a model's reply."""
    test = get_evaluation_plugin(item.config).test_of(item)
    has_stubs = test is not None and test.has_stubs
    return has_stubs or Process.get(item.config).usage_of(item.nodeid).requests > 0


HEAD: Final = ("requests", "cached", "live", "tokens in", "tokens out", "USD")


def summary_lines(settings: Settings, tests: Sequence[TestEntry], usage_of: Mapping[str, Usage]) -> list[str]:
    if not (usage_of or settings.report):
        return []
    notes = [option.plan_note for option in all_options() if option.plan_note and settings[option]]
    if settings.cassette is not None and not settings.cassette.exists():
        notes.append(f"{settings.cassette} does not exist: planned as if nothing were recorded.")
    if settings.report:
        notes.append("no report: a plan has no results")
    failed = {test["nodeid"] for test in tests if test["outcome"] in FAILING_OUTCOMES} & usage_of.keys()
    return [*plan_lines(sorted(usage_of.items()), settings.tiers, failed=failed), *notes]


def plan_lines(
    planned: Sequence[tuple[str, Usage]], tiers: Sequence[str] = (), *, failed: Collection[str] = ()
) -> list[str]:
    total = sum((usage for _, usage in planned), Usage())
    with_requests = [(nodeid, usage) for nodeid, usage in planned if usage.requests or usage.remarks]
    titles = (*HEAD, *(f"USD {tier}" for tier in tiers))
    cells = [titles, *(_plan_cells(usage, tiers) for _, usage in with_requests), _plan_cells(total, tiers)]
    head, *rows = (f"    {row}" for row in align_columns(cells, right=range(len(titles))))
    lines = [head]
    for (nodeid, _), row in zip([*with_requests, ("in total", total)], rows, strict=True):
        lines += [nodeid, row]
    shown = {nodeid for nodeid, _ in with_requests}
    if others := sum(nodeid not in shown and nodeid not in failed for nodeid, _ in planned):
        lines.append(f"{counted(others, 'other test')} {'sends' if others == 1 else 'send'} no requests.")
    if failed:
        lines.append(f"The plan may lack requests of {counted(len(failed), 'test')} that ended as an error.")
    if len(total.servers) > 1:
        lines += [_server_plan_line(name, usage) for name, usage in sorted(total.servers.items())]
    return lines + _plan_notes(total, tiers)


def _plan_cells(usage: Usage, tiers: Sequence[str] = ()) -> tuple[str, ...]:
    at_most = "≤ " if usage.dependent else ""
    # The length of answers of the user's own function bounds nothing.
    about = "≈ " if ESTIMATED in usage.remarks else ""
    tokens_out = "unbounded" if usage.unbounded else f"≤ {usage.tokens_out:,}" if usage.live else "0"
    costs = [
        (usage.cost_usd, usage.unpriced),
        *((usage.cost_at[tier], usage.unpriced_at[tier]) for tier in tiers),
    ]
    return (
        f"{at_most}{usage.requests:,}",
        f"{usage.cached:,}",
        f"{at_most}{usage.live:,}",
        f"{about or at_most}{usage.tokens_in:,}",
        tokens_out,
        *("unknown" if unpriced else f"{about or '≤ '}{usd:.4f}" if usd else "0" for usd, unpriced in costs),
    )


def _server_plan_line(server: str, usage: Usage) -> str:
    _, _, live, tokens_in, tokens_out, cost = _plan_cells(usage)
    price = "price not known" if usage.unpriced else f"{cost} USD"
    return f"{server}: {live} live, {tokens_in} tokens in, {tokens_out} out, {price}"


def _plan_notes(total: Usage, tiers: Sequence[str]) -> list[str]:
    notes = []
    if total.dependent:
        notes.append(
            f"{total.dependent} of the live requests are an upper bound: they depend on replies that do not exist yet "
            "(a judge's request on an answer, the repair of a rating)."
        )
    if total.live:
        notes.append("Tokens in are counted by an estimate; tokens out are bounded, and mostly far fewer.")
    if total.unbounded:
        notes.append(
            f"Nothing bounds the length of {counted(total.unbounded, 'reply')}. Set --rageval max_tokens=N, or "
            "max_output in the file of --rageval prices=FILE."
        )
    if total.unpriced:
        notes.append(
            f"The cost of {counted(total.unpriced, 'reply')} is not known: --rageval prices=FILE names prices."
        )
    for tier in tiers:
        if unpriced := total.unpriced_at[tier] - total.unpriced:
            price = f"{tier}_input and {tier}_output in the file of --rageval prices=FILE"
            notes.append(
                f"The cost of {counted(unpriced, 'reply')} in the {tier} tier is not known: {price}."
            )
    return notes + [f"{count} × {remark}" for remark, count in total.sorted_remarks.items()]
