"""How much time and money does a retrieval cost, and how many tokens does it add to the prompt?

Less is better, so use `max`; `max_drop` is refused. `retrieval.cost` and the latencies need no cut-off. The cost is
known if the retriever returns a `Retrieval` with it. The number of tokens is an estimate from words and parts of words;
for English and recent models it is at most a fifth too high. A latency is a percentile in seconds, not a mean: the
smallest time that half, or 95%, of the questions do not exceed. Its interval is between two order statistics (David and
Nagaraja 2003, section 7.1), and needs 6 questions for `p50` and 72 for `p95`. `max_ratio` compares it with a retriever
that is timed in the same run. See [how retrievals are
timed](../how-to/cost.md#bound-the-latency-and-cost-of-a-retrieval).
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from pytest_rageval.core.errors import Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import REFERENCE_LATENCY, Evidence
from pytest_rageval.core.ranking import Ranking, texts_of
from pytest_rageval.models.prompts import numbered_list
from pytest_rageval.scores.definition import Family, Scored, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore
from pytest_rageval.stats.intervals import Quantile

if TYPE_CHECKING:
    from pytest_rageval.retrievers import Retriever


@each_example
async def evaluate_cost(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    ranking = await pipeline.ranking(example, resolved.k)
    if ranking.cost is None:
        raise Unscored("the retriever does not report its cost")
    return float(ranking.cost), Evidence(ranking)


@each_example
async def evaluate_context_tokens(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    from pytest_rageval.models.budget import count_tokens  # noqa: PLC0415 - a run without models need not load it

    ranking = await pipeline.ranking_with_texts(example, resolved.k)
    return float(count_tokens(numbered_list(texts_of(ranking))) if ranking else 0), Evidence(ranking)


@each_example
async def evaluate_latency(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """With a reference retriever, the durations of both retrievers are means of two calls.

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

    If the duration is not known, because it was the first one or others ran at the same time, the retrieval is
    repeated.
    """

    async def measure() -> tuple[Ranking, float]:
        async with pipeline.rankings.timing_lock:
            ranking, cached_before = await pipeline.ranking(example, k), pipeline.cached_replies()
            is_uncertain = ranking.seconds is None or pipeline.rankings.overlapped_cached_reply(example, k)
            if is_uncertain and not pipeline.retriever.replays:
                ranking = replace(
                    ranking, seconds=(await pipeline.rankings.retrieve_alone(example, k)).seconds
                )
            return ranking, _seconds(pipeline, ranking, cached_before)

    return await pipeline.results.get(("timed", pipeline.retriever.key(example), k), measure)


async def _time_both_retrievals(
    pipeline: Pipeline, reference: "Retriever", example: Example, k: int
) -> tuple[Ranking, float, float]:
    """Return the ranking, the duration of its retrieval, and the duration of the reference retriever, in seconds.

    Both durations are means of two calls, which are made in the order ABBA: retriever, reference, reference, retriever.
    """

    def retrieve() -> Awaitable[Ranking]:
        return pipeline.rankings.retrieve_alone(example, k)

    def retrieve_reference() -> Awaitable[Ranking]:
        return reference.retrieve(example, k, alone=True)

    async def time_call(call: Callable[[], Awaitable[Ranking]]) -> tuple[Ranking, float]:
        cached_before = pipeline.cached_replies()
        ranking = await call()
        return ranking, _seconds(pipeline, ranking, cached_before)

    async def measure() -> tuple[Ranking, float, float]:
        async with pipeline.rankings.timing_lock:
            if not pipeline.rankings.finished:
                # The first calls also open connections and load models.
                await retrieve_reference()
                await retrieve()
            calls = (retrieve, retrieve_reference, retrieve_reference, retrieve)
            (_, a1), (_, b1), (_, b2), (ranking, a2) = [await time_call(call) for call in calls]
        return ranking, (a1 + a2) / 2, (b1 + b2) / 2

    return await pipeline.results.get(("timed beside", pipeline.retriever.key(example), k), measure)


def _seconds(pipeline: Pipeline, ranking: Ranking, cached_before: int) -> float:
    """Return the duration of a retrieval; raise Unscored if it is not known, or a reply came from the cache."""
    if pipeline.cached_replies() > cached_before:
        raise Unscored(
            "a model reply came from the cache, so the measured time is not that of a retrieval "
            "(--rageval-refresh requests the replies again)"
        )
    if ranking.seconds is None:
        raise Unscored("the recorded rankings do not have the duration of the retrieval")
    return ranking.seconds


FAMILY: Final = Family(
    "What a retrieval costs",
    __doc__,
    requests="none",
    source="Our own.",
    example=WorkedExample(
        text="The retriever returns one passage of nine words, and says that the search cost 0.002 dollars and took "
        "0.25 seconds.",
        k=5,
        record={"question": "Where is the company based?"},
        retrieved=("a",),
        texts={"a": "Our seat is Tulsa, a city of eastern Oklahoma."},
        retrieval={"cost": 0.002, "seconds": 0.25},
    ),
)


_cost: Final = partial(ScoreDef, scale=(0.0, inf), is_cost=True)


def _latency(level: float, share: str) -> ScoreDef:
    """Return the definition of a quantile of latency; `share` is the share of questions up to `level`, as a text."""
    statistic = Quantile(level)
    return _cost(
        f"latency.{statistic.name}",
        evaluate_latency,
        definition="The seconds that a retrieval takes; the score is the value that "
        f"{share} of the questions do not exceed.",
        worked=(0.25, "of one question it is the time itself"),
        needs_k=False,
        statistic=statistic,
        is_time=True,
    )


SCORES: Final = (
    _cost(
        "retrieval.cost",
        evaluate_cost,
        definition="The cost of the retrieval in US dollars, as the retriever reports it in its `Retrieval`.",
        worked=(0.002, "as the retriever says"),
        needs_k=False,
    ),
    _cost(
        "context.tokens",
        evaluate_context_tokens,
        definition="The number of tokens of the first k passages in the format of a prompt, estimated without a "
        "tokenizer.",
        worked=(14.0, "with its number, `[1]`"),
    ),
    _latency(0.5, "half"),
    _latency(0.95, "95%"),
)
