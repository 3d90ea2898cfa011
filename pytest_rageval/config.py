"""The options: one table for the command line, the ini file, the README and their one precedence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pytest_rageval.errors import InputError

__all__ = ["EMBEDDED", "OPTIONS", "Option", "Settings", "resolve"]

N = TypeVar("N", int, float)

EMBEDDED: Final = "embedded"
"""The name under which the local model is asked for."""


@dataclass(frozen=True)
class Settings:
    """All options of a run, resolved.

    `model`, `judge_model` and `base_url` are None where nobody named them.
    """

    model: str | None = None
    judge_model: str | None = None
    base_url: str | None = None
    concurrency: int = 16
    timeout: float = 60.0
    retries: int = 4
    threads: int = 1
    cache_dir: Path = Path(".rageval_cache")
    refresh: bool = False
    cassette: Path | None = None
    record: bool = False
    max_unscored: float = 0.05
    report: tuple[Path, ...] = ()
    seed: int = 0
    api_key: str | None = None
    gguf: str | None = None

    @property
    def embedded(self) -> bool:
        """Whether the local model generates: asked for by name, or nothing else is at hand."""
        return self.model == EMBEDDED or (self.model is None and not (self.api_key or self.base_url))

    @property
    def llm_judge(self) -> str | None:
        """The model that compares answers; None where they are compared in canonical form."""
        return self.judge_model or (None if self.embedded else self.model)

    def in_force(self) -> str:
        """What generates and what compares, in a line for the report header."""
        if self.embedded:
            generator = "embedded model"
            if self.gguf:
                generator += f" {Path(self.gguf).stem}"
        elif self.model is None:
            return "no model is named (--rageval-model), ranking measures alone can be scored"
        else:
            generator = f"{self.model}{self._where()}"
        judge = f"judged by {self.llm_judge}" if self.llm_judge else "compared in canonical form"
        quality = " [embedded models: smoke-test quality]" if self.embedded else ""
        return f"generator {generator}, answers {judge}{quality}"

    def _where(self) -> str:
        return f" at {self.base_url}" if self.base_url else ""


class Option(NamedTuple):
    """One option: `--rageval-NAME` and `rageval_NAME` in the ini file.

    Attributes:
        name: with underscores; the field of `Settings`.
        parse: from text to the field's value; raises ValueError, whose text says what is allowed.
        help: what changes, and the unit.
        metavar: how help calls the value; empty for a switch.
        many: may be given several times.
    """

    name: str
    parse: Callable[[str], Any]
    help: str
    metavar: str = ""
    many: bool = False

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


def resolve(
    command_line: Mapping[str, Any],
    ini: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    invoked_in: Path,
    root: Path,
) -> Settings:
    """Command line over ini over environment over default.

    Args:
        command_line: option name to text (a bool for switches, a list where it may be repeated);
            None where not given. Relative paths in it start from `invoked_in`.
        ini: likewise; relative paths start from `root`.
        environ: the process's environment variables.
        invoked_in: where the command was typed.
        root: pytest's root directory.

    Raises:
        InputError: a value is none of those allowed; it names the option and where it was set.
    """
    values: dict[str, Any] = {
        "cache_dir": root / Settings.cache_dir,
        "base_url": environ.get("OPENAI_BASE_URL", "").rstrip("/") or None,
        "api_key": environ.get("OPENAI_API_KEY") or None,
        "gguf": environ.get("RAGEVAL_GGUF") or None,
    }
    for source, given, base in (("ini", ini, root), ("flag", command_line, invoked_in)):
        for option in OPTIONS:
            raw = given.get(option.name)
            if raw is None or raw in ("", []):
                continue
            parsed = []
            for text in raw if option.many else [raw]:
                try:
                    parsed.append(option.parse(str(text)))
                except ValueError as error:
                    message = f"{getattr(option, source)} is {text!r}: {error}."
                    raise InputError(message) from None
            placed = [base / item if isinstance(item, Path) else item for item in parsed]
            values[option.name] = tuple(placed) if option.many else placed[0]
    settings = Settings(**values)
    if settings.record and settings.cassette is None:
        message = "--rageval-record writes a cassette, but none is named: add --rageval-cassette FILE."
        raise InputError(message)
    return settings


def _positive(text: str) -> int:
    return _number(text, int, lambda value: value >= 1, "a whole number, at least 1")


def _count(text: str) -> int:
    return _number(text, int, lambda value: value >= 0, "a whole number, at least 0")


def _seconds(text: str) -> float:
    return _number(text, float, lambda value: 0 < value < float("inf"), "a number of seconds above 0")


def _share(text: str) -> float:
    return _number(text, float, lambda value: 0 <= value <= 1, "a share between 0 and 1")


def _number(text: str, kind: Callable[[str], N], fits: Callable[[N], bool], allowed: str) -> N:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(f"expected {allowed}") from None
    if not fits(value):
        raise ValueError(f"expected {allowed}")
    return value


def _switch(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True}
    known |= {"false": False, "0": False, "no": False, "off": False}
    if text.lower() not in known:
        message = "expected true or false"
        raise ValueError(message)
    return known[text.lower()]


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        message = "expected a URL that begins with http:// or https://"
        raise ValueError(message)
    return text.rstrip("/")


def _report(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".json":
        message = "expected a file name that ends in .json"
        raise ValueError(message)
    return path


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
        "base_url",
        _url,
        "OpenAI-compatible server; default: OPENAI_BASE_URL, or OpenAI's own",
        "URL",
    ),
    Option("concurrency", _positive, "most requests in flight to a server", "N"),
    Option("timeout", _seconds, "wait for one reply at most this long", "SECONDS"),
    Option(
        "retries",
        _count,
        "repeat a request after 408, 409, 429, 5xx or a dropped connection at most this often",
        "N",
    ),
    Option(
        "threads",
        _positive,
        "threads that call a synchronous retriever or generator; 1 is the test's own thread, one call "
        "at a time",
        "N",
    ),
    Option("cache_dir", Path, "folder of the reply cache, from the root directory", "DIR"),
    Option("refresh", _switch, "ask again for replies that are in the cache or the cassette"),
    Option("cassette", Path, "file of recorded replies, read where the cache has none", "FILE"),
    Option("record", _switch, "write the replies of this run to the cassette"),
    Option(
        "max_unscored",
        _share,
        "share of examples without a score above which a score is an error",
        "SHARE",
    ),
    Option("report", _report, "write results to this file (.json); repeatable", "FILE", many=True),
    Option("seed", _count, "seed of bootstrap intervals", "N"),
)
