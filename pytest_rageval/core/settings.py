"""`Settings`: the resolved options of a run, with the settings of its models and the parameters of their requests."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

from pytest_rageval.core.extensions import all_options
from pytest_rageval.core.options import DEFAULT_CONCURRENCY, DEFAULT_TIMEOUT_S, CoreOptions, Option
from pytest_rageval.lib.secret import BaseURL, Secret, StoreURL
from pytest_rageval.lib.text import counted

T = TypeVar("T")

Role = Literal["generator", "judge"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

Api = Literal["chat", "responses"]
"""The API of a model: `/chat/completions`, or `/responses` for models without chat completions."""


@dataclass(frozen=True)
class ServerSettings:
    """A server, its key, and the limits of its requests; None is OpenAI's server, and no limit.

    `role` is the model whose settings name this server. `key_name` is the environment variable that contains the key;
    `needs_key`: the user has named it, so that an empty one is a mistake. `max_calls` and `max_cost`, in USD, are in
    addition to the limits of the run.
    """

    role: Role = "generator"
    base_url: BaseURL | None = None
    api_key: Secret | None = None
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
    parameters: Mapping[str, Any] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)


EMBEDDED: Final = "embedded"  # the name of the local model in `--rageval-model`
CANONICAL: Final = "canonical"  # the name of the comparator that needs no model
TEMPERATURE: Final = 0.5
"""The default temperature of the generator, that of LLM-retEval (section 3.2): several correct answers can appear."""

JUDGE_KEY: Final = "RAGEVAL_JUDGE_API_KEY"
"""The environment variable with the judge's API key."""

POLICY_OPTIONS: Final = ("concurrency", "timeout", "rpm", "tpm")
"""Options that set the requests of both servers. The table of a model may set them for its own server."""

SERVER_FIELDS: Final = frozenset(attribute.name for attribute in fields(ServerSettings))


