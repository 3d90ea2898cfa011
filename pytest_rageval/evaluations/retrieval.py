"""Scores of the searches behind a ranking: `steps.recall@5`, `retrieval.calls`, costs and latencies.

A retriever that returns a `Retrieval` names its steps; one that returns a plain list is one search.
"""

from math import inf
from typing import Final

from pytest_rageval.datatypes import Example
from pytest_rageval.errors import NoGroundTruth, Unscored
from pytest_rageval.evaluations.pipeline import NO_GOLD, Pipeline, ResolvedScore, texts_of
from pytest_rageval.evaluations.ranking import comparable
from pytest_rageval.evaluations.scoring import GOLD, ScoreDef, each_example
from pytest_rageval.evaluations.timing import timed, timed_beside
from pytest_rageval.prompts.templates import numbered_list
from pytest_rageval.scores import REFERENCE, Evidence
from pytest_rageval.stats.intervals import Quantile

__all__ = ["SCORES"]


@each_example
async def evaluate_steps_recall(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of the gold passages that the first k documents of all steps hold together.

    Unscored: an example without relevant gold passages; one with a gold passage that no document of a step can be
    compared with; one at whose question the retriever failed.
    """
    if not example.relevant:
        raise NoGroundTruth(NO_GOLD)
    ranking = await pipeline.ranking(example, resolved.k)
    match = comparable(ranking.of_steps(resolved.k), example, pipeline.match_share)
    return sum(match.found) / len(example.relevant), Evidence(ranking, counts=match.counts)


@each_example
async def evaluate_calls(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the number of searches; unscored is an example at whose question the retriever failed."""
    ranking = await pipeline.ranking(example, resolved.k)
    return float(ranking.calls), Evidence(ranking)


@each_example
async def evaluate_cost(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score what the retrieval cost, as the retriever says; unscored where it does not say it."""
    ranking = await pipeline.ranking(example, resolved.k)
    if ranking.cost is None:
        raise Unscored("the retriever does not say what it cost")
    return float(ranking.cost), Evidence(ranking)


@each_example
async def evaluate_context_tokens(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the estimated tokens of the first k passages, as a prompt lists them."""
    from pytest_rageval.llm.budget import count_tokens  # noqa: PLC0415 - a run without models need not load it

    ranking = await pipeline.readable(example, resolved.k)
    return float(count_tokens(numbered_list(texts_of(ranking))) if ranking else 0), Evidence(ranking)


@each_example
async def evaluate_latency(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the seconds that a retrieval took; beside a reference, these have the mean of two calls.

    Unscored: an example at whose question the retriever failed, or whose time is not known.
    """
    if pipeline.reference is None:
        ranking, seconds = await timed(pipeline, example, resolved.k)
        return seconds, Evidence(ranking)
    ranking, seconds, other = await timed_beside(pipeline, pipeline.reference, example, resolved.k)
    return seconds, Evidence(ranking, beside={REFERENCE: other})


FAMILY: Final = "Searches of an agent"
COSTS: Final = "What a retrieval costs"


def _latency(level: float, most: str) -> ScoreDef:
    statistic = Quantile(level)
    return ScoreDef(
        f"latency.{statistic.name}",
        evaluate_latency,
        asks=frozenset(),
        scale=(0.0, inf),
        family=COSTS,
        definition=f"The seconds that a retrieval takes; the score is what {most} of the questions do not exceed.",
        needs_k=False,
        is_cost=True,
        statistic=statistic,
        is_time=True,
    )


SCORES: Final = (
    ScoreDef(
        "steps.recall",
        evaluate_steps_recall,
        asks=frozenset(),
        family=FAMILY,
        definition="The share of the gold passages that are among the first k of any search.",
        needs=(GOLD,),
    ),
    ScoreDef(
        "retrieval.calls",
        evaluate_calls,
        asks=frozenset(),
        scale=(0.0, inf),
        family=FAMILY,
        definition="The number of searches; 1 where the retriever returns a plain list. Bound it with `max`.",
        needs_k=False,
        is_cost=True,
    ),
    ScoreDef(
        "retrieval.cost",
        evaluate_cost,
        asks=frozenset(),
        scale=(0.0, inf),
        family=COSTS,
        definition="What the retrieval cost in US dollars, as the retriever says in its `Retrieval`.",
        needs_k=False,
        is_cost=True,
    ),
    ScoreDef(
        "context.tokens",
        evaluate_context_tokens,
        asks=frozenset(),
        scale=(0.0, inf),
        family=COSTS,
        definition="The tokens of the first k passages as a prompt lists them, estimated without a tokenizer.",
        is_cost=True,
    ),
    _latency(0.5, "half"),
    _latency(0.95, "95%"),
)
