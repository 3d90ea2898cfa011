"""The exceptions of the package, tracebacks without its frames, and imports of optional packages.

Every message says what was found, where, what is allowed and what to do. The plugin prints it without the frames of
this package.
"""

import traceback
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from pytest_rageval.lib.text import MAX_TEXT, printable, text_of

Cause = Literal["retriever", "example", "run"]
"""The reason why an example has no score: the retriever failed, the example lacks data that the score needs, or
another part of this run failed, such as a server."""

STORED_AS: Final = "pytest_rageval.errors"  # see calls.STORED_AS
PACKAGE_FOLDER: Final = Path(__file__).parents[1]
MAX_FRAMES: Final = 5
"""The number of frames of the user's code that a message shows, counted from the innermost frame."""

MAX_EXCEPTION_TEXT: Final = 2000  # characters of an exception's message that a message of this package quotes


class _PrintableMessage(Exception):  # noqa: N818 - a base class
    """An exception whose message may quote untrusted text. `str()` escapes it with `printable`, and shortens it."""

    max_length: int = MAX_TEXT

    def __str__(self) -> str:
        return printable(text_of(self.args[0] if len(self.args) == 1 else super().__str__(), self.max_length))


class RagevalError(_PrintableMessage):
    """Base class of all errors that end a test. The message is written for the user.

    Errors of several examples with the same `reason` count as one error; if it is empty, the message is compared.
    `examples` has the ids of the examples whose errors of this class it combines.
    """

    reason: str = ""
    examples: tuple[str, ...] = ()


class InputError(RagevalError):
    """A file, marker, option or argument is invalid."""


class CallableError(RagevalError):
    """Code of the user or of another plugin raised an exception or returned an unusable value."""

    @classmethod
    def from_exception(cls, what: str, error: BaseException) -> "CallableError":
        """Return the error for an exception in the user's code; `what` is the beginning of the message."""
        frames = [f"\n  {frame}" for frame in user_frames(error)[-MAX_FRAMES:]]
        return cls(f"{what}: {exception_text(error)}{''.join(frames)}")


class ServerError(RagevalError):
    """A server cannot answer any request: it is not reachable, the key is wrong, or the model is unknown."""


class StaleBaselineError(RagevalError):
    """A score cannot be compared with its baseline, because more than the retriever has changed."""


class StoreError(RagevalError):
    """The reply cache or the cassette cannot be read or written."""


class MissingReplyError(RagevalError):
    """A reply is not stored, and this run must not send requests."""


class BudgetError(RagevalError):
    """The next call could exceed the budget. The replies received so far are stored. `reason` is without amounts."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class TooManyUnscoredError(RagevalError):
    """The share of unscored examples is larger than `--rageval max_unscored=SHARE` allows."""


class Unscored(_PrintableMessage):
    """One example cannot be scored; the message is the reason in reports.

    It may be raised in any code that an evaluation calls. It is caught for each example, so that the other examples
    are still scored. `cause` names the part that failed: bounds count an example as lost if its retriever failed.
    """

    max_length = MAX_EXCEPTION_TEXT  # several reasons are parts of one message
    cause: Cause = "run"


class NoGroundTruth(Unscored):
    """The example lacks data that the score needs, such as gold passages."""

    cause: Cause = "example"


class GoldNotRetrieved(NoGroundTruth):
    """The text of a gold passage, known from retrieved documents alone, was not retrieved."""

    cause: Cause = "retriever"


class UnusableRanking(Unscored):
    """The retriever returned a result that cannot be scored."""

    cause: Cause = "retriever"


class Undefined(Unscored):
    """The definition of the score gives no value for this example; nothing failed.

    The example is left out of the mean and counted. The number of such examples is not limited.
    """


class QueryError(CallableError, Unscored):
    """Code of the user or of another plugin failed for one question.

    In an evaluation the example of the question becomes unscored. Anywhere else the test ends with an error. `reason`
    is one line that does not quote the question, so that equal failures are counted together; `cause` as in `Unscored`.
    """

    max_length = MAX_TEXT

    def __init__(self, message: str, reason: str = "", *, cause: Cause = "run") -> None:
        super().__init__(message)
        self.reason = reason
        self.cause: Cause = cause


class Planned(Unscored):
    """This run is a plan: a request that the score depends on was counted and not sent."""


class ReplyPending(BaseException):
    """The reply will be received in a batch. The work that depends on it ends, and a later stage repeats it.

    It is a `BaseException`, so that handlers of `Exception` in an evaluation or in the user's code do not treat it as
    a failed request.
    """


class ContextOverflow(Unscored):
    """A prompt is longer than the context window of the model."""


def user_frames(error: BaseException) -> list[str]:
    """Return the frames of a traceback outside this package, as "FILE:LINE in NAME", innermost last."""
    return [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(PACKAGE_FOLDER)
    ]


def exception_text(error: BaseException) -> str:
    """Return type and message of any exception; a long message is cut, and one that raises is named."""
    return f"{type(error).__name__}: {text_of(error, MAX_EXCEPTION_TEXT)}"


def summary_line(error: BaseException) -> str:
    """Return type, message and innermost frame of the user's code of an exception, in one line."""
    first, *_ = exception_text(error).splitlines()
    frame = innermost_user_frame(traceback.extract_tb(error.__traceback__))
    return first if frame is None else f"{first} ({Path(frame.filename).name}:{frame.lineno})"


def innermost_user_frame(frames: Iterable[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    """Return the innermost frame of the user's code, or else the innermost frame outside this package."""
    from sysconfig import get_paths  # noqa: PLC0415 - rarely called, and every run imports this file

    paths = get_paths()
    libraries = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    foreign = [frame for frame in frames if not Path(frame.filename).is_relative_to(PACKAGE_FOLDER)]
    users = [frame for frame in foreign if not any(map(Path(frame.filename).is_relative_to, libraries))]
    return next(reversed(users or foreign), None)


def exception_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes and contexts, and the members of exception groups."""
    stack, seen = [error], set[int]()
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        stack += [cause for cause in (current.__cause__, current.__context__) if cause is not None]
        stack += current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        yield current


def raised_in_package(error: BaseException) -> bool:
    """Return whether the innermost frame of an exception is in this package, not in the user's code."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is None or Path(last.tb_frame.f_code.co_filename).is_relative_to(PACKAGE_FOLDER)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the most similar known name, ignoring case; "" if no known name is similar.

    >>> did_you_mean("Recal", ["recall", "ndcg"]), did_you_mean("x", ["recall", "ndcg"])
    (' Did you mean recall?', '')
    """
    similar = similar_names(name, known, limit=1)
    return f" Did you mean {similar[0]}?" if similar else ""


def similar_names(name: str, known: Iterable[str], *, limit: int) -> list[str]:
    """Return at most `limit` known names that are similar to a name, ignoring case, the most similar first."""
    from difflib import get_close_matches  # noqa: PLC0415 - rarely called, and every run imports this file

    by_lower = {candidate.lower(): candidate for candidate in known}
    return [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=limit)]


def require(module: str, *, extra: str, purpose: str, remedy: str = "") -> Any:
    """Import and return a module that an extra of this package installs. InputError says how to install it.

    `purpose` is the subject of the message: what needs the module; `remedy` what the user can do instead.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise InputError(
            f"{purpose} needs the package {module!r}, which is not installed.\n"
            f"Install it with: pip install 'pytest-rageval[{extra}]'{remedy}"
        ) from None
