"""Scores over many runs.

- `history`: the file. `trend`: `rageval history`, and charts as text. `page`: charts as a page.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options import Option
from pytest_rageval.options.command import JSON, Command, one_or_more, value

if TYPE_CHECKING:
    from pytest_rageval.run import FinishedRun
    from pytest_rageval.run.registry import Registry

# fmt: off
HISTORY: Final = Option[Path | None](
    "history", "FILE", Path, None,
    "append the scores of this run as one line to this file (.jsonl), which belongs in git. `rageval history` "
    "prints it, and the .md report has a chart of it",
    is_written=True,
)
# fmt: on
OPTIONS: Final = (HISTORY,)

# fmt: off
COMMANDS: Final = (
    Command("history", "pytest_rageval.extensions.history.trend:history_command",
            "show how scores changed from run to run",
            "Prints for each score its lowest and highest mean, the last two means, the mean in the baseline, and a "
            "bar chart in a line. With --html it also writes a page of charts. Runs are sorted by time.",
            (value("file", "FILE", "the history (pytest --rageval history=FILE)"),
             value("--html", "PAGE", "page to write"),
             value("--test", "NODEID", "only this test, or tests whose node ids contain this text", str),
             value("--score", "NAME", "only this score, or scores whose names contain this text", str),
             value("--last", "N", "only the last N runs", one_or_more("a number of runs")),
             JSON),
            "Exit status: 0; 2 if something cannot be used. Damaged lines are reported.", place=6),
)
# fmt: on


@hookimpl
def pytest_rageval_register(registry: "Registry") -> None:
    registry.add_markdown_section(
        "The last runs", "chart line", Lazy("extensions.history.trend", "chart_lines")
    )


@hookimpl
def pytest_rageval_run_finished(run: "FinishedRun") -> Mapping[str, object]:
    path = run.settings[HISTORY]
    if path is None:
        return {}
    from pytest_rageval.extensions.history.history import add_run  # noqa: PLC0415 - few runs have a history

    return add_run(run, path)
