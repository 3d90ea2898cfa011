"""The resolved options of a run, and the base URL of a server without its secrets."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import unquote, unquote_plus, urlsplit, urlunsplit

from pytest_rageval.secret import Secret

__all__ = ["EMBEDDED", "BaseURL", "Settings", "public_url"]

ALLOWED: Final = "expected a URL that begins with http:// or https://"

SECRET_NAME: Final = re.compile(
    r"(key|token|secret|password|passwd|pwd|sig|signature|auth|authorization|credentials?|^code)$",
    re.IGNORECASE,
)
"""Ends of the names of secret parameters: `api-key`, `access_token`, `sig`, `X-Amz-Signature` …"""


@dataclass(frozen=True)
class BaseURL:
    """The base URL of a server, its secrets apart; `public` is its name in reports and request keys."""

    url: str
    public: str
    login: Secret | None = None
    query: Secret | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URL, or raise ValueError with what is allowed, which does not quote the URL."""
        try:
            parts = urlsplit(text.strip())
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(ALLOWED)
        user_info, _, host = parts.netloc.rpartition("@")
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":
            # "http://me:1/x@host" has the host "me": a part of the password would be shown, and sent there.
            raise ValueError(
                f"{ALLOWED}, in whose user and password / ? # and @ are written %2F %3F %23 and %40"
            )
        parameters = parts.query.split("&")
        names = [parameter.partition("=")[0] for parameter in parameters]
        secrets = [unquote_plus(each.partition("=")[2]) for each in parameters if _is_secret(each)]
        if len(set(names)) < len(names):
            raise ValueError(f"{ALLOWED}, with each parameter of its query once")
        user, _, password = user_info.partition(":")
        place = (parts.scheme, host, parts.path.rstrip("/"))
        return cls(
            url=urlunsplit((*place, "", "")),
            public=public_url(urlunsplit((*place, parts.query, ""))),
            login=Secret.login(unquote(user), unquote(password)) if user_info else None,
            query=Secret(parts.query, secrets) if parts.query else None,
        )


def public_url(url: str) -> str:
    """A URL without user, password and fragment, and with a hash of the query without parameters named like secrets.

    A query may name the deployment, so it counts; a new key does not change the public URL.

    >>> public_url("https://me:secret@llm.example/v1?key=secret")
    'https://llm.example/v1'
    >>> public_url("https://llm.example/v1?deployment=a&sig=secret")
    'https://llm.example/v1?bb682454cc2d'
    """
    parts = urlsplit(url)
    public = "&".join(part for part in parts.query.split("&") if not _is_secret(part))
    query = hashlib.sha256(public.encode()).hexdigest()[:12] if public else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def _is_secret(parameter: str) -> bool:
    return SECRET_NAME.search(unquote_plus(parameter.partition("=")[0])) is not None


EMBEDDED: Final = "embedded"  # the name of the local model in `--rageval-model`
CANONICAL: Final = "canonical"  # the name of the comparator that needs no model


@dataclass(frozen=True)
class Settings:
    """The resolved options of a run.

    `baseline_named` is whether the command line or the ini file names the baseline, `ci` whether this is a
    build server.
    """

    model: str | None = None
    judge_model: str | None = None
    judge_votes: int = 1
    both_orders: bool = False
    base_url: BaseURL | None = None
    comparator: str = "judge"
    match_share: float = 0.5
    max_tokens: int | None = None
    gateway: bool = False
    concurrency: int = 16
    rpm: float | None = None
    tpm: float | None = None
    timeout: float = 60.0
    retries: int = 4
    patience: float = 300.0
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
    pin_baseline: bool = False
    require_baseline: bool = False
    family: int | None = None
    canary: int = 0
    inconclusive: Literal["warn", "fail"] = "warn"
    early_stop: bool = False
    calibration: Path | None = None
    repeat: int = 1
    report: tuple[Path, ...] = ()
    seed: int = 0
    api_key: Secret | None = None
    gguf: str | None = None
    ci: bool = False

    def __post_init__(self) -> None:
        """Convert keys and URLs of plain text, so that no secret is kept as one."""
        if isinstance(self.api_key, str):
            object.__setattr__(self, "api_key", Secret(self.api_key))
        if isinstance(self.base_url, str):
            object.__setattr__(self, "base_url", BaseURL.parse(self.base_url))

    @property
    def embedded(self) -> bool:
        """Whether the local model generates: by its name, or without a key or a base URL."""
        return self.model == EMBEDDED or (self.model is None and not (self.api_key or self.base_url))

    @property
    def llm_judge(self) -> str | None:
        """The model that compares answers; None for canonical comparison."""
        return self.judge_model or (None if self.embedded else self.model)

    @property
    def stops_early(self) -> bool:
        """Whether this run may leave questions out: a plan counts them all, and a replay costs nothing."""
        return self.early_stop and not (self.update_baseline or self.plan or self.replay or self.repeat > 1)

    def in_force(self) -> str:
        """Generator, judge and comparator, in a line for pytest's header."""
        votes = f" in {self.judge_votes} votes" if self.llm_judge and self.judge_votes > 1 else ""
        judge = f"judged by {self.llm_judge}{votes}" if self.llm_judge else "compared in canonical form"
        if self.comparator != Settings.comparator:
            judge = f"compared by {self.comparator}"
            if "judge" in re.findall(r"\w+", self.comparator):
                judge += f" (judge: {self.llm_judge or CANONICAL}{votes})"
        if self._generator is None:
            unnamed = "no model is named (--rageval-model), ranking measures alone can be scored"
            return unnamed if self.comparator == Settings.comparator else f"{unnamed}, answers {judge}"
        quality = " [embedded models: smoke-test quality]" if self.embedded else ""
        return f"generator {self._generator}, answers {judge}{quality}"

    def entry(self) -> dict[str, Any]:
        """Generator (null where no model is named), judge (a model, or "canonical") and comparator for the report."""
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
        if self.embedded:
            return f"embedded model {Path(self.gguf).stem}" if self.gguf else "embedded model"
        if self.model is None:
            return None
        return f"{self.model} at {self.base_url.public}" if self.base_url else self.model
