"""`rageval.agreement()`: each way to label passages beside the quality of the answers.

A way to label passages is good for a RAG system when the generator answers well from rankings that it scores
high: eRAG's own evaluation (Salemi and Zamani, 2024, section 4).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_rageval.errors import InputError, RagevalError
from pytest_rageval.evaluations.context import ScoreRequest
from pytest_rageval.evaluations.passage_labels import PARTS
from pytest_rageval.label_agreement import Agreement, associated
from pytest_rageval.scores import Score

__all__ = ["ANNOTATORS", "MEASURES", "AgreementRequest"]

ANNOTATORS: Final = ("erag", "contains", "gold", "relevance")
"""What labels passages; "gold" is the paper's provenance."""

MEASURES: Final = PARTS
"""What the labels of a ranking are scored by."""

OF_GOLD: Final = {"p": "precision"}
"""Where the measure has another name against gold passages."""


@dataclass(frozen=True)
class AgreementRequest:
    """What is to be correlated with what.

    Attributes:
        annotators: some of `ANNOTATORS`.
        measures: some of `MEASURES`.
        ks: cut-offs.
        label: how an answer is scored, from one passage and from all; None is the comparator in force.
    """

    annotators: Sequence[str]
    measures: Sequence[str]
    ks: Sequence[int]
    label: str | None

    def __post_init__(self) -> None:
        """Raise InputError for a name that there is not."""
        for given, known, what in (
            (self.annotators, ANNOTATORS, "annotator"),
            (self.measures, MEASURES, "measure of labels"),
        ):
            unknown = [name for name in given if name not in known]
            if unknown or not given:
                found = f"no {what} {unknown[0]!r}" if unknown else f"no {what} named"
                message = f"agreement(): there is {found}. There are: {', '.join(known)}."
                raise InputError(message)
        if not self.ks:
            raise InputError("agreement(): no cut-off is named. Write ks=(1, 3, 5), say.")

    @property
    def wanted(self) -> list[ScoreRequest]:
        """Every score that takes part."""
        return [
            *map(self.downstream, self.ks),
            *(self.labelled(*each) for each in self.each()),
        ]

    def downstream(self, k: int) -> ScoreRequest:
        """How good the answers from the first k are."""
        return ScoreRequest(f"answer.correct@{k}", comparator=self.label)

    def labelled(self, annotator: str, measure: str, k: int) -> ScoreRequest:
        """How good the ranking is by the labels."""
        if annotator == "gold":
            return ScoreRequest(f"{OF_GOLD.get(measure, measure)}@{k}")
        return ScoreRequest(f"{annotator}.{measure}@{k}", label=self.label if annotator == "erag" else None)

    def agreement(self, scores: Mapping[ScoreRequest, Score | RagevalError]) -> Agreement:
        """Correlate.

        Raises:
            RagevalError: there is no downstream performance.
        """
        associations, missing = [], {}
        for annotator, measure, k in self.each():
            below, above = scores[self.downstream(k)], scores[self.labelled(annotator, measure, k)]
            if isinstance(below, RagevalError):
                raise below
            if isinstance(above, RagevalError):
                missing[annotator, measure, k] = above
            else:
                associations.append(associated(annotator, measure, k, above, below))
        return Agreement(self.label, tuple(associations), missing)

    def each(self) -> Iterable[tuple[str, str, int]]:
        """Every annotator, measure and cut-off."""
        return (
            (annotator, measure, k)
            for annotator in self.annotators
            for measure in self.measures
            for k in self.ks
        )
