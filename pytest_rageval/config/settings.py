"""What a run is told, resolved: every option with its default."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pytest_rageval.config.address import BaseURL
from pytest_rageval.secret import Secret

__all__ = ["EMBEDDED", "Settings"]

EMBEDDED: Final = "embedded"
"""The name under which the local model is asked for."""

CANONICAL: Final = "canonical"
"""What compares answers where no model does, as comparators name it."""


@dataclass(frozen=True)
class Settings:
    """All options of a run, resolved.

    `model`, `judge_model` and `base_url` are None where nobody named them. `baseline_named` says whether the
    command line or the ini file names the baseline, `ci` whether this is a build server.
    """

    model: str | None = None
    judge_model: str | None = None
    judge_votes: int = 1
    both_orders: bool = False
    base_url: BaseURL | None = None
    comparator: str = "judge"
    match_share: float = 0.5
    max_tokens: int | None = None
    concurrency: int = 16
    rpm: float | None = None
    tpm: float | None = None
    timeout: float = 60.0
    retries: int = 4
    threads: int = 1
    cache_dir: Path = Path(".rageval_cache")
    refresh: bool = False
    replay: bool = False
    cassette: Path | None = None
    record: bool = False
    record_prompts: bool = False
    drop_unused: bool = False
    plan: bool = False
    max_calls: int | None = None
    max_cost: float | None = None
    prices: Path | None = None
    prompts: Path | None = None
    max_unscored: float = 0.05
    baseline: Path = Path("rageval_baseline.json")
    baseline_named: bool = False
    update_baseline: bool | Literal["force"] = False
    require_baseline: bool = False
    calibration: Path | None = None
    repeat: int = 1
    report: tuple[Path, ...] = ()
    seed: int = 0
    api_key: Secret | None = None
    gguf: str | None = None
    ci: bool = False

    def __post_init__(self) -> None:
        """Hold no key or password as plain text, also where it was given as one."""
        if isinstance(self.api_key, str):
            object.__setattr__(self, "api_key", Secret(self.api_key))
        if isinstance(self.base_url, str):
            object.__setattr__(self, "base_url", BaseURL.parse(self.base_url))

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
        votes = f" in {self.judge_votes} votes" if self.llm_judge and self.judge_votes > 1 else ""
        judge = f"judged by {self.llm_judge}{votes}" if self.llm_judge else "compared in canonical form"
        if self.comparator != Settings.comparator:
            asked = "judge" in re.findall(r"\w+", self.comparator)
            judge = f"compared by {self.comparator}" + (
                f" (judge: {self.llm_judge or CANONICAL}{votes})" if asked else ""
            )
        if self._generator is None:
            named = "no model is named (--rageval-model), ranking measures alone can be scored"
            return named if self.comparator == Settings.comparator else f"{named}, answers {judge}"
        quality = " [embedded models: smoke-test quality]" if self.embedded else ""
        return f"generator {self._generator}, answers {judge}{quality}"

    def entry(self) -> dict[str, Any]:
        """What generates and what compares, where no fixture of the user's does, as data for the report.

        `generator` is null where no model is named; `judge` is a model, or "canonical".
        """
        return {
            "generator": self._generator,
            "judge": self.llm_judge or CANONICAL,
            "judge_votes": self.judge_votes,
            "both_orders": self.both_orders,
            "comparator": self.comparator,
            "match_share": self.match_share,
            "seed": self.seed,
        }

    @property
    def _generator(self) -> str | None:
        """What generates, in words; None where no model is named."""
        if self.embedded:
            return f"embedded model {Path(self.gguf).stem}" if self.gguf else "embedded model"
        if self.model is None:
            return None
        return f"{self.model} at {self.base_url.public}" if self.base_url else self.model
