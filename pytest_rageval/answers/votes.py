"""A verdict by several votes, and the tally of all votes that a result rests on.

The tally goes beside the verdicts, which are plain numbers: who computes
something within `tallied` is told of the votes behind it, also where what it
needs was computed for somebody else and is passed on with `rests_on`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from pytest_rageval.errors import Planned, Unscored
from pytest_rageval.stats.agreement import Tally

__all__ = ["Poll", "majority", "majority_or_tie", "median", "rests_on", "tallied"]

T = TypeVar("T")

TEMPERATURE: Final = 0.5
"""Of several votes. At 0 a server that repeats itself would make them agree, however close the verdict."""

_BEHIND: ContextVar[dict[Hashable, Tally] | None] = ContextVar("_BEHIND", default=None)
"""By verdict: the votes behind what is being computed."""


@dataclass(frozen=True, slots=True)
class Poll:
    """How often a judge is asked for one verdict.

    Attributes:
        votes: an odd number. One is drawn without chance. More are drawn at `TEMPERATURE` as samples
            0, 1, 2 …, so that five votes have three of an earlier run in common.
        first: the number of the first sample.
    """

    votes: int = 1
    first: int = 0

    @property
    def temperature(self) -> float:
        """At which a vote is drawn."""
        return 0.0 if self.votes == 1 else TEMPERATURE

    async def verdict(
        self,
        about: Hashable,
        vote: Callable[[int], Awaitable[float]],
        settle: Callable[[Sequence[float]], float],
    ) -> float:
        """Ask for all votes at once, and settle on a verdict by those that could be had.

        Args:
            about: what sets this verdict apart from others.
            vote: from the number of the sample to its vote.
            settle: from the votes to the verdict.

        Raises:
            Unscored: there is no vote, or they do not settle it.
        """
        if self.votes == 1:
            return await vote(self.first)
        samples = range(self.first, self.first + self.votes)
        ended = await asyncio.gather(*map(vote, samples), return_exceptions=True)
        votes: list[float] = []
        unread: list[Unscored] = []
        for end in ended:
            if isinstance(end, Unscored) and not isinstance(end, Planned):
                unread.append(end)
            elif isinstance(end, BaseException):
                raise end
            else:
                votes.append(end)
        if not votes:
            raise Unscored(f"none of {self.votes} votes could be had: {unread[0]}")
        verdict = settle(votes)
        minority = sum(each != verdict for each in votes)
        rests_on(about, Tally(1, int(len(set(votes)) > 1), len(votes), minority, len(unread)))
        return verdict


def majority(votes: Sequence[float]) -> float:
    """1.0 where most of the votes, each 1.0 or 0.0, are yes; 0.0 where most are no.

    Raises:
        Unscored: they are tied, as only an even number can be.

    >>> majority([1.0, 0.0, 1.0])
    1.0
    """
    yes = sum(votes)
    if 2 * yes == len(votes):
        raise Unscored(f"the judge's votes are tied: {yes:g} yes, {yes:g} no")
    return float(2 * yes > len(votes))


def majority_or_tie(votes: Sequence[float]) -> float:
    """The vote of more than half; 0.0, "neither", where there is none.

    >>> majority_or_tie([1.0, 2.0, 2.0]), majority_or_tie([1.0, 2.0, 0.0])
    (2.0, 0.0)
    """
    vote, count = Counter(votes).most_common(1)[0]
    return vote if 2 * count > len(votes) else 0.0


def median(votes: Sequence[float]) -> float:
    """The vote in the middle; the mean of the middle two where their number is even.

    >>> median([0.25, 1.0, 0.5]), median([0.25, 0.5])
    (0.5, 0.375)
    """
    ordered = sorted(votes)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


async def tallied(work: Awaitable[T]) -> tuple[T, Tally]:
    """The result of some work, and the votes behind it; each verdict counts once."""
    behind: dict[Hashable, Tally] = {}
    outside = _BEHIND.set(behind)
    try:
        result = await work
    finally:
        _BEHIND.reset(outside)
    return result, sum(behind.values(), Tally())


def rests_on(about: Hashable, tally: Tally) -> None:
    """Count votes for whatever is being computed here, once however often it needs them."""
    behind = _BEHIND.get()
    if behind is not None and tally.verdicts:
        behind[about] = tally
