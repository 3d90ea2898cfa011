"""Units and currencies: exact conversion, and the unit of a bare number."""

import pytest

from pytest_rageval.answers.canonical import matches_any


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("half a year", "six months"),
        ("six months", "half a year"),
        ("14 days", "two weeks"),
        ("a fortnight", "14 days"),
        ("1.5 hours", "90 minutes"),
        ("an hour and a half", "90 minutes"),
        ("1 hour 30 minutes", "90 minutes"),
        ("a month", "one month"),
        ("42 months", "three and a half years"),
        ("1 km", "1000 m"),
        ("750 kilograms", "750 kg"),
        ("2 feet", "24 inches"),
        ("5 feet 10 inches", "70 inches"),
        ("100 mph", "100 miles per hour"),
        ("50 square kilometres", "50 km²"),
        ("minus 5 °C", "-5 degrees Celsius"),
        ("0 degrees Celsius", "0 degrees"),
        ("£26", "26 pounds"),
        ("26 GBP", "£26"),
        ("3 million dollars", "$3m"),
        ("€1.5bn", "1.5 billion euros"),
        ("50 cents", "$0.50"),
        ("26 lb", "26 pounds"),
    ],
)
def test_a_quantity_in_another_exact_unit_is_stated(prediction: str, reference: str) -> None:
    """Units are converted if the ratio is exact; a currency symbol equals the word for the currency."""
    assert matches_any(prediction, [reference])


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("six weeks", "six months"),
        ("22 weeks", "22 days"),
        ("30 days", "one month"),
        ("750 g", "750 kg"),
        ("26 dollars", "26 pounds"),
        ("£26", "26 lb"),
        ("98 °F", "98 °C"),
        ("5 feet 9 inches", "5 feet 10 inches"),
        ("22", "22 days"),
        ("50", "50%"),
    ],
)
def test_the_same_number_of_another_unit_is_not_stated(prediction: str, reference: str) -> None:
    assert not matches_any(prediction, [reference])


@pytest.mark.parametrize(
    ("prediction", "reference", "question", "expected"),
    [
        ("22", "22 days", "How many days of leave are there?", True),
        ("22 days", "22", "How many days of leave are there?", True),
        ("22 weeks", "22", "How many days of leave are there?", False),
        ("750 g", "750", "How many kilograms may the lift carry?", False),
        ("0.75 tonnes", "750", "How many kilograms may the lift carry?", True),
        ("26", "£26", "How much is the allowance?", True),
        ("40", "40%", "What percentage works from home?", True),
        ("six", "six months", "How long is probation?", False),
    ],
)
def test_a_bare_number_has_the_unit_of_the_question(prediction, reference, question, *, expected):
    assert matches_any(prediction, [reference], question=question) is expected
