"""What did all searches of an agent find together, and how many were there?

A retriever that searches several times returns `Retrieval(documents, steps=[Step(query, documents), …])`; see
[](../how-to/context-and-agents.md). All other scores look at the final documents. `retrieval.calls` needs no cut-off:
it takes the largest of the test's other scores. It has no highest value: bound it with `max`. `max_drop` is refused,
since fewer searches are not a loss. A plain list counts as one search.
"""

from math import inf
from typing import Final

from pytest_rageval.core.errors import NoGroundTruth
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.scores.definition import GOLD, Family, Scored, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.pipeline import NO_GOLD, Pipeline, ResolvedScore
from pytest_rageval.scores.ranking import match_ranking


@each_example
async def evaluate_steps_recall(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Unscored: as for `recall`, with the documents of all searches."""
    if not example.relevant:
        raise NoGroundTruth(NO_GOLD)
    ranking = await pipeline.ranking(example, resolved.k)
    match = match_ranking(ranking.of_steps(resolved.k), example, pipeline.match_share)
    return sum(match.found) / len(example.relevant), Evidence(ranking, counts=match.counts)


@each_example
async def evaluate_calls(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    ranking = await pipeline.ranking(example, resolved.k)
    return float(ranking.calls), Evidence(ranking)


FAMILY: Final = Family(
    "Searches of an agent",
    __doc__,
    requests="none",
    source="`steps.recall` is recall over the union of what MuSiQue calls hops: Trivedi et al. (2022).",
    example=WorkedExample(
        text="Two gold passages, `a` and `b`. The agent searches twice, finds `a` and `c`, then `d` and `b`, and "
        "returns `b` alone.",
        k=2,
        record={"question": "How many people live where the Reds play?", "gold": [{"id": "a"}, {"id": "b"}]},
        retrieved=("b",),
        retrieval={
            "steps": [
                ("Where do the Reds play?", ("a", "c")),
                ("How many people live in Tulsa?", ("d", "b")),
            ],
        },
    ),
)

SCORES: Final = (
    ScoreDef(
        "steps.recall",
        evaluate_steps_recall,
        definition="The share of the gold passages that are among the first k of any search.",
        worked=(1.0, "`a` in the first search, `b` in the second; `recall@2` is ½"),
        needs=(GOLD,),
    ),
    ScoreDef(
        "retrieval.calls",
        evaluate_calls,
        scale=(0.0, inf),
        definition="The number of searches; 1 if the retriever returns a plain list. Bound it with `max`.",
        worked=(2.0, "two searches"),
        needs_k=False,
        is_cost=True,
    ),
)
