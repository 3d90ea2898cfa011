"""Unicode's normal forms, and what is done where thousands of marks stand in a row."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.tokenize import MAX_MARKS, normal_form

FORMS = ("NFC", "NFD", "NFKC")


@given(text=st.text(max_size=MAX_MARKS))
def test_a_text_without_such_rows_is_in_the_form_that_unicode_says(text: str) -> None:
    """Whatever it holds."""
    for form in FORMS:
        assert normal_form(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("mark", ["\u0301", "\u0323", "\uff9e"])
def test_a_row_of_marks_is_parted(mark: str) -> None:
    """By a sign that does not show; as many marks as languages write stay as they are."""
    few, many = f"e{mark * MAX_MARKS}x", f"e{mark * (MAX_MARKS + 1)}x"
    assert normal_form("NFD", few) == unicodedata.normalize("NFD", few)
    assert normal_form("NFKC", many).count("\u034f") == 1
    assert normal_form("NFKC", normal_form("NFKC", many)) == normal_form("NFKC", many)


def test_what_is_no_mark_is_not_parted() -> None:
    """A rule of dashes, or a row of emoji."""
    for text in ("\u2014" * 100, "😀" * 100, "。" * 100):
        assert normal_form("NFC", text) == text
