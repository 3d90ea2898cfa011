"""The shapes in which stores and frameworks return their documents. test_real_stores.py has the real packages."""

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from pytest_rageval.calls.user_code import InvalidResult, read_to_end
from pytest_rageval.core.ranking import Document
from pytest_rageval.retrievers.documents import document_from
from pytest_rageval.retrievers.results import retrieval_from


class _Prediction:
    """A record as of DSPy: it has keys and values, iterates over its keys, and is no `Mapping`."""

    def __init__(self, **fields: Any) -> None:
        self._store = fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._store)

    def keys(self) -> list[str]:
        return list(self._store)

    def __getitem__(self, key: str) -> Any:
        return self._store[key]


class _Model:
    """A model as of pydantic: it iterates over pairs of name and value."""

    model_fields = ("points",)

    def __init__(self, points: list[Any]) -> None:
        self.points = points

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(vars(self).items())


class _AsyncModel:
    """A model as of Semantic Kernel: its documents are an async generator."""

    model_fields = ("results",)

    @property
    def results(self) -> AsyncIterator[Any]:
        return self._results()

    async def _results(self) -> AsyncIterator[Any]:
        yield DICTS[0]

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter([("results", self.results)])


class _Results(NamedTuple):
    documents: Any
    scores: Any


class _Table:
    column_names = ("id", "text")

    def to_pylist(self) -> list[dict[str, Any]]:
        return [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]


class _Cursor:
    description = (("id", None), ("text", None))

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def fetchall(self) -> list[Any]:
        return self._rows


class _TantivyDocument:
    """A document of tantivy: its fields are lists, and no attributes."""

    def to_dict(self) -> dict[str, list[str]]:
        return {"doc_id": ["a"], "text": ["t"]}


A, B = Document("t", "a"), Document("u", "b")
TEXTS = [Document("t"), Document("u")]
SCORED = [Document("t", score=2.5), Document("u", score=1.5)]
DICTS = [{"id": "a", "text": "t"}, {"id": "b", "text": "u"}]


NODE = SimpleNamespace(node=SimpleNamespace(get_content=lambda: "t", id_="a"), score=1)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (_Prediction(passages=["t", "u"]), TEXTS),
        (_Prediction(passages=["t", "u"], indices=[0, 2]), TEXTS),
        (_Prediction(reasoning="because", context=["t", "u"]), TEXTS),
        ({"documents": []}, []),
        ({"documents": DICTS, "total": 2}, [A, B]),
        ({"input": "q", "context": DICTS, "answer": "yes"}, [A, B]),
        (
            {
                "ids": [["a", "b"]],
                "documents": [["t", "u"]],
                "metadatas": [[{"m": 1}, None]],
                "distances": [[0.5, 1.5]],
                "embeddings": None,
                "included": ["metadatas", "documents", "distances"],
            },
            [Document("t", "a", 0.5, {"m": 1}), Document("u", "b", 1.5)],
        ),
        ({"ids": ["a", "b"], "documents": ["t", "u"], "included": ["documents", "x"]}, [A, B]),
        ({"ids": [["a"]], "documents": None, "distances": [[0.5]]}, [Document("", "a", 0.5)]),
        ({"ids": [[]], "documents": [[]]}, []),
        ({"id": ("a", "b"), "text": ("t", "u")}, [A, B]),
        ({"doc_id": ["a"], "text": ["t"]}, [A]),
        ([{"doc_id": ["a"], "text": ["t"]}, _TantivyDocument()], [A, A]),
        (
            {
                "took": 1,
                "hits": {
                    "total": {"value": 1},
                    "hits": [{"_id": "a", "_score": 2, "_source": {"text": "t", "n": 1}}],
                },
            },
            [Document("t", "a", 2.0, {"n": 1})],
        ),
        ({"hits": {"hits": [{"_id": "a", "fields": {"text": ["t"]}}]}}, [A]),
        ({"retriever": {"documents": DICTS, "total": 2}}, [A, B]),
        (
            _Model([SimpleNamespace(id=7, score=0.5, payload={"text": "t", "doc_id": "a"})]),
            [Document("t", "7", 0.5, {"doc_id": "a"})],
        ),
        (
            SimpleNamespace(points=[{"id": "a", "payload": {"page_content": "t", "metadata": {"m": 1}}}]),
            [Document("t", "a", metadata={"m": 1})],
        ),
        (SimpleNamespace(source_nodes=[NODE]), [Document("t", "a", 1.0)]),
        ([{"id": "a", "properties": {"text": "t"}}], [A]),
        (
            [[{"id": 7, "distance": 0.5, "entity": {"text": "t", "doc_id": "a"}}]],
            [Document("t", "7", 0.5, {"doc_id": "a"})],
        ),
        ([{"text": "t", "id": "a", "_distance": 0.5}], [Document("t", "a", 0.5)]),
        (
            [{"id": "a", "score": 1, "metadata": {"text": "t", "m": 1}}],
            [Document("t", "a", 1.0, {"text": "t", "m": 1})],
        ),
        ([{"id": "a", "payload": {"lang": "en"}}], [Document("", "a", metadata={"lang": "en"})]),
        ([{"document": A, "score": 0.5}], [Document("t", "a", 0.5)]),
        ([SimpleNamespace(record=SimpleNamespace(id="a", text="t"), score=0.5)], [Document("t", "a", 0.5)]),
        ((DICTS, [2, 1]), [Document("t", "a", 2.0), Document("u", "b", 1.0)]),
        (([2.5, 1.5], ["t", "u"]), SCORED),
        ((["t", "u"], np.array([2.5, 1.5])), SCORED),
        (([["t", "u"]], [[2.5, 1.5]]), SCORED),
        ([["t", 2.5], ["u", 1.5]], SCORED),
        (_Results(np.array([["t", "u"]]), np.array([[2.5, 1.5]])), SCORED),
        (
            _Results(np.array([DICTS], dtype=object), np.array([[2.5, 1.5]])),
            [Document("t", "a", 2.5), Document("u", "b", 1.5)],
        ),
        (("the answer", DICTS), [A, B]),
        ((DICTS, 2), [A, B]),
        (([], None), []),
        (np.array([["t", "u"]]), TEXTS),
        (SimpleNamespace(to_list=lambda: DICTS), [A, B]),
        (_Table(), [Document("a", "1"), Document("b", "2")]),
        (_Cursor([("a", "t"), {"id": "b", "text": "u"}]), [A, B]),
        ([_Prediction(id="a", text="t")], [A]),
    ],
)
def test_a_shape_with_one_meaning_is_read(returned: Any, expected: list[Document]) -> None:
    assert retrieval_from(read_to_end(returned)).documents == expected


