"""How the question changes the comparison: yes and no, words of the question, places."""

import pytest

from pytest_rageval.answers.canonical import matches_any


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("Yes, it is free", "yes", True),
        ("Parking is free.", "yes", True),
        ("It is not free", "no", True),
        ("No, parking costs 5 pounds", "no", True),
        ("Typically, no", "no", True),
        ("yes", "Yes, it is free", True),
        ("no", "yes", False),
        ("It is not free", "yes", False),
        ("No, parking costs 5 pounds", "yes", False),
        ("I don't know", "yes", False),
        ("A garden", "yes", False),
        ("Yes, for five days", "Yes, up to 5 days", True),
        ("yes", "Yes, up to 5 days", False),
    ],
)
def test_yes_and_no_are_one_form_each(prediction: str, reference: str, *, expected: bool) -> None:
    """Repeating the question means yes, denying it means no; details in the reference are required."""
    assert matches_any(prediction, [reference], question="Is parking free for staff?") is expected


def test_true_and_false_answer_as_yes_and_no() -> None:
    assert matches_any("That is true", ["yes"], question="Is the claim that parking is free true?")
    assert matches_any("nope", ["no"])
    assert matches_any("no", ["false"])
    assert matches_any("yes", ["true"])
    assert not matches_any("false", ["yes"])


@pytest.mark.parametrize(
    ("prediction", "reference", "question", "expected"),
    [
        ("the Amazon", "Amazon River", "Which river is the longest?", True),
        ("the Amazon Basin", "Amazon River", "Which river is the longest?", False),
        ("the Amazon", "Amazon River", "", False),
        ("presiding judge", "District Judge", "Who presides in a district?", False),
        ("South Korea", "North Korea", "Did North Korea or South Korea win?", False),
        ("no Korea", "North Korea", "Which Korea won?", False),
    ],
)
def test_words_of_the_question_need_not_be_repeated(prediction, reference, question, *, expected):
    """A word of the question may be left out but not replaced, unless the question offers a choice."""
    assert matches_any(prediction, [reference], question=question) is expected


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("Madison", "Madison, Wisconsin", True),
        ("Wisconsin", "Madison, Wisconsin", False),
        ("Paris", "Paris, London and Rome", False),
    ],
)
def test_a_place_needs_no_region(prediction: str, reference: str, *, expected: bool) -> None:
    assert matches_any(prediction, [reference], question="Where is it?") is expected


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("Tulsa", "Tulsa (Oklahoma)", True),
        ("Tulsa, Oklahoma", "Tulsa (Oklahoma)", True),
        ("Oklahoma", "Tulsa (Oklahoma)", False),
        ("the IB", "International Border (IB)", True),
        ("football", "soccer / football", True),
    ],
)
def test_parentheses_and_slashes_in_a_reference(prediction: str, reference: str, *, expected: bool) -> None:
    """A parenthesis may be left out, an abbreviation in it may stand alone, and a slash separates alternatives."""
    assert matches_any(prediction, [reference]) is expected


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("Landover, Maryland", "FedExField in Landover, Maryland", True),
        ("Camping World Stadium", "Camping World Stadium in Orlando", True),
        ("foreign exchange", "foreign exchange market", True),
        ("San Francisco 49ers", "San Francisco Giants", False),
        ("the car park", "the north car park", False),
        ("the harbour of Orlando", "Camping World Stadium in Orlando", False),
        ("three foreign exchanges", "four foreign exchange markets", False),
    ],
)
def test_two_thirds_of_a_longer_reference_suffice(prediction: str, reference: str, *, expected: bool) -> None:
    """A detail of a long reference may be missing, but not a number or a distinguishing or replaced word."""
    assert matches_any(prediction, [reference], question="Where is it held?") is expected


def test_every_item_of_a_list_is_needed() -> None:
    assert not matches_any("copper and gold", ["copper, gold and silver"])
    assert matches_any("silver, copper, gold", ["copper, gold and silver"])
