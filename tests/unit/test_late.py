"""What waits until it is used."""

import re

import pytest

from pytest_rageval.late import late_pattern


def test_a_pattern_is_compiled_at_its_first_use() -> None:
    """And not before: this one is none."""
    wrong = late_pattern("(")
    with pytest.raises(re.error):
        wrong.search("a")


def test_it_has_the_methods_and_the_flags_of_a_pattern() -> None:
    """Whichever is used first, and again."""
    letters = late_pattern("[a-z]+", re.IGNORECASE)
    assert letters.sub("x", "To be") == letters.sub("x", "Be or") == "x x"
    assert [found[0] for found in letters.finditer("To be")] == letters.findall("To be") == ["To", "be"]
    assert letters.flags & re.IGNORECASE
