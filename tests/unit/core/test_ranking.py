"""Documents, rankings, and their names in reports."""

import pytest

from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking, Span, excerpt

A, B = Document("alpha", "a"), Document("beta", "b")


def test_a_document_reads_as_its_text() -> None:
    """`str` of a document is its text, so that prompts can join documents like strings."""
    assert "\n".join(map(str, (A, B))) == "alpha\nbeta"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Document("x", "1"), Document("y", "1", 0.5, {"page": 2}), True),
        (Document("x", "1"), Document("x", "2"), False),
        (Document("x"), Document("x", score=0.5), True),
        (Document("x"), Document("y"), False),
        (Document("1"), Document("x", "1"), False),
        (Document("x", span=Span("a.md", 0, 1)), Document("x", span=Span("b.md", 0, 1)), False),
        (Document("x", span=Span("a.md", 0, 1)), Document("x", span=Span("a.md", 9, 10)), False),
        (Document("x", span=Span("a.md", 0, 1)), Document("x", score=1.0, span=Span("a.md", 0, 1)), True),
        (Document("x", "1", span=Span("a.md", 0, 1)), Document("x", "1", span=Span("b.md", 0, 1)), True),
    ],
)
def test_identity_is_the_id_or_else_the_text_at_its_place(one, other, *, same):
    assert (one.identity == other.identity) is same


def test_a_chunk_under_two_ids_is_one_document_and_two_chunks_of_one_are_two() -> None:
    first, same, other = (
        Document("x", name, chunk_id=chunk) for name, chunk in (("1", "c1"), ("2", "c1"), ("1", "c2"))
    )
    assert Ranking.of("?", [first, same]).documents == (first,)
    assert Ranking.of("?", [first, other]).documents == (first, other)


def test_documents_with_metadata_can_be_hashed() -> None:
    assert (
        len({Document("x", "1", metadata={"pages": [1]}), Document("x", "1", metadata={"pages": [1]})}) == 1
    )


@pytest.mark.parametrize(
    ("thing", "label"),
    [
        (Document("text", "kb-1"), "kb-1"),
        (Document("a  text\nof two lines"), '"a text of two lines"'),
        (Gold(id="kb-1", text="text"), "kb-1"),
        (Gold(text="text"), '"text"'),
        (Gold(source="a.md", start=3, end=9), "a.md[3:9]"),
    ],
)
def test_reports_name_things_by_what_they_have(thing: Document | Gold, label: str) -> None:
    assert thing.label == label


@pytest.mark.parametrize(("length", "cut"), [(57, False), (58, False), (59, True), (500, True)])
def test_an_excerpt_is_never_wider_than_asked(length: int, *, cut: bool) -> None:
    """An excerpt has at most 60 characters with its quotes, and an ellipsis if it was cut."""
    shown = excerpt("x" * length)
    assert len(shown) == min(length + 2, 60)
    assert ("…" in shown) is cut


def test_a_repeated_document_has_its_best_rank() -> None:
    ranking = Ranking.of("q", [A, A, B, Document("other text", "a"), Document("c"), Document("c")], 3)
    assert ranking.documents == (A, B, Document("c"))
    assert ranking.duplicates == 3


def test_a_ranking_is_cut_at_k() -> None:
    documents = [Document(str(n)) for n in range(5)]
    assert [len(Ranking.of("q", documents, k)) for k in (1, 3, 9, None)] == [1, 3, 5, 5]


@pytest.mark.parametrize(
    ("k", "missing", "surplus"), [(1, 0, 1), (2, 0, 0), (3, 1, 0), (9, 7, 0), (None, 0, 0)]
)
def test_a_ranking_knows_how_far_it_is_from_k(k: int | None, missing: int, surplus: int) -> None:
    ranking = Ranking.of("q", [A, B, A], k)
    assert (ranking.duplicates, ranking.missing, ranking.surplus) == (1, missing, surplus)


def test_documents_without_text_are_counted() -> None:
    documents = [A, Document("", "c"), Document(" \n", "d"), Document("", "e")]
    assert [Ranking.of("q", documents, k).textless for k in (1, 2, 4)] == [0, 1, 3]


def test_a_ranking_reads_as_a_sequence() -> None:
    ranking = Ranking.of("q", [A, B])
    assert (ranking[0], ranking[-1], ranking[:1], list(ranking)) == (A, B, (A,), [A, B])
    assert ranking.ids == ("a", "b")
    assert not Ranking.of("q", [])


@pytest.mark.parametrize(
    ("item", "is_member"),
    [
        ("a", True),
        ("alpha", False),
        (Document("whatever", "a"), True),
        (Document("alpha", "z"), False),
        (Document("gamma"), True),
        (Document("delta"), False),
        (None, False),
        (7, False),
    ],
)
def test_membership_asks_for_ids_and_documents(item: object, *, is_member: bool) -> None:
    """A string is an id, never a text; a document is found by id or, without one, by text."""
    assert (item in Ranking.of("q", [A, B, Document("gamma")])) is is_member


def test_a_document_without_an_id_is_found_by_its_text() -> None:
    assert Document("alpha") in Ranking.of("q", [A, B])
