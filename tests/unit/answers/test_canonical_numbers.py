"""Comparing numbers: words, digits, separators, fractions, ordinals, ranges and bounds."""

import pytest

from pytest_rageval.answers.canonical import matches_any


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("two hundred and six", "206"),
        ("1,200", "1200"),
        ("1200", "1,200"),
        ("3,000,000", "3 million"),
        ("4.5 million", "4,500,000"),
        ("twenty-two", "22"),
        ("a dozen", "12"),
        ("half a dozen", "6"),
        ("2nd", "second"),
        ("the second", "2nd"),
        ("21st", "twenty-first"),
        ("nineteen seventy-four", "1974"),
        ("three and a half", "3.5"),
        ("2½", "2.5"),
        ("two thirds", "2/3"),
        ("50%", "half"),
        ("0.5", "half"),
        ("75 percent", "three quarters"),
        ("40 per cent", "40%"),
        ("three hundred", "300"),
        ("minus five", "-5"),
        ("World War 2", "World War II"),
        ("the Second World War", "World War II"),
        ("Henry the Eighth", "Henry VIII"),
    ],
)
def test_one_number_in_two_writings_is_stated(prediction: str, reference: str) -> None:
    assert matches_any(prediction, [reference])


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("270", "206"),
        ("12,000", "1,200"),
        ("30 million", "3 million"),
        ("a quarter", "half"),
        ("60%", "40%"),
        ("-5", "5"),
        ("Henry VII", "Henry VIII"),
        ("twenty-third", "twenty-first"),
        ("12", "B12"),
        ("4", "4K"),
        ("two dogs and three cats", "3 dogs and 2 cats"),
        ("three players, six in reserve", "six players"),
    ],
)
def test_another_number_is_not_stated(prediction: str, reference: str) -> None:
    assert not matches_any(prediction, [reference])


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ("three months, or six months", False),
        ("three to six months", False),
        ("3-6 months", False),
        ("between three and six months", False),
        ("six months, with a review after three months", True),
        ("six months (three months for part-timers)", True),
    ],
)
def test_one_of_several_offered_numbers_is_no_statement(prediction: str, *, expected: bool) -> None:
    """The end of a range or a choice does not match a single number; a number with extra information does."""
    assert matches_any(prediction, ["six months"]) is expected


def test_a_range_states_the_same_range() -> None:
    assert matches_any("between three and six months", ["3-6 months"])
    assert not matches_any("six months", ["3-6 months"])


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("at most 20 pounds", "at least 20 pounds", False),
        ("after 09:30", "before 09:30", False),
        ("20 pounds", "up to 20 pounds", True),
        ("not above 20 pounds", "up to 20 pounds", True),
        ("no more than 20 pounds", "20 pounds", True),
    ],
)
def test_a_bound_may_be_left_out_but_not_reversed(prediction: str, reference: str, *, expected: bool) -> None:
    assert matches_any(prediction, [reference]) is expected


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("6,400 km", "about 6,437 km", True),
        ("2.4 billion years ago", "around 2.45 billion years ago", True),
        ("6,400 km", "6,437 km", False),
        ("500", "about 550", False),
    ],
)
def test_only_an_approximate_reference_is_stated_by_its_rounding(prediction, reference, *, expected):
    assert matches_any(prediction, [reference]) is expected


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("twice a year", "2 times per year", True),
        ("weekly", "once a week", True),
        ("twice a week", "once a week", False),
        ("every 180 days", "once every 180 days", True),
        ("26 pounds per month", "£26 a month", True),
        ("26 pounds a year", "26 pounds a month", False),
    ],
)
def test_rates_are_compared_by_their_period(prediction: str, reference: str, *, expected: bool) -> None:
    assert matches_any(prediction, [reference]) is expected


def test_a_row_of_digits_too_long_for_a_number_is_compared_as_a_word() -> None:
    """Thousands of digits are compared as text: equal digits match, other digits do not, and nothing is raised."""
    assert matches_any(f"code {'7' * 3000}", ["7" * 3000])
    assert not matches_any("7" * 3000, ["7" * 2999])
