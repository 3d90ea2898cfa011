"""The options of a run: one table for the command line, the ini file and the docs, and their precedence."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from pytest_rageval.config.settings import BaseURL, Settings
from pytest_rageval.errors import InputError

__all__ = ["OPTIONS", "Option", "resolve"]

SECRET_SIGNS: Final = frozenset("@?#")
"""A URL with one of these may contain a password or a key."""

N = TypeVar("N", int, float)


class Option(NamedTuple):
    """One option: `--rageval-NAME` and `rageval_NAME` in the ini file.

    Attributes:
        name: with underscores; the field of `Settings`.
        parse: from text to the field's value; raises ValueError with what is allowed.
        help: the effect, and the unit.
        metavar: name of the value in the help; empty for a switch.
        words: values of a switch, after an equals sign; without one it is on.
        many: whether it may be repeated.
        permanent: whether it may be in the ini file; else it would change what every later run means.
        private: whether the text may contain a password, which an error does not quote.
    """

    name: str
    parse: Callable[[str], Any]
    help: str
    metavar: str = ""
    words: tuple[str, ...] = ("true", "false")
    many: bool = False
    permanent: bool = True
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
        """The default value."""
        return getattr(Settings, self.name)


def resolve(
    command_line: Mapping[str, Any],
    ini: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    invoked_in: Path,
    root: Path,
) -> Settings:
    """Resolve the options of a run: command line over ini file over environment over default.

    Args:
        command_line: texts by option name (a bool for switches, a list for repeatable options), None where
            not set. Relative paths start from `invoked_in`.
        ini: likewise; relative paths start from `root`.
        environ: environment variables.
        invoked_in: working directory of the command.
        root: pytest's root directory.

    Raises:
        InputError: a value is not allowed, or two options contradict each other.
    """
    values: dict[str, Any] = {
        "cache_dir": root / Settings.cache_dir,
        "baseline": root / Settings.baseline,
        # Some shells leave a line feed at the end of `$(cat FILE)`.
        "api_key": environ.get("OPENAI_API_KEY", "").strip() or None,
        "gguf": environ.get("RAGEVAL_GGUF") or None,
        "ci": _is_ci(environ.get("CI")),
        "require_baseline": _is_ci(environ.get("CI")),
    }
    for source, texts, base in (("ini", ini, root), ("flag", command_line, invoked_in)):
        for option in OPTIONS:
            raw = texts.get(option.name)
            if raw is None or raw in ("", []):
                continue
            where = getattr(option, source)
            parsed = [_parsed(option, where, str(text)) for text in (raw if option.many else [raw])]
            placed = [base / item if isinstance(item, Path) else item for item in parsed]
            values[option.name] = tuple(placed) if option.many else placed[0]
            if option.name == "baseline":
                values["baseline_named"] = True
    base_url = next(option for option in OPTIONS if option.name == "base_url")
    if "base_url" not in values and (url := environ.get("OPENAI_BASE_URL", "").strip()):
        values["base_url"] = _parsed(base_url, "OPENAI_BASE_URL", url)
    settings = Settings(**values)
    for applies, message in CONTRADICTIONS:
        if applies(settings):
            raise InputError(message)
    return settings


def _parsed(option: Option, where: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        hidden = option.private and not SECRET_SIGNS.isdisjoint(text)
        found = "cannot be used" if hidden else f"is {text!r}"
        message = f"{where} {found}: {error}."
    raise InputError(message)


def _number(kind: Callable[[str], N], fits: Callable[[N], bool], allowed: str) -> Callable[[str], N]:
    """A parser of numbers; NaN fits no comparison."""

    def parse(text: str) -> N:
        try:
            value = kind(text)
        except ValueError:
            raise ValueError(f"expected {allowed}") from None
        if not fits(value):
            raise ValueError(f"expected {allowed}")
        return value

    return parse


INFINITY: Final = float("inf")

COUNT: Final = _number(int, lambda value: value >= 0, "a whole number, at least 0")
POSITIVE: Final = _number(int, lambda value: value >= 1, "a whole number, at least 1")
ODD: Final = _number(
    int,
    lambda value: value >= 1 and value % 2 == 1,
    "an odd whole number, at least 1: an even number of votes may be tied",
)
SECONDS: Final = _number(float, lambda value: 0 < value < INFINITY, "a number of seconds above 0")
RATE: Final = _number(float, lambda value: 0 < value < INFINITY, "a number above 0")
AMOUNT: Final = _number(float, lambda value: 0 <= value < INFINITY, "an amount, at least 0")
SHARE: Final = _number(float, lambda value: 0 <= value <= 1, "a share between 0 and 1")
PART: Final = _number(float, lambda value: 0 < value <= 1, "a share above 0, at most 1")


def _switch(text: str) -> bool:
    """On or off, as in ini files."""
    known = {"true": True, "1": True, "yes": True, "on": True}
    known |= {"false": False, "0": False, "no": False, "off": False}
    if text.lower() not in known:
        message = "expected true or false"
        raise ValueError(message)
    return known[text.lower()]


def _update(text: str) -> bool | Literal["force"]:
    """On or off, or "force"."""
    if text.lower() == "force":
        return "force"
    try:
        return _switch(text)
    except ValueError:
        message = "expected nothing, or force"
        raise ValueError(message) from None


def _choice(*words: str) -> Callable[[str], str]:
    """One of these words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected {' or '.join(words)}")
        return text

    return parse


