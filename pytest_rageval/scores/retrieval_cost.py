"""Scores of a retriever's searches: `steps.recall@5`, `retrieval.calls`, costs and latencies.

A retriever that returns a `Retrieval` can report several searches per question. A retriever that returns a plain list
makes one search.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

from pytest_rageval.core.data import Example, Ranking
from pytest_rageval.core.errors import NoGroundTruth, Unscored
from pytest_rageval.core.outcome import REFERENCE_LATENCY, Evidence
from pytest_rageval.models.prompts import numbered_list
from pytest_rageval.scores.definition import GOLD, ScoreDef, each_example
from pytest_rageval.scores.pipeline import NO_GOLD, Pipeline, ResolvedScore, texts_of
from pytest_rageval.scores.ranking import match_ranking
from pytest_rageval.stats.intervals import Quantile

if TYPE_CHECKING:
    from pytest_rageval.retrievers import Retriever


@each_example
async def evaluate_steps_recall(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of the gold passages that are among the first k documents of any search.

    Unscored: an example without relevant gold passages; an example with a gold passage that no document of a search can
    be compared with; an example on whose question the retriever failed.
    """
    if not example.relevant:
        raise NoGroundTruth(NO_GOLD)
    ranking = await pipeline.ranking(example, resolved.k)
    match = match_ranking(ranking.of_steps(resolved.k), example, pipeline.match_share)
    return sum(match.found) / len(example.relevant), Evidence(ranking, counts=match.counts)


@each_example
async def evaluate_calls(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the number of searches. Unscored: an example on whose question the retriever failed."""
    ranking = await pipeline.ranking(example, resolved.k)
    return float(ranking.calls), Evidence(ranking)


@each_example
async def evaluate_cost(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the cost of the retrieval that the retriever reports. Unscored: the retriever does not report it."""
    ranking = await pipeline.ranking(example, resolved.k)
    if ranking.cost is None:
        raise Unscored("the retriever does not report its cost")
    return float(ranking.cost), Evidence(ranking)


@each_example
async def evaluate_context_tokens(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the estimated number of tokens of the first k passages in the format of a prompt."""
    from pytest_rageval.models.budget import count_tokens  # noqa: PLC0415 - a run without models need not load it

    ranking = await pipeline.ranking_with_texts(example, resolved.k)
    return float(count_tokens(numbered_list(texts_of(ranking))) if ranking else 0), Evidence(ranking)


@each_example
async def evaluate_latency(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the duration of a retrieval in seconds.

    With a reference retriever, the durations of both retrievers are means of two calls.

    Unscored: an example on whose question the retriever failed, or whose duration is not known.
    """
    if pipeline.reference is None:
        ranking, seconds = await _time_retrieval(pipeline, example, resolved.k)
        return seconds, Evidence(ranking)
    ranking, seconds, reference_seconds = await _time_both_retrievals(
        pipeline, pipeline.reference, example, resolved.k
    )
    return seconds, Evidence(ranking, beside={REFERENCE_LATENCY: reference_seconds})


async def _time_retrieval(pipeline: Pipeline, example: Example, k: int) -> tuple[Ranking, float]:
    """Return the ranking and the duration of its retrieval in seconds, during which no other retrieval ran.

    The rankings of one run are timed one after the other. If the duration of a retrieval is not known, because it was
    the first or because others ran at the same time, the retrieval is repeated.

    Raises:
        Unscored: a replay does not have the duration; or a model reply came from the cache during the retrieval.
    """

    async def measure() -> tuple[Ranking, float]:
        async with pipeline.timing_lock:
            ranking, cached_before = await pipeline.ranking(example, k), pipeline.cached_replies()
            is_uncertain = ranking.seconds is None or pipeline.overlapped_cached_reply(example, k)
            if is_uncertain and not pipeline.retriever.replays:
                ranking = replace(ranking, seconds=(await pipeline.retrieve_alone(example, k)).seconds)
            return ranking, _seconds(pipeline, ranking, cached_before)

    return await pipeline.results.get(("timed", pipeline.retriever.key(example), k), measure)


async def _time_both_retrievals(
    pipeline: Pipeline, reference: "Retriever", example: Example, k: int
) -> tuple[Ranking, float, float]:
    """Return the ranking, the duration of its retrieval, and the duration of the reference retriever, in seconds.

    Both durations are means of two calls, which are made in the order ABBA: retriever, reference, reference, retriever.

    Raises:
        Unscored: as for `_time_retrieval`.
    """

    def retrieve() -> Awaitable[Ranking]:
        return pipeline.retrieve_alone(example, k)

    def retrieve_reference() -> Awaitable[Ranking]:
        return reference.retrieve(example, k, alone=True)

    async def time_call(call: Callable[[], Awaitable[Ranking]]) -> tuple[Ranking, float]:
        cached_before = pipeline.cached_replies()
        ranking = await call()
        return ranking, _seconds(pipeline, ranking, cached_before)

    async def measure() -> tuple[Ranking, float, float]:
        async with pipeline.timing_lock:
            if not pipeline.has_retrieved:
                # The first calls also open connections and load models.
                await retrieve_reference()
                await retrieve()
            calls = (retrieve, retrieve_reference, retrieve_reference, retrieve)
            (_, a1), (_, b1), (_, b2), (ranking, a2) = [await time_call(call) for call in calls]
        return ranking, (a1 + a2) / 2, (b1 + b2) / 2

    return await pipeline.results.get(("timed beside", pipeline.retriever.key(example), k), measure)


def _seconds(pipeline: Pipeline, ranking: Ranking, cached_before: int) -> float:
    """Return the duration of a retrieval; `cached_before` is the number of cached replies before it.

    Raises:
        Unscored: a model reply came from the cache during the retrieval; or the duration is not known.
    """
    if pipeline.cached_replies() > cached_before:
        raise Unscored(
            "a model reply came from the cache, so the measured time is not that of a retrieval "
            "(--rageval-refresh requests the replies again)"
        )
    if ranking.seconds is None:
        raise Unscored("the recorded rankings do not have the duration of the retrieval")
    return ranking.seconds


FAMILY: Final = "Searches of an agent"
COSTS: Final = "What a retrieval costs"


def _latency(level: float, share: str) -> ScoreDef:
    """Return the definition of a quantile of latency; `share` is the share of questions up to `level`, as a text."""
    statistic = Quantile(level)
    return ScoreDef(
        f"latency.{statistic.name}",
        evaluate_latency,
        asks=frozenset(),
        scale=(0.0, inf),
        family=COSTS,
        definition="The seconds that a retrieval takes; the score is the value that "
        f"{share} of the questions do not exceed.",
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
        definition="The number of searches; 1 if the retriever returns a plain list. Bound it with `max`.",
        needs_k=False,
        is_cost=True,
    ),
    ScoreDef(
        "retrieval.cost",
        evaluate_cost,
        asks=frozenset(),
        scale=(0.0, inf),
        family=COSTS,
        definition="The cost of the retrieval in US dollars, as the retriever reports it in its `Retrieval`.",
        needs_k=False,
        is_cost=True,
    ),
    ScoreDef(
        "context.tokens",
        evaluate_context_tokens,
        asks=frozenset(),
        scale=(0.0, inf),
        family=COSTS,
        definition="The number of tokens of the first k passages in the format of a prompt, estimated without a "
        "tokenizer.",
        is_cost=True,
    ),
    _latency(0.5, "half"),
    _latency(0.95, "95%"),
)
