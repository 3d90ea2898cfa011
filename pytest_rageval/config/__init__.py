"""The options of a run and their precedence.

- `parsers`: how the text of each option is read. The table of options is `pytest_rageval.options`.
- `settings`: the resolved values of a run.
- `model_settings`: settings of generator and judge, also from `pyproject.toml`.
- `presets`: the settings of published papers, by name.
- `destinations`: where reports go.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_rageval.config.destinations import KIND, Address, kind_of
from pytest_rageval.config.model_settings import (
    KEY_SOURCES,
    LENGTHS,
    REFUSED,
    ROLES,
    Api,
    ModelSettings,
    Role,
    ServerSettings,
    Tables,
    combined,
    read_tables,
)
from pytest_rageval.config.parsers import PARSERS
from pytest_rageval.config.settings import (
    EMBEDDED,
    JUDGE_KEY,
    POLICY_OPTIONS,
    TEMPERATURE,
    Settings,
    drawing_text,
)
from pytest_rageval.errors import InputError
from pytest_rageval.options import OPTIONS, Option
from pytest_rageval.secret import CACHE_URL, Secret, StoreURL, parse_cache

__all__ = [
    "EMBEDDED",
    "KIND",
    "LENGTHS",
    "OPTIONS",
    "REFUSED",
    "ROLES",
    "RUN_VARIABLE",
    "TEMPERATURE",
    "Address",
    "Api",
    "ModelSettings",
    "Option",
    "Role",
    "ServerSettings",
    "Settings",
    "combined",
    "drawing_text",
    "is_ci",
    "kind_of",
    "named_cache",
    "resolve",
]

SECRET_SIGNS: Final = frozenset("@?#{")
"""A URL with one of these, or a JSON object, may contain a password or a key."""

RUN_VARIABLE: Final = "RAGEVAL_RUN_ID"

CI_RUNS: Final = (
    ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT"),
    ("CI_PIPELINE_ID",),  # GitLab
    ("BUILDKITE_BUILD_ID",),
    ("CIRCLE_WORKFLOW_ID",),
    ("BUILD_BUILDID",),  # Azure
    ("BUILD_TAG",),  # Jenkins
)
"""Variables that all machines of a run have in common, on build servers."""

URL_VARIABLES: Final = {"base_url": "OPENAI_BASE_URL", "judge_base_url": "RAGEVAL_JUDGE_BASE_URL"}


FLEX_WAITS: Final = {"timeout": 900.0, "patience": 3600.0}
"""Defaults with `--rageval-flex`: an answer may take minutes, and a server without resources says 429."""


def resolve(
    command_line: Mapping[str, Any],
    ini: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    invoked_in: Path,
    root: Path,
) -> Settings:
    """Resolve the options of a run: command line, ini file, tables of `pyproject.toml`, environment, default.

    Args:
        command_line: texts by option name (a bool for switches, a list for repeatable options), None where
            not set. Relative paths start from `invoked_in`.
        ini: likewise; relative paths start from `root`.
        environ: environment variables.
        invoked_in: working directory of the command.
        root: pytest's root directory, with the `pyproject.toml` that is read.

    Raises:
        InputError: a value is not allowed, or two options contradict each other.
    """
    values: dict[str, Any] = {
        "cache_dir": root / Settings.cache_dir,
        "baseline": root / Settings.baseline,
        "api_key": _key(environ, "OPENAI_API_KEY"),
        "judge_api_key": _key(environ, JUDGE_KEY),
        "gguf": environ.get("RAGEVAL_GGUF") or None,
        "ci": is_ci(environ.get("CI")),
        "require_baseline": is_ci(environ.get("CI")),
        "annotations": environ.get("GITHUB_ACTIONS") == "true",
    }
    tables = read_tables(root)
    for source, texts, base in (("ini", ini, root), ("flag", command_line, invoked_in)):
        for option in OPTIONS:
            raw = texts.get(option.name)
            if raw is None or raw in ("", []):
                continue
            where = getattr(option, source)
            parsed = [_parsed(option, where, str(text)) for text in (raw if option.many else [raw])]
            placed = [_placed(item, base) for item in parsed]
            values[option.name] = tuple(placed) if option.many else placed[0]
            if option.name == "baseline":
                values["baseline_named"] = True
            _overrule(tables, option.name, values[option.name])
    for option in OPTIONS:
        variable = URL_VARIABLES.get(option.name)
        if variable and option.name not in values and (url := environ.get(variable, "").strip()):
            values[option.name] = _parsed(option, variable, url)
    if values.get("flex"):
        values = FLEX_WAITS | values
    cache = named_cache(values.get("cache"), environ, invoked_in)
    # A folder is one, by whichever option.
    values |= {"cache_dir": cache, "cache": None} if isinstance(cache, Path) else {"cache": cache}
    values["run"] = _run_of(environ, shared=isinstance(cache, StoreURL))
    values["tables"] = {role: _with_key(table, environ) for role, table in tables.items()}
    settings = _with_preset(Settings(**values), values.keys())
    for message in _contradictions(settings):
        raise InputError(message)
    return settings


def _with_preset(settings: Settings, named: Collection[str]) -> Settings:
    """The settings with those of the preset, where the user names none of them."""
    preset = settings.preset
    if preset is None:
        return settings
    own = {*named, *(f"judge_{name}" for name in settings.tables.get("judge", {}))}
    if "temperature" in settings.generator.parameters:
        own |= {"temperature", "llm_reteval_temperature"}
    if settings.llm_judge is None:
        # Canonical comparison takes no parameters, and the embedded model has prompts of its own.
        own.add("judge_parameters")
        preset = replace(preset, prompts={}) if settings.embedded else preset
    preset = preset.without(own)
    given = {name: PARSERS[name](text) for name, text in preset.settings.items()}
    return replace(settings, preset=preset, **given)


def _placed(item: Any, base: Path) -> Any:
    """Return a value with relative paths in it below a folder."""
    if isinstance(item, StoreURL):
        return item.below(base)
    return base / item if isinstance(item, Path) else item


def named_cache(
    given: Path | StoreURL | None, environ: Mapping[str, str], base: Path
) -> Path | StoreURL | None:
    """Return the cache that is given, or else that of the environment, whose URL may have a password.

    Raises:
        InputError: the environment's cannot be used.
    """
    url = environ.get(CACHE_URL, "").strip()
    if not url:
        return given
    try:
        named = _placed(parse_cache(url), base)
    except ValueError as error:
        # It may contain a password.
        message = f"{CACHE_URL} cannot be used: {error}."
    else:
        # An option may name the same store without the password.
        same = isinstance(given, StoreURL) and isinstance(named, StoreURL) and given.public == named.public
        return named if given is None or same else given
    raise InputError(message)


def _run_of(environ: Mapping[str, str], *, shared: bool) -> str:
    """Return the name that the machines of a run share; with a shared cache also that of a build server."""
    if name := environ.get(RUN_VARIABLE, "").strip():
        return name
    for names in CI_RUNS if shared else ():
        if environ.get(names[0]):
            return "-".join(environ.get(name, "") for name in names)
    return ""


def _overrule(tables: Tables, name: str, value: Any) -> None:
    """Remove what an option says from the tables; a limit of calls or of cost is for the run, and theirs holds too."""
    key = name.removeprefix("judge_")
    roles: tuple[Role, ...] = ("judge",) if key != name else ("generator",)
    for role in ROLES if name in POLICY_OPTIONS else roles:
        table = tables.get(role, {})
        if key == "base_url" and table.get(key, value) != value:
            # The key is for the server in the table, and no other.
            for where in KEY_SOURCES:
                table.pop(where, None)
        if key not in {"max_calls", "max_cost"}:
            table.pop(key, None)


def _with_key(table: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of the settings: with the key itself where the table names its environment variable."""
    values = {name: value for name, value in table.items() if name not in KEY_SOURCES}
    if variable := table.get("api_key_env"):
        values |= {"key_name": variable, "needs_key": True, "api_key": _key(environ, variable)}
    if command := table.get("api_key_command"):
        values |= {"key_command": command, "api_key": None}
    return values


