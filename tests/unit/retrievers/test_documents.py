"""Converting what a retriever returns to documents."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pytest_rageval.calls.user_code import InvalidResult
from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.ranking import Document, Ranking, Retrieval, Span
from pytest_rageval.retrievers.documents import (
    ID_NAMES,
    TEXT_NAMES,
    corpus_from,
    document_from,
)
from pytest_rageval.retrievers.results import retrieval_from


class _Method:
    """An object with methods in place of the usual attributes, and its text in a less usual one."""

    content = "t"

    def text(self) -> str:
        return "not this"

    def id(self) -> str:
        return "not this"


@dataclass(frozen=True)
class _DocumentWithAddress(Document):
    url: str = ""


class _Pair(NamedTuple):
    """A record, not a pair of a document and a score."""

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
        ({"text": "t", "id": float("nan"), "doc_id": pd.NA}, Document("t")),
        (
            {"text": "t", "id": np.float32("nan"), "metadata": {"id": "b"}},
            Document("t", "b", None, {"id": "b"}),
        ),
        ({"text": float("nan"), "id": 2.0}, Document("", "2")),
        ({"text": "t", "id": np.float32(2)}, Document("t", "2")),
        ({"text": "t", "id": Decimal("2.0")}, Document("t", "2")),
        ({"text": "t", "id": "nan", "metadata": {"id": "b"}}, Document("t", "b", None, {"id": "b"})),
        ({"text": "t", "id": " b\n"}, Document("t", "b")),
        (Document("t", "None"), Document("t")),
        (Document("t", "b "), Document("t", "b")),
        ({"text": "t", "id": np.int64(2)}, Document("t", "2")),
        ({"text": "t", "id": UUID(int=1)}, Document("t", "00000000-0000-0000-0000-000000000001")),
        ({"text": "t", "id": b"doc-1"}, Document("t", "doc-1")),
        ({"text": "t", "id": b"\xff1"}, Document("t", "\\xff1")),
        ({"text": "t", "score": float("nan"), "similarity": 0.5}, Document("t", score=0.5)),
    ],
)
def test_text_id_score_and_metadata_are_found(item: Any, expected: Document) -> None:
    assert document_from(item) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("t", 5), Document("t", "5")),
        (("t", np.int64(5)), Document("t", "5")),
        (("t", 5.0), Document("t", "5")),
        (("t", b"a"), Document("t", "a")),
        (("t", UUID(int=1)), Document("t", "00000000-0000-0000-0000-000000000001")),
        (("t", float("nan")), Document("t")),
        ((None, "a"), Document("", "a")),
        (("t", "a", "high"), Document("t", "a")),
        (("t", "a", 1), Document("t", "a", 1.0)),
        (("t", "a", None, None), Document("t", "a")),
        (("t", "a", None, MappingProxyType({"m": 1})), Document("t", "a", None, {"m": 1})),
        (("t", None, 1, {"id": "b"}), Document("t", None, 1.0, {"id": "b"})),
        (("t", "a", None, {}, ("a.md", 1, 5)), Document("t", "a", span=Span("a.md", 1, 5))),
        (
            ("t", "a", None, {}, Span(PurePosixPath("a.md"), np.int64(1), 5)),
            Document("t", "a", span=Span("a.md", 1, 5)),
        ),
    ],
)
def test_a_document_of_the_users_has_the_types_of_its_fields(given: Any, expected: Document) -> None:
    """Fields of a `Document` are converted as the values of a dict are, without looking for other names."""
    document = document_from(Document(*given))
    assert document == expected
    assert type(document.id) in (str, type(None))
    assert type(document.metadata) is dict
    if document.span is not None:
        assert tuple(map(type, document.span)) == (str, int, int)


def test_a_document_with_the_right_types_is_the_same_object() -> None:
    document = Document("t", "a", 0.5, {"m": 1}, Span("a.md", 1, 5))
    assert document_from(document) is document


def test_a_document_of_a_subclass_keeps_its_fields() -> None:
    document = document_from(_DocumentWithAddress("t", 5, url="http://x"))
    assert document == _DocumentWithAddress("t", "5", url="http://x")


@pytest.mark.parametrize(
    "span", [("a.md", 1), ("a.md", 5, 5), ("", 1, 5), ("a.md", -1, 5), ("a.md", "1", 5), "a.md", 5]
)
def test_a_span_that_locates_nothing_is_an_error(span: Any) -> None:
    with pytest.raises(CallableError) as caught:
        document_from(Document("t", "a", span=span))
    assert str(caught.value) == (
        f"has an invalid span: {span!r}.\n"
        "Give Span(source, start, end): the file, and the offsets of the first character and after the last, "
        "such as Span('handbook.md', 120, 310); or None."
    )


@pytest.mark.parametrize("name", TEXT_NAMES)
@pytest.mark.parametrize("make", [dict, SimpleNamespace])
def test_every_usual_name_of_the_text(name: str, make: Any) -> None:
    assert document_from(make(**{name: "t"})).text == "t"


@pytest.mark.parametrize("name", ID_NAMES)
@pytest.mark.parametrize("make", [dict, SimpleNamespace])
def test_every_usual_name_of_the_id(name: str, make: Any) -> None:
    assert document_from(make(text="t", **{name: "a"})).id == "a"
    assert document_from(make(text="t", metadata={name: "a"})).id == "a"


@pytest.mark.parametrize(
    ("item", "description"),
    [
        (None, "NoneType"),
        (7, "int"),
        (b"t", "bytes"),
        (("t", "u"), "tuple"),
        (("t", 0.5, 1), "tuple"),
        ({"txt": "t", "n": 1}, "dict with the keys txt, n"),
        ({"text": 5}, "dict with the keys text"),
        (SimpleNamespace(txt="t"), "SimpleNamespace"),
        (Document(None), "Document"),
        (Document(5, "a"), "Document"),
    ],
)
def test_an_item_without_text_is_named(item: Any, description: str) -> None:
    with pytest.raises(CallableError) as caught:
        document_from(item)
    first, remedy = str(caught.value).split("\n")
    assert first == f"has no text: {description}."
    assert all(name in remedy for name in TEXT_NAMES)


@pytest.mark.parametrize(
    ("item", "hint"),
    [
        (["t", "u"], "Of a pair (documents, scores), return the documents or zip(documents, scores)."),
        (np.array([1, 2]), "Of a pair (documents, scores), return the documents or zip(documents, scores)."),
        (("a", "t"), 'Of rows, name the columns: [{"id": id, "text": text} for id, text in rows].'),
        (Retrieval(["t"]), "Return the Retrieval itself, not a list with it."),
        (7, 'Return an id as {"id": 7}.'),
        (np.int64(7), 'Return an id as {"id": 7}.'),
        (None, ""),
    ],
)
def test_a_usual_mistake_has_a_hint(item: Any, hint: str) -> None:
    with pytest.raises(CallableError) as caught:
        document_from(item)
    assert str(caught.value).split("\n")[1].partition("body.")[2].lstrip() == hint


@pytest.mark.parametrize("frames", [pd, pl])
def test_a_data_frame_is_its_rows(frames: Any) -> None:
    """Frames of pandas and polars are read alike, though a pandas column of ids with a gap has floats."""
    frame = frames.DataFrame({"id": [1, None], "text": ["a", "b"], "score": [0.5, None]})
    expected = [Document("a", "1", 0.5), Document("b")]
    assert retrieval_from(frame).documents == expected
    assert retrieval_from(Retrieval(frame)).documents == expected
    assert corpus_from(frame) == tuple(expected)


@pytest.mark.parametrize("returned", [{"a", "b"}, frozenset("a")])
@pytest.mark.parametrize("wrap", [lambda documents: documents, Retrieval])
def test_a_set_has_no_order(returned: Any, wrap: Any) -> None:
    """A set of documents is an error, because its order would differ from run to run."""
    with pytest.raises(InvalidResult) as caught:
        retrieval_from(wrap(returned))
    name = type(returned).__name__
    assert caught.value.found == f"returned {name}"
    assert caught.value.message == (
        f"returned {name} for {{question}}.\n"
        "Return a list of documents, best first: strings, dicts or Documents. A set has no order."
    )


@pytest.mark.parametrize("corpus", [["a", {"text": "b"}], ("a", "b"), iter(["a", "b"])])
def test_a_corpus_is_any_series_of_documents(corpus: object) -> None:
    """A corpus is any iterable, in its order, with items that are converted as a retriever's documents."""
    assert [document.text for document in corpus_from(corpus)] == ["a", "b"]


