"""Dense retrieval: the passages whose embeddings are nearest to the query's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.ranking import Document
from pytest_rageval.extensions.embeddings.encoder import (
    RetrievalEncoder,
    TextEncoder,
    Vectors,
    shared_encoder,
)
from pytest_rageval.lib.text import counted
from pytest_rageval.retrievers.documents import corpus_from, document_list

Encode = Callable[[Sequence[str]], list[Vectors]]

STORED_AS: Final = "pytest_rageval.retrievers.dense"  # see calls.STORED_AS
BATCH: Final = 64  # queries per matrix product: 26 MB of scores for 100,000 passages
MARGIN: Final = 1e-5  # larger than the rounding error of a dot product in float32
UNIT_TOLERANCE: Final = 1e-2
"""The allowed deviation of a vector's length from 1; half precision causes about 0.001."""


class DenseRetriever:
    """Ranks passages by the cosine similarity of their embedding with that of the query, by exhaustive search.

    The corpus is encoded when the retriever is created, and stored as a matrix of float32: 154 MB for 100,000 passages
    of 384 dimensions.

    Args:
        documents: strings, dicts or Documents, as a retriever may return them; at least one.
        encoder: returns vectors of length 1. An encoder that treats questions and passages differently has the methods
            `queries` and `passages` besides `sentences`, as `SentenceEncoder`. Default: the packaged encoder, which
            caches embeddings in memory; the fixture `rageval_encoder` caches them on disk.

    Raises:
        InputError: there are no documents, or `documents` is not a list; the extra `dense` is not installed, or the
            model cannot be loaded; the encoder lacks a method, or returns vectors of another shape or length.
        CallableError: a document has no text.

    Source: Reimers and Gurevych (2019), Sentence-BERT.
    """

    def __init__(self, documents: Iterable[object], *, encoder: TextEncoder | None = None) -> None:
        self.documents: Sequence[Document] = corpus_from(documents)
        if not self.documents:
            raise InputError(
                "Dense retrieval needs passages, found none.\n"
                "Give it the corpus: strings, dicts with a text, or Documents."
            )
        self._encoder = encoder or shared_encoder()
        if not callable(getattr(self._encoder, "sentences", None)):
            raise InputError(
                f"The encoder {type(encoder).__name__} lacks the method sentences(texts).\n"
                "Give rageval_encoder, or for a model of sentence-transformers SentenceEncoder(name)."
            )
        dual = self._encoder if isinstance(self._encoder, RetrievalEncoder) else None
        self._encode_queries = dual.queries if dual else self._encoder.sentences
        self._encode_passages = dual.passages if dual else self._encoder.sentences
        self._matrix = self._encode(self._encode_passages, [document.text for document in self.documents])

    def __call__(self, query: str, k: int) -> list[Document]:
        """Return the k nearest documents, best first. Documents with equal scores are in the order of the corpus."""
        return self.search_many([query], k)[0]

    def nearest(self, passage: str, k: int) -> list[Document]:
        """Return the k documents nearest to a text that is encoded as a passage."""
        return self._search(self._encode_passages, [passage], k)[0]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Document]]:
        """Return the k nearest documents of each query. Batches of queries are much faster than single calls."""
        return self._search(self._encode_queries, queries, k)

    def _search(self, encode: Encode, texts: Sequence[str], k: int) -> list[list[Document]]:
        results = []
        for start in range(0, len(texts), BATCH):
            vectors = self._encode(encode, texts[start : start + BATCH])
            products = vectors @ self._matrix.T
            results += [self._rank(*row, k) for row in zip(vectors, products, strict=True)]
        return results

    def _encode(self, encode: Encode, texts: Sequence[str]) -> Vectors:
        vectors = encode(texts)
        shapes = {np.shape(vector) for vector in vectors}
        if len(vectors) != len(texts) or len(shapes) != 1 or len(next(iter(shapes))) != 1:
            found = ", ".join(map(str, sorted(shapes))) or "none"
            raise self._encoder_error(f"{len(vectors)} vectors of shape {found} for {len(texts)} texts")
        matrix = np.stack(vectors)
        lengths = np.linalg.norm(matrix, axis=1)
        # The comparison is written so that NaN fails it. A text without known words may have the zero vector.
        invalid = ~((np.abs(lengths - 1) <= UNIT_TOLERANCE) | (lengths == 0))
        if invalid.any():
            index = int(np.argmax(invalid))
            raise self._encoder_error(f"a vector of length {lengths[index]:.4g} for {texts[index]!r:.60}")
        return matrix

    def _encoder_error(self, found: str) -> InputError:
        return InputError(
            f"The encoder {type(self._encoder).__name__} gave {found}.\n"
            "It must return one vector per text, all of one dimension and of length 1, so that "
            "their product is the cosine."
        )

    def _rank(self, vector: Vectors, products: NDArray[np.float32], k: int) -> list[Document]:
        candidates = np.arange(len(products))
        if k < len(products):
            # With a margin, since these products are rounded: the exact scores decide.
            candidates = np.flatnonzero(products >= np.partition(products, -k)[-k] - MARGIN)
        # Computed for each row alone: in a matrix product the seventh decimal depends on the other rows.
        scores = (self._matrix[candidates].astype(np.float64) * vector).sum(axis=1)
        order = np.argsort(-scores, kind="stable")[:k]
        return [replace(self.documents[candidates[i]], score=float(scores[i])) for i in order]


class PooledRetriever:
    """Searches the query's own pool of documents, with a retriever that is created at the first query.

    Args:
        pools: the documents of each query, by the query; documents are as a retriever may return them.
        make: a function from documents to a retriever over them, sync or async, such as `BM25Retriever`, or
            `lambda documents: HyDERetriever(DenseRetriever(documents), llm)`.

    >>> from pytest_rageval import BM25Retriever
    >>> search = PooledRetriever({"cats?": ["a cat sat", "cats and dogs"], "dogs?": ["a dog ran"]}, BM25Retriever)
    >>> [document.text for document in search("dogs?", 3)]
    ['a dog ran']
    """

    def __init__(
        self,
        pools: Mapping[str, Iterable[object]],
        make: Callable[[Sequence[object]], Callable[[str, int], Any]],
    ) -> None:
        self._pools = pools
        self._make = make
        self._made: dict[str, Callable[[str, int], Any]] = {}

    def __call__(self, query: str, k: int) -> Any:
        """Call the retriever of the query's pool; return its result, which is awaitable if it is async.

        The result is [] for an empty pool. InputError if the query has no pool, or the pool is not a list of documents.
        """
        if query not in self._pools:
            raise InputError(
                f"There is no pool of passages for the query {query!r}, among {counted(len(self._pools), 'pool')}.\n"
                "Give each question of the eval set its pool, under exactly its text."
            )
        if query not in self._made:
            documents = document_list(self._pools[query])
            self._made[query] = self._make(documents) if documents else lambda _query, _k: []
        return self._made[query](query, k)