def _key(environ: Mapping[str, str], name: str) -> Secret | None:
    # Some shells leave a line feed at the end of `$(cat FILE)`.
    text = environ.get(name, "").strip()
    return Secret(text) if text else None


def _not_in_batches(settings: Settings) -> Iterator[str]:
    for name, why in BATCH_WITHOUT.items():
        if settings.batch and getattr(settings, name):
            yield f"--rageval-batch takes several runs, and --rageval-{name} {why}: leave one out."


BATCH_WITHOUT: Final = {
    "refresh": "sends all requests in each run",
    "replay": "sends no requests",
    "canary": "sends all requests in each run",
}
"""Options that a run in batches cannot have, and why."""


def _contradictions(settings: Settings) -> Iterator[str]:
    yield from _not_in_batches(settings)
    for name in ("temperature", "llm_reteval_temperature"):
        if getattr(settings, name) is not None and "temperature" in settings.generator.parameters:
            yield (
                f"--rageval-{name.replace('_', '-')} and the parameters of the generating model both name a "
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
    if (settings.record_prompts or settings.drop_unused) and not settings.record:
        yield "--rageval-record-prompts and --rageval-drop-unused only work together with --rageval-record."
    if settings.replay and settings.refresh:
        yield "--rageval-replay sends no requests and --rageval-refresh sends all of them: leave one out."
    if settings.replay and settings.canary:
        yield "--rageval-replay sends no requests and --rageval-canary needs new replies: leave one out."
    yield from _contradictions_of_update(settings)
    if settings.shard is not None:
        yield from _contradictions_of_shard(settings)
    if settings.plan and settings.record:
        yield "--rageval-plan sends no requests, so there is nothing for --rageval-record to write: leave one out."


def _contradictions_of_update(settings: Settings) -> Iterator[str]:
    if settings.plan and settings.update_baseline:
        yield (
            "--rageval-plan sends no requests, so there are no scores for --rageval-update-baseline to write: leave "
            "one out."
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
    if settings.sample < 1 and settings.update_baseline:
        yield (
            "--rageval-update-baseline writes the scores of all questions, and --rageval-sample leaves some out: leave "
            "one out."
        )


def _contradictions_of_shard(settings: Settings) -> Iterator[str]:
    if settings.update_baseline:
        yield (
            "--rageval-update-baseline writes the scores of a whole run, and --rageval-shard has a part of them: leave "
            "it out here, and write the baseline with rageval merge --update-baseline."
        )
    if settings.early_stop:
        yield (
            "--rageval-early-stop asks until the verdict on all questions is clear, and --rageval-shard sees a part of "
            "them: leave one out (--rageval-early-stop=false)."
        )
    if settings.arena_pairs:
        yield (
            "--rageval-arena-pairs needs the answers of all systems to all questions in one run, and --rageval-shard "
            "splits the questions: leave one out."
        )
    if settings.canary:
        yield (
            "--rageval-canary compares with the baseline, which --rageval-shard leaves to the merge: leave one out, "
            "and run the canary in a job of its own."
        )
    # A plan and a step of a batch have no scores to report.
    scores = not settings.plan and not isinstance(settings.batch, str)
    if scores and not any(kind_of(each) == ".json" for each in settings.report):
        yield (
            "--rageval-shard needs a JSON report, which rageval merge reads: add --rageval-report shard.json, with "
            "another name for each shard."
        )


def _parsed(option: Option, where: str, text: str) -> Any:
    try:
        return PARSERS[option.name](text)
    except ValueError as error:
        hidden = option.private and not SECRET_SIGNS.isdisjoint(text)
        found = "cannot be used" if hidden else f"is {text!r}"
        message = f"{where} {found}: {error}."
    raise InputError(message)


def is_ci(value: str | None) -> bool:
    """Whether the variable CI, of this value, says that this is a build server."""
    return (value or "").strip().lower() not in {"", "0", "false", "no", "off"}
