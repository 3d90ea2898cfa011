"""Stubs for results in a plan: every comparison with one is true, so that a test continues to its next request."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final, Self

from pytest_rageval.datatypes import Example, Ranking
from pytest_rageval.errors import has_placeholder
from pytest_rageval.evaluations.label_agreement import Agreement, AgreementRequest, Association
from pytest_rageval.scores import Outcome, Score

__all__ = ["PlannedText", "planned_agreement", "planned_ranking", "planned_score", "planned_text"]

MIDDLE: Final = 0.5
"""The value that an unknown number is shown as."""


def _holds(self: object, other: object) -> bool:  # noqa: ARG001 - as an operator
    return True


class _Unknown:
    """A number with which every comparison is true; a result computed from it is unknown too."""

    def _computed(self, *_: object) -> "PlannedNumber":
        return PlannedNumber()

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _holds
    __hash__ = float.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _computed
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _computed
    __neg__ = __pos__ = __abs__ = __round__ = _computed


class PlannedNumber(_Unknown, float):  # type: ignore[misc]
    """Stub for a number."""

    def __new__(cls, *_: object) -> Self:
        """Make one; operators pass arguments that do not matter."""
        return super().__new__(cls, MIDDLE)

    def __getnewargs__(self) -> tuple[()]:  # type: ignore[override]
        return ()


class PlannedScore(_Unknown, Score):  # type: ignore[misc]
    """Stub for a score: with an outcome for every example, each with an unknown number."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Return a stub that equals `MIDDLE` and computes no mean."""
        return float.__new__(cls, MIDDLE)

    @property
    def ci95(self) -> tuple[float, float] | None:
        """Two unknown numbers."""
        return PlannedNumber(), PlannedNumber()

    @property
    def spread(self) -> float | None:
        """An unknown number; None without repeats."""
        return PlannedNumber() if self.repeats else None

    def counting(self, value: float, *causes: Any) -> float:  # noqa: ARG002 - as of a score
        """An unknown number."""
        return PlannedNumber()

    @property
    def reach(self) -> tuple[float, float]:
        """The scale."""
        return self.scale


def planned_score(
    examples: Sequence[Example], spec: str, repeats: int, scale: tuple[float, float]
) -> PlannedScore:
    """A stub over these examples, with this number of repeats."""
    outcomes = [Outcome(example, PlannedNumber()) for example in examples]
    return PlannedScore(spec, outcomes, repeats=[outcomes] * repeats, scale=scale)


class PlannedText(str):
    """Stub for a text that no model has written yet: it contains and equals every text."""

    __slots__ = ()

    def _itself(self, *_: object, **__: object) -> "PlannedText":
        return self

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __contains__ = _holds
    __hash__ = str.__hash__
    lower = upper = casefold = title = capitalize = swapcase = _itself
    strip = lstrip = rstrip = removeprefix = removesuffix = replace = translate = expandtabs = _itself

    def startswith(self, *_: object) -> bool:
        """True for every text."""
        return True

    endswith = isalnum = isalpha = isascii = isdecimal = isdigit = isnumeric = isprintable = startswith


class PlannedRanking(Ranking):
    """Stub for a ranking that depends on such a text: it contains every document."""

    def __contains__(self, item: object) -> bool:
        return True


def planned_text(text: str) -> str:
    """The text, or a stub where it depends on a reply that is not there yet."""
    return PlannedText(text) if has_placeholder(text) else text


def planned_ranking(ranking: Ranking) -> Ranking:
    """The ranking, or a stub where it depends on a reply that is not there yet."""
    if not any(has_placeholder(document.text) for document in ranking):
        return ranking
    return PlannedRanking(**{each.name: getattr(ranking, each.name) for each in fields(ranking)})


class PlannedAgreement(Agreement):
    """Stub for a table of annotators: its correlations are unknown, so that any measure may agree best."""

    def best(self, annotator: str, k: int) -> Association:
        """One of them, whose measure equals every name."""
        found = super().best(annotator, k)
        return replace(found, measure=PlannedText(found.measure))


def planned_agreement(request: AgreementRequest, n: int) -> PlannedAgreement:
    """A stub over n questions."""
    numbers = [
        Association(annotator, measure, k, PlannedNumber(), PlannedNumber(), n)
        for annotator, measure, k in request.combinations()
    ]
    return PlannedAgreement(request.label, tuple(numbers), {})
