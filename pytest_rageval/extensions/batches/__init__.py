"""Batches: runs whose requests a server answers within a day, at a lower price (`--rageval-batch`).

- `batches`: the batches of a run, stored in the cache folder. `api`: the server's API for them. `source`: collects the
  requests of a run for them.
- `plugin`: the hooks of a run in batches.
- `command`: `rageval batch`, and the steps of a run, as processes.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from pytest_rageval.core.options import Settings
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.models.sources import MakeSource
    from pytest_rageval.run.test import TestRun

hookimpl = pluggy.HookimplMarker("pytest")


@hookimpl
def pytest_rageval_reply_source(settings: "Settings") -> "MakeSource | None":
    """Collect the requests of a run, or send live what no batch has answered."""
    if not settings.batch:
        return None
    from pytest_rageval.extensions.batches.source import BatchSource  # noqa: PLC0415 - few runs have batches

    return partial(BatchSource, collects=settings.collects, errors=settings.batch_errors)


@hookimpl(tryfirst=True)
def pytest_rageval_evaluate(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str] | None:
    """Create all requests that the markers need, for a batch. A missing reply does not prevent other requests."""
    if not test.session.settings.collects:
        return None
    from pytest_rageval.core.errors import ReplyPending  # noqa: PLC0415 - few runs have batches

    pending: ReplyPending | None = None
    problems: list[str] = []
    try:
        test.scores(thresholds, test.requests(thresholds))
    except ReplyPending as error:
        pending = error
    hook = test.session.hook
    given: dict[str, Any] = {"test": test, "thresholds": thresholds}
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
