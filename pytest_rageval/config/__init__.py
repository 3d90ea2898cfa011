"""The options of a run and their precedence.

`options` has the table of options, `settings` the resolved values, with the base URL and its secrets.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.config.options import OPTIONS, Option
from pytest_rageval.config.settings import EMBEDDED, Api, BaseURL, Settings, public_url
from pytest_rageval.errors import InputError

__all__ = ["EMBEDDED", "OPTIONS", "Api", "BaseURL", "Option", "Settings", "public_url", "resolve"]

SECRET_SIGNS: Final = frozenset("@?#")
"""A URL with one of these may contain a password or a key."""


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
    for message in _contradictions(settings):
        raise InputError(message)
    return settings


def _contradictions(settings: Settings) -> Iterator[str]:
    if settings.record and settings.cassette is None:
        yield "--rageval-record writes a cassette, but none is named: add --rageval-cassette FILE."
    if (settings.record_prompts or settings.drop_unused) and not settings.record:
        yield "--rageval-record-prompts and --rageval-drop-unused only work together with --rageval-record."
    if settings.replay and settings.refresh:
        yield "--rageval-replay asks nothing and --rageval-refresh asks everything again: leave one out."
    if settings.replay and settings.canary:
        yield "--rageval-replay asks nothing and --rageval-canary asks anew: leave one out."
    if settings.plan and settings.update_baseline:
        yield (
            "--rageval-plan asks nothing, so there are no scores for --rageval-update-baseline to write: leave one "
            "out."
        )
    if settings.pin_baseline and not settings.update_baseline:
        yield (
            "--rageval-pin-baseline pins what --rageval-update-baseline writes, and nothing is written without that: "
            "add it, on the commit that max_total_drop is to compare with."
        )
    if settings.ci and settings.update_baseline is True:
        yield (
            "--rageval-update-baseline makes the scores of this run those that later runs are compared with, good "
            "or bad; under CI=true that is refused. Update on the commit to compare with, look at what it lowers, "
            "and commit the file; or, in a job that is meant to update, write --rageval-update-baseline=force."
        )
    if settings.plan and settings.record:
        yield "--rageval-plan asks nothing, so there is nothing for --rageval-record to write: leave one out."


def _parsed(option: Option, where: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        hidden = option.private and not SECRET_SIGNS.isdisjoint(text)
        found = "cannot be used" if hidden else f"is {text!r}"
        message = f"{where} {found}: {error}."
    raise InputError(message)


def _is_ci(value: str | None) -> bool:
    return (value or "").strip().lower() not in {"", "0", "false", "no", "off"}
