"""Canonical comparison accepts right answers whose syntax some wrong answers also have."""

import pytest

from pytest_rageval.answers.canonical import matches_any


@pytest.mark.parametrize(
    ("question", "answer", "reference"),
    [
        ("In which country is Machu Picchu?", "In Cusco, which lies in Peru.", "Peru"),
        (
            "Who was the successor of Lincoln?",
            "Lincoln, who was followed by Andrew Johnson.",
            "Andrew Johnson",
        ),
        ("Where is the Eiffel Tower?", "The Eiffel Tower is in Paris; it is in France.", "France"),
        ("What is the default timeout?", "The default timeout is 30 s; that is 30000 ms.", "30000 ms"),
        (
            "How much is the fee?",
            "The fee is either 5 or 10 dollars depending on the plan",
            "5 or 10 dollars",
        ),
        ("Where do I change my password?", "Under Settings or Account", "Settings"),
        ("When did it happen?", "Prior to World War II", "before World War II"),
    ],
)
def test_a_right_answer_with_a_second_clause_is_accepted(question: str, answer: str, reference: str) -> None:
    assert matches_any(answer, [reference], question=question)
