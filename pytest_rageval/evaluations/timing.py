"""Retrievals that are timed: one after the other, alone or beside those of a reference retriever."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_rageval.datatypes import Ranking
from pytest_rageval.errors import Unscored
from pytest_rageval.evaluations.pipeline import Pipeline, Query

if TYPE_CHECKING:
    from pytest_rageval.retrievers import Retriever

__all__ = ["timed", "timed_beside"]


async def timed(pipeline: Pipeline, query: Query, k: int) -> tuple[Ranking, float]:
    """The ranking of `run.ranking`, and the seconds that the retrieval took while no other ran.

    The rankings of one run are timed one after the other. A retrieval that has no time, since it was the first, or
    others ran meanwhile, is made again.

    Raises:
        Unscored: a replay does not say how long the retrieval took; or models answered from the cache.
    """
    return await pipeline.once.of(
        ("timed", pipeline.retriever.key(query), k), lambda: _timed(pipeline, query, k)
    )


async def _timed(pipeline: Pipeline, query: Query, k: int) -> tuple[Ranking, float]:
    async with pipeline.timing:
        ranking, cached = await pipeline.ranking(query, k), pipeline.cached()
        unsure = ranking.seconds is None or pipeline.was_beside_cached(query, k)
        if unsure and not pipeline.retriever.replays:
            ranking = replace(ranking, seconds=(await pipeline.retrieved_alone(query, k)).seconds)
        return ranking, _seconds(pipeline, ranking, cached)


async def timed_beside(
    pipeline: Pipeline, reference: "Retriever", query: Query, k: int
) -> tuple[Ranking, float, float]:
    """The ranking, its time and that of the reference; each the mean of two calls, in the order ABBA.

    Raises:
        Unscored: as for `timed`.
    """
    return await pipeline.once.of(
        ("timed beside", pipeline.retriever.key(query), k),
        lambda: _timed_beside(pipeline, reference, query, k),
    )


async def _timed_beside(
    pipeline: Pipeline, reference: "Retriever", query: Query, k: int
) -> tuple[Ranking, float, float]:
    async def timed(call: Callable[[], Awaitable[Ranking]]) -> tuple[Ranking, float]:
        cached = pipeline.cached()
        ranking = await call()
        return ranking, _seconds(pipeline, ranking, cached)

    def own() -> Awaitable[Ranking]:
        return pipeline.retrieved_alone(query, k)

    def other() -> Awaitable[Ranking]:
        return reference.retrieve(query, k, alone=True)

    async with pipeline.timing:
        if not pipeline.has_retrieved:
            # The first calls also open connections and load models.
            await other()
            await own()
        (_, a1), (_, b1), (_, b2), (ranking, a2) = [await timed(call) for call in (own, other, other, own)]
    return ranking, (a1 + a2) / 2, (b1 + b2) / 2


def _seconds(pipeline: Pipeline, ranking: Ranking, cached: int) -> float:
    """The time of a retrieval; `cached` is the number of cached replies before it."""
    if pipeline.cached() > cached:
        raise Unscored(
            "models answered the retriever from the cache, so that its time is not that of a retrieval "
            "(--rageval-refresh asks them again)"
        )
    if ranking.seconds is None:
        raise Unscored("the rankings are recorded, and how long the retrieval took is not")
    return ranking.seconds
