"""What the modes of extensions mean for a run."""

from typing import Any

import pytest

from pytest_rageval.options.settings import Settings

OF_A_PLAN = {
    *("sends nothing", "lacks replies", "has placeholders", "needs no cassette"),
    *("compares nothing", "reports nothing"),
}


@pytest.mark.parametrize(
    ("values", "effects"),
    [
        ({"plan": True}, OF_A_PLAN),
        ({"shard": (1, 1)}, {"is merged", "compares nothing"}),
        ({"shard": (2, 8), "plan": True}, OF_A_PLAN | {"is merged"}),
        ({"batch": True}, {"batch tier"}),
        ({"batch": "submit"}, {"batch tier", "is a step", "lacks replies"}),
        ({"batch": "status"}, {"batch tier", "is a step"}),
        ({"batch": "collect"}, {"batch tier", "is a step"}),
        ({"early_stop": True}, {"leaves out questions"}),
        ({"early_stop": True, "plan": True}, OF_A_PLAN),
        ({"early_stop": True, "batch": True}, {"batch tier"}),
        ({"early_stop": True, "repeat": 2}, set()),
        ({"gateway": True}, {"answers applications"}),
    ],
)
def test_the_effects(values: dict[str, Any], effects: set[str]) -> None:
    assert Settings(**values).effects == effects


@pytest.mark.parametrize(
    ("values", "tiers"),
    [({}, ()), ({"flex": True}, ("flex",)), ({"batch": True, "flex": True}, ("flex", "batch"))],
)
def test_the_tiers_whose_prices_a_plan_has(values: dict[str, Any], tiers: tuple[str, ...]) -> None:
    assert Settings(**values).tiers == tiers
