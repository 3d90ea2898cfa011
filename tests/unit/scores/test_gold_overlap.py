"""The part of a gold passage that a document holds, and the kind of the match."""

from typing import Any

import pytest

from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Span
from pytest_rageval.scores.gold_matching import matching_files, normalize_path, overlap

TEXT = "The Moon orbits Earth at an average distance of 384,400 km, about thirty times the diameter of Earth"


def _at(start: int, end: int, **fields: Any) -> Document:
    return Document(**{"text": "x", "span": Span("a.md", start, end), **fields})


def _gold(start: int, end: int, **fields: Any) -> Gold:
    return Gold(source="a.md", start=start, end=end, **fields)


@pytest.mark.parametrize(
    ("document", "parts"),
    [
        (_at(100, 200), ((0.0, 1.0),)),
        (_at(0, 900), ((0.0, 1.0),)),
        (_at(90, 150), ((0.0, 0.5),)),
        (_at(175, 300), ((0.75, 1.0),)),
        (_at(120, 130), ((0.2, 0.3),)),
        (_at(0, 100), ()),
        (_at(200, 300), ()),
        (_at(100, 200, span=Span("b.md", 100, 200)), ()),
        (_at(100, 200, span=Span("docs/a.md", 100, 200)), ((0.0, 1.0),)),
    ],
)
def test_spans_share_the_characters_that_both_have(document: Document, parts: Any) -> None:
    assert overlap(document, _gold(100, 200)) == (parts, "span")


@pytest.mark.parametrize(
    ("document", "gold", "kind", "whole"),
    [
        # After a change of the chunking, an id or a text may belong to another span.
        (_at(0, 9, id="c1", text=TEXT), _gold(50, 90, id="c1", text=TEXT), "span", False),
        (_at(50, 90, id="c7"), _gold(50, 90, id="c1"), "span", True),
        (Document(TEXT, "c1"), _gold(50, 90, id="c1"), "id", True),
        (Document(TEXT, "c1"), Gold("c2", TEXT), "id", False),
        (_at(50, 90, id="c1"), Gold("c1"), "id", True),
        (Document(TEXT, "c1"), Gold(text=TEXT), "same text", True),
        (Document(TEXT), Gold("c1", TEXT), "same text", True),
        (_at(0, 9, text=TEXT), Gold(text=TEXT), "same text", True),
        (Document(TEXT), _gold(0, 9, text=TEXT), "same text", True),
        (Document(f"Astronomy. {TEXT}."), Gold(text=TEXT), "text", True),
    ],
)
def test_spans_decide_then_ids_then_texts(document: Document, gold: Gold, kind: str, *, whole: bool) -> None:
    assert overlap(document, gold) == (((0.0, 1.0),) if whole else (), kind)


@pytest.mark.parametrize(
    ("document", "gold"),
    [
        (Document(TEXT), Gold("c1")),
        (Document(TEXT, "c1"), _gold(0, 9)),
        (_at(0, 9), Gold("c1")),
        (Document("?"), Gold(text="?!")),
    ],
)
def test_what_has_nothing_in_common_to_go_by_cannot_be_compared(document: Document, gold: Gold) -> None:
    """The overlap is None, not empty, if document and gold passage cannot be compared by span, id or words."""
    assert overlap(document, gold) is None


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (f"Of the sky.\n{TEXT.upper()}!", "", ""),
        ("THE MOON, orbits\nEarth - at an average “distance”", "", "of 384"),
        ("of 384,400 km, about thirty times the diameter of Earth. Mars has two.", "of 384", ""),
    ],
)
def test_texts_share_the_runs_of_words_that_both_have(text: str, start: str, end: str) -> None:
    def letters(words: str) -> int:
        return sum(map(str.isalnum, words))

    first = letters(TEXT.partition(start)[0]) if start else 0
    last = letters(TEXT.partition(end)[0]) if end else letters(TEXT)
    ((begin, stop),), kind = overlap(Document(text), Gold(text=TEXT))
    assert (begin, stop, kind) == pytest.approx((first / letters(TEXT), last / letters(TEXT), "text"))


def test_an_edit_hides_no_more_than_itself() -> None:
    """An edited passage overlaps before and after the edit, because both sides are runs of at least 8 words."""
    words = [f"w{n:02}" for n in range(20)]
    edited = [*words[:10], "so", "to", "speak", *words[11:]]
    parts = ((0, 0.5), (0.55, 1))
    assert overlap(Document(" ".join(edited)), Gold(text=" ".join(words))) == (parts, "text")


@pytest.mark.parametrize(
    ("document", "gold", "whole"),
    [
        ("x", "x y", False),
        ("x y z", "x y", True),
        ("the average distance of Mars, about thirty times the diameter of Phobos", TEXT, False),
        ("x y 東京は日本の首都", "東京は日本の", True),
    ],
)
def test_short_runs_are_chance(document: str, gold: str, *, whole: bool) -> None:
    """For a short gold passage, a run of more than half of its words is required."""
    assert overlap(Document(document), Gold(text=gold)) == (((0.0, 1.0),) if whole else (), "text")


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("a.md", "a.md", True),
        ("/srv/docs/a.md", "docs/a.md", True),
        ("./docs/a.md", "docs/a.md", True),
        ("C:\\docs\\a.md", "docs/a.md", True),
        ("https://example.org/docs/a.md", "a.md", True),
        ("docs/a.md", "other/a.md", False),
        ("docs/a.md", "docs", False),
        ("za.md", "a.md", False),
        ("A.md", "a.md", False),
        ("/", "a.md", False),
    ],
)
def test_one_path_may_be_the_end_of_the_other(a: str, b: str, *, same: bool) -> None:
    """Paths match if one is the end of the other by whole components, in either direction."""
    assert matching_files(a, [b]) == ({normalize_path(b)} if same else set())
    assert matching_files(b, [a]) == ({normalize_path(a)} if same else set())


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("index.md", {"index.md"}),
        ("./index.md", {"index.md"}),
        ("guide/index.md", {"guide/index.md"}),
        ("/srv/corpus/guide/index.md", {"guide/index.md", "index.md"}),
        ("de/index.md", {"index.md"}),
        ("setup.md", {"guide/setup.md", "faq/setup.md"}),
        ("none.md", set()),
    ],
)
def test_a_match_of_the_whole_path_precedes_a_match_of_its_end(source: str, files: set[str]) -> None:
    among = ["index.md", "guide/index.md", "guide\\setup.md", "faq/setup.md", "index.md"]
    assert matching_files(source, among) == files
