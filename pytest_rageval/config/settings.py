"""The resolved options of a run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_rageval.config.destinations import Address
from pytest_rageval.config.model_settings import ModelSettings, Role, ServerSettings
from pytest_rageval.options import BASELINE
from pytest_rageval.plural import counted
from pytest_rageval.secret import BaseURL, Secret, StoreURL

if TYPE_CHECKING:
    from pytest_rageval.config.presets import Preset

__all__ = ["EMBEDDED", "JUDGE_KEY", "PACE", "TEMPERATURE", "Settings", "drawing_text"]

EMBEDDED: Final = "embedded"  # the name of the local model in `--rageval-model`
CANONICAL: Final = "canonical"  # the name of the comparator that needs no model
TEMPERATURE: Final = 0.5
"""Of the generator: LLM-retEval's (section 3.2), enough for several correct answers to appear."""

JUDGE_KEY: Final = "RAGEVAL_JUDGE_API_KEY"
PACE: Final = ("concurrency", "timeout", "rpm", "tpm")
"""Settings of a server that options give for both; a table may give them for one."""

SERVER_FIELDS: Final = frozenset(each.name for each in fields(ServerSettings))


@dataclass(frozen=True)
class Settings:
    """The resolved options of a run; `generator` and `judge` are what follows from them for the two models.

    `baseline_named` is whether the command line or the ini file names the baseline, `ci` whether this is a
    build server. `preset` is without the settings that the user names. `tables` has the fields of `ModelSettings` and
    `ServerSettings` that `pyproject.toml` names and no option does. `run` is the name that machines give to a run that
    they share, where they do.
    """

    model: str | None = None
    judge_model: str | None = None
    judge_votes: int = 1
    both_orders: bool = False
    arena_pairs: int = 0
    arena_examples: bool = False
    base_url: BaseURL | None = None
    judge_base_url: BaseURL | None = None
    preset: "Preset | None" = None
    cutoffs: tuple[int, ...] = ()
    temperature: float | None = None
    draws: int = 1
    llm_reteval_temperature: float | None = None
    llm_reteval_draws: int = 3
    parameters: Mapping[str, Any] | None = None
    judge_parameters: Mapping[str, Any] | None = None
    comparator: str = "judge"
    match_share: float = 0.5
    encoder: str | None = None
    bleu_smoothing: Literal["exp", "none"] = "exp"
    max_tokens: int | None = None
    gateway: bool = False
    concurrency: int = 16
    rpm: float | None = None
    tpm: float | None = None
    timeout: float = 60.0
    retries: int = 4
    patience: float = 300.0
    threads: int = 1
    flex: bool = False
    cache: Path | StoreURL | None = None
    cache_dir: Path = Path(".rageval_cache")
    refresh: bool = False
    replay: bool = False
    cassette: Path | None = None
    record: bool = False
    record_prompts: bool = False
    drop_unused: bool = False
    plan: bool = False
    batch: bool | Literal["submit", "status", "collect"] = False
    batch_errors: Literal["live", "unscored"] = "live"
    max_calls: int | None = None
    max_cost: float | None = None
    prices: Path | None = None
    prompts: Path | None = None
    max_unscored: float = 0.05
    baseline: Path = BASELINE
    baseline_named: bool = False
    update_baseline: bool | Literal["force"] = False
    pin_baseline: bool = False
    require_baseline: bool = False
    family: int | None = None
    canary: int = 0
    inconclusive: Literal["warn", "fail"] = "warn"
    early_stop: bool = False
    calibration: Path | None = None
    repeat: int = 1
    sample: float = 1.0
    shard: tuple[int, int] | None = None
    report: tuple[Path | Address, ...] = ()
    history: Path | None = None
    annotations: bool = False
    seed: int = 0
    api_key: Secret | None = None
    judge_api_key: Secret | None = None
    tables: Mapping[Role, Mapping[str, Any]] = field(default_factory=dict)
    gguf: str | None = None
    ci: bool = False
    run: str = ""

    def __post_init__(self) -> None:
        """Convert keys and URLs of plain text, so that no secret is kept as one."""
        for name in ("api_key", "judge_api_key"):
            if isinstance(key := getattr(self, name), str):
                object.__setattr__(self, name, Secret(key))
        for name in ("base_url", "judge_base_url"):
            if isinstance(url := getattr(self, name), str):
                object.__setattr__(self, name, BaseURL.parse(url))

    def of(self, role: Role) -> ModelSettings:
        """The model of this role, with its server."""
        return self.generator if role == "generator" else self.judge

    @cached_property
    def generator(self) -> ModelSettings:
        """The model that answers, with its server."""
        table = self.tables.get("generator", {})
        server = ServerSettings(base_url=self.base_url, api_key=self.api_key, **self._pace)
        return _changed(ModelSettings(self.model, self.parameters or {}, server), table)

    @cached_property
    def judge(self) -> ModelSettings:
        """The model that judges, None where it is the one that answers, with its server.

        A judge without settings of its own for the server shares that of the generator. With a base URL of its own it
        gets no key of the generator, which is for another server.
        """
        shared, own = self.generator.server, dict(self.tables.get("judge", {}))
        url = own.get("base_url", self.judge_base_url)
        if self.judge_api_key is not None and not own.keys() & {"api_key", "key_command"}:
            own["api_key"], own["key_name"] = self.judge_api_key, JUDGE_KEY
        if url == shared.base_url:
            own.pop("base_url", None)
            url = None
        if url is not None:
            base = ServerSettings("judge", url, key_name=JUDGE_KEY, **self._pace)
        elif not own.keys() & SERVER_FIELDS:
            base = shared
        else:
            base = replace(shared, role="judge", max_calls=None, max_cost=None)
            if own.keys() & {"api_key", "key_command"}:
                base = replace(base, api_key=None, key_command=())
        if base.api != "chat" and own.get("model", self.judge_model):
            # That path is for the generator's model.
            base = replace(base, role="judge", api="chat")
        return _changed(ModelSettings(self.judge_model, self.judge_parameters or {}, base), own)

    @property
    def cache_place(self) -> Path | StoreURL:
        """Where replies and embeddings are kept."""
        return self.cache or self.cache_dir

    @property
    def embedded(self) -> bool:
        """Whether the local model generates: by its name, or without a key or a base URL."""
        model, server = self.generator.model, self.generator.server
        named = server.api_key or server.base_url or server.key_command or server.needs_key
        return model == EMBEDDED or (model is None and not named)

    @property
    def llm_judge(self) -> str | None:
        """The model that compares answers, or several; None for canonical comparison."""
        return ", ".join(self.judge_models) or None

    @property
    def judge_models(self) -> tuple[str, ...]:
        """The models that compare answers, by majority where there are several; none for canonical comparison."""
        if self.judge.model:
            return tuple(name.strip() for name in self.judge.model.split(","))
        return () if self.embedded or self.generator.model is None else (self.generator.model,)

    @property
    def shard_index(self) -> int:
        """The number of this run's shard, from 1 to `shard_count`; 1 if the run is not split into shards."""
        return 1 if self.shard is None else self.shard[0]

    @property
    def shard_count(self) -> int:
        """The number of shards that the questions are split into; 1 if the run is not split into shards."""
        return 1 if self.shard is None else self.shard[1]

    @property
    def stops_early(self) -> bool:
        """Whether this run may leave questions out: a plan counts them all, and a replay costs nothing."""
        costs = not (self.plan or self.replay or self.batch)
        return self.early_stop and costs and not (self.update_baseline or self.repeat * self.draws > 1)

    @property
    def collects(self) -> bool:
        """Whether this run collects what it would ask, for a batch."""
        return self.batch == "submit" and not self.plan

    @property
    def tiers(self) -> tuple[Literal["flex", "batch"], ...]:
        """The cheaper tiers that are asked for."""
        return (*(("flex",) if self.flex else ()), *(("batch",) if self.batch else ()))

    def in_force(self) -> str:
        """Generator, judge and comparator, in a line for pytest's header."""
        votes = " together" if len(self.judge_models) > 1 else ""
        votes += f" in {self.judge_votes} votes" if self.llm_judge and self.judge_votes > 1 else ""
        judge = f"judged by {self._judge}{votes}" if self.llm_judge else "compared in canonical form"
        if self.comparator != Settings.comparator:
            judge = f"compared by {self.comparator}"
            if "judge" in re.findall(r"\w+", self.comparator):
                judge += f" (judge: {self._judge}{votes})"
        if self._generator is None:
            unnamed = "no model is named (--rageval-model), only ranking measures can be scored"
            return unnamed if self.comparator == Settings.comparator else f"{unnamed}, answers {judge}"
        quality = " [embedded models: smoke-test quality]" if self.embedded else ""
        return f"generator {self._generator}{drawing_text(self.entry())}, answers {judge}{quality}"

    def entry(self) -> dict[str, Any]:
        """Generator (null where no model is named), judge (a model, or "canonical") and comparator for the report."""
        return {
            **({} if self.preset is None else {"preset": self.preset.name}),
            "generator": self._generator,
            **self._drawing,
            "judge": self._judge,
            "judge_votes": self.judge_votes,
            "both_orders": self.both_orders,
            "comparator": self.comparator,
            "match_share": self.match_share,
            **({} if self.encoder is None else {"encoder": self.encoder}),
            **({} if self.bleu_smoothing == "exp" else {"bleu_smoothing": self.bleu_smoothing}),
            "seed": self.seed,
        }

    @property
    def _generator(self) -> str | None:
        if self.embedded:
            return f"embedded model {Path(self.gguf).stem}" if self.gguf else "embedded model"
        if self.generator.model is None:
            return None
        return _at(self.generator.model, self.generator.server)

    @property
    def _drawing(self) -> dict[str, Any]:
        """Temperature and draws, for LLM-retEval and the rest; the temperature is null where the server has it."""
        default = 0.0 if self.embedded else TEMPERATURE
        own = self.generator.parameters.get("temperature", default)
        own = own if isinstance(own, int | float) else None

        def of(temperature: float | None) -> Any:
            return own if temperature is None else temperature

        return {
            "temperature": of(self.temperature),
            "draws": self.draws,
            "llm_reteval_temperature": of(self.llm_reteval_temperature),
            "llm_reteval_draws": self.llm_reteval_draws,
        }

    @property
    def _judge(self) -> str:
        """The judge, with its server where that is not the generator's."""
        if self.llm_judge is None:
            return CANONICAL
        server = self.judge.server
        elsewhere = server.base_url != self.generator.server.base_url
        return _at(self.llm_judge, server) if elsewhere else self.llm_judge

    @property
    def _pace(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PACE}


