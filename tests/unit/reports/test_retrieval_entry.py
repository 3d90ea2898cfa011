"""Duration, calls and cost of the retrievals of a test."""

import pytest

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.reports.evidence import Retrievals


def _score(spec: str, *seconds: float | None) -> Score:
    def ranking(time: float | None) -> Ranking:
        return Ranking("Why?", (Document("text", "d1"),), missing=2, seconds=time)

    return Score(
        spec,
        [
            Outcome(Example(f"q{n}", "Why?"), 1.0, evidence=Evidence(ranking(time)))
            for n, time in enumerate(seconds)
        ],
    )


@pytest.mark.parametrize("order", [1, -1])
def test_a_time_that_one_score_knows_counts(order: int) -> None:
    """A latency score repeats the first question's retrieval; other scores keep the first ranking."""
    scores = [_score("latency.p95@3", 0.3, 0.1), _score("recall@3", None, 0.1)]
    entry = Retrievals(scores[::order]).entry()
    assert (entry["questions"], entry["timed"], entry["latency_p95"]) == (2, 2, 0.3)
