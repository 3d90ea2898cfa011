"""Dense retrieval: the passages whose embeddings are nearest to the query's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pytest_rageval.datatypes import Document
from pytest_rageval.embeddings.encoder import RetrievalEncoder, TextEncoder, Vectors, shared_encoder
from pytest_rageval.errors import InputError
from pytest_rageval.plural import counted
from pytest_rageval.retrievers.documents import corpus_from, listed

__all__ = ["DenseRetriever", "PooledRetriever"]

Encode = Callable[[Sequence[str]], list[Vectors]]

BATCH: Final = 64  # queries multiplied with the corpus at a time: 26 MB of scores for 100,000 passages
MARGIN: Final = 1e-5  # more than the rounding error of a product in float32
UNIT_TOLERANCE: Final = 1e-2  # of a vector's length; models in half precision are off by about 0.001


class DenseRetriever:
    """Ranks passages by the cosine of their embedding with the query's, from the exact product with all.

    The corpus is encoded at once and held as a matrix of float32: 154 MB for 100,000 passages of 384 dimensions.

    Args:
        documents: strings, dicts or Documents, as a retriever may return them; at least one.
        encoder: gives vectors of length 1. One that treats questions and passages differently has the methods
            `queries` and `passages` besides `sentences`, as `SentenceEncoder`. Default: the packaged one, which
            caches embeddings in memory; the fixture `rageval_encoder` caches them on disk.

    Raises:
        InputError: there are no documents, or they are no list; the extra `dense` is not installed, or the model
            cannot be loaded; the encoder is unusable, or gives other vectors.
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
        apart = self._encoder if isinstance(self._encoder, RetrievalEncoder) else None
        self._encode_queries = apart.queries if apart else self._encoder.sentences
        self._encode_passages = apart.passages if apart else self._encoder.sentences
        self._matrix = self._encoded(self._encode_passages, [document.text for document in self.documents])

    def __call__(self, query: str, k: int) -> list[Document]:
        """Return the k nearest documents, best first; of equal ones the earlier in the corpus."""
        return self.search_many([query], k)[0]

    def nearest(self, passage: str, k: int) -> list[Document]:
        """Return the k documents nearest to a text that is encoded as a passage."""
        return self._search(self._encode_passages, [passage], k)[0]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Document]]:
        """Return the k nearest documents of each query; in batches, which is much faster than one by one."""
        return self._search(self._encode_queries, queries, k)

    def _search(self, encode: Encode, texts: Sequence[str], k: int) -> list[list[Document]]:
        found = []
        for start in range(0, len(texts), BATCH):
            vectors = self._encoded(encode, texts[start : start + BATCH])
            products = vectors @ self._matrix.T
            found += [self._ranked(*row, k) for row in zip(vectors, products, strict=True)]
        return found

    def _encoded(self, encode: Encode, texts: Sequence[str]) -> Vectors:
        vectors = encode(texts)
        shapes = {np.shape(vector) for vector in vectors}
        if len(vectors) != len(texts) or len(shapes) != 1 or len(next(iter(shapes))) != 1:
            found = ", ".join(map(str, sorted(shapes))) or "none"
            raise self._unusable(f"{len(vectors)} vectors of shape {found} for {len(texts)} texts")
        matrix = np.stack(vectors)
        lengths = np.linalg.norm(matrix, axis=1)
        # This form rejects NaN too. A text without known words may be at 0, near to nothing.
        wrong = ~((np.abs(lengths - 1) <= UNIT_TOLERANCE) | (lengths == 0))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise self._unusable(f"a vector of length {lengths[at]:.4g} for {texts[at]!r:.60}")
        return matrix

    def _unusable(self, found: str) -> InputError:
        return InputError(
            f"The encoder {type(self._encoder).__name__} gave {found}.\n"
            "It gives one vector a text, all of one dimension and divided by "
            "their length, so that their product is the cosine."
        )

    def _ranked(self, vector: Vectors, products: NDArray[np.float32], k: int) -> list[Document]:
        near = np.arange(len(products))
        if k < len(products):
            # All that may equal the last of the k highest products.
            near = np.flatnonzero(products >= np.partition(products, -k)[-k] - MARGIN)
        # Row by row: in a product of matrices the seventh decimal depends on the other rows.
        scores = (self._matrix[near].astype(np.float64) * vector).sum(axis=1)
        order = np.argsort(-scores, kind="stable")[:k]
        return [replace(self.documents[near[i]], score=float(scores[i])) for i in order]


class PooledRetriever:
    """Searches the pool of the query with a retriever that is made at its first use.

    Args:
        pools: for each query its documents, as a retriever may return them.
        make: from documents to a retriever over them, sync or async, such as `BM25Retriever`, or `lambda documents:
            HyDERetriever(DenseRetriever(documents), llm)`.

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
        """Call the retriever of the query's pool; the result is awaitable where it is async, and [] for an empty pool.

        InputError if the query has no pool, or its pool is not a list of documents.
        """
        if query not in self._pools:
            raise InputError(
                f"There is no pool of passages for the query {query!r}, among {counted(len(self._pools), 'pool')}.\n"
                "Give each question of the eval set its pool, under exactly its text."
            )
        if query not in self._made:
            documents = listed(self._pools[query])
            self._made[query] = self._make(documents) if documents else lambda _query, _k: []
        return self._made[query](query, k)
