"""A score to report: five examples, of which one is unscored."""

import pytest

from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking


@pytest.fixture
def score() -> Score:
    ranking = Ranking("q", (Document("alpha", "kb-1"), Document("beta without an id")), duplicates=2)
    long = "What does the extended warranty cover in the second year, and who pays for the courier then?"
    return Score(
        "llm_reteval@2",
        [
            Outcome(
                Example("q1", "Half right?", gold=(Gold("kb-9"),), tags={"topic": "billing"}),
                0.5,
                None,
                Evidence(ranking, "ten days\nor so", ("five days", "a week"), "with gold", recall=0.0),
                case="A",
            ),
            Outcome(Example("q2", "Right?", tags={"topic": "billing"}), 1.0, evidence=Evidence(recall=1.0)),
            Outcome(
                Example("q3", long, gold=(Gold("kb-2"), Gold("kb-3", grade=0))),
                0.0,
                None,
                Evidence(Ranking("q", ()), "the courier pays", recall=0.0),
                lost_by="retriever",
            ),
            Outcome(Example("q4", "No gold?"), None, "no gold passages"),
            Outcome(
                Example("q5", "Slightly right?"),
                0.25,
                evidence=Evidence(recall=1.0),
                case="C",
                lost_by="distraction",
            ),
        ],
        max_unscored=0.5,
    )
