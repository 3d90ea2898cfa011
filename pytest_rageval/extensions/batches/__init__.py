"""Batches: runs whose requests a server answers within a day, at a lower price (`--rageval-batch`).

- `batches`: collects the requests of a run for batches, and stores them in the cache folder. `api`: the server's API.
- `plugin`: the hooks of a run in batches, its steps, as processes, and `rageval batch`.
"""

from argparse import REMAINDER
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options import Effect, Option, switch
from pytest_rageval.options.command import Command, Group, value
from pytest_rageval.options.parsers import choice_parser, parse_switch

if TYPE_CHECKING:
    import pytest

    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.models.sources import MakeSource
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.run.test import TestRun

STEPS: Final = ("submit", "status", "collect")


def _parse_batch(text: str) -> bool | str:
    return text if text in STEPS else parse_switch(text)


def _effects(settings: "Settings") -> tuple[Effect, ...]:
    if not (batch := settings[BATCH]):
        return ()
    if batch == "submit":
        return ("batch tier", "is a step", "lacks replies")
    return ("batch tier",) if batch is True else ("batch tier", "is a step")


def collects(settings: "Settings") -> bool:
    """Whether this run collects its requests for a batch instead of sending them; a plan only counts them."""
    return settings[BATCH] == "submit" and not settings.value_of("plan")


# fmt: off
ERRORS: Final = Option[Literal["live", "unscored"]](
    "batch_errors", "live|unscored", choice_parser("live", "unscored"), "live",
    "a request that failed in a batch: send it again outside of a batch, or leave its question unscored",
)
BATCH: Final[Option[bool | Literal["submit", "status", "collect"]]] = switch(
    "batch",
    "send the requests of a run to the batch API of the server, at a lower price, and wait for the replies. If "
    "it is interrupted, the same command continues. `rageval batch` runs one step at a time",
    parse=_parse_batch, switch_values=STEPS, in_ini=False, is_flag=True,
    effects=_effects,
)
OPTIONS: Final = (BATCH, ERRORS)
# fmt: on

GROUP: Final = Group(
    "batch",
    "send the requests of a run to the batch API of the server, at a lower price",
    "The steps of `pytest --rageval-batch`: submit the requests, wait until the batches have ended, collect the "
    "replies. Repeat this until no reply is missing, as some requests contain earlier replies. The arguments are "
    "those of pytest for the run.",
    "a batch has not ended",
)

PYTEST_ARGUMENTS: Final = value(
    "arguments", "ARGUMENT", "arguments of pytest: options, files, tests", str, nargs=REMAINDER
)

# fmt: off
COMMANDS: Final = (
    Command("submit", "pytest_rageval.extensions.batches.plugin:submit_command",
            "submit the requests that have no reply in the cache",
            "Runs the tests as far as the cache has replies. Requests already in a batch are not submitted again.",
            (PYTEST_ARGUMENTS,),
            "Exit status: 0; 2 if something cannot be used, or a server does not take a batch.", group=GROUP),
    Command("status", "pytest_rageval.extensions.batches.plugin:status_command",
            "show the batches and their progress", "Runs no test.",
            (PYTEST_ARGUMENTS,), group=GROUP),
    Command("collect", "pytest_rageval.extensions.batches.plugin:collect_command",
            "write the replies of finished batches to the cache", "Runs no test.",
            (PYTEST_ARGUMENTS,), group=GROUP),
)
# fmt: on


def contradictions(settings: "Settings") -> Iterator[str]:
    for name, reason in {"refresh": "sends all requests in each run", "replay": "sends no requests"}.items():
        if settings[BATCH] and getattr(settings, name):
            yield f"--rageval-batch takes several runs, and --rageval-{name} {reason}: leave one out."


@hookimpl
def pytest_rageval_start(config: "pytest.Config", settings: "Settings") -> Sequence[object]:
    if not settings[BATCH] or settings.value_of("plan"):
        return ()
    if config.option.collectonly or hasattr(config, "workerinput"):
        return ()
    import pytest  # noqa: PLC0415 - the commands import this module without pytest

    from pytest_rageval.extensions.batches import plugin  # noqa: PLC0415 - few runs have batches

    if settings[BATCH] is True:
        return (plugin.BatchPlugin(config),)
    if getattr(config.option, "numprocesses", None):
        raise pytest.UsageError(f"--rageval-batch={settings[BATCH]} needs no workers: add -n0.")
    return ((plugin.BatchSubmitPlugin if collects(settings) else plugin.BatchStatusPlugin)(config),)


@hookimpl
def pytest_rageval_reply_source(settings: "Settings") -> "MakeSource | None":
    """Collect the requests of a run, or send live what no batch has answered."""
    if not settings[BATCH]:
        return None
    from pytest_rageval.extensions.batches.batches import BatchSource  # noqa: PLC0415 - few runs have batches

    return partial(BatchSource, collects=collects(settings), errors=settings[ERRORS])


@hookimpl(tryfirst=True)
def pytest_rageval_evaluate(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str] | None:
    """Create all requests that the markers need, for a batch. A missing reply does not prevent other requests."""
    if not collects(test.session.settings):
        return None
    from pytest_rageval.core.errors import ReplyPending  # noqa: PLC0415 - few runs have batches

    pending: ReplyPending | None = None
    problems: list[str] = []
    try:
        if thresholds:
            test.record.evaluate(test.evalset, thresholds, test.requests(thresholds))
    except ReplyPending as error:
        pending = error
    hook = test.session.hook
    given: dict[str, object] = {"test": test, "thresholds": thresholds}
    for caller in (hook.pytest_rageval_after_test, hook.pytest_rageval_before_test):
        for implementation in caller.get_hookimpls():
            try:
                arguments = {name: given[name] for name in implementation.argnames}
                problems += implementation.function(**arguments)
            except ReplyPending as error:
                pending = error
    if pending is not None:
        raise pending
    return problems
