"""The proxy: a local HTTP server for the model calls of the user's application, which users know as the gateway.

The application's calls are cached, limited, counted and replayed like the calls of the package.

- `plugin`: the HTTP server on 127.0.0.1, in a separate thread, for a run of pytest or for `rageval gateway`.
- `application`: answers the requests. `events`: a stored reply as the events of a stream.
"""

from argparse import REMAINDER
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options import Option, switch
from pytest_rageval.options.command import Command, value

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from pytest_rageval.extensions.application_calls.plugin import GatewayServer
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.test import TestRun

# fmt: off
GATEWAY: Final[Option[bool]] = switch(
    "gateway",
    "start an OpenAI-compatible server on 127.0.0.1 and send the model calls of your application, in the tests' "
    "process, through it. They are then cached, limited, counted and replayed as well. Needs the extra gateway",
    effects=lambda settings: ("answers applications",) if settings[GATEWAY] else (),
)
OPTIONS: Final = (GATEWAY,)
# fmt: on

GATEWAY_OPTIONS: Final = (
    "base_url", "concurrency", "rpm", "tpm", "timeout", "retries", "patience", "cache", "cache_dir",
    "refresh", "replay", "cassette", "record", "record_prompts", "max_calls", "max_cost", "prices",
)  # fmt: skip

# fmt: off
COMMANDS: Final = (
    Command("gateway", "pytest_rageval.extensions.application_calls.plugin:gateway_command",
            "run a command, and cache, limit, count and replay its model calls",
            "Starts an OpenAI-compatible server on 127.0.0.1, and runs the command with OPENAI_BASE_URL and "
            "OPENAI_API_KEY set to it. The server replies from the cache, the cassette or the real server. Needs the "
            "extra gateway. For tests, use pytest --rageval gateway=true.",
            (*GATEWAY_OPTIONS,
             value("command", "COMMAND", "the command with its arguments, after --", str, nargs=REMAINDER)),
            "The real server and its key are those of --base-url or OPENAI_BASE_URL, and OPENAI_API_KEY. "
            "Exit status: that of the command; 2 if something cannot be used.", place=9),
)
# fmt: on


def rageval_gateway(pytestconfig: "pytest.Config", rageval_client: object) -> "GatewayServer":
    """An OpenAI-compatible server for model calls inside your application: url, token, variables()."""
    from pytest_rageval.extensions.application_calls.plugin import proxy_to  # noqa: PLC0415 - few runs have one

    return proxy_to(pytestconfig, rageval_client)


FIXTURES: Final = (rageval_gateway,)

BYPASSED: Final = (
    "the gateway is on, and no request of your application came to it: its model calls are not cached, recorded or "
    "replayed, and may have gone to a server. Has its client an address of its own?"
)


@hookimpl
def pytest_rageval_after_test(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str]:
    """Remember whether the user's own generator was to answer, and no request came to the proxy."""
    session, effects = test.session, test.session.settings.effects
    if "answers applications" not in effects or "has placeholders" in effects:
        return ()
    if session.gateway.serves_application:
        return ()
    from pytest_rageval.models import DefaultGenerator  # noqa: PLC0415 - few runs have the proxy

    # An application answers also where only its passages are scored.
    answers = hasattr(test.components.retriever, "application") or any(
        session.resolve(request)[1].generates for request in test.requests(thresholds)
    )
    test.state[__name__] = answers and not isinstance(test.components.generator, DefaultGenerator)
    return ()


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object]:
    return {"warnings": [BYPASSED]} if test.state.get(__name__) else {}


@hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: "pytest.Config") -> None:
    """Start the proxy if an option requests it, before a conftest imports the application under test."""
    is_typed = getattr(early_config.known_args_namespace, "rageval_gateway", None)
    if (
        is_typed
        or early_config.getini("rageval_gateway")
        or _may_be_in(early_config.rootpath / "pyproject.toml")
    ):
        from pytest_rageval.extensions.application_calls.plugin import start_proxy  # noqa: PLC0415 - see the fixture

        start_proxy(early_config)


def _may_be_in(file: "Path") -> bool:
    try:
        return "gateway" in file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
