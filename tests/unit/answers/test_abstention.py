"""Whether a generator declined to answer."""

import pytest

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.prompts import ABSTENTION


@pytest.mark.parametrize(
    "answer",
    [
        ABSTENTION,
        f"  {ABSTENTION.capitalize()}.\n",
        "There is no information about this in the documents.",
        "No relevant information was found.",
        "The passages do not mention the colour.",
        "The documents don't say.",
        "The context does not contain the answer.",
        "The date is not given in the text.",
        "Sorry, I could not find an answer.",
        "I couldn\u2019t find the answer.",
        "I don't know.",
        "We cannot determine this.",
        "I am unable to answer",
        "Unknown.",
        "Unanswerable",
        "N/A",
        "Not stated",
        "not enough information",
        "Cannot be determined.",
    ],
)
def test_usual_ways_to_decline(answer: str) -> None:
    """The words asked for, and those that models use instead."""
    assert abstains(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "16 years",
        "No",
        "no one",
        "None",
        "Not before May",
        "No, it is free.",
        "Unknown Pleasures",
        "Notre-Dame",
        "It does not rain there.",
        "The documents are kept for ten years.",
        "I Know What You Did Last Summer",
        "He could not swim",
    ],
)
def test_answers_with_such_words_are_answers(answer: str) -> None:
    """A no, a negation and a title are answers."""
    assert not abstains(answer)
