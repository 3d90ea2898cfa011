"""Resolves the options of a run from command line, ini file, `pyproject.toml`, environment and defaults."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.extensions import installed
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options import Option, all_options
from pytest_rageval.options.parsers import CACHE_URL
from pytest_rageval.options.settings import (
    FILE,
    JUDGE_KEY,
    KEY_SOURCES,
    POLICY_OPTIONS,
    ROLES,
    Role,
    Settings,
    Tables,
    new_secret,
)

if TYPE_CHECKING:
    from pytest_rageval.lib.secret import Secret, StoreURL

# Few projects have a table in the file.
parse_pyproject: Final = Lazy("options.pyproject", "parse_pyproject")
texts_of: Final = Lazy("options.pyproject", "texts_of")
read_preset: Final = Lazy("options.presets", "read_preset")  # few runs have one
parse_cache: Final = Lazy("lib.secret", "parse_cache")  # nor a cache of several machines

SECRET_SIGNS: Final = frozenset("@?#{")
"""A value with one of these characters, such as a URL or a JSON object, may contain a password or a key."""

RUN_VARIABLE: Final = "RAGEVAL_RUN_ID"
"""The environment variable with the name of a run that several machines share."""

CI_RUNS: Final = (
    ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT"),
    ("CI_PIPELINE_ID",),  # GitLab
    ("BUILDKITE_BUILD_ID",),
    ("CIRCLE_WORKFLOW_ID",),
    ("BUILD_BUILDID",),  # Azure
    ("BUILD_TAG",),  # Jenkins
)
"""Environment variables of CI systems that have the same value on all machines of a run."""

FLEX_DEFAULTS: Final = {"timeout": 900.0, "patience": 3600.0}
"""Defaults with `--rageval flex=true`: a reply may take minutes, and a server without capacity answers 429."""


def resolve_options(
    command_line: Mapping[str, Any],
    ini: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    invoked_in: Path,
    root: Path,
) -> Settings:
    """Resolve the options: command line before ini file, `pyproject.toml`, environment, preset and default.

    The texts of the command line and of the ini file are by the name of the option, lists for repeatable ones; None is
    not set. Relative paths are resolved against `invoked_in` and `root`. InputError is raised for a value that is not
    allowed and for options that contradict each other.
    """
    values: dict[str, Any] = {
        "cache_dir": root / Settings.cache_dir.default,
        "baseline": root / Settings.baseline.default,
        "api_key": _key(environ, "OPENAI_API_KEY"),
        "judge_api_key": _key(environ, JUDGE_KEY),
        "gguf": environ.get("RAGEVAL_GGUF") or None,
        "ci": is_ci(environ.get("CI")),
    }
    sources: dict[str, str] = {}
    in_pyproject, tables = read_pyproject(root)
    for source, texts, base in (
        ("pyproject", texts_of(in_pyproject) if in_pyproject else {}, root),
        ("ini", ini, root),
        ("command line", command_line, invoked_in),
    ):
        for option in all_options():
            raw = texts.get(option.name)
            if raw is None or raw in ("", []):
                continue
            label = {"pyproject": f"{FILE}: {option.name} in [tool.rageval]", "ini": option.ini}.get(
                source, option.typed
            )
            parsed = [_parse(option, label, str(text)) for text in (raw if option.repeatable else [raw])]
            resolved = [_resolve_path(item, base) for item in parsed]
            values[option.name] = tuple(resolved) if option.repeatable else resolved[0]
            sources[option.name] = source
            if source != "pyproject":
                _remove_overridden(tables, option.name, values[option.name])
    _take_variables(values, sources, environ)
    if values.get("flex"):
        sources = dict.fromkeys(FLEX_DEFAULTS, "default with flex") | sources
        values = FLEX_DEFAULTS | values
    cache = resolve_cache(values.get("cache"), environ, invoked_in)
    # `--rageval-cache` may name a folder too.
    if cache != values.get("cache"):
        sources["cache"] = f"environment ({CACHE_URL})"
    values |= {"cache_dir": cache, "cache": None} if isinstance(cache, Path) else {"cache": cache}
    values["run"] = _run_name(environ, shared=values["cache"] is not None)
    values["tables"] = {role: _resolve_key(table, environ) for role, table in tables.items()}
    settings = _apply_preset(Settings(**values, sources=sources), values.keys())
    own = (getattr(module, "contradictions", None) for module in installed().values())
    for message in chain(_contradictions(settings), *(check(settings) for check in own if check)):
        raise InputError(message)
    return settings


def _take_variables(values: dict[str, Any], sources: dict[str, str], environ: Mapping[str, str]) -> None:
    """Add the values of environment variables of options that nothing else sets."""
    for option in all_options():
        if not option.variable or option.name in values:
            continue
        text = environ.get(option.variable, "").strip()
        if text and (option.metavar or is_ci(text)):
            values[option.name] = _parse(option, option.variable, text) if option.metavar else True
            sources[option.name] = f"environment ({option.variable})"


def _apply_preset(settings: Settings, named: Collection[str]) -> Settings:
    """Return the settings, with those of the preset for all options that the user has not set."""
    if settings.preset is None:
        return settings
    preset = read_preset(settings.preset)
    own = {*named, *(f"judge_{name}" for name in settings.tables.get("judge", {}))}
    if "temperature" in settings.generator.parameters:
        own |= {"temperature", "llm_reteval_temperature"}
    if settings.llm_judge is None:
        # Canonical comparison has no parameters, and the embedded model has prompts of its own.
        own.add("judge_parameters")
        preset = replace(preset, prompts={}) if settings.embedded else preset
    preset = preset.without(own)
    options = {option.name: option for option in all_options()}
    if unknown := preset.settings.keys() - options.keys():
        raise InputError(f"The preset {preset.name} sets {', '.join(sorted(unknown))}, which is no option.")
    values = {
        name: _parse(options[name], f"preset {preset.name}: {name}", text)
        for name, text in preset.settings.items()
    }
    sources = dict.fromkeys(values, f"preset {preset.name}")
    return settings.replace(applied_preset=preset, sources={**settings.sources, **sources}, **values)


def _resolve_path(item: Any, base: Path) -> Any:
    if isinstance(item, Path):
        return base / item
    # The URL of a store may have a folder.
    return item.resolve_folder(base) if hasattr(item, "resolve_folder") else item


def resolve_cache(
    option: "Path | StoreURL | None", environ: Mapping[str, str], base: Path
) -> "Path | StoreURL | None":
    """Return the cache that the option names, or else that of `RAGEVAL_CACHE_URL`, which may have a password."""
    url = environ.get(CACHE_URL, "").strip()
    if not url:
        return option
    try:
        from_environment: Path | StoreURL = _resolve_path(parse_cache(url), base)
    except ValueError as error:
        # The URL is not quoted, since it may contain a password.
        message = f"{CACHE_URL} cannot be used: {error}."
    else:
        # The option may name the same store without the password.
        return from_environment if option is None or str(option) == str(from_environment) else option
    raise InputError(message)


def _run_name(environ: Mapping[str, str], *, shared: bool) -> str:
    """Return the name of the run that several machines share; with a shared cache, by default that of the CI run."""
    if name := environ.get(RUN_VARIABLE, "").strip():
        return name
    for names in CI_RUNS if shared else ():
        if environ.get(names[0]):
            return "-".join(environ.get(name, "") for name in names)
    return ""


def _remove_overridden(tables: Tables, name: str, value: Any) -> None:
    """Remove the key that an option overrides from the tables of the models.

    Limits of calls and cost stay: an option limits the run, and a table limits one server.
    """
    key = name.removeprefix("judge_")
    roles: tuple[Role, ...] = ("judge",) if key != name else ("generator",)
    for role in ROLES if name in POLICY_OPTIONS else roles:
        table = tables.get(role, {})
        if key == "base_url" and table.get(key, value) != value:
            # The API key is for the server in the table, and must not be sent to another one.
            for source in KEY_SOURCES:
                table.pop(source, None)
        if key not in {"max_calls", "max_cost"}:
            table.pop(key, None)


def _resolve_key(table: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of the settings, with the API key in place of the name of its environment variable."""
    values = {name: value for name, value in table.items() if name not in KEY_SOURCES}
    if variable := table.get("api_key_env"):
        values |= {"key_name": variable, "needs_key": True, "api_key": _key(environ, variable)}
    if command := table.get("api_key_command"):
        values |= {"key_command": command, "api_key": None}
    return values


