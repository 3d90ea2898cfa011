"""Numbers for a paper: `--rageval preset=measurement`, and `rageval measurement` prints them as a page of an appendix.

- `record`: what the report of such a run has besides: the command, and the settings that are not the preset's.
- `page`: the page.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options.command import Command, value

if TYPE_CHECKING:
    import pytest

    from pytest_rageval.options.settings import Settings

NAME: Final = "measurement"
PRESETS: Final = {NAME: Path(__file__).with_name("presets.toml")}

# fmt: off
COMMANDS: Final = (
    Command("measurement", "pytest_rageval.extensions.measurement.page:measurement_command",
            "print the numbers of a run as a page for the appendix of a paper",
            "Reads a JSON report and prints Markdown: system, versions, eval set, pool, evidence budget, models, "
            "prompts, scores with intervals and tests, the judge against people and against a second judge, means "
            "corrected for the judge's errors, what is unscored, cost, and the command. What the run lacks is listed "
            "with what to add.",
            (value("report", "REPORT", "JSON report (pytest --rageval preset=measurement --rageval-report FILE.json)"),
             value("--second", "REPORT", "JSON report of the same run with another judge"),
             value("--test", "NODEID", "only this test (default: all with scores)", str),
             value("--output -o", "FILE", "file to write (default: print)")),
            "Exit status: 0; 2 if something cannot be used.", place=7),
)
# fmt: on


@hookimpl
def pytest_rageval_start(config: "pytest.Config", settings: "Settings") -> Sequence[object]:
    if settings.preset != NAME:
        return ()
    from pytest_rageval.extensions.measurement.record import MeasurementPlugin  # noqa: PLC0415 - few runs are one

    return (MeasurementPlugin(config.invocation_params.args),)
