"""Comparing names: order, adjacency, titles, initials, short forms and initialisms."""

import pytest

from pytest_rageval.answers.canonical import matches_any


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("York", "New York"),
        ("New York", "York"),
        ("York New", "New York"),
        ("South Korea", "North Korea"),
        ("South Korea", "Korea"),
        ("Percy Shelley", "Mary Shelley"),
        ("John Smith", "Robert Smith"),
        ("P. Smith", "John Smith"),
        ("the vice president", "the president"),
        ("carbon monoxide", "carbon dioxide"),
        ("Shelley", "Mary Shelley"),
    ],
)
def test_another_name_is_not_stated(prediction: str, reference: str) -> None:
    """A name matches only if its words are together, in order, and not part of another name."""
    assert not matches_any(prediction, [reference])


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        ("New York City", "New York"),
        ("It was written by Mary Shelley in 1818.", "Mary Shelley"),
        ("Mary Wollstonecraft Shelley", "Mary Shelley"),
        ("Hugh Samuel Johnson", "Hugh S. Johnson"),
        ("Hugh Johnson", "Hugh S. Johnson"),
        ("Bhimrao Ramji Ambedkar", "B. R. Ambedkar"),
        ("Dr. B.R. Ambedkar", "B. R. Ambedkar"),
        ("Alexander Fleming", "Sir Alexander Fleming"),
        ("President Barack Obama", "Barack Obama"),
        ("Martin Luther King", "Martin Luther King Jr."),
        ("Bob Smith", "Robert Smith"),
        ("Leonardo Vinci", "Leonardo da Vinci"),
        ("Washington DC", "Washington, D.C."),
        ("weston super mare", "Weston-super-Mare"),
    ],
)
def test_a_usual_form_of_the_name_is_stated(prediction: str, reference: str) -> None:
    assert matches_any(prediction, [reference])


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("Shelley", "Mary Shelley", True),
        ("the novelist Shelley", "Mary Shelley", False),
        ("Percy Shelley", "Mary Shelley", False),
        ("Mary", "Mary Shelley", False),
        ("George Washington", "General George Washington", True),
        ("George Barnes", "George Warren Barnes", True),
        ("William Alan Friedle", "Will Friedle", True),
        ("Shelley, Mary", "Mary Shelley", True),
        ("director", "finance director", False),
        ("the council", "district councils", False),
    ],
)
def test_a_person_may_be_named_by_the_family_name(prediction: str, reference: str, *, expected: bool) -> None:
    assert matches_any(prediction, [reference], question="Who was it?") is expected


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("USA", "United States of America", True),
        ("the U.S.", "United States", True),
        ("the UK", "United Kingdom", True),
        ("ISS", "International Space Station", True),
        ("National Aeronautics and Space Administration", "NASA", True),
        ("CO2", "carbon dioxide", True),
        ("tell us", "United States", False),
        ("ISA", "International Space Station", False),
        ("it is", "Indian Space", False),
    ],
)
def test_initialisms_are_checked_letter_by_letter(prediction: str, reference: str, *, expected: bool) -> None:
    assert matches_any(prediction, [reference]) is expected