def _is_ci(value: str | None) -> bool:
    """Whether the environment variable CI says that this is a build server."""
    return (value or "").strip().lower() not in {"", "0", "false", "no", "off"}


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
        "model that compares answers; default: the generating one, or canonical comparison where that is embedded",
        "NAME",
    ),
    Option(
        "judge_votes",
        ODD,
        "votes of the model that compares answers on each verdict; the majority counts, of grades the median, and "
        "how often votes differ is reported; more than one are drawn at temperature 0.5; a judge of yours is asked "
        "once",
        "N",
    ),
    Option(
        "both_orders",
        _switch,
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
        "how two answers are compared: names of comparators and answer measures with and, or and thresholds, such as "
        "'judge or em' or 'f1>=0.5'",
        "EXPRESSION",
    ),
    Option(
        "match_share",
        PART,
        "share of a gold passage that retrieved documents must contain, where it is matched by span or text",
        "SHARE",
    ),
    Option(
        "max_tokens",
        POSITIVE,
        "most tokens of a reply; without it the server decides, and only a price table bounds the cost",
        "N",
    ),
    Option(
        "concurrency",
        POSITIVE,
        "most requests in flight from one process to a server; fewer while it refuses some",
        "N",
    ),
    Option("rpm", RATE, "most requests a minute to a server, over all workers", "N"),
    Option("tpm", RATE, "most tokens a minute to a server, over all workers", "N"),
    Option("timeout", SECONDS, "wait for one reply at most this long", "SECONDS"),
    Option(
        "retries",
        COUNT,
        "repeat a request after 408, 409, 5xx, a timeout or a dropped connection at most this often; 429 and 503 are "
        "waited for as long as --rageval-patience says",
        "N",
    ),
    Option(
        "patience",
        SECONDS,
        "give up a server that answered none of the waiting requests for this long: the tests that need it end as "
        "errors, and the next run asks for the rest",
        "SECONDS",
    ),
    Option(
        "threads",
        POSITIVE,
        "threads that call a synchronous retriever or generator; 1 is the test's own thread, one call at a time",
        "N",
    ),
    Option("cache_dir", Path, "folder of the reply cache; in the root directory by default", "DIR"),
    Option("refresh", _switch, "ask again for replies that are in the cache or the cassette"),
    Option("replay", _switch, "ask nothing: a reply in neither the cache nor the cassette is an error"),
    Option(
        "cassette",
        Path,
        "file of recorded replies, read where the cache has none; compressed if it ends in .gz",
        "FILE",
    ),
    Option("record", _switch, "write the replies of this run to the cassette"),
    Option("record_prompts", _switch, "write prompts to the cassette in full, not only their hashes"),
    Option("drop_unused", _switch, "drop recorded replies that a full run did not use from the cassette"),
    Option("plan", _switch, "print what a run would ask and cost; ask nothing"),
    Option("max_calls", COUNT, "stop before more replies than these are asked of servers", "N"),
    Option("max_cost", AMOUNT, "stop before the call that could cost more than this in all", "USD"),
    Option("prices", Path, "file of prices of models (TOML), which override the known ones", "FILE"),
    Option(
        "prompts",
        Path,
        "file of prompts for models at a server (TOML), in place of the package's own",
        "FILE",
    ),
    Option(
        "max_unscored", SHARE, "share of examples without a score above which a score is an error", "SHARE"
    ),
    Option(
        "baseline",
        Path,
        "file of the scores that max_drop, max_total_drop and max_lost compare with, for git; in the root directory "
        "by default",
        "FILE",
    ),
    Option(
        "update_baseline",
        _update,
        "write the scores of this run to the baseline, and compare them with none; only on the command line; under "
        "CI=true refused unless it is --rageval-update-baseline=force",
        words=("force",),
        permanent=False,
    ),
    Option(
        "pin_baseline",
        _switch,
        "with --rageval-update-baseline: pin what it writes as the anchor that max_total_drop compares with, until "
        "another one is pinned; only on the command line",
        permanent=False,
    ),
    Option(
        "require_baseline",
        _switch,
        "a max_drop or max_lost without a baseline, and a max_total_drop without an anchor, is an error, not a pass "
        "with a warning, and so is a test of the baseline that a full run did not run; the default under CI=true, "
        "which --rageval-require-baseline=false reverts",
    ),
    Option(
        "family",
        POSITIVE,
        "number of tests that share the alpha of max_drop; default: those in the baseline",
        "N",
    ),
    Option(
        "inconclusive",
        _choice("warn", "fail"),
        "whether a drop above max_drop that is not significant is to warn or to fail",
        "warn|fail",
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
        POSITIVE,
        "ask generator and judge this often, under new sample numbers; a question's score is the mean over these runs, "
        "and how far their means spread is reported",
        "N",
    ),
    Option(
        "report",
        Path,
        "write results to this file: .md for a pull request, .html for a browser, .json for programs; repeatable",
        "FILE",
        many=True,
    ),
    Option("seed", COUNT, "seed of bootstrap intervals and of random orders", "N"),
)

