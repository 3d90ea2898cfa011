"""`rageval.agreement()`: the correlation, over the questions, of passage labels with the quality of the answers.

An annotator (a way to label passages) suits a RAG system if the generator answers well from the rankings that score
high by the annotator's labels.

Source: Salemi and Zamani (2024), "Evaluating Retrieval Quality in Retrieval-Augmented Generation", section 4,
Table 1 and Figure 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Final

from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.scores.measures import LABEL_MEASURES
from pytest_rageval.stats.agreement import kendall_tau, spearman_rho

ANNOTATORS: Final = ("erag", "contains", "gold", "relevance")
"""The ways to label passages; "gold" is what the paper calls provenance."""

MEASURES: Final = tuple(LABEL_MEASURES)  # measures of a ranking by the labels of its passages

DOWNSTREAM: Final = "answer.correct"  # score that measures the quality of the answers


@dataclass(frozen=True, slots=True)
class Association:
    """The correlation of a score of rankings with downstream performance.

    `tau` (Kendall's tau-b) and `rho` (Spearman's) are None if one of the two scores is the same for all questions.
    """

    annotator: str
    measure: str
    k: int
    tau: float | None
    rho: float | None
    n: int


@dataclass(frozen=True)
class Agreement:
    """The table of correlations by annotator, measure and cut-off.

    `label` is the expression by which answers were compared; None for the default comparator. `missing` has the errors
    that prevented the computation.
    """

    label: str | None
    associations: tuple[Association, ...]
    missing: Mapping[tuple[str, str, int], RagevalError]

    def of(self, annotator: str, measure: str, k: int) -> Association:
        """Return one correlation; raise the error that prevented it, or InputError if it was not requested."""
        if (annotator, measure, k) in self.missing:
            raise self.missing[annotator, measure, k]
        for association in self.associations:
            if (association.annotator, association.measure, association.k) == (annotator, measure, k):
                return association
        raise InputError(f"agreement() did not compute {annotator}, {measure} at {k}.")

    def best(self, annotator: str, k: int) -> Association:
        """Return the correlation of an annotator with the highest tau at this cut-off; raise InputError without one."""
        defined = [
            (association.tau, association)
            for association in self.associations
            if (association.annotator, association.k) == (annotator, k) and association.tau is not None
        ]
        if not defined:
            raise InputError(f"agreement(): no measure of {annotator} has a tau at {k}.")
        return max(defined, key=lambda pair: pair[0])[1]

    def entry(self) -> dict[str, object]:
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
    """The table that a test requests.

    `label` is the expression by which answers are compared; None for the default comparator.
    """

    annotators: Sequence[str]
    measures: Sequence[str]
    ks: Sequence[int]
    label: str | None

    def __post_init__(self) -> None:
        """Raise InputError for an unknown name, or if no annotator, measure or cut-off is named."""
        for names, known, kind in (
            (self.annotators, ANNOTATORS, "annotator"),
            (self.measures, MEASURES, "measure of labels"),
        ):
            unknown = [name for name in names if name not in known]
            if unknown or not names:
                problem = f"there is no {kind} {unknown[0]!r}" if unknown else f"no {kind} is named"
                raise InputError(f"agreement(): {problem}. There are: {', '.join(known)}.")
        if not self.ks:
            raise InputError("agreement(): no cut-off is named. Write ks=(1, 3, 5), say.")

    @property
    def score_requests(self) -> list[ScoreRequest]:
        labels = (self.label_score_request(*combination) for combination in self.combinations())
        return [*map(self.answer_score_request, self.ks), *labels]

    def answer_score_request(self, k: int) -> ScoreRequest:
        return ScoreRequest(f"{DOWNSTREAM}@{k}", comparator=self.label)

    def label_score_request(self, annotator: str, measure: str, k: int) -> ScoreRequest:
        # `provenance` is used for gold, because it labels retrieved passages only, as the other annotators do.
        family = "provenance" if annotator == "gold" else annotator
        return ScoreRequest(f"{family}.{measure}@{k}", label=self.label if annotator == "erag" else None)

    def combinations(self) -> Iterable[tuple[str, str, int]]:
        return product(self.annotators, self.measures, self.ks)

    def agreement(self, scores: Mapping[ScoreRequest, Score | RagevalError]) -> Agreement:
        """Compute the table from the scores of `score_requests`; raise an error of the answers."""
        associations, missing = [], {}
        for annotator, measure, k in self.combinations():
            answers, labels = (
                scores[self.answer_score_request(k)],
                scores[self.label_score_request(annotator, measure, k)],
            )
            if isinstance(answers, RagevalError):
                raise answers
            if isinstance(labels, RagevalError):
                missing[annotator, measure, k] = labels
                continue
            answer_values = {outcome.example.id: outcome.value for outcome in answers.outcomes}
            pairs = [
                (outcome.value, value)
                for outcome in labels.outcomes
                if outcome.value is not None and (value := answer_values[outcome.example.id]) is not None
            ]
            by_labels, by_answers = [value for value, _ in pairs], [value for _, value in pairs]
            tau, rho = kendall_tau(by_labels, by_answers), spearman_rho(by_labels, by_answers)
            associations.append(Association(annotator, measure, k, tau, rho, len(pairs)))
        return Agreement(self.label, tuple(associations), missing)
