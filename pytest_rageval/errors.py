"""The exceptions of the package, tracebacks without its frames, and imports of optional packages.

Every message says what was found, where, what is allowed and what to do. The plugin prints it without a
traceback of this package.
"""

import re
import traceback
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from pytest_rageval.printable import printable

__all__ = [
    "PLACEHOLDER",
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
    "ReplyPending",
    "ServerError",
    "StaleBaselineError",
    "StoreError",
    "TooManyUnscoredError",
    "Undefined",
    "Unscored",
    "UnusableRanking",
    "did_you_mean",
    "has_placeholder",
    "innermost_user_frame",
    "installed",
    "is_placeholder",
    "places",
    "raised_here",
    "require",
    "similar_names",
    "summary_line",
]

Cause = Literal["retriever", "example", "run"]
"""Why an example has no score: the retriever failed, the example lacks what the score needs, or something else
in this run failed, such as a server."""

HERE: Final = Path(__file__).parent
FRAMES: Final = 5
"""How many of the user's frames an error shows, the innermost."""


class _Printable(Exception):  # noqa: N818 - a base class
    """An exception whose message may quote untrusted text; it is escaped for printing."""

    def __str__(self) -> str:
        return printable(super().__str__())


class RagevalError(_Printable):
    """Base of all errors that end a test; the message is for the user."""


class InputError(RagevalError):
    """A file, marker, option or argument cannot be used."""


class CallableError(RagevalError):
    """The user's retriever, generator or judge, or another plugin's part, raised or returned something unusable."""

    @classmethod
    def raised(cls, what: str, error: BaseException) -> "CallableError":
        """Return the error for an exception in the user's code; `what` says what was being done."""
        frames = [f"\n  {place}" for place in places(error)[-FRAMES:]]
        return cls(f"{what}: {type(error).__name__}: {error}{''.join(frames)}")


class ServerError(RagevalError):
    """No request can be answered: no server, a wrong key, an unknown model."""


class StaleBaselineError(RagevalError):
    """A score cannot be compared with its baseline: more than the retriever changed."""


class StoreError(RagevalError):
    """The reply cache or the cassette cannot be read or written."""


class MissingReplyError(RagevalError):
    """A reply is missing, and no request may be sent."""


class BudgetError(RagevalError):
    """The next call could exceed the budget; earlier replies are kept."""


class TooManyUnscoredError(RagevalError):
    """So many examples are unscored that the mean would mislead."""


class Unscored(_Printable):
    """One example cannot be scored; the message is the reason in reports.

    Raised anywhere below an evaluation and caught for each example, so that the others continue. `cause` is the part
    that failed; bounds count an example on which the retriever failed as lost.
    """

    cause: Cause = "run"


class NoGroundTruth(Unscored):
    """The example lacks data that the score needs, such as gold passages."""

    cause: Cause = "example"


class UnusableRanking(Unscored):
    """The retriever's result cannot be scored."""

    cause: Cause = "retriever"


class Undefined(Unscored):
    """By its definition the score has no value for this example; nothing failed.

    Such an example is left out of the mean and counted; no share of them is too large.
    """


class QueryError(CallableError, Unscored):
    """The user's retriever, generator or judge, or another plugin's part, failed at one question.

    In an evaluation it makes that example unscored; elsewhere it is an error. `reason` says in one line what happened,
    without the question, so that equal failures are counted together; `part` what failed: "rageval_judge.compare".
    """

    def __init__(self, message: str, reason: str = "", *, part: str = "", cause: Cause = "run") -> None:
        super().__init__(message)
        self.reason = reason
        self.part = part
        self.cause = cause


class Planned(Unscored):
    """In a plan: a request that the score depends on was counted, not sent."""


class ReplyPending(BaseException):
    """A reply will come in a batch: the work that depends on it ends here, and is repeated in a later stage.

    It is not an `Exception`, so that neither an evaluation nor the user's code continues as if the request had failed.
    """


PLACEHOLDER: Final = re.compile(r"⟪reply ([0-9a-f]{16})⟫")
"""The placeholder of a reply in a plan, with the beginning of its request's key."""


def is_placeholder(text: str) -> bool:
    """Whether a text is the placeholder of a reply."""
    return PLACEHOLDER.fullmatch(text) is not None


def has_placeholder(text: str) -> bool:
    """Whether a text contains the placeholder of a reply."""
    return PLACEHOLDER.search(text) is not None


class ContextOverflow(Unscored):
    """A prompt is longer than the model can read."""


def places(error: BaseException) -> list[str]:
    """Return the frames of an exception outside this package, "FILE:LINE in NAME", innermost last."""
    return [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(HERE)
    ]


def summary_line(error: BaseException) -> str:
    """Return an exception in one line, with the innermost line of the user's code."""
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    frame = innermost_user_frame(traceback.extract_tb(error.__traceback__))
    return first if frame is None else f"{first} ({Path(frame.filename).name}:{frame.lineno})"


def innermost_user_frame(frames: Iterable[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    """Return the last frame of the user's code; where there is none, the last one of another package."""
    from sysconfig import get_paths  # noqa: PLC0415 - rare, and this file is imported by every run

    paths = get_paths()
    libraries = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    foreign = [frame for frame in frames if not Path(frame.filename).is_relative_to(HERE)]
    users = [frame for frame in foreign if not any(map(Path(frame.filename).is_relative_to, libraries))]
    return next(reversed(users or foreign), None)


def raised_here(error: BaseException) -> bool:
    """Whether an exception was raised in this package, not in the user's code."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is None or Path(last.tb_frame.f_code.co_filename).is_relative_to(HERE)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question whether a similar known name was meant, case ignored; "" where none is similar.

    >>> did_you_mean("Recal", ["recall", "ndcg"]), did_you_mean("x", ["recall", "ndcg"])
    (' Did you mean recall?', '')
    """
    near = similar_names(name, known, most=1)
    return f" Did you mean {near[0]}?" if near else ""


def similar_names(name: str, known: Iterable[str], *, most: int) -> list[str]:
    """Return the known names that are similar, case ignored, the nearest first."""
    from difflib import get_close_matches  # noqa: PLC0415 - rare, and this file is imported by every run

    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=most)]


def installed(*modules: str) -> bool:
    """Whether all of these top-level modules can be imported; imports none."""
    return all(find_spec(module) is not None for module in modules)


def require(module: str, *, extra: str, purpose: str) -> Any:
    """Import and return a module of an extra.

    Raises:
        InputError: it is not installed; says what needs it and what to install.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise InputError(
            f"{purpose} needs the package {module!r}, which is not installed.\n"
            f"Install it with: pip install 'pytest-rageval[{extra}]'"
        ) from None
