"""The ids of documents: of the chunk and of its document, at a path, and the field that has the gold ids."""

from dataclasses import replace
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.calls.user_code import InvalidResult
from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking, Span
from pytest_rageval.lib.spool import Spool
from pytest_rageval.retrievers.documents import document_from
from pytest_rageval.retrievers.fields import FieldSample, value_at
from pytest_rageval.retrievers.results import retrieval_from
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.rankings import spooled


def _node(node_id: str, document_id: str | None, text: str = "t") -> SimpleNamespace:
    node = SimpleNamespace(
        id_=node_id, ref_doc_id=document_id, get_content=lambda: text, metadata={"file_name": "a.md"}
    )
    return SimpleNamespace(node=node, score=0.5)


CHUNKS = [_node("n1", "kb-1", "t"), _node("n2", "kb-1", "u"), _node("n3", None, "v")]


def _ranking(returned: Any, **keywords: Any) -> Ranking:
    return Ranking.of("q", retrieval_from(returned, **keywords).documents, 5)


@pytest.mark.parametrize("in_spool", [False, True])
def test_a_node_has_the_id_of_its_document_and_its_own(*, in_spool: bool) -> None:
    """Chunks of one document are different documents of a ranking, which is searched for either id."""
    ranking = _ranking(CHUNKS)
    if in_spool:
        ranking = spooled(ranking, Spool())
    assert [(document.id, document.chunk_id) for document in ranking] == [
        ("kb-1", "n1"),
        ("kb-1", "n2"),
        ("n3", None),
    ]
    assert ranking.ids == ("kb-1", "kb-1", "n3")
    assert ranking.duplicates == 0
    assert all(name in ranking for name in ("kb-1", "n1", "n2", "n3"))
    assert "n4" not in ranking
    assert ranking[1] in ranking
    assert replace(ranking[1], chunk_id="n4") not in ranking


@pytest.mark.parametrize(
    ("gold", "labels"),
    [
        (["kb-1"], [1, 0, 0]),
        (["n2"], [0, 1, 0]),
        (["n3"], [0, 0, 1]),
        (["kb-1", "n3"], [1, 0, 1]),
        (["n4"], [0, 0, 0]),
    ],
)
def test_a_gold_passage_is_found_by_either_id(gold: list[str], labels: list[int]) -> None:
    """A gold passage that is a document is found once, at its first chunk; one that is a node at this node."""
    assert GoldMatch(_ranking(CHUNKS), [Gold(id=name) for name in gold]).labels == labels


@pytest.mark.parametrize(
    ("item", "path", "expected"),
    [
        ({"id": 7, "payload": {"text": "t", "doc_id": "kb-1"}}, "payload.doc_id", ("kb-1", "kb-1/7")),
        (SimpleNamespace(id=7, payload={"text": "t", "doc_id": 1}), "payload.doc_id", ("1", "1/7")),
        ({"text": "t", "metadata": {"a.b": {"c": "x"}}}, "metadata.a.b.c", ("x", "x/e5a1ef3c3a97")),
        (_node("n1", "kb-1"), "node.metadata.file_name", ("a.md", "a.md/n1")),
        (_node("n1", "kb-1"), "metadata.file_name", ("a.md", "a.md/n1")),
        (({"id": "a", "text": "t", "slug": PurePosixPath("x/y")}, 0.5), "slug", ("x/y", "x/y/a")),
        (Document("t", "a", metadata={"source": "b"}), "metadata.source", ("b", "b/a")),
        ({"id": "a", "text": "t"}, "id", ("a", None)),
        ({"id": "a", "text": "t", "slug": ["b"]}, "slug", ("b", "b/a")),
    ],
)
def test_the_id_at_a_path(item: Any, path: str, expected: tuple[str, str | None]) -> None:
    document = document_from(item, path)
    assert document.id == expected[0]
    if expected[1] is None or not expected[1].startswith("x/e5"):
        assert document.chunk_id == expected[1]


def test_chunks_without_ids_of_their_own_are_told_apart_by_their_texts() -> None:
    """With a path, passages of one document that have no id stay different documents of a ranking."""
    chunks = [{"text": text, "metadata": {"source": "kb-1"}} for text in ("t", "u", "t")]
    ranking = _ranking(chunks, id_path="metadata.source")
    assert (ranking.ids, ranking.duplicates) == (("kb-1", "kb-1"), 1)


