"""Parsing and removing the citations of an answer."""

import pytest

from pytest_rageval.answers.citations import parse_citations, without_citations


def test_a_worked_example() -> None:
    """Of five passages, 1 is cited twice and counts once; 0 and 7 are not passages and are hallucinated."""
    answer = "Marazan [1][3], Stephen Morris [1, 2], In the Wet [7] and On the Beach [0]."
    citations = parse_citations(answer, passages=5)
    assert citations.positions == (1, 3, 2)
    assert citations.hallucinated == (7, 0)
    assert without_citations(answer) == "Marazan, Stephen Morris, In the Wet and On the Beach."


@pytest.mark.parametrize(
    ("answer", "positions"),
    [
        ("[2]", (2,)),
        ("x [2][1][2]", (2, 1)),
        ("x [1, 3]", (1, 3)),
        ("x [ 1;3 ]", (1, 3)),
        ("x [1-3]", (1, 2, 3)),
        ("x [1–2, 4]", (1, 2, 4)),
        ("x [3-1]", (1, 2, 3)),
        ("Document [1] says", (1,)),
        ("x [01]", (1,)),
        ("x [1, 2, and 3]", (1, 2, 3)),
        ("x [1 and 3]", (1, 3)),
        ("x [1 & 3]", (1, 3)),
        ("x 【1】【2, 3】", (1, 2, 3)),
        ("x 【2†source 4】", (2,)),
        ("x [Passage 1]", (1,)),
        ("x [passages 1, 3]", (1, 3)),
        ("x [Doc. 1, Doc. 2]", (1, 2)),
        ("x [Source 1-3]", (1, 2, 3)),
        ("x [^1] [#2]", (1, 2)),
        ("x [٣]", (3,)),
        ("x [Chapter 1] [1 of 3] [and 1] [passage]", ()),
        ("x 【1] [1】", ()),
        ("", ()),
        ("x (1) 2 {3}", ()),
        ("x [sic] [] [,] [-1] [1.5] [a1] [²]", ()),
        ("x [1984] [1990-1995]", ()),
        ("x [1", ()),
        ("x [1][", (1,)),
    ],
)
def test_what_is_a_citation(answer: str, positions: tuple[int, ...]) -> None:
    """Citations are numbers of up to three digits in square brackets, alone, in lists and in ranges."""
    citations = parse_citations(answer, passages=5)
    assert (citations.positions, citations.hallucinated) == (positions, ())


@pytest.mark.parametrize(
    ("answer", "hallucinated"),
    [
        ("[0]", (0,)),
        ("[6]", (6,)),
        ("[5-7][6]", (7, 6)),
        ("[999]", (999,)),
        ("[1-999]", (999,)),
        ("[19-20]", (20,)),
        ("[0-3]", (0,)),
        ("[0-9]", (0, 9)),
    ],
)
def test_numbers_of_no_passage_are_hallucinated(answer: str, hallucinated: tuple[int, ...]) -> None:
    assert parse_citations(answer, passages=5).hallucinated == hallucinated


def test_without_passages_every_citation_is_hallucinated() -> None:
    assert parse_citations("[1][2]", passages=0).hallucinated == (1, 2)
    assert parse_citations("[0]", passages=0).hallucinated == (0,)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("[1] Paris", "Paris"),
        ("Paris [1] and Rome [2].", "Paris and Rome."),
        ("Paris [1]\n[2] Rome", "Paris\n Rome"),
        ("Paris[1][2]", "Paris"),
        ("Paris [Passage 1], Rome【2】", "Paris, Rome"),
        ("Paris [sic], 1984 [1984]", "Paris [sic], 1984 [1984]"),
        ("[1]", ""),
    ],
)
def test_citations_are_taken_out(answer: str, text: str) -> None:
    assert without_citations(answer) == text
