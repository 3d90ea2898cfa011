"""Properties of canonical comparison that hold for every text."""

from itertools import product
from unittest.mock import MagicMock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.answers.canonical import dates, matches_any, parsing
from pytest_rageval.answers.canonical.words import fold, split_lexemes

_WORDS = (
    "the a not no half second may 1974 1,200 $ % - / . , ( ) or of New York 3rd to past pm bc th 's n't 1/0 1/2 12:70 "
    "99/99/2000 II once every per minus c million 1960s late up at least who \u6771 \u0418"
)
_PIECES = st.sampled_from(_WORDS.split())
_TEXTS = st.one_of(
    st.text(), st.lists(_PIECES, max_size=10).map(" ".join), st.lists(_PIECES, max_size=10).map("".join)
)
_FIGURE_WORDS = (
    "a an the half quarter quarters third thirds dozen hundred ten 5 1974 3.5 1/2 9:30 ' s st am a.m. p m oclock past "
    "to and or minutes weeks year of in - / , . may nov century bc ad once every over less than some usd % ii lake 4k"
)


@given(prediction=_TEXTS, reference=_TEXTS, question=_TEXTS)
def test_any_texts_can_be_compared(prediction: str, reference: str, question: str) -> None:
    assert matches_any(prediction, [reference], question=question) in {True, False}


@given(text=_TEXTS.filter(str.strip), question=_TEXTS)
def test_every_text_states_itself(text: str, question: str) -> None:
    assert matches_any(text, [text], question=question)


@pytest.mark.slow
@given(prediction=_TEXTS, reference=_TEXTS, question=_TEXTS)
def test_case_and_surrounding_space_do_not_matter(prediction: str, reference: str, question: str) -> None:
    verdict = matches_any(prediction, [reference], question=question)
    assert matches_any(f" {prediction}\n", [f"\t{reference} "], question=f" {question} ") is verdict
    loud, lower = prediction.upper(), prediction.casefold()
    # For some letters, the upper case does not casefold to the original letter.
    if loud.casefold() == lower:
        assert matches_any(loud, [reference], question=question) is verdict
    assert matches_any(prediction, [reference.casefold()], question=question.casefold()) is verdict


@given(text=_TEXTS)
def test_a_blank_prediction_states_nothing(text: str) -> None:
    assert not matches_any(" ", [text])


_STARTS = st.sampled_from(
    [*sorted(parsing._FIRST_WORDS), "x", "iv", "s", "'s", "hour", "5", "9:30", "1960", "\u00b2"]
)


@pytest.mark.slow
@given(text=_TEXTS | st.lists(_STARTS | _PIECES, max_size=8).map(" ".join))
def test_no_word_is_read_at_once_that_may_start_more(text: str) -> None:
    """The fast path for words that start no longer expression does not change the result of the parser."""
    every = MagicMock()
    every.__contains__.return_value = True
    with patch.object(parsing, "_FIRST_WORDS", every):
        expected = parsing.parse.__wrapped__(text)
    assert parsing.parse.__wrapped__(text) == expected


def test_readers_that_are_left_out_would_read_nothing() -> None:
    firsts = "10", "twenty", "1970", "9.30", "21st", "half", "a", "an", "over", "once", "every", "lake"
    lasts = "", "s", "m", "may", "12 may", "past ten", "century", "a week", "lake"
    for first, space, second, last in product(firsts, ("", " "), _FIGURE_WORDS.split(), lasts):
        lexemes = split_lexemes(fold(f"{first}{space}{second} {last}"))
        if dates.is_lone_number(lexemes, 0):
            assert dates.read_clock_time(lexemes, 0) is None
            assert dates.read_dates(lexemes, 0) == dates.read_years(lexemes, 0)
        starts_figure = parsing._read_rate_or_figures(lexemes, 0, None) is not None
        assert starts_figure or parsing._read_figures(lexemes, 0) is None
        assert not (starts_figure and parsing._lone_token(lexemes[0].text, lexemes[0].kind))
