"""The cache key of a request."""

from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.models.messages import Request

ASKED = Request(
    base_url="http://here/v1",
    model="m",
    messages=({"role": "user", "content": "Which code?"},),
    parameters={"temperature": 0.5, "stop": ["\n"]},
)


@pytest.mark.parametrize(
    "change",
    [
        {"base_url": "http://there/v1"},
        {"model": "n"},
        {"messages": ({"role": "user", "content": "Which code? "},)},
        {"messages": ({"role": "system", "content": "Which code?"},)},
        {"messages": (*ASKED.messages, *ASKED.messages)},
        {"parameters": {}},
        {"parameters": {"temperature": 0.5, "stop": []}},
        {"parameters": {"temperature": 0.6, "stop": ["\n"]}},
        {"parameters": {"temperature": 0.5, "stop": ["\n"], "seed": 0}},
        {"sample": 1},
    ],
)
def test_everything_that_can_change_a_reply_changes_the_key(change: dict[str, Any]) -> None:
    assert replace(ASKED, **change).key != ASKED.key


def test_the_order_of_keys_does_not_matter() -> None:
    same = replace(
        ASKED,
        messages=({"content": "Which code?", "role": "user"},),
        parameters={"stop": ["\n"], "temperature": 0.5},
    )
    assert same.key == ASKED.key


def test_the_key_is_the_same_in_every_process_and_version() -> None:
    """The key is 64 hex digits that change only with the key's schema, so that recorded replies are found."""
    assert ASKED.key == "6c194c66c7378d717666c4bae7619f1d7f188103c67ef9f9a009aa8d25f61ad1"