def test_an_own_id_is_no_gold_id_if_a_path_is_given() -> None:
    """With a path, the gold id 3 is the document 3, and not the chunk 3 of the document 1."""
    items = [{"id": 3, "text": "t", "doc": 1}, {"id": 4, "text": "u", "doc": 3}]
    ranking = _ranking(items, id_path="doc")
    assert GoldMatch(ranking, [Gold(id="3")]).labels == [0, 1]


def test_a_document_without_the_field_is_an_error() -> None:
    items = [{"text": "t", "metadata": {"source": "a"}}, {"text": "t", "id": 1, "metadata": {"url": "b"}}]
    with pytest.raises(InvalidResult) as caught:
        retrieval_from(items, "metadata.source")
    assert caught.value.message == (
        "returned for {question}, at rank 2, a document that has no field metadata.source: it has id, metadata.url.\n"
        "The setting rageval_document_id names the field that every document has its id in."
    )


@pytest.mark.parametrize("path", ["x", "metadata.x", "text.upper", "metadata.source.x"])
def test_nothing_at_a_path(path: str) -> None:
    """A missing value and a method are no values."""
    assert value_at(SimpleNamespace(text="t", metadata={"source": "a"}), path) is None


def _sample(items: list[Any], gold: list[set[str]]) -> Any:
    sample = FieldSample()
    rankings = [_ranking([item], sample=sample) for item in items]
    return sample.gold_field(list(zip(rankings, map(frozenset, gold), strict=True)))


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda n: SimpleNamespace(id=f"u{n}", page_content="t", metadata={"source": f"kb-{n}"}), "metadata.source"),
        (lambda n: ({"id": f"u{n}", "text": "t", "metadata": {"source": f"kb-{n}"}}, 0.5), "metadata.source"),
        (lambda n: SimpleNamespace(id=n, payload={"text": "t", "doc": {"id": f"kb-{n}"}}), "payload.doc.id"),
        (lambda n: {"id": n, "entity": {"text": "t", "slug": [f"kb-{n}"]}}, "entity.slug"),
        (lambda n: {"text": f"t{n}", "slug": f"kb-{n}"}, "slug"),
        (lambda n: Document(f"t{n}", metadata={"slug": f"kb-{n}"}), "metadata.slug"),
    ],
)  # fmt: skip
def test_the_field_with_the_gold_ids_is_found(make: Any, path: str) -> None:
    """The path of the field is found in dicts, objects, pairs and documents, and can be given as the setting."""
    items = [make(n) for n in range(4)]
    found = _sample(items, [{f"kb-{n}"} for n in (0, 1, 9, 3)])
    assert (found.path, found.rankings, found.of) == (path, 3, 4)
    assert found.values == ("kb-0", "kb-1", "kb-3")
    assert document_from(items[0], found.path).id == "kb-0"


@pytest.mark.parametrize(
    ("make", "gold"),
    [
        (lambda n: {"id": f"kb-{n}", "text": "t", "slug": f"kb-{n}"}, lambda n: {f"kb-{n}"}),
        (lambda n: {"id": f"u{n}", "text": "t", "page": n}, lambda n: {str(n if n < 2 else 77)}),
        (lambda n: {"id": f"u{n}", "text": "t", "slug": f"kb-{n}"}, lambda n: {f"kb-{n + 1}"}),
        (lambda n: {"id": f"u{n}", "text": f"kb-{n}"}, lambda n: {f"kb-{n}"}),
    ],
    ids=["ids match", "short numbers by chance", "of other questions", "the text"],
)
def test_no_field_is_named_without_good_reason(make: Any, gold: Any) -> None:
    assert _sample([make(n) for n in range(4)], [gold(n) for n in range(4)]) is None


def test_a_chunk_keeps_its_span() -> None:
    """The other fields of a document are unchanged by the path."""
    document = Document("t", "a", 0.5, {"source": "b"}, Span("f", 1, 2))
    assert document_from(document, "metadata.source") == replace(document, id="b", chunk_id="b/a")
