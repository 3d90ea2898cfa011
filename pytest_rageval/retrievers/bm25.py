"""BM25, as a baseline and for examples."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from pytest_rageval.errors import InputError
from pytest_rageval.model import Document
from pytest_rageval.retrievers.documents import corpus_from
from pytest_rageval.retrievers.words import words

__all__ = ["BM25Retriever"]


class BM25Retriever:
    """Okapi BM25 over passages, by the package rank-bm25 with its k1 = 1.5, b = 0.75.

    Args:
        documents: strings, dicts or Documents, as a retriever may return them; at least one.

    Raises:
        InputError: it is no list of documents, or none of them has a word.
        CallableError: a document has no text.

    >>> search = BM25Retriever(["the cat sat", "a dog ran", "birds sing"])
    >>> [document.text for document in search("DOG!", 1)]
    ['a dog ran']
    """

    def __init__(self, documents: Iterable[object]) -> None:
        self.documents: Sequence[Document] = corpus_from(documents)
        tokens = [words(document.text) for document in self.documents]
        if not any(tokens):
            message = (
                f"BM25 needs passages with words, found {len(self.documents)} documents without any.\n"
                "Give it the corpus: strings, dicts with a text, or Documents."
            )
            raise InputError(message)
        self._index = BM25Okapi(tokens)
        self._postings: dict[str, tuple[NDArray[np.intp], NDArray[np.float64]]] = {}

    def __call__(self, query: str, k: int) -> list[Document]:
        """The k best documents, best first; of equal ones the earlier in the corpus."""
        scores = np.zeros(len(self.documents))
        for word in words(query):
            at, weights = self._posting(word)
            scores[at] += weights
        order = np.argsort(-scores, kind="stable")[:k]
        return [replace(self.documents[i], score=float(scores[i])) for i in order]

    def _posting(self, word: str) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The documents with a word, and what it adds to their scores.

        The package goes through all documents for every word of every query;
        its answer for a word is the same each time, so it is asked once.
        """
        if word not in self._postings:
            weights = self._index.get_scores([word])
            at = np.flatnonzero(weights)
            self._postings[word] = at, weights[at]
        return self._postings[word]