def _key(environ: Mapping[str, str], name: str) -> "Secret | None":
    # Some shells leave a line feed at the end of `$(cat FILE)`.
    text = environ.get(name, "").strip()
    return new_secret(text) if text else None


def _contradictions(settings: Settings) -> Iterator[str]:
    for name in ("temperature", "llm_reteval_temperature"):
        if getattr(settings, name) is not None and "temperature" in settings.generator.parameters:
            yield (
                f"--rageval {name}=T and the parameters of the generating model both name a "
                "temperature: leave one out."
            )
    models = settings.judge_models
    if not all(models) or len(set(models)) < len(models) or (models and len(models) % 2 == 0):
        yield (
            f"The models that judge are {settings.llm_judge!r}: expected one, or an odd number of different ones, such "
            "as a,b,c, so that a majority decides (--rageval-judge-model, or the key model of their table)."
        )
    if settings.record and settings.cassette is None:
        yield "--rageval-record writes a cassette, but none is named: add --rageval-cassette FILE."
    if not settings.record and (unused := _typed_for_a_recording(settings)):
        yield f"Only a run with --rageval-record uses {' and '.join(unused)}: add that option."
    if settings.replay and settings.refresh:
        yield "--rageval-replay sends no requests and --rageval-refresh sends all of them: leave one out."
    yield from _contradictions_of_update(settings)
    for option in ("baseline", "cassette"):
        if (path := getattr(settings, option)) in settings.report:
            yield (
                f"--rageval-report and --rageval-{option} name the same file, {path.name}: the report would replace "
                f"the {option}. Give the report another name."
            )


