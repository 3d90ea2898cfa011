"""Lazily compiled patterns."""

import re

import pytest

from pytest_rageval.lib.lazy import lazy_pattern


def test_a_pattern_is_compiled_at_its_first_use() -> None:
    wrong = lazy_pattern("(")
    with pytest.raises(re.error):
        wrong.search("a")


def test_it_has_the_methods_and_the_flags_of_a_pattern() -> None:
    letters = lazy_pattern("[a-z]+", re.IGNORECASE)
    assert letters.sub("x", "To be") == letters.sub("x", "Be or") == "x x"
    assert [match[0] for match in letters.finditer("To be")] == letters.findall("To be") == ["To", "be"]
    assert letters.flags & re.IGNORECASE
