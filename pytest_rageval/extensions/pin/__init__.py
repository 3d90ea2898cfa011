"""`rageval baseline pin`: makes the scores in the baseline the anchor that `max_total_drop` compares with."""

import argparse
from pathlib import Path
from typing import Final

from pytest_rageval.options import BASELINE
from pytest_rageval.options.command import BASELINE_GROUP, Command, value, with_plugin_names

# fmt: off
COMMANDS: Final = (
    Command("pin", "pytest_rageval.extensions.pin:pin_command",
            "make the scores in the baseline the anchor of max_total_drop, as at a release",
            "No test runs. Later updates of the baseline leave the anchor as it is. Run it on the commit of the "
            "release, after its last update of the baseline, and commit the file.",
            (*with_plugin_names(value("--baseline", "FILE", f"the baseline (default: {BASELINE})", default=BASELINE)),
             value("tests", "NODEID", "only these tests (default: all)", str, nargs="*")),
            "Exit status: 0; 2 if the file cannot be used, or has no such test.", group=BASELINE_GROUP, place=8),
)
# fmt: on


def pin_command(options: argparse.Namespace) -> int:
    from pytest_rageval.baseline import Baseline, anchor_entry  # noqa: PLC0415 - as above
    from pytest_rageval.baseline.entries import AnchorPin  # noqa: PLC0415 - as above
    from pytest_rageval.cli.console import echo  # noqa: PLC0415 - as above
    from pytest_rageval.core.errors import InputError, did_you_mean  # noqa: PLC0415 - every run imports this module
    from pytest_rageval.lib.git import git_output  # noqa: PLC0415 - as above
    from pytest_rageval.lib.text import counted  # noqa: PLC0415 - as above

    path = Path(options.baseline)
    baseline = Baseline.read_for_comparison(path, required=True)
    names = options.tests or sorted(baseline.tests)
    for name in names:
        if name not in baseline.tests:
            raise InputError(f"{path} has no test {name!r}.{did_you_mean(name, baseline.tests)}")
    if not names:
        raise InputError(f"{path} has no tests: there is nothing to pin.")
    pin = AnchorPin.today(
        git_output(path.resolve().parent, "rev-parse", "--verify", "--quiet", "HEAD") or None
    )
    baseline.anchors |= {name: anchor_entry(baseline.tests[name], pin) for name in names}
    baseline.write(path)
    echo(f"baseline: {path} ({counted(len(names), 'test')} {pin} as the anchor of max_total_drop)")
    return 0
