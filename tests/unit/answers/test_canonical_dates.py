"""Comparing dates and times of day in their usual written forms."""

import pytest

from pytest_rageval.answers.canonical import matches_any


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("November 9, 1989", "9 November 1989"),
        ("9th of November 1989", "9 November 1989"),
        ("Nov. 9 , 1989", "9 November 1989"),
        ("09/11/1989", "9 November 1989"),
        ("11/09/1989", "9 November 1989"),
        ("9.11.1989", "9 November 1989"),
        ("1989-11-09", "9 November 1989"),
        ("May 1974", "1974"),
        ("It opened on May 4, 1974.", "1974"),
        ("May 4, 1974", "May 1974"),
        ("December 15, 2017", "December"),
        ("the fourth of July", "4 July"),
        ("1939-45", "1939\u20131945"),
        ("from 1939 to 1945", "1939-45"),
        ("October 30 and 31, 2000", "30\u201331 October 2000"),
        ("1965", "the 1960s"),
        ("the sixties", "the 1960s"),
        ("the '60s", "the 1960s"),
        ("the nineteenth century", "19th century"),
        ("1850", "19th century"),
        ("44 B.C.", "44 BC"),
        ("6th century BC", "the late 6th century BCE"),
        ("the month of May", "May"),
    ],
)
def test_an_equal_or_more_exact_date_is_stated(prediction: str, reference: str) -> None:
    assert matches_any(prediction, [reference])


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("1974", "May 4, 1974"),
        ("May 1974", "May 4, 1974"),
        ("9 November 1990", "9 November 1989"),
        ("8 November 1989", "9 November 1989"),
        ("13/11/1989", "11 November 1989"),
        ("in autumn", "9 November 1989"),
        ("the 1960s", "1965"),
        ("18th century", "1850"),
        ("44 AD", "44 BC"),
        ("early 1968", "late 1968"),
        ("they may go", "May"),
        ("in the second march", "10 March"),
    ],
)
def test_another_or_less_exact_date_is_not_stated(prediction: str, reference: str) -> None:
    assert not matches_any(prediction, [reference])


def test_the_year_suffices_where_a_year_is_asked_for() -> None:
    assert matches_any("1974", ["May 4, 1974"], question="In which year did it open?")
    assert matches_any("May 4", ["May 4, 1974"], question="On which day of 1974 did it open?")
    assert not matches_any("1974", ["May 4, 1974"], question="On what date did it open?")


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("9:30 am", "09:30", True),
        ("9.30 a.m.", "09:30", True),
        ("2 pm", "14:00", True),
        ("13:75", "14:15", False),
        ("half past nine", "9:30", True),
        ("a quarter to ten", "9:45", True),
        ("noon", "12:00", True),
        ("nine o'clock", "9 am", True),
        ("10:30", "09:30", False),
        ("4 pm", "14:00", False),
        ("21:30", "09:30", False),
        ("9:30 pm", "9:30 am", False),
    ],
)
def test_times_of_day_meet_on_one_clock(prediction: str, reference: str, *, expected: bool) -> None:
    assert matches_any(prediction, [reference]) is expected
