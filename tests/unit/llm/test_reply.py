"""A reply, and its form as text."""

import json
from typing import Any

import pytest

from pytest_rageval.llm.reply import Reply

REPLY = Reply("c7 – „ja“\n", "m-2024", "length", 12, 3)


def test_a_reply_and_its_line_are_inverse() -> None:
    """What is written is read again, on one line."""
    assert Reply.loads(REPLY.dumps()) == REPLY
    assert "\n" not in REPLY.dumps()


def test_the_line_is_readable_and_sorted() -> None:
    """Letters stay letters, and keys are in order: a diff shows what changed."""
    assert REPLY.dumps() == (
        '{"finish_reason": "length", "model": "m-2024", "text": "c7 – „ja“\\n", "tokens_in": 12, "tokens_out": 3}'
    )


@pytest.mark.parametrize("name", ["text", "model", "finish_reason", "tokens_in", "tokens_out"])
@pytest.mark.parametrize("value", [None, [], 1.5])
def test_a_field_of_another_kind_is_named(name: str, value: Any) -> None:
    """The error says which field, what it is and what was expected."""
    record = json.loads(REPLY.dumps()) | {name: value}
    with pytest.raises(ValueError, match=f"'{name}' is .*, expected (str|int)"):
        Reply.loads(json.dumps(record))


@pytest.mark.parametrize("name", ["text", "model", "finish_reason", "tokens_in", "tokens_out"])
def test_a_missing_field_is_named(name: str) -> None:
    """A reply is whole or not a reply."""
    record = json.loads(REPLY.dumps())
    del record[name]
    with pytest.raises(ValueError, match=f"'{name}' is None"):
        Reply.loads(json.dumps(record))


@pytest.mark.parametrize(("line", "found"), [("[]", "found list"), ('"x"', "found str"), ("{", "Expecting")])
def test_what_is_no_object_is_refused(line: str, found: str) -> None:
    """The error says what was found."""
    with pytest.raises(ValueError, match=found):
        Reply.loads(line)


def test_further_fields_do_not_matter() -> None:
    """A line of a later version is still read."""
    assert Reply.loads(json.dumps({**json.loads(REPLY.dumps()), "cost": 1})) == REPLY
