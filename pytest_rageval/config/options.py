"""The options: one table for the command line, the ini file and the docs, with the parsers of their values."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from pytest_rageval.config.settings import BaseURL, Settings

__all__ = [
    "OPTIONS",
    "Option",
    "amount",
    "count",
    "is_ci",
    "odd",
    "part",
    "positive",
    "rate",
    "seconds",
    "share",
    "switch",
    "update",
]

N = TypeVar("N", int, float)


def positive(text: str) -> int:
    """A whole number from 1."""
    return _number(text, int, lambda value: value >= 1, "a whole number, at least 1")


def odd(text: str) -> int:
    """A whole number from 1 that is odd."""
    allowed = "an odd whole number, at least 1: an even number of votes may be tied"
    return _number(text, int, lambda value: value >= 1 and value % 2 == 1, allowed)


def count(text: str) -> int:
    """A whole number from 0."""
    return _number(text, int, lambda value: value >= 0, "a whole number, at least 0")


def seconds(text: str) -> float:
    """A time."""
    return _number(text, float, lambda value: 0 < value < float("inf"), "a number of seconds above 0")


def share(text: str) -> float:
    """A share, which may be none."""
    return _number(text, float, lambda value: 0 <= value <= 1, "a share between 0 and 1")


def part(text: str) -> float:
    """A share that is some."""
    return _number(text, float, lambda value: 0 < value <= 1, "a share above 0, at most 1")


def rate(text: str) -> float:
    """How many a minute."""
    return _number(text, float, lambda value: 0 < value < float("inf"), "a number above 0")


def amount(text: str) -> float:
    """Of money."""
    return _number(text, float, lambda value: 0 <= value < float("inf"), "an amount, at least 0")


def _number(text: str, kind: Callable[[str], N], fits: Callable[[N], bool], allowed: str) -> N:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(f"expected {allowed}") from None
    if not fits(value):
        raise ValueError(f"expected {allowed}")
    return value


def switch(text: str) -> bool:
    """On or off, as ini files say it."""
    known = {"true": True, "1": True, "yes": True, "on": True}
    known |= {"false": False, "0": False, "no": False, "off": False}
    if text.lower() not in known:
        message = "expected true or false"
        raise ValueError(message)
    return known[text.lower()]


def update(text: str) -> bool | Literal["force"]:
    """On or off, or on where it is refused otherwise."""
    if text.lower() == "force":
        return "force"
    try:
        return switch(text)
    except ValueError:
        message = "expected nothing, or force"
        raise ValueError(message) from None


def is_ci(value: str | None) -> bool:
    """Whether the environment variable CI says that this is a build server."""
    return (value or "").strip().lower() not in {"", "0", "false", "no", "off"}


class Option(NamedTuple):
    """One option: `--rageval-NAME` and `rageval_NAME` in the ini file.

    Attributes:
        name: with underscores; the field of `Settings`.
        parse: from text to the field's value; raises ValueError, whose text says what is allowed.
        help: what changes, and the unit.
        metavar: how help calls the value; empty for a switch.
        words: those that a switch takes behind an equals sign; alone it is switched on.
        many: may be given several times.
        lasting: may stand in the ini file; one that may not would change what every later run means.
        private: the text may hold a password; an error does not quote one that may.
    """

    name: str
    parse: Callable[[str], Any]
    help: str
    metavar: str = ""
    words: tuple[str, ...] = ("true", "false")
    many: bool = False
    lasting: bool = True
    private: bool = False

    @property
    def flag(self) -> str:
        """As typed on the command line."""
        return f"--rageval-{self.name.replace('_', '-')}"

    @property
    def ini(self) -> str:
        """As written in the ini file."""
        return f"rageval_{self.name}"

    @property
    def default(self) -> Any:
        """What holds when nobody says anything."""
        return getattr(Settings, self.name)


OPTIONS: Final = (
    Option(
        "model",
        str,
        "model that generates answers; 'embedded' is the local one, and the default where there is "
        "neither OPENAI_API_KEY nor a base URL",
        "NAME",
    ),
    Option(
        "judge_model",
        str,
        "model that compares answers; default: the generating one, or a comparison in canonical form "
        "where that is embedded",
        "NAME",
    ),
    Option(
        "judge_votes",
        odd,
        "votes of the model that compares answers on each verdict; the majority counts, of grades the median, and "
        "how often votes differ is reported; more than one are drawn at temperature 0.5; a judge of yours is asked "
        "once",
        "N",
    ),
    Option(
        "both_orders",
        switch,
        "judge each pair of long answers in both orders, and count a verdict that changes with the order as a tie",
    ),
    Option(
        "base_url",
        BaseURL.parse,
        "OpenAI-compatible server; default: OPENAI_BASE_URL, or OpenAI's own",
        "URL",
        private=True,
    ),
    Option(
        "comparator",
        str,
        "how two answers are compared: names of comparators and answer measures with and, or and "
        "thresholds, such as 'judge or em' or 'f1>=0.5'",
        "EXPRESSION",
    ),
    Option(
        "match_share",
        part,
        "share of a gold passage that retrieved documents must hold for it to be found, where it is matched "
        "by span or text",
        "SHARE",
    ),
    Option(
        "max_tokens",
        positive,
        "most tokens of a reply; without it the server decides, and only a price table bounds the cost",
        "N",
    ),
    Option(
        "concurrency",
        positive,
        "most requests in flight from one process to a server; fewer while the server says that it is "
        "too much",
        "N",
    ),
    Option("rpm", rate, "most requests a minute to a server, over all workers", "N"),
    Option("tpm", rate, "most tokens a minute to a server, over all workers", "N"),
    Option("timeout", seconds, "wait for one reply at most this long", "SECONDS"),
    Option(
        "retries",
        count,
        "repeat a request after 408, 409, 5xx, a timeout or a dropped connection at most this often; "
        "429 and 503 are waited for as long as --rageval-patience says",
        "N",
    ),
    Option(
        "patience",
        seconds,
        "give a server up that answered none of the waiting requests for this long: the tests that need it end as "
        "errors, and the next run asks for the rest",
        "SECONDS",
    ),
    Option(
        "threads",
        positive,
        "threads that call a synchronous retriever or generator; 1 is the test's own thread, one call "
        "at a time",
        "N",
    ),
    Option("cache_dir", Path, "folder of the reply cache; in the root directory by default", "DIR"),
    Option("refresh", switch, "ask again for replies that are in the cache or the cassette"),
    Option("replay", switch, "ask nothing: a reply in neither the cache nor the cassette is an error"),
    Option(
        "cassette",
        Path,
        "file of recorded replies, read where the cache has none; compressed if it ends in .gz",
        "FILE",
    ),
    Option("record", switch, "write the replies of this run to the cassette"),
    Option("record_prompts", switch, "with the prompts in full, and not only their hashes"),
    Option("drop_unused", switch, "drop recorded replies that a full run did not use from the cassette"),
    Option("plan", switch, "say what a run would ask, and what that would cost; ask nothing"),
    Option("max_calls", count, "stop before more replies than these are asked of servers", "N"),
    Option("max_cost", amount, "stop before the call that could cost more than this in all", "USD"),
    Option("prices", Path, "file of prices of models (TOML), over those that are known", "FILE"),
    Option(
        "prompts",
        Path,
        "file of prompts for models at a server (TOML), by name, in place of the package's own",
        "FILE",
    ),
    Option(
        "max_unscored",
        share,
        "share of examples without a score above which a score is an error",
        "SHARE",
    ),
    Option(
        "baseline",
        Path,
        "file of the scores that max_drop compares with, for git; in the root directory by default",
        "FILE",
    ),
    Option(
        "update_baseline",
        update,
        "write the scores of this run to the baseline, and compare them with none; only on the command line; under "
        "CI=true refused unless it is --rageval-update-baseline=force",
        words=("force",),
        lasting=False,
    ),
    Option(
        "require_baseline",
        switch,
        "a max_drop without a baseline is an error, not a pass with a warning, and so is a test of the baseline that a "
        "full run did not have; the default under CI=true, which --rageval-require-baseline=false takes back",
    ),
    Option(
        "calibration",
        Path,
        "file of answers that people labelled, by which answer.correct and llm_reteval are also reported corrected "
        "for the judge's errors",
        "FILE",
    ),
    Option(
        "repeat",
        positive,
        "ask generator and judge this often, under new sample numbers, and report how far the means spread",
        "N",
    ),
    Option(
        "report",
        Path,
        "write results to this file: .md for a pull request, .html for a browser, .json for programs; repeatable",
        "FILE",
        many=True,
    ),
    Option("seed", count, "seed of bootstrap intervals and of random orders", "N"),
)