def _changed(model: ModelSettings, table: Mapping[str, Any]) -> ModelSettings:
    """Return the settings of a model with the fields of a table in place of its own."""
    of_server = {name: value for name, value in table.items() if name in SERVER_FIELDS}
    others = {name: value for name, value in table.items() if name not in SERVER_FIELDS}
    return replace(model, server=replace(model.server, **of_server), **others)


def _at(model: str, server: ServerSettings) -> str:
    return f"{model} at {server.base_url.public}" if server.base_url else model


def drawing_text(entry: Mapping[str, Any]) -> str:
    """Temperature and draws of a report's settings, in brackets; empty for the defaults of the embedded model."""
    warm, of_gold = entry.get("temperature"), entry.get("llm_reteval_temperature")
    draws, gold = (
        entry.get("draws", Settings.draws),
        entry.get("llm_reteval_draws", Settings.llm_reteval_draws),
    )
    rest = [] if warm is None else [f"temperature {warm:g}"]
    rest += [counted(draws, "draw")] if draws != Settings.draws else []
    reteval = [f"temperature {of_gold:g}"] if of_gold not in {warm, None} else []
    reteval += [counted(gold, "draw")] if gold != Settings.llm_reteval_draws else []
    embedded = str(entry["generator"]).startswith("embedded model")
    if embedded and rest == ["temperature 0"] and not reteval:
        return ""
    parts = [", ".join(rest), f"llm_reteval: {', '.join(reteval)}" if reteval else ""]
    text = "; ".join(filter(None, parts))
    return f" ({text})" if text else ""
