"""Unicode normal forms, and the handling of long sequences of combining marks."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.lib.normal_forms import MAX_MARKS, normal_form


@given(text=st.text(max_size=MAX_MARKS))
def test_a_text_without_such_rows_is_in_the_form_that_unicode_says(text: str) -> None:
    for form in ("NFC", "NFD", "NFKC"):
        assert normal_form(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("mark", ["\u0301", "\u0323", "\uff9e"])
def test_a_row_of_marks_is_parted(mark: str) -> None:
    """A longer sequence of marks than languages use is split by an invisible character."""
    few, many = f"e{mark * MAX_MARKS}x", f"e{mark * (MAX_MARKS + 1)}x"
    assert normal_form("NFD", few) == unicodedata.normalize("NFD", few)
    assert normal_form("NFKC", many).count("\u034f") == 1
    assert normal_form("NFKC", normal_form("NFKC", many)) == normal_form("NFKC", many)


def test_what_is_no_mark_is_not_parted() -> None:
    for text in ("\u2014" * 100, "😀" * 100, "。" * 100):
        assert normal_form("NFC", text) == text
