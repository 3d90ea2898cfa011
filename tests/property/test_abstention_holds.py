"""Properties of the detection of abstentions, for any text."""

import re
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.answers import abstention
from pytest_rageval.answers.abstention import abstains

WORDS = sorted(
    set(re.findall(r"[a-z']+", " ".join(abstention._PATTERNS)))
    | {"[1]", "**not**", "don\u2019t", "Sorry, but", "In the passages,", "no answer in the documents", "."}
)
PATTERNS = list(map(re.compile, abstention._PATTERNS))


def _one_by_one(text: str) -> bool:
    any_form = SimpleNamespace(
        match=lambda first: next(filter(None, (f.match(first) for f in PATTERNS)), None)
    )
    with (
        patch.object(abstention, "_NEGATIVE_WORD", re.compile("")),
        patch.object(abstention, "_any_pattern", lambda: any_form),
    ):
        return abstains.__wrapped__(text)


@pytest.mark.slow
@pytest.mark.parametrize("form", abstention._PATTERNS)
def test_a_text_of_a_form_has_one_of_the_words(form: str) -> None:
    @given(st.from_regex(form))
    def has_one(text: str) -> None:
        assert abstention._NEGATIVE_WORD.search(text)

    has_one()


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_the_forms_together_find_what_each_finds(text: str) -> None:
    """The combined pattern finds an abstention exactly if one of the patterns does."""
    assert abstains(text) == _one_by_one(text)


@pytest.mark.slow
@given(st.one_of(*map(st.from_regex, abstention._PATTERNS)))
def test_a_text_that_begins_with_a_form_is_found_too(text: str) -> None:
    """The same holds for texts that begin with a match, whatever their case, spaces and continuation."""
    assert abstains(text) == _one_by_one(text)
