"""`Settings`: the resolved options of a run, with the settings of its models and the parameters of their requests."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options import (
    DEFAULT_CONCURRENCY,
    DEFAULT_TIMEOUT_S,
    CoreOptions,
    Effect,
    Option,
    all_options,
)
from pytest_rageval.options.parsers import parse_base_url

if TYPE_CHECKING:
    from pytest_rageval.lib.secret import BaseURL, Secret, StoreURL
    from pytest_rageval.options.presets import Preset

T = TypeVar("T")

new_secret: Final = Lazy("lib.secret", "Secret")  # many runs have no key

Role = Literal["generator", "judge"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

Tier = Literal["flex", "batch"]
"""The cheaper service tiers: requests that the server answers when it has time, and requests in batches."""

Api = Literal["chat", "responses"]
"""The API of a model: `/chat/completions`, or `/responses` for models without chat completions."""

MODEL_USES: Final = ("generator", "judge", "comparator")
"""What scores use. The comparator compares answers, and may be the judge, who may also judge other texts."""


@dataclass(frozen=True)
class ServerSettings:
    """A server, its key, and the limits of its requests; None is OpenAI's server, and no limit.

    `role` is the model whose settings name this server. `key_name` is the environment variable that contains the key;
    `needs_key`: the user has named it, so that an empty one is a mistake. `max_calls` and `max_cost`, in USD, are in
    addition to the limits of the run.
    """

    role: Role = "generator"
    base_url: "BaseURL | None" = None
    api_key: "Secret | None" = None
    key_name: str = "OPENAI_API_KEY"
    needs_key: bool = False
    key_command: tuple[str, ...] = ()
    api: Api = "chat"
    concurrency: int = DEFAULT_CONCURRENCY
    timeout: float = DEFAULT_TIMEOUT_S
    rpm: float | None = None
    tpm: float | None = None
    max_calls: int | None = None
    max_cost: float | None = None


@dataclass(frozen=True)
class ModelSettings:
    model: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)


EMBEDDED: Final = "embedded"  # the name of the local model in `--rageval-model`
CANONICAL: Final = "canonical"  # the name of the comparator that needs no model
TEMPERATURE: Final = 0.5
"""The default temperature of the generator, that of LLM-retEval (section 3.2): several correct answers can appear."""

JUDGE_KEY: Final = "RAGEVAL_JUDGE_API_KEY"
"""The environment variable with the judge's API key."""

FILE: Final = "pyproject.toml"

Tables = dict[Role, dict[str, object]]
"""The parsed values of a model's table in this file, by role and key; the base URL is a `BaseURL`, for example."""

KEY_SOURCES: Final = ("api_key_env", "api_key_command")
"""The keys of such a table that say where its API key is."""

POLICY_OPTIONS: Final = ("concurrency", "timeout", "rpm", "tpm")
"""Options that set the requests of both servers. The table of a model may set them for its own server."""

SERVER_FIELDS: Final = frozenset(attribute.name for attribute in fields(ServerSettings))


