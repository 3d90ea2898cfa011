"""Stand-ins for results in a plan, so that a test goes on to what it asks next.

Each has the type of the result, with numbers and texts of which every comparison holds.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Self

from pytest_rageval.evaluations.label_agreement import Agreement, AgreementRequest, Association
from pytest_rageval.llm.plan import has_mark
from pytest_rageval.model import Example, Ranking
from pytest_rageval.scores import Outcome, Score

__all__ = [
    "PlannedAgreement",
    "PlannedNumber",
    "PlannedScore",
    "PlannedText",
    "planned_ranking",
    "planned_text",
]

MIDDLE: Final = 0.5
"""What a number that is not known is shown as: it can be rounded and counted with."""


def _holds(self: object, other: object) -> bool:  # noqa: ARG001 - whatever they are
    return True


class _Unknown:
    """A number of which every comparison holds; what is computed from it is not known either."""

    def _computed(self, *_: object) -> "PlannedNumber":
        return PlannedNumber()

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _holds
    __hash__ = float.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _computed
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _computed
    __neg__ = __pos__ = __abs__ = __round__ = _computed


class PlannedNumber(_Unknown, float):  # type: ignore[misc]
    """Stands for a number."""

    def __new__(cls, *_: object) -> Self:
        """There is no number to stand for."""
        return super().__new__(cls, MIDDLE)

    def __getnewargs__(self) -> tuple[()]:  # type: ignore[override]
        return ()


class PlannedScore(_Unknown, Score):  # type: ignore[misc]
    """Stands for a score: with an outcome for every example, each with a number that is not known."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """As for a score, of which there are no values to average."""
        return float.__new__(cls, MIDDLE)

    @classmethod
    def over(cls, examples: Sequence[Example], spec: str, repeats: int, scale: tuple[float, float]) -> Self:
        """One over these examples, in so many further runs."""
        outcomes = [Outcome(example, PlannedNumber()) for example in examples]
        return cls(spec, outcomes, repeats=[outcomes] * repeats, scale=scale)

    @property
    def ci95(self) -> tuple[float, float] | None:
        """Of numbers that are not known."""
        return PlannedNumber(), PlannedNumber()

    @property
    def spread(self) -> float | None:
        """Likewise; None where a score has none."""
        return PlannedNumber() if self.repeats else None

    def counting(self, value: float, *causes: Any) -> float:  # noqa: ARG002 - as for a score
        """Not known either."""
        return PlannedNumber()

    @property
    def reach(self) -> tuple[float, float]:
        """That of the scale."""
        return self.scale


class PlannedText(str):
    """Stands for a text that a model has not written yet: it says and holds whatever is looked for."""

    __slots__ = ()

    def _itself(self, *_: object, **__: object) -> "PlannedText":
        return self

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __contains__ = _holds
    __hash__ = str.__hash__
    lower = upper = casefold = title = capitalize = swapcase = _itself
    strip = lstrip = rstrip = removeprefix = removesuffix = replace = translate = expandtabs = _itself

    def startswith(self, *_: object) -> bool:
        """It does."""
        return True

    endswith = isalnum = isalpha = isascii = isdecimal = isdigit = isnumeric = isprintable = startswith


class PlannedRanking(Ranking):
    """Stands for what a retriever finds with a text that a model has not written yet: it holds every document."""

    def __contains__(self, item: object) -> bool:
        return True


def planned_text(text: str) -> str:
    """The text, or what stands for it where it is not written yet."""
    return PlannedText(text) if has_mark(text) else text


def planned_ranking(ranking: Ranking) -> Ranking:
    """The ranking, or what stands for it where it rests on a text that is not written yet."""
    if not any(has_mark(document.text) for document in ranking):
        return ranking
    return PlannedRanking(
        ranking.query, ranking.documents, ranking.duplicates, ranking.missing, ranking.surplus
    )


class PlannedAgreement(Agreement):
    """Stands for a table of annotators: of correlations that are not known, so that any measure may agree best."""

    @classmethod
    def over(cls, compared: AgreementRequest, n: int) -> Self:
        """One over so many questions."""
        numbers = [
            Association(annotator, measure, k, PlannedNumber(), PlannedNumber(), n)
            for annotator, measure, k in compared.each()
        ]
        return cls(compared.label, tuple(numbers), {})

    def best(self, annotator: str, k: int) -> Association:
        """One of them, whose name is whatever is looked for."""
        found = super().best(annotator, k)
        return replace(found, measure=PlannedText(found.measure))
