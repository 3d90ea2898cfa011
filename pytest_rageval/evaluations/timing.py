"""Retrievals that are timed: one after the other, alone or beside those of a reference retriever."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_rageval.errors import Unscored
from pytest_rageval.evaluations.pipeline import Asked, Pipeline
from pytest_rageval.model import Ranking

if TYPE_CHECKING:
    from pytest_rageval.retrievers import Retriever

__all__ = ["timed", "timed_beside"]


async def timed(run: Pipeline, asked: Asked, k: int) -> tuple[Ranking, float]:
    """The ranking of `run.ranking`, and the seconds that the retrieval took while no other ran.

    The rankings of one run are timed one after the other. A retrieval that has no time, since it was the first, or
    others ran meanwhile, is made again.

    Raises:
        Unscored: a replay does not say how long the retrieval took; or models answered from the cache.
    """
    return await run.once.of(("timed", run.retriever.key(asked), k), lambda: _timed(run, asked, k))


async def _timed(run: Pipeline, asked: Asked, k: int) -> tuple[Ranking, float]:
    async with run.timing:
        ranking, cached = await run.ranking(asked, k), run.cached()
        unsure = ranking.seconds is None or run.was_beside_cached(asked, k)
        if unsure and not run.retriever.replays:
            ranking = replace(ranking, seconds=(await run.retrieved_alone(asked, k)).seconds)
        return ranking, _seconds(run, ranking, cached)


async def timed_beside(
    run: Pipeline, reference: "Retriever", asked: Asked, k: int
) -> tuple[Ranking, float, float]:
    """The ranking, its time and that of the reference; each the mean of two calls, in the order ABBA.

    Raises:
        Unscored: as for `timed`.
    """
    return await run.once.of(
        ("timed beside", run.retriever.key(asked), k), lambda: _timed_beside(run, reference, asked, k)
    )


async def _timed_beside(
    run: Pipeline, reference: "Retriever", asked: Asked, k: int
) -> tuple[Ranking, float, float]:
    async def timed(call: Callable[[], Awaitable[Ranking]]) -> tuple[Ranking, float]:
        cached = run.cached()
        ranking = await call()
        return ranking, _seconds(run, ranking, cached)

    def own() -> Awaitable[Ranking]:
        return run.retrieved_alone(asked, k)

    def other() -> Awaitable[Ranking]:
        return reference.retrieve(asked, k, alone=True)

    async with run.timing:
        if not run.has_retrieved:
            # The first calls also open connections and load models.
            await other()
            await own()
        (_, a1), (_, b1), (_, b2), (ranking, a2) = [await timed(call) for call in (own, other, other, own)]
    return ranking, (a1 + a2) / 2, (b1 + b2) / 2


def _seconds(run: Pipeline, ranking: Ranking, cached: int) -> float:
    """The time of a retrieval; `cached` is the number of cached replies before it."""
    if run.cached() > cached:
        raise Unscored(
            "models answered the retriever from the cache, so that its time is not that of a retrieval "
            "(--rageval-refresh asks them again)"
        )
    if ranking.seconds is None:
        raise Unscored("the rankings are recorded, and how long the retrieval took is not")
    return ranking.seconds
