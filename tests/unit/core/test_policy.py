"""Policies of thresholds: the built-in ones, and those of tables."""

from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.core.policy import BUILT_IN, Policy, parse_tables, policies_of


def test_a_table_changes_a_policy_or_makes_one_from_another() -> None:
    tables = {
        "pr": {"alpha": 0.01},
        "nightly": {"burden": "beyond", "cluster": "topic"},
        "strict": {"like": "release", "alpha": 0.1, "bounds": "interval"},
    }
    policies = policies_of(tables)
    assert [*policies] == ["pr", "release", "snapshot", "nightly", "strict"]
    assert policies["pr"] == Policy(alpha=0.01)
    # A new policy begins as the policy "pr" of the project.
    assert policies["nightly"] == Policy("nightly", 0.01, "beyond", cluster="topic")
    assert policies["strict"] == replace(BUILT_IN["release"], name="strict", alpha=0.1, bounds="interval")
    assert policies_of(None) == BUILT_IN


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a table for each policy"),
        ("release", "expected a table for each policy"),
        ("[]", "expected a table for each policy"),
        ('{"pr": 1}', "expected a table for each policy"),
        ('{"pr": {"alfa": 1}}', "unknown key 'alfa'. Did you mean alpha? Allowed: like, alpha, burden"),
        ('{"x": {"like": "y"}}', "policy='y' does not exist"),
        ('{"x": {"name": "y"}}', "unknown key 'name'."),
        *(
            (f'{{"pr": {{"{key}": {value}}}}}', f"{key} = ")
            for key, value in (
                *(("alpha", value) for value in ("0", "-1", "0.51", "true", '"5%"', "null", "NaN")),
                *(("burden", value) for value in ('"strict"', "true")),
                ("inconclusive", '"error"'),
                ("bounds", '"ci"'),
                *(("cluster", value) for value in ("3", '" "')),
                *(("max_total_drop", value) for value in ("-0.1", '"5%"', "true", "Infinity")),
                *(("max_lost", value) for value in ("-1", "0.5", "true")),
                *(("tolerance", value) for value in ("-0.1", "true")),
                *(("small_set_drop", value) for value in ("0", "1.1", "true")),
            )
        ),
    ],
)
def test_a_wrong_table_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_tables(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        {"alpha": 0.5},
        {"max_total_drop": 0},
        {"max_lost": 0, "tolerance": 0},
        {"small_set_drop": 1},
        {"small_set_drop": 0.01},
        {"burden": "exclude", "inconclusive": "fail", "cluster": "none"},
    ],
)
def test_the_ends_of_a_range_are_allowed(table: dict[str, Any]) -> None:
    assert policies_of({"pr": table})["pr"] == replace(Policy(), **table)


@pytest.mark.parametrize("key", ["max_lost", "max_total_drop", "small_set_drop"])
def test_false_is_none(key: str) -> None:
    tables = {"strict": {"max_lost": 0, "max_total_drop": 0.1}, "mild": {"like": "strict", key: False}}
    policies = policies_of(tables)
    assert policies["mild"] == replace(policies["strict"], name="mild", **{key: None})


@pytest.mark.parametrize("key", ["alpha", "burden", "inconclusive", "bounds", "cluster", "tolerance"])
def test_what_needs_a_value_cannot_be_false(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} = False"):
        policies_of({"pr": {key: False}})
