"""Numbers with their nouns."""

import pytest

from pytest_rageval.lib.text import counted, singular


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "test", "1 test"),
        (2, "test", "2 tests"),
        (0, "test", "0 tests"),
        (3, "reply", "3 replies"),
        (3, "day", "3 days"),
    ],
)
def test_a_noun_follows_its_number(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("noun", "one"),
    [("wins", "win"), ("ties", "tie"), ("losses", "loss"), ("no answer", "no answer"), ("useful", "useful")],
)
def test_one_of_many_is_named_in_the_singular(noun: str, one: str) -> None:
    assert singular(noun) == one
