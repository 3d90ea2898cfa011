"""The digest that identifies contents."""

import hashlib
from typing import Any

import pytest

from pytest_rageval.lib.digests import digest, digest_of_all


def test_a_digest_is_sha256_of_the_canonical_json() -> None:
    assert digest({"b": [1, None], "a": "é"}) == hashlib.sha256('{"a":"é","b":[1,null]}'.encode()).hexdigest()


def test_the_order_of_keys_does_not_matter() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})


@pytest.mark.parametrize(
    ("one", "other"),
    [([1, 2], [2, 1]), ("1", 1), (None, ""), ({}, []), (["a", "b"], ["ab"]), ("a", "A"), (True, 1)],
)
def test_different_values_have_different_digests(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_what_json_has_no_number_for_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        digest(value)


def test_what_json_cannot_express_is_refused() -> None:
    with pytest.raises(TypeError):
        digest({1, 2})


def test_a_lone_surrogate_has_a_digest() -> None:
    assert digest("\ud800") != digest("\ud801")


def test_the_digest_of_all_is_of_their_lines() -> None:
    canonical = b'{"a":1,"b":2}\n"c\\nd"\n'
    assert digest_of_all([{"b": 2, "a": 1}, "c\nd"]) == hashlib.sha256(canonical).hexdigest()
    assert digest_of_all(iter([1, 2])) != digest_of_all([12]) != digest_of_all([2, 1])
