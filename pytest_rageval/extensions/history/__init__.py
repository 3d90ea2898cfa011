"""Scores over many runs.

- `history`: the file. `trend`: charts as text. `page`: charts as a page.
- `command`: `rageval history` and `rageval badge`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pluggy

from pytest_rageval.lib.lazy import Lazy

if TYPE_CHECKING:
    from pytest_rageval.run import FinishedRun
    from pytest_rageval.run.registry import Registry

hookimpl = pluggy.HookimplMarker("pytest")


@hookimpl
def pytest_rageval_register(registry: "Registry") -> None:
    """Add the chart of the last runs to the Markdown report."""
    registry.add_markdown_section(
        "The last runs", "chart line", Lazy("extensions.history.trend", "chart_lines")
    )


@hookimpl
def pytest_rageval_run_finished(run: "FinishedRun") -> Mapping[str, Any]:
    """Append the run to the history; add its last runs to the report."""
    if run.settings.history is None:
        return {}
    from pytest_rageval.extensions.history.history import add_run  # noqa: PLC0415 - few runs have a history

    return add_run(run, run.settings.history)
