"""The text that pytest prints if an assertion on a score or a ranking fails."""

import pytest

from pytest_rageval.core.outcome import Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.reports.failures import Room, explain_assertion


@pytest.mark.parametrize(
    ("op", "bound", "mirrored", "lost"),
    [
        (">=", 0.75, "<=", "3 of 4 questions are below 0.75"),
        (">", 0.5, "<", "2 of 4 questions are below 0.5"),
        ("<=", 0.2, ">=", "3 of 4 questions are above 0.2"),
        ("<", 0.25, ">", "2 of 4 questions are above 0.25"),
    ],
)
def test_a_comparison_is_explained_from_both_sides(score, op, bound, mirrored, lost):
    """`score >= 0.75` and `0.75 <= score` have the same text, which lists the questions beyond the bound."""
    lines = explain_assertion(op, score, bound, Room())
    assert lines == explain_assertion(mirrored, bound, score, Room())
    assert lines[0] == f"llm_reteval@2 {op} {bound:g}"
    assert lines[1] == f"llm_reteval@2 is 0.438: {lost}"
    assert lines[2].startswith("llm_reteval@2 = 0.438 (")


def test_without_v_the_questions_are_named_in_a_line(score: Score) -> None:
    assert explain_assertion(">=", score, 0.75, Room(10)) == [
        "llm_reteval@2 >= 0.75",
        "llm_reteval@2 is 0.438: 3 of 4 questions are below 0.75 (-v shows all): q…",
    ]


@pytest.mark.parametrize("op", ["in", "not in"])
def test_a_ranking_is_listed(op: str) -> None:
    ranking = Ranking("how?", (Document("Alpha", "kb-1"),))
    assert explain_assertion(op, "kb-112", ranking, Room(10)) == [
        f"'kb-112' {op} the documents",
        "retrieved for 'how?':",
        "  1. kb-1: Alpha",
    ]


@pytest.mark.parametrize(("op", "left", "right"), [(">=", 0.5, 0.7), ("in", "a", ["b"]), ("==", "a", "b")])
def test_other_assertions_are_pytests_own(op: str, left: object, right: object) -> None:
    assert explain_assertion(op, left, right, Room(10)) is None


@pytest.mark.parametrize("op", ["is", "in", "!="])
def test_other_comparisons_of_scores_are_pytests_own(score: Score, op: str) -> None:
    assert explain_assertion(op, score, 0.5, Room(10)) is None