class Settings(CoreOptions):
    """The values of the options of a run: `settings.draws` for an option of the core, `settings[OPTION]` for any.

    `generator` and `judge` are the resulting settings of the two models. `tables` has by role the fields that
    `pyproject.toml` sets and no option overrides, `gguf` the file of the embedded model, `run` the name of the run that
    several machines share, and `sources` where the value of each option comes from, if it is not the default.
    `applied_preset` is the preset with the settings that nothing else sets.
    """

    def __init__(  # noqa: PLR0913 - keywords alone
        self,
        *,
        api_key: "Secret | str | None" = None,
        judge_api_key: "Secret | str | None" = None,
        tables: Mapping[Role, Mapping[str, object]] | None = None,
        gguf: str | None = None,
        ci: bool = False,
        run: str = "",
        sources: Mapping[str, str] | None = None,
        applied_preset: "Preset | None" = None,
        **values: Any,
    ) -> None:
        if unknown := sorted(values.keys() - {option.name for option in all_options()}):
            raise TypeError(f"there is no option {unknown[0]!r}")
        # No secret is stored as plain text.
        self.api_key: Secret | None = new_secret(api_key) if isinstance(api_key, str) else api_key
        self.judge_api_key: Secret | None = (
            new_secret(judge_api_key) if isinstance(judge_api_key, str) else judge_api_key
        )
        for name in ("base_url", "judge_base_url"):
            if isinstance(url := values.get(name), str):
                values[name] = parse_base_url(url)
        self.tables: Mapping[Role, Mapping[str, Any]] = tables or {}
        self.gguf: str | None = gguf
        self.ci: bool = ci
        self.run: str = run
        self.sources: Mapping[str, str] = sources or {}
        self.applied_preset: Preset | None = applied_preset
        self._values = values

    def __getitem__(self, option: Option[T]) -> T:
        value: T = self._values.get(option.name, option.default)
        return value

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def replace(self, **values: Any) -> "Settings":
        """Return a copy with other values of some options, or other arguments of `Settings`."""
        names = ("api_key", "judge_api_key", "tables", "gguf", "ci", "run", "sources", "applied_preset")
        return Settings(**{name: getattr(self, name) for name in names} | self._values | values)

    def model_settings(self, role: Role) -> ModelSettings:
        return self.generator if role == "generator" else self.judge

    @cached_property
    def generator(self) -> ModelSettings:
        table = self.tables.get("generator", {})
        server = ServerSettings(base_url=self.base_url, api_key=self.api_key, **self._policy_options)
        return _apply_table(ModelSettings(self.model, self.parameters or {}, server), table)

    @cached_property
    def judge(self) -> ModelSettings:
        """The settings of the judge and of its server; its model is None if the generating model judges.

        A judge without server settings of its own uses the generator's server. A judge with a base URL of its own does
        not get the generator's key, which is for another server.
        """
        shared, own = self.generator.server, dict(self.tables.get("judge", {}))
        url = own.get("base_url", self.judge_base_url)
        if self.judge_api_key is not None and not own.keys() & {"api_key", "key_command"}:
            own["api_key"], own["key_name"] = self.judge_api_key, JUDGE_KEY
        if url == shared.base_url:
            own.pop("base_url", None)
            url = None
        if url is not None:
            base = ServerSettings("judge", url, key_name=JUDGE_KEY, **self._policy_options)
        elif not own.keys() & SERVER_FIELDS:
            base = shared
        else:
            base = replace(shared, role="judge", max_calls=None, max_cost=None)
            if own.keys() & {"api_key", "key_command"}:
                base = replace(base, api_key=None, key_command=())
        if base.api != "chat" and own.get("model", self.judge_model):
            # The Responses API was set for the generator's model.
            base = replace(base, role="judge", api="chat")
        return _apply_table(ModelSettings(self.judge_model, self.judge_parameters or {}, base), own)

    @property
    def cache_location(self) -> "Path | StoreURL":
        return self.cache or self.cache_dir

    @property
    def embedded(self) -> bool:
        """Whether the local model generates: it is named, or neither a model nor a key nor a base URL is set."""
        model, server = self.generator.model, self.generator.server
        has_server = server.api_key or server.base_url or server.key_command or server.needs_key
        return model == EMBEDDED or (model is None and not has_server)

    @property
    def llm_judge(self) -> str | None:
        """The names of the models that compare answers, separated by ", "; None for canonical comparison."""
        return ", ".join(self.judge_models) or None

    @property
    def judge_models(self) -> tuple[str, ...]:
        """The models that compare answers, by majority if there are several; empty for canonical comparison."""
        if self.judge.model:
            return tuple(name.strip() for name in self.judge.model.split(","))
        return () if self.embedded or self.generator.model is None else (self.generator.model,)

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The cheaper service tiers that this run uses."""
        flex, batch = ("flex tier" in self.effects, "batch tier" in self.effects)
        return (*(("flex",) if flex else ()), *(("batch",) if batch else ()))

    def value_of(self, name: str) -> Any:
        """Return the value of an option that an extension declares; None if the extension is not installed."""
        return next((self[option] for option in all_options() if option.name == name), None)

    @cached_property
    def effects(self) -> frozenset[Effect]:
        """What the options mean for this run, whichever they are."""
        return frozenset(effect for option in all_options() for effect in option.effects(self))

    @property
    def _policy_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in POLICY_OPTIONS}


def _apply_table(model: ModelSettings, table: Mapping[str, Any]) -> ModelSettings:
    """Return the settings of a model, with the fields of a table of `pyproject.toml` in place of its own."""
    server_fields = {name: value for name, value in table.items() if name in SERVER_FIELDS}
    other_fields = {name: value for name, value in table.items() if name not in SERVER_FIELDS}
    return replace(model, server=replace(model.server, **server_fields), **other_fields)
