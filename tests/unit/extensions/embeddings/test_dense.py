"""The built-in dense retriever, with an encoder whose vectors are known."""

from collections.abc import Sequence

import numpy as np
import pytest

from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.extensions.embeddings.dense import DenseRetriever
from pytest_rageval.extensions.embeddings.encoder import Vectors
from tests.unit.extensions.embeddings.planar import Planar, Turned

CORPUS = [
    {"id": "north", "text": "90"},
    {"id": "east", "text": "0", "metadata": {"page": 2}},
    {"id": "northeast", "text": "45"},
    {"id": "west", "text": "180"},
]


class Table:
    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self._vectors = vectors

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        return [np.array(self._vectors[text], np.float32) for text in texts]


def test_the_nearest_come_first_with_their_cosine() -> None:
    documents = DenseRetriever(CORPUS, encoder=Planar())("60", 3)
    assert [document.id for document in documents] == ["northeast", "north", "east"]
    assert [document.score for document in documents] == pytest.approx([0.965926, 0.866025, 0.5], abs=1e-6)
    assert (documents[2].text, documents[2].metadata) == ("0", {"page": 2})


def test_equal_scores_keep_the_order_of_the_corpus() -> None:
    rng = np.random.default_rng(0)
    query, same = (vector / np.linalg.norm(vector) for vector in rng.normal(size=(2, 384)))
    vectors = {"q": query, **{f"{n}": same for n in range(50)}, "best": query}
    search = DenseRetriever([*(f"{n}" for n in range(50)), "best"], encoder=Table(vectors))
    for k in (1, 2, 7, 50, 51, 60):
        expected = ["best", *(f"{n}" for n in range(50))][:k]
        assert [document.text for document in search("q", k)] == expected


def test_many_queries_are_as_one_by_one() -> None:
    encoder = Planar()
    search = DenseRetriever([f"{angle}" for angle in range(0, 360, 7)], encoder=encoder)
    queries = [f"{angle}" for angle in range(130)]
    results = search.search_many(queries, 5)
    assert [len(texts) for texts in encoder.asked] == [52, 64, 64, 2]
    assert results == [search(query, 5) for query in queries]
    assert search.search_many([], 5) == []


def test_the_nearest_of_many_are_exact() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3000, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    table = {f"p{n}": vector for n, vector in enumerate(vectors[10:])}
    table |= {f"q{n}": vectors[n] for n in range(10)}
    search = DenseRetriever([f"p{n}" for n in range(2990)], encoder=Table(table))
    for n in range(10):
        expected = [f"p{i}" for i in np.argsort(-(vectors[10:] @ vectors[n]))[:20]]
        assert [document.text for document in search(f"q{n}", 20)] == expected


def test_no_corpus_is_refused() -> None:
    with pytest.raises(InputError, match=r"Dense retrieval needs passages, found none"):
        DenseRetriever([], encoder=Planar())


def test_an_item_without_text_is_refused_before_it_is_encoded() -> None:
    encoder = Planar()
    with pytest.raises(CallableError, match="has no text: int"):
        DenseRetriever(["0", 7], encoder=encoder)
    assert not encoder.asked


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ({"a": [3.0, 4.0], "b": [1.0, 0.0]}, "a vector of length 5 for 'a'"),
        ({"a": [1.0, 0.0], "b": [float("nan"), 0.0]}, "a vector of length nan for 'b'"),
        ({"a": [1.0, 0.0], "b": [1.0]}, r"2 vectors of shape \(1,\), \(2,\) for 2 texts"),
        ({"a": [[1.0]], "b": [[1.0]]}, r"2 vectors of shape \(1, 1\) for 2 texts"),
    ],
    ids=["long", "not a number", "two dimensions", "matrices"],
)
def test_vectors_of_which_the_product_is_no_cosine_are_refused(vectors, message):
    with pytest.raises(InputError, match=f"The encoder Table gave {message}"):
        DenseRetriever(["a", "b"], encoder=Table(vectors))


def test_fewer_vectors_than_texts_are_refused() -> None:
    class Forgetful(Planar):
        def sentences(self, texts: Sequence[str]) -> list[Vectors]:
            return super().sentences(texts)[1:]

    with pytest.raises(InputError, match="The encoder Forgetful gave 3 vectors"):
        DenseRetriever(CORPUS, encoder=Forgetful())


@pytest.mark.parametrize("encoder", ["all-MiniLM-L6-v2", len])
def test_anything_but_an_encoder_is_refused(encoder: object) -> None:
    with pytest.raises(InputError, match=r"lacks the method sentences(?s:.*)SentenceEncoder\(name\)"):
        DenseRetriever(CORPUS, encoder=encoder)


def test_questions_and_passages_are_encoded_differently() -> None:
    search = DenseRetriever(CORPUS, encoder=Turned())
    assert [document.id for document in search("0", 2)] == ["northeast", "north"]
    assert search("0", 1)[0].score == pytest.approx(1)
    # `nearest` takes a text that is itself a passage, and encodes it as a passage.
    assert [document.id for document in search.nearest("0", 1)] == ["east"]
    assert search.nearest("0", 1)[0].score == pytest.approx(1)
