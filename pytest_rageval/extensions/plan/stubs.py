"""Stubs for results in a plan. Every comparison with a stub is true, so that the test continues to its next request."""

from dataclasses import fields, replace
from typing import Any, Final, Self

from pytest_rageval.core.errors import Planned, has_placeholder
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.run.judged import score_of_slice
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.annotator_agreement import Agreement, AgreementRequest, Association
from pytest_rageval.stats.intervals import UNIT

PLACEHOLDER_NUMBER: Final = 0.5
"""The value of a stub for a number."""


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
