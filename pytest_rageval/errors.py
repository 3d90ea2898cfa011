"""The exceptions of the package, and optional packages that are imported at first use.

Every message is complete for its reader: what was found, where, what is allowed, what to do. The plugin
prints it as it is, without a traceback of this package.
"""

import traceback
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

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
    "in_a_line",
    "installed",
    "ours",
    "own_line",
    "places",
    "require",
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


def in_a_line(error: BaseException) -> str:
    """An exception with the line of the user's file that it came through last: reports show it among others."""
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    own = own_line(traceback.extract_tb(error.__traceback__))
    return first if own is None else f"{first} ({Path(own.filename).name}:{own.lineno})"


def own_line(frames: Iterable[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    """The innermost of the frames that is the user's, as far as can be told, and none of this package.

    Args:
        frames: the innermost last.
    """
    from sysconfig import get_paths  # noqa: PLC0415 - rare, and this file is imported by every run

    paths = get_paths()
    installed = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    own = [frame for frame in frames if not Path(frame.filename).is_relative_to(HERE)]
    users = [frame for frame in own if not any(map(Path(frame.filename).is_relative_to, installed))]
    return next(reversed(users or own), None)


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
    """The user's retriever, generator or judge, or what a plugin added, failed at one question.

    In an evaluation a condition of that example, which is unscored; elsewhere the error that it is.

    Attributes:
        reason: what happened, in a line and without the question, so that equal ones are counted as one.
        part: which of them failed, such as "rageval_retriever" or "rageval_judge.compare".
    """

    def __init__(self, message: str, reason: str = "", *, part: str = "", cause: Cause = "run") -> None:
        super().__init__(message)
        self.reason = reason
        self.part = part
        self.cause = cause


class Planned(Unscored):
    """In a plan: what the score depends on was counted, and not asked."""


class ContextOverflow(Unscored):
    """A prompt is longer than the model can read."""


def installed(*modules: str) -> bool:
    """Whether all of these top-level modules can be imported; none of them is."""
    return all(find_spec(module) is not None for module in modules)


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import a module of an extra.

    Raises:
        InputError: it is not installed; the message says what it is for and what to install.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        message = (
            f"{purpose} needs the package {module!r}, which is not installed.\n"
            f"Install it with: pip install 'pytest-rageval[{extra}]'"
        )
        raise InputError(message) from None