@pytest.mark.parametrize(
    ("corpus", "kind"),
    [
        ("corpus.jsonl", "str"),
        (b"text", "bytes"),
        ({"d1": "cats"}, "dict"),
        ({"cats"}, "set"),
        (None, "NoneType"),
        (3, "int"),
    ],
)
def test_a_corpus_that_is_no_list_is_refused(corpus: object, kind: str) -> None:
    with pytest.raises(InputError, match=f"^Passages are given as a list, found {kind}: "):
        corpus_from(corpus)


@pytest.mark.parametrize("identifier", [2.5, True, ["d1"], {"$oid": "d1"}, object()])
@pytest.mark.parametrize(
    "make", [lambda value: {"text": "t", "id": value}, lambda value: Document("t", value)]
)
def test_an_id_that_is_none_is_named(identifier: Any, make: Any) -> None:
    """A value that is no id is an error, and not printed to a text that no gold passage has."""
    kind = type(identifier).__name__
    with pytest.raises(
        CallableError, match=f"^has an id that is a {kind}: .*\nGive a text or an integer as its id"
    ):
        document_from(make(identifier))


def test_documents_whose_missing_ids_were_printed_stay_apart() -> None:
    """`str(None)` as the id of several documents does not make them one document."""
    documents = retrieval_from([{"id": "None", "text": "a"}, {"id": "None", "text": "b"}]).documents
    assert len(Ranking.of("q", [document_from(item) for item in documents])) == 2


@pytest.mark.parametrize(
    "item",
    [
        {"id": "a", "text": "t"},
        {"id": "a", "text": "t", "score": 0.5},
        {"id": "a", "text": "", "score": None},
        {"id": " a ", "text": "t"},
        {"id": "none", "text": "t"},
        {"id": "", "text": "t"},
        {"id": 7, "text": "t"},
        {"id": None, "text": "t"},
        {"id": "a", "text": None},
        {"id": "a", "text": ["t"]},
        {"id": "a", "text": "t", "score": 1},
        {"id": "a", "text": "t", "score": float("nan")},
        {"id": "a", "text": "t", "score": "0.5"},
        {"id": "a", "score": 0.5},
        {"text": "t", "score": 0.5},
        {"id": "a", "text": "t", "source": "a.md", "metadata": {"start_index": 0}},
    ],
)
def test_the_items_of_a_result_are_read_as_one_item_is(item: Any) -> None:
    [document] = retrieval_from([item]).documents
    assert repr(document) == repr(document_from(item))
    assert type(document.metadata) is dict


@pytest.mark.parametrize("key", ["text", "id"])
def test_the_usual_items_are_bounded_too(key: str) -> None:
    with pytest.raises(InvalidResult, match="1,000,001 characters"):
        retrieval_from([{"id": "a", "text": "t"} | {key: "x" * 1_000_001}])