@pytest.mark.parametrize(
    ("returned", "what", "hint"),
    [
        ("one text", "str", "This is one text: return the documents that it was made of."),
        (_AsyncModel(), "_AsyncModel", "Read them in the retriever: [item async for item in found.results]."),
        (
            {"bm25": {"documents": DICTS}, "dense": {"documents": DICTS}},
            "dict with the fields bm25, dense",
            'Return the field with the documents, such as found["documents"].',
        ),
        (A, "Document", "This is one document: return [found]."),
        (DICTS[0], "dict with the fields id, text", "This is one document: return [found]."),
        (
            {"a": "t", "b": "u"},
            "dict with the fields a, b",
            'Of a dict from ids to texts: [{"id": id, "text": text} for id, text in found.items()].',
        ),
        (
            {"a": 1.5, "b": 2},
            "dict with the fields a, b",
            'Of a dict from ids to scores: [{"id": id} for id in sorted(found, key=found.get, reverse=True)].',
        ),
        (
            {"answer": "t", "n": 1},
            "dict with the fields answer, n",
            'Return the field with the documents, such as found["documents"].',
        ),
        (
            {"passages": ["t"], "context": ["u"]},
            "dict with the fields passages, context",
            'Return one of the fields: found["passages"].',
        ),
        (
            {"ids": [["a"], ["b"]], "documents": [["t"], ["u"]]},
            "documents of 2 queries",
            "Return those of one query.",
        ),
        (
            {"ids": ["a"], "documents": ["t", "u"]},
            "columns of different lengths, documents (2) and ids (1)",
            "",
        ),
        (
            (["t", "u"], ["a", "b"]),
            "tuple of 2 lists (texts)",
            'Say which list is which: [{"id": id, "text": text} for text, id in zip(*found)].',
        ),
        (
            (["t", "u"], [1, 2]),
            "tuple of 2 lists (texts and integers)",
            'Say which list is which: [{"id": id, "text": text} for text, id in zip(*found)].',
        ),
        ((DICTS, ["a", "b"]), "tuple of 2 lists (documents and texts)", "Return the documents: found[0]."),
        (
            (np.array([[3.0, 6.0]]), np.array([[0, 2]])),
            "tuple of 2 lists (decimals and integers)",
            "If these are positions in your corpus, return its passages: [corpus[position] for position in positions].",
        ),
        (
            _Results(np.array([[0, 2]]), np.array([[3.0, 6.0]])),
            "numbers as documents",
            "If these are positions in your corpus, return its passages: [corpus[position] for position in positions].",
        ),
        (
            [["t"], ["u"]],
            "list of 2 lists (texts)",
            "Of the results of several queries, return those of one: found[0].",
        ),
        (
            SimpleNamespace(all=lambda: DICTS),
            "SimpleNamespace",
            "Of this object, return what its method gives: found.all().",
        ),
    ],
)
def test_a_shape_with_several_meanings_is_an_error_with_the_line_to_write(returned, what, hint):
    with pytest.raises(InvalidResult) as caught:
        retrieval_from(read_to_end(returned))
    first, advice = caught.value.message.split("\n")
    assert first == f"returned {what} for {{question}}."
    assert advice == (f"Return a list of documents, best first: strings, dicts or Documents. {hint}".rstrip())


def test_a_field_of_a_part_that_has_no_text_is_no_text() -> None:
    """A part without text and id leaves the item's id; an item with neither is an error."""
    assert document_from({"id": "a", "fields": {"n": 1}}) == Document("", "a", metadata={"n": 1})
    assert document_from(SimpleNamespace(id="a", fields=SimpleNamespace(n=1))) == Document("", "a")