CONTRADICTIONS: Final[tuple[tuple[Callable[[Settings], bool], str], ...]] = (
    (
        lambda settings: settings.record and settings.cassette is None,
        "--rageval-record writes a cassette, but none is named: add --rageval-cassette FILE.",
    ),
    (
        lambda settings: (settings.record_prompts or settings.drop_unused) and not settings.record,
        "--rageval-record-prompts and --rageval-drop-unused only work together with --rageval-record.",
    ),
    (
        lambda settings: settings.replay and settings.refresh,
        "--rageval-replay asks nothing and --rageval-refresh asks everything again: leave one out.",
    ),
    (
        lambda settings: settings.plan and bool(settings.update_baseline),
        "--rageval-plan asks nothing, so there are no scores for --rageval-update-baseline to write: leave one out.",
    ),
    (
        lambda settings: settings.pin_baseline and not settings.update_baseline,
        (
            "--rageval-pin-baseline pins what --rageval-update-baseline writes, and nothing is written without that: "
            "add it, on the commit that max_total_drop is to compare with."
        ),
    ),
    (
        lambda settings: settings.ci and settings.update_baseline is True,
        (
            "--rageval-update-baseline makes the scores of this run those that later runs are compared with, good "
            "or bad; under CI=true that is refused. Update on the commit to compare with, look at what it lowers, "
            "and commit the file; or, in a job that is meant to update, write --rageval-update-baseline=force."
        ),
    ),
    (
        lambda settings: settings.plan and settings.record,
        "--rageval-plan asks nothing, so there is nothing for --rageval-record to write: leave one out.",
    ),
)
"""Contradictory options, each with its message."""
