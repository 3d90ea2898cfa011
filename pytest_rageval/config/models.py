"""The two models of a run, generator and judge: each one's name, its parameters, and its server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_rageval.config.base_url import BaseURL
from pytest_rageval.secret import Secret

__all__ = ["Api", "ModelSettings", "Role", "ServerSettings"]

Role = Literal["generator", "judge"]

Api = Literal["chat", "responses"]
"""The path that models are asked at: `/chat/completions` or `/responses`, for models that have no other."""


@dataclass(frozen=True)
class ServerSettings:
    """A server, its key, and its limits. A judge without any of its own has those of the generator."""

    role: Role = "generator"  # the model that it is set for
    base_url: BaseURL | None = None  # None for OpenAI's
    api_key: Secret | None = None
    key_name: str = "OPENAI_API_KEY"  # the environment variable that has the key
    needs_key: bool = False  # the user has named that variable, so an empty one is a mistake
    key_command: tuple[str, ...] = ()  # prints the key
    api: Api = "chat"
    concurrency: int = 16
    timeout: float = 60.0
    rpm: float | None = None
    tpm: float | None = None
    max_calls: int | None = None  # of this server; the run has a limit of its own
    max_cost: float | None = None


@dataclass(frozen=True)
class ModelSettings:
    """A model, the parameters that the user adds to its requests, and its server."""

    model: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)
