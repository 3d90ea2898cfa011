"""From what a retriever returns to documents."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pytest_rageval.datatypes import Document
from pytest_rageval.errors import CallableError, InputError
from pytest_rageval.retrievers.documents import ID_NAMES, TEXT_NAMES, corpus_from, document_from


class _Method:
    """An object that has its text under a later name, and methods in the usual places."""

    content = "t"

    def text(self) -> str:
        return "not this"

    def id(self) -> str:
        return "not this"


class _Pair(NamedTuple):
    """A record, and no document with a score."""

    text: str
    id: int


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("t", Document("t")),
        ("", Document("")),
        (Document("t", "a", 0.5, {"m": 1}), Document("t", "a", 0.5, {"m": 1})),
        ({"text": "t"}, Document("t")),
        ({"text": "t", "id": 0}, Document("t", "0")),
        ({"text": "t", "content": "other", "id": "a", "_id": "b"}, Document("t", "a")),
        ({"text": None, "content": "t", "id": None, "doc_id": "a"}, Document("t", "a")),
        ({"text": "t", "score": 2}, Document("t", score=2.0)),
        ({"text": "t", "similarity": 0.5}, Document("t", score=0.5)),
        ({"text": "t", "score": "high"}, Document("t")),
        ({"text": "t", "metadata": {"doc_id": 7}}, Document("t", "7", metadata={"doc_id": 7})),
        ({"text": "t", "id": "a", "meta": {"id": "b"}}, Document("t", "a", metadata={"id": "b"})),
        ({"text": "t", "metadata": "none"}, Document("t")),
        (
            SimpleNamespace(page_content="t", metadata={"source": "s"}),
            Document("t", metadata={"source": "s"}),
        ),
        (SimpleNamespace(text="t", id_="n1", score=0.25, metadata={}), Document("t", "n1", 0.25)),
        (_Method(), Document("t")),
        ({"id": "a"}, Document("", "a")),
        (SimpleNamespace(content=None, id="a", meta={"m": 1}), Document("", "a", metadata={"m": 1})),
        (({"text": "t", "id": "a", "score": 1}, 0.5), Document("t", "a", 0.5)),
        (("t", 0.5), Document("t", score=0.5)),
        (_Pair("t", 7), Document("t", "7")),
        (
            SimpleNamespace(node=SimpleNamespace(get_content=lambda: "t", id_="a"), score=0.5),
            Document("t", "a", 0.5),
        ),
        (SimpleNamespace(node=SimpleNamespace(get_content=lambda: "t", text="x")), Document("x")),
        (SimpleNamespace(node="leaf", text="t"), Document("t")),
    ],
)
def test_text_id_score_and_metadata_are_found(item: Any, expected: Document) -> None:
    """Strings, dicts, Documents and the objects of frameworks all become documents."""
    assert document_from(item) == expected


@pytest.mark.parametrize("name", TEXT_NAMES)
@pytest.mark.parametrize("make", [dict, SimpleNamespace])
def test_every_usual_name_of_the_text(name: str, make: Any) -> None:
    """By key or by attribute."""
    assert document_from(make(**{name: "t"})).text == "t"


@pytest.mark.parametrize("name", ID_NAMES)
@pytest.mark.parametrize("make", [dict, SimpleNamespace])
def test_every_usual_name_of_the_id(name: str, make: Any) -> None:
    """By key or by attribute, or in the metadata."""
    assert document_from(make(text="t", **{name: "a"})).id == "a"
    assert document_from(make(text="t", metadata={name: "a"})).id == "a"


@pytest.mark.parametrize(
    ("item", "what"),
    [
        (None, "NoneType"),
        (7, "int"),
        (b"t", "bytes"),
        (("t", "u"), "tuple"),
        (("t", 0.5, 1), "tuple"),
        ({"txt": "t", "n": 1}, "dict with the keys txt, n"),
        ({"text": 5}, "dict with the keys text"),
        (SimpleNamespace(txt="t"), "SimpleNamespace"),
    ],
)
def test_an_item_without_text_is_named(item: Any, what: str) -> None:
    """The error says what the item is and where a text would be found."""
    with pytest.raises(CallableError) as caught:
        document_from(item)
    first, remedy = str(caught.value).split("\n")
    assert first == f"has no text: {what}."
    assert all(name in remedy for name in TEXT_NAMES)


@pytest.mark.parametrize("corpus", [["a", {"text": "b"}], ("a", "b"), iter(["a", "b"])])
def test_a_corpus_is_any_series_of_documents(corpus: object) -> None:
    """In its order, and read as a retriever's documents are."""
    assert [document.text for document in corpus_from(corpus)] == ["a", "b"]


@pytest.mark.parametrize(
    ("corpus", "kind"),
    [("corpus.jsonl", "str"), (b"text", "bytes"), ({"d1": "cats"}, "dict"), (None, "NoneType"), (3, "int")],
)
def test_a_corpus_that_is_no_list_is_refused(corpus: object, kind: str) -> None:
    """The letters of a file's name are no passages, nor are the ids of a dict."""
    with pytest.raises(InputError, match=f"Passages are given as a list, found {kind}: "):
        corpus_from(corpus)
