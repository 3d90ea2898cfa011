"""What can go wrong, by who can mend it.

Every message is complete for the person who reads it: what was found, where,
what is allowed, what to do. The plugin prints it as it stands, without a
traceback of this package.
"""

import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from pytest_rageval.printable import printable

__all__ = [
    "BudgetError",
    "CallableError",
    "Cause",
    "ContextOverflow",
    "InputError",
    "MissingReplyError",
    "NoGroundTruth",
    "Planned",
    "QueryError",
    "RagevalError",
    "ServerError",
    "StaleBaselineError",
    "StoreError",
    "TooManyUnscoredError",
    "Undefined",
    "Unscored",
    "UnusableRanking",
    "did_you_mean",
    "ours",
    "places",
]

Cause = Literal["retriever", "example", "run"]
"""Why an example has no score: the retriever failed at it; it lacks what the score needs, whatever is retrieved; or
something else in this run, such as a server or a reply that cannot be read."""

HERE: Final = Path(__file__).parent
FRAMES: Final = 5
"""How many of the user's own frames an error shows, the innermost."""


def places(error: BaseException) -> list[str]:
    """Where an exception came through outside this package, the innermost place last."""
    return [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(HERE)
    ]


def ours(error: BaseException) -> bool:
    """Whether an exception was raised in this package, and not in the user's code."""
    raised = traceback.extract_tb(error.__traceback__)
    return not raised or Path(raised[-1].filename).is_relative_to(HERE)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question whether a known name was meant that is nearly this one, upper and lower case aside; or nothing.

    >>> did_you_mean("Recal", ["recall", "ndcg"]), did_you_mean("x", ["recall", "ndcg"])
    (' Did you mean recall?', '')
    """
    from difflib import get_close_matches  # noqa: PLC0415 - rare, and this file is imported by every run

    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]}?" if near else ""


class _Printable(Exception):  # noqa: N818 - only what errors have in common
    """An exception whose text may quote anybody, and is printed by pytest, by loggers and by users' code."""

    def __str__(self) -> str:
        return printable(super().__str__())


class RagevalError(_Printable):
    """Base of all errors that end a test; its text is meant for the user."""


class InputError(RagevalError):
    """A file, marker, option or argument of the user's cannot be used as it is."""


class CallableError(RagevalError):
    """The user's retriever, generator or judge, or what a plugin added, raised or returned something unusable."""

    @classmethod
    def raised(cls, what: str, error: BaseException) -> "CallableError":
        """What was being done, what was raised, and where in the user's code."""
        frames = [f"\n  {place}" for place in places(error)[-FRAMES:]]
        return cls(f"{what}: {type(error).__name__}: {error}{''.join(frames)}")


class ServerError(RagevalError):
    """No model answers at all: no server, a wrong key, an unknown model."""


class StaleBaselineError(RagevalError):
    """A score cannot be compared with its baseline: more than the retriever changed."""


class StoreError(RagevalError):
    """The reply cache or the cassette cannot be read or written."""


class MissingReplyError(RagevalError):
    """A reply is not recorded, and nothing may be asked."""


class BudgetError(RagevalError):
    """The next call would pass the budget; what was paid before is kept."""


class TooManyUnscoredError(RagevalError):
    """So many examples have no score that their mean would mislead."""


class Unscored(_Printable):
    """One example cannot be scored; the text is the reason that reports show.

    Raised anywhere below an evaluation and caught at the boundary of the
    example, so that the other examples go on.

    Attributes:
        cause: whose matter it is; bounds count an example that the retriever failed at as lost.
    """

    cause: Cause = "run"


class NoGroundTruth(Unscored):
    """The example lacks what the score needs, so that it has none whatever is retrieved."""

    cause: Cause = "example"


class UnusableRanking(Unscored):
    """What the retriever returned cannot be scored."""

    cause: Cause = "retriever"


class Undefined(Unscored):
    """Of one example the score says nothing, by its definition: nothing went wrong, and nothing is to mend.

    Such an example is left out of the mean and counted, and no share of them is too large.
    """


class QueryError(CallableError, Unscored):
    """The user's retriever failed at one query.

    In an evaluation a condition of that example, which is unscored; elsewhere the error that it is.

    Attributes:
        reason: what happened, in a line and without the query, so that equal ones are counted as one.
    """

    cause: Cause = "retriever"

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class Planned(Unscored):
    """In a plan: what the score depends on was counted, and not asked."""


class ContextOverflow(Unscored):
    """A prompt is longer than the model can read."""
