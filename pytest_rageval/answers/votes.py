"""A verdict by several votes, and the tally of all votes behind a result.

Verdicts are plain numbers, so tallies are passed separately: `with_tally` collects the votes of what it awaits, and
`add_tally` adds those of a part that was computed for another result.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from pytest_rageval.errors import Planned, Unscored
from pytest_rageval.stats.agreement import Tally

__all__ = ["Poll", "add_tally", "majority", "with_tally"]

T = TypeVar("T")

TEMPERATURE: Final = 0.5
"""Of several votes. At 0 a server that repeats itself would make them agree, however close the verdict."""

_COLLECTED: ContextVar[dict[Hashable, Tally] | None] = ContextVar("_COLLECTED", default=None)
"""The votes behind what is being computed, by verdict."""


@dataclass(frozen=True, slots=True)
class Poll:
    """How often a judge is asked for one verdict.

    Attributes:
        votes: an odd number. One is drawn at temperature 0. More are drawn at `TEMPERATURE` as samples 0, 1, 2 …, so
            that five votes share three with an earlier run of three.
        first: the number of the first sample.
    """

    votes: int = 1
    first: int = 0

    @property
    def temperature(self) -> float:
        """The temperature of each vote."""
        return 0.0 if self.votes == 1 else TEMPERATURE

    async def verdict(
        self,
        about: Hashable,
        vote: Callable[[int], Awaitable[float]],
        settle: Callable[[Sequence[float]], float],
    ) -> float:
        """Ask for all votes at once, and reach a verdict from those that can be read.

        Args:
            about: identifies the verdict, for the tally.
            vote: from the number of the sample to its vote.
            settle: from the votes to the verdict.

        Raises:
            Unscored: no vote can be read, or they do not settle it.
        """
        if self.votes == 1:
            return await vote(self.first)
        samples = range(self.first, self.first + self.votes)
        outcomes = await asyncio.gather(*map(vote, samples), return_exceptions=True)
        votes: list[float] = []
        unread: list[Unscored] = []
        for outcome in outcomes:
            if isinstance(outcome, Unscored) and not isinstance(outcome, Planned):
                unread.append(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                votes.append(outcome)
        if not votes:
            raise Unscored(f"none of {self.votes} votes could be had: {unread[0]}")
        verdict = settle(votes)
        minority = sum(each != verdict for each in votes)
        add_tally(about, Tally(1, int(len(set(votes)) > 1), len(votes), minority, len(unread)))
        return verdict


def majority(votes: Sequence[float]) -> float:
    """Return 1.0 where most of the votes, each 1.0 or 0.0, are yes; 0.0 where most are no.

    Raises:
        Unscored: they are tied, which takes an even number.

    >>> majority([1.0, 0.0, 1.0])
    1.0
    """
    yes = sum(votes)
    if 2 * yes == len(votes):
        raise Unscored(f"the judge's votes are tied: {yes:g} yes, {yes:g} no")
    return float(2 * yes > len(votes))


async def with_tally(work: Awaitable[T]) -> tuple[T, Tally]:
    """Await some work; return its result and the votes behind it. Each verdict counts once."""
    collected: dict[Hashable, Tally] = {}
    outer = _COLLECTED.set(collected)
    try:
        result = await work
    finally:
        _COLLECTED.reset(outer)
    return result, sum(collected.values(), Tally())


def add_tally(about: Hashable, tally: Tally) -> None:
    """Count votes for the result that is being computed, once for each `about`."""
    collected = _COLLECTED.get()
    if collected is not None and tally.verdicts:
        collected[about] = tally