def _typed_for_a_recording(settings: Settings) -> list[str]:
    """Return the typed options that only a recording uses. Those of the ini file hold for all runs, also for others."""
    return [
        option.typed if option.is_flag else option.setter()
        for option in (Settings.record_prompts, Settings.drop_unused)
        if settings[option] and settings.sources.get(option.name) == "command line"
    ]


def _contradictions_of_update(settings: Settings) -> Iterator[str]:
    if settings.pin_baseline and not settings.update_baseline:
        yield (
            "--rageval-pin-baseline pins what --rageval-update-baseline writes, and nothing is written without that: "
            "add it, on the commit that max_total_drop is to compare with."
        )
    if settings.ci and settings.update_baseline is True:
        yield (
            "--rageval-update-baseline is refused under CI=true, because it accepts the scores of this run, good or "
            "bad. Run it on your machine, on the commit to compare with; check what it lowers, and commit the file. "
            "In a job that is meant to update the baseline, write --rageval-update-baseline=force."
        )
    if settings.sample < 1 and settings.update_baseline:
        yield (
            "--rageval-update-baseline writes the scores of all questions, and --rageval-sample leaves some out: leave "
            "one out."
        )


def _parse(option: Option[Any], label: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        hidden = option.private and not SECRET_SIGNS.isdisjoint(text)
        found = "cannot be used" if hidden else f"is {text!r}"
        message = f"{label} {found}: {error}."
    raise InputError(message)


def is_ci(value: str | None) -> bool:
    return (value or "").strip().lower() not in {"", "0", "false", "no", "off"}


def read_pyproject(root: Path) -> tuple[dict[str, object], Tables]:
    """Return `[tool.rageval]` in the `pyproject.toml` of a folder: options as in TOML, and the tables of the models."""
    try:
        text = (root / FILE).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        # pytest reads the same file, and reports the error.
        return {}, {}
    found: tuple[dict[str, object], Tables] = parse_pyproject(text) if "rageval" in text else ({}, {})
    return found
