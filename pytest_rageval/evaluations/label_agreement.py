"""`rageval.agreement()`: how passage labels correlate with the quality of the answers, over the questions.

A way to label passages is good for a RAG system when the generator answers well from rankings that it scores high.

Source: Salemi and Zamani (2024), "Evaluating Retrieval Quality in Retrieval-Augmented Generation", section 4,
Table 1 and Figure 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Final

from pytest_rageval.errors import InputError, RagevalError
from pytest_rageval.evaluations.passage_labels import PARTS
from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.scores import Score
from pytest_rageval.stats.agreement import kendall_tau, spearman_rho

__all__ = ["ANNOTATORS", "MEASURES", "Agreement", "AgreementRequest", "Association"]

ANNOTATORS: Final = ("erag", "contains", "gold", "relevance")
"""The ways to label passages; "gold" is the paper's provenance."""

MEASURES: Final = PARTS
"""The measures of a ranking by its labels."""

DOWNSTREAM: Final = "answer.correct"
"""The score of the answers."""


@dataclass(frozen=True, slots=True)
class Association:
    """The correlation of one annotator × measure with downstream performance, at one k, over n questions.

    Kendall's tau-b and Spearman's rho are None where one of the two scores is the same for all questions.
    """

    annotator: str
    measure: str
    k: int
    tau: float | None
    rho: float | None
    n: int


@dataclass(frozen=True)
class Agreement:
    """The table of annotator × measure × k: what could be computed, and why the rest is missing.

    `label` is how answers were scored; None is the default comparator.
    """

    label: str | None
    associations: tuple[Association, ...]
    missing: Mapping[tuple[str, str, int], RagevalError]

    def of(self, annotator: str, measure: str, k: int) -> Association:
        """One of them.

        Raises:
            RagevalError: it could not be computed.
            InputError: it was not asked for.
        """
        if (annotator, measure, k) in self.missing:
            raise self.missing[annotator, measure, k]
        for one in self.associations:
            if (one.annotator, one.measure, one.k) == (annotator, measure, k):
                return one
        raise InputError(f"agreement() was not asked for {annotator}, {measure} at {k}.")

    def best(self, annotator: str, k: int) -> Association:
        """The measure of an annotator that agrees best, by tau.

        Raises:
            InputError: no measure of this annotator has a tau at this k.
        """
        asked = [one for one in self.associations if (one.annotator, one.k) == (annotator, k)]
        defined = [(one.tau, one) for one in asked if one.tau is not None]
        if not defined:
            raise InputError(f"agreement(): no measure of {annotator} has a tau at {k}.")
        return max(defined, key=lambda each: each[0])[1]

    def entry(self) -> dict[str, Any]:
        """The table as the JSON report has it; `missing` has the reasons."""
        return {
            "downstream": DOWNSTREAM,
            "label": self.label,
            "rows": list(map(asdict, self.associations)),
            "missing": [
                {"annotator": annotator, "measure": measure, "k": k, "reason": str(error)}
                for (annotator, measure, k), error in self.missing.items()
            ],
        }


@dataclass(frozen=True)
class AgreementRequest:
    """The table that a test asks for: some of `ANNOTATORS` and `MEASURES`, at cut-offs; `label` as of the table."""

    annotators: Sequence[str]
    measures: Sequence[str]
    ks: Sequence[int]
    label: str | None

    def __post_init__(self) -> None:
        """Raise InputError for an unknown name, and where nothing is named."""
        for named, known, kind in (
            (self.annotators, ANNOTATORS, "annotator"),
            (self.measures, MEASURES, "measure of labels"),
        ):
            unknown = [name for name in named if name not in known]
            if unknown or not named:
                found = f"there is no {kind} {unknown[0]!r}" if unknown else f"no {kind} is named"
                raise InputError(f"agreement(): {found}. There are: {', '.join(known)}.")
        if not self.ks:
            raise InputError("agreement(): no cut-off is named. Write ks=(1, 3, 5), say.")

    @property
    def wanted(self) -> list[ScoreRequest]:
        """Every score that takes part."""
        return [*map(self.downstream, self.ks), *(self.labelled(*each) for each in self.each())]

    def downstream(self, k: int) -> ScoreRequest:
        """The score of the answers from the first k passages."""
        return ScoreRequest(f"{DOWNSTREAM}@{k}", comparator=self.label)

    def labelled(self, annotator: str, measure: str, k: int) -> ScoreRequest:
        """The score of the ranking by its labels."""
        # Only retrieved passages have labels, also from people, so recall is 1 if any is relevant.
        family = "provenance" if annotator == "gold" else annotator
        return ScoreRequest(f"{family}.{measure}@{k}", label=self.label if annotator == "erag" else None)

    def each(self) -> Iterable[tuple[str, str, int]]:
        """Every annotator, measure and cut-off."""
        return product(self.annotators, self.measures, self.ks)

    def agreement(self, scores: Mapping[ScoreRequest, Score | RagevalError]) -> Agreement:
        """Correlate the scores.

        Raises:
            RagevalError: the answers could not be scored.
        """
        associations, missing = [], {}
        for annotator, measure, k in self.each():
            answers, labels = scores[self.downstream(k)], scores[self.labelled(annotator, measure, k)]
            if isinstance(answers, RagevalError):
                raise answers
            if isinstance(labels, RagevalError):
                missing[annotator, measure, k] = labels
                continue
            downstream = {each.example.id: each.value for each in answers.outcomes}
            pairs = [
                (each.value, value)
                for each in labels.outcomes
                if each.value is not None and (value := downstream[each.example.id]) is not None
            ]
            first, second = [one for one, _ in pairs], [other for _, other in pairs]
            tau, rho = kendall_tau(first, second), spearman_rho(first, second)
            associations.append(Association(annotator, measure, k, tau, rho, len(pairs)))
        return Agreement(self.label, tuple(associations), missing)
