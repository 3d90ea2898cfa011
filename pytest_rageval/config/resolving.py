"""Command line over ini file over environment over default."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.config.options import OPTIONS, Option, is_ci
from pytest_rageval.config.settings import Settings
from pytest_rageval.errors import InputError

__all__ = ["resolve"]

SECRET_SIGNS: Final = frozenset("@?#")
"""A URL with one of these may hold a password or a key."""


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
        "baseline": root / Settings.baseline,
        # A line feed at its end, as `$(cat FILE)` may leave one in other shells, is none of the key's.
        "api_key": environ.get("OPENAI_API_KEY", "").strip() or None,
        "gguf": environ.get("RAGEVAL_GGUF") or None,
        "ci": is_ci(environ.get("CI")),
        "require_baseline": is_ci(environ.get("CI")),
    }
    for source, given, base in (("ini", ini, root), ("flag", command_line, invoked_in)):
        for option in OPTIONS:
            raw = given.get(option.name)
            if raw is None or raw in ("", []):
                continue
            where = getattr(option, source)
            parsed = [_parsed(option, where, str(text)) for text in (raw if option.many else [raw])]
            placed = [base / item if isinstance(item, Path) else item for item in parsed]
            values[option.name] = tuple(placed) if option.many else placed[0]
            if option.name == "baseline":
                values["baseline_named"] = True
    if "base_url" not in values and (told := environ.get("OPENAI_BASE_URL", "").strip()):
        values["base_url"] = _parsed(_BASE_URL, "OPENAI_BASE_URL", told)
    settings = Settings(**values)
    for applies, message in _CONTRADICTIONS:
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


_BASE_URL: Final = next(option for option in OPTIONS if option.name == "base_url")

_CONTRADICTIONS: Final[tuple[tuple[Callable[[Settings], bool], str], ...]] = (
    (
        lambda given: given.record and given.cassette is None,
        "--rageval-record writes a cassette, but none is named: add --rageval-cassette FILE.",
    ),
    (
        lambda given: (given.record_prompts or given.drop_unused) and not given.record,
        "--rageval-record-prompts and --rageval-drop-unused only work together with --rageval-record.",
    ),
    (
        lambda given: given.replay and given.refresh,
        "--rageval-replay asks nothing and --rageval-refresh asks everything again: leave one out.",
    ),
    (
        lambda given: given.plan and bool(given.update_baseline),
        "--rageval-plan asks nothing, so there are no scores for --rageval-update-baseline to write: leave one out.",
    ),
    (
        lambda given: given.ci and given.update_baseline is True,
        (
            "--rageval-update-baseline makes the scores of this run those that later runs are compared with, whatever "
            "they are; under CI=true that is refused. Update on the commit to compare with, look at what it lowers, "
            "and commit the file; or, in a job that is meant to update, write --rageval-update-baseline=force."
        ),
    ),
    (
        lambda given: given.plan and given.record,
        "--rageval-plan asks nothing, so there is nothing for --rageval-record to write: leave one out.",
    ),
)
"""Options that cannot hold together, and what to say then."""
