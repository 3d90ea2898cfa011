"""`rageval view`: a report on a local web page, with the runs before it, which people label.

- `server`: the page and its requests, on 127.0.0.1, and the file of verdicts, which `rageval_calibration` reads.
- `view.js`: what the page does besides.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options.command import Command, switch, value, value_parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from pytest_rageval.options.settings import Settings

_parse_port: Final = value_parser(int, lambda port: 0 <= port < 2**16, "a port, expected 0 to 65535")

# fmt: off
COMMANDS: Final = (
    Command("view", "pytest_rageval.extensions.view.server:view_command",
            "show a report in the browser, with earlier runs, and label its answers",
            "Serves the HTML report of a JSON report on 127.0.0.1 until Ctrl-C. While pytest writes the same report, "
            "the page shows the tests that have ended, and at the end the new report. The buttons right, wrong and "
            "unclear below an answer write to a file of labels, for rageval_calibration. Needs the extra gateway.",
            (value("file", "REPORT", "a JSON report (default: report.json)", nargs="?", default=Path("report.json")),
             value("--history", "FILE", "the history, whose runs are shown too (pytest --rageval history=FILE)"),
             value("--labels", "FILE", "file of labels to write (default: labels.jsonl)",
                   default=Path("labels.jsonl")),
             value("--port", "N", "port to listen on (default: a free one)", _parse_port, default=0),
             switch("--open", "open the page in the browser")),
            "Exit status: 0; 2 if something cannot be used.", place=5),
)
# fmt: on


def live_file(report: Path) -> Path:
    """Return the file to which a run adds its tests while a page shows its report; it exists only then."""
    return report.with_name(f"{report.name}.live")


@hookimpl
def pytest_rageval_start(config: "pytest.Config", settings: "Settings") -> "Sequence[object]":
    """Tell the page of a report that is being viewed which tests have ended."""
    reports = [path for path in settings.report if isinstance(path, Path) and path.suffix == ".json"]
    # The workers of xdist send their results to the process that writes the report.
    return [LiveRun(reports)] if reports and not hasattr(config, "workerinput") else []


class LiveRun:
    def __init__(self, reports: "Sequence[Path]") -> None:
        self._reports = reports

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        if report.when != "call" and not report.failed:
            return
        failure = str(report.longrepr).strip().partition("\n")[0] if report.failed else ""
        line = json.dumps({"test": report.nodeid, "failed": failure})
        for path in filter(Path.exists, map(live_file, self._reports)):
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
