"""What did the branch change in the baseline? It is compared with the baseline at the merge base."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    from pytest_rageval.options.settings import Settings


@hookimpl
def pytest_rageval_gate_entry(settings: "Settings") -> Mapping[str, object]:
    from pytest_rageval.extensions.baseline_change.change import change_entry  # noqa: PLC0415 - of runs with a baseline

    change = change_entry(settings.baseline, os.environ, required=settings.require_baseline)
    return {"change": change} if change else {}
