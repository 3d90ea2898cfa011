"""The option of a shard, and what it contradicts."""

from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from tests.unit.options.test_options import _resolve


@pytest.mark.parametrize("text", ["0/4", "5/4", "2", "2/", "/4", "a/b", "-1/4", "2/8/3"])
def test_a_shard_is_one_of_a_number(text: str) -> None:
    with pytest.raises(InputError, match=r"--rageval-shard is .*: expected I/N with 1 ≤ I ≤ N, such as 2/8"):
        _resolve({"shard": text})
    assert _resolve({"shard": "1/1", "report": ["a.json"]}).value_of("shard") == (1, 1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "--rageval-shard needs a JSON report"),
        ({"report": ["a.md"]}, "--rageval-shard needs a JSON report"),
        ({"report": ["a.json"], "update_baseline": "true"}, "rageval merge --update-baseline"),
        ({"report": ["a.json"], "early_stop": "true"}, "The option early_stop asks until"),
        ({"report": ["a.json"], "canary": "20"}, "--rageval canary=N compares with the baseline"),
    ],
)
def test_a_shard_refuses_what_needs_all_questions(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _resolve({"shard": "2/8", **more})


def test_a_plan_of_a_shard_needs_no_report() -> None:
    assert _resolve({"shard": "2/8", "plan": "true"}).value_of("shard") == (2, 8)