class Settings(CoreOptions):
    """The values of the options of a run: `settings.draws` for an option of the core, `settings[OPTION]` for any.

    `generator` and `judge` are the resulting settings of the two models. `tables` has by role the fields that
    `pyproject.toml` sets and no option overrides, `gguf` the file of the embedded model, `run` the name of the run that
    several machines share, and `sources` where the value of each option comes from, if it is not the default.
    """

    def __init__(  # noqa: PLR0913 - keywords alone
        self,
        *,
        api_key: Secret | str | None = None,
        judge_api_key: Secret | str | None = None,
        tables: Mapping[Role, Mapping[str, Any]] | None = None,
        gguf: str | None = None,
        ci: bool = False,
        run: str = "",
        sources: Mapping[str, str] | None = None,
        **values: Any,
    ) -> None:
        if unknown := sorted(values.keys() - {option.name for option in all_options()}):
            raise TypeError(f"there is no option {unknown[0]!r}")
        # No secret is stored as plain text.
        self.api_key: Secret | None = Secret(api_key) if isinstance(api_key, str) else api_key
        self.judge_api_key: Secret | None = (
            Secret(judge_api_key) if isinstance(judge_api_key, str) else judge_api_key
        )
        for name in ("base_url", "judge_base_url"):
            if isinstance(url := values.get(name), str):
                values[name] = BaseURL.parse(url)
        self.tables: Mapping[Role, Mapping[str, Any]] = tables or {}
        self.gguf: str | None = gguf
        self.ci: bool = ci
        self.run: str = run
        self.sources: Mapping[str, str] = sources or {}
        self._values = values

    def __getitem__(self, option: Option[T]) -> T:
        value: T = self._values.get(option.name, option.default)
        return value

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def replace(self, **values: Any) -> "Settings":
        """Return a copy with other values of some options, or other arguments of `Settings`."""
        names = ("api_key", "judge_api_key", "tables", "gguf", "ci", "run", "sources")
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
    def cache_location(self) -> Path | StoreURL:
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
    def shard_index(self) -> int:
        return 1 if self.shard is None else self.shard[0]

    @property
    def shard_count(self) -> int:
        return 1 if self.shard is None else self.shard[1]

    @property
    def collects(self) -> bool:
        """Whether this run collects its requests for a batch instead of sending them."""
        return self.batch == "submit" and not self.plan

    @property
    def is_step(self) -> bool:
        """Whether this run is a single step of a run in batches: it writes no reports."""
        return isinstance(self.batch, str)

    @property
    def tiers(self) -> tuple[Literal["flex", "batch"], ...]:
        """The cheaper service tiers that this run uses."""
        return (*(("flex",) if self.flex else ()), *(("batch",) if self.batch else ()))

    def header_line(self, *, own_generator: bool = False) -> str:
        """Return the models in a line; with the user's `own_generator` that of the settings is not used."""
        how = " in turn" if re.search(r"\sthen\s", self.comparator) else " together"
        votes = how if len(self.judge_models) > 1 else ""
        votes += f" in {self.judge_votes} votes" if self.llm_judge and self.judge_votes > 1 else ""
        judge = f"judged by {self._judge_text}{votes}" if self.llm_judge else "compared in canonical form"
        if self.comparator != Settings.comparator.default:
            judge = f"compared by {self.comparator}"
            if "judge" in re.findall(r"\w+", self.comparator):
                judge += f" (judge: {self._judge_text}{votes})"
        if own_generator:
            return f"your own generator, answers {judge}"
        if self._generator_text is None:
            unnamed = f"no model is named (--rageval-model); {WITHOUT_MODEL}"
            return (
                unnamed if self.comparator == Settings.comparator.default else f"{unnamed}, answers {judge}"
            )
        quality = f" [smoke-test quality; {WITHOUT_MODEL}]" if self.embedded else ""
        return (
            f"generator {self._generator_text}{sampling_text(self.report_entry())}, answers {judge}{quality}"
        )

    def report_entry(self) -> dict[str, Any]:
        """Return the settings for the JSON report; `generator` is None if no model is named."""
        return {
            **({} if self.preset is None else {"preset": self.preset.name}),
            "generator": self._generator_text,
            **self._sampling,
            "judge": self._judge_text,
            "judge_votes": self.judge_votes,
            "both_orders": self.both_orders,
            "comparator": self.comparator,
            "match_share": self.match_share,
            **({} if self.document_id is None else {"document_id": self.document_id}),
            **({} if self.encoder is None else {"encoder": self.encoder}),
            **({} if self.bleu_smoothing == "exp" else {"bleu_smoothing": self.bleu_smoothing}),
            "seed": self.seed,
        }

    @property
    def _generator_text(self) -> str | None:
        if self.embedded:
            return f"embedded model {Path(self.gguf).stem}" if self.gguf else "embedded model"
        if self.generator.model is None:
            return None
        return _model_at_server(self.generator.model, self.generator.server)

    @property
    def _sampling(self) -> dict[str, Any]:
        """Temperature and draws of all scores, and of LLM-retEval; a temperature is None if the server sets it."""
        default = 0.0 if self.embedded else TEMPERATURE
        own = self.generator.parameters.get("temperature", default)
        own = own if isinstance(own, int | float) else None

        def or_default(temperature: float | None) -> Any:
            return own if temperature is None else temperature

        return {
            "temperature": or_default(self.temperature),
            "draws": self.draws,
            "llm_reteval_temperature": or_default(self.llm_reteval_temperature),
            "llm_reteval_draws": self.llm_reteval_draws,
        }

    @property
    def _judge_text(self) -> str:
        """The judge, with its server if that is not the generator's."""
        if self.llm_judge is None:
            return CANONICAL
        server = self.judge.server
        elsewhere = server.base_url != self.generator.server.base_url
        return _model_at_server(self.llm_judge, server) if elsewhere else self.llm_judge

    @property
    def _policy_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in POLICY_OPTIONS}


def _apply_table(model: ModelSettings, table: Mapping[str, Any]) -> ModelSettings:
    """Return the settings of a model, with the fields of a table of `pyproject.toml` in place of its own."""
    server_fields = {name: value for name, value in table.items() if name in SERVER_FIELDS}
    other_fields = {name: value for name, value in table.items() if name not in SERVER_FIELDS}
    return replace(model, server=replace(model.server, **server_fields), **other_fields)


def _model_at_server(model: str, server: ServerSettings) -> str:
    return f"{model} at {server.base_url.public}" if server.base_url else model


def sampling_text(entry: Mapping[str, Any]) -> str:
    """Return temperature and draws of a report's settings, in brackets; "" for the embedded model's defaults."""
    temperature, reteval_temperature = entry.get("temperature"), entry.get("llm_reteval_temperature")
    draws = entry.get("draws", Settings.draws.default)
    reteval_draws = entry.get("llm_reteval_draws", Settings.llm_reteval_draws.default)
    general = [] if temperature is None else [f"temperature {temperature:g}"]
    general += [counted(draws, "draw")] if draws != Settings.draws.default else []
    has_own = reteval_temperature not in {temperature, None}
    reteval = [f"temperature {reteval_temperature:g}"] if has_own else []
    reteval += [counted(reteval_draws, "draw")] if reteval_draws != Settings.llm_reteval_draws.default else []
    embedded = str(entry["generator"]).startswith("embedded model")
    if embedded and general == ["temperature 0"] and not reteval:
        return ""
    parts = [", ".join(general), f"llm_reteval: {', '.join(reteval)}" if reteval else ""]
    text = "; ".join(filter(None, parts))
    return f" ({text})" if text else ""


WITHOUT_MODEL: Final = "recall, contains.* and provenance.* need no model"
"""Scores to begin with where no model is configured."""
