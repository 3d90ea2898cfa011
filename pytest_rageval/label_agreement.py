"""Correlation of passage labels with the generator's answers, over the questions.

Source: Salemi and Zamani (2024), "Evaluating Retrieval Quality in Retrieval-Augmented Generation", section 4,
Table 1 and Figure 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_rageval.errors import InputError, RagevalError
from pytest_rageval.scores import Score
from pytest_rageval.stats.agreement import kendall_tau, spearman_rho

__all__ = ["Agreement", "Association", "associated"]


@dataclass(frozen=True, slots=True)
class Association:
    """One annotator × measure beside downstream performance, at one k.

    Attributes:
        annotator: what labels the passages, such as "erag" or "gold".
        measure: such as "p".
        k: the cut-off of both.
        tau: Kendall's tau-b; None where it is undefined, since one of the two is the same for all questions.
        rho: Spearman's rho, likewise.
        n: how many questions have both scores.
    """

    annotator: str
    measure: str
    k: int
    tau: float | None
    rho: float | None
    n: int


@dataclass(frozen=True)
class Agreement:
    """The table: every annotator × measure × k.

    Attributes:
        label: how answers were scored; None is the comparator in force.
        associations: those that could be had.
        missing: why the others could not, by annotator, measure and k.
    """

    label: str | None
    associations: tuple[Association, ...]
    missing: Mapping[tuple[str, str, int], RagevalError]

    def of(self, annotator: str, measure: str, k: int) -> Association:
        """One of them.

        Raises:
            RagevalError: it could not be had.
            InputError: it was not asked for.
        """
        if (annotator, measure, k) in self.missing:
            raise self.missing[annotator, measure, k]
        for association in self.associations:
            if (association.annotator, association.measure, association.k) == (annotator, measure, k):
                return association
        message = f"agreement() was not asked for {annotator}, {measure} at {k}."
        raise InputError(message)

    def best(self, annotator: str, k: int) -> Association:
        """The measure of an annotator that agrees best, by tau.

        Raises:
            InputError: no measure of this annotator has a tau at this k.
        """
        defined = [
            (association.tau, association)
            for association in self.associations
            if (association.annotator, association.k) == (annotator, k) and association.tau is not None
        ]
        if not defined:
            message = f"agreement(): no measure of {annotator} has a tau at {k}."
            raise InputError(message)
        return max(defined, key=lambda each: each[0])[1]


def associated(annotator: str, measure: str, k: int, above: Score, below: Score) -> Association:
    """Correlate a score of rankings with one of the answers from them, over the examples that have both."""
    downstream = {outcome.example.id: outcome.value for outcome in below.outcomes}
    pairs = [
        (outcome.value, performance)
        for outcome in above.outcomes
        if outcome.value is not None and (performance := downstream[outcome.example.id]) is not None
    ]
    labels, performances = [one for one, _ in pairs], [other for _, other in pairs]
    tau, rho = kendall_tau(labels, performances), spearman_rho(labels, performances)
    return Association(annotator, measure, k, tau, rho, len(pairs))
