"""Stubs for results in a plan. Every comparison with a stub is true, so that the test continues to its next request."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final, Self

from pytest_rageval.core.errors import has_placeholder
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.scores.annotator_agreement import Agreement, AgreementRequest, Association

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


def planned_score(
    examples: Sequence[Example], spec: str, repeats: int, scale: tuple[float, float]
) -> PlannedScore:
    outcomes = [Outcome(example, PlannedNumber()) for example in examples]
    return PlannedScore(spec, outcomes, repeats=[outcomes] * repeats, scale=scale)


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


def planned_text(text: str) -> str:
    return PlannedText(text) if has_placeholder(text) else text


def planned_ranking(ranking: Ranking) -> Ranking:
    if not any(has_placeholder(document.text) for document in ranking):
        return ranking
    return PlannedRanking(**{field.name: getattr(ranking, field.name) for field in fields(ranking)})


class PlannedAgreement(Agreement):
    """Stub for a table of correlations, all unknown, so that any measure may agree best."""

    def best(self, annotator: str, k: int) -> Association:
        association = super().best(annotator, k)
        return replace(association, measure=PlannedText(association.measure))


def planned_agreement(request: AgreementRequest, n: int) -> PlannedAgreement:
    associations = [
        Association(annotator, measure, k, PlannedNumber(), PlannedNumber(), n)
        for annotator, measure, k in request.combinations()
    ]
    return PlannedAgreement(request.label, tuple(associations), {})
