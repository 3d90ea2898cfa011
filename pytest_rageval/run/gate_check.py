"""At the end of a run: was each test of the baseline compared with it, and did this branch change the baseline?"""

from collections.abc import Mapping
from typing import Any

from pytest_rageval.core.settings import Settings
from pytest_rageval.gate.baseline import Baseline
from pytest_rageval.reports.gated_tests import RanTests, gate_entry
from pytest_rageval.run.baseline_change import change_entry
from pytest_rageval.run.baseline_lookup import read_baseline


def check_gate(
    settings: Settings, ran: RanTests, environment: Mapping[str, str], known: Baseline | None = None
) -> dict[str, Any]:
    """Return the key `gate` of the report; empty without a baseline.

    Args:
        settings: the settings of the run.
        ran: the tests of the run.
        environment: environment variables, in which CI systems name the target of a pull request.
        known: the baseline, if the run has read it.

    Raises:
        InputError: the baseline cannot be read.
    """
    baseline, required = known or read_baseline(settings), settings.require_baseline
    if baseline.path is None:
        return {}
    gate = gate_entry(baseline.tests, ran, required=required, allowed=settings.allow_missing)
    if settings.baseline_ref is not None:
        return {**gate, "ref": settings.baseline_ref}
    change = change_entry(settings.baseline, environment, required=required)
    return {**gate, **({"change": change} if change else {})}
