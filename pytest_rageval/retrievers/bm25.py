"""BM25, as a baseline and for examples, with a tokenizer for any script."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from pytest_rageval.errors import InputError
from pytest_rageval.model import Document
from pytest_rageval.retrievers.documents import corpus_from
from pytest_rageval.text.scripts import normal_form

__all__ = ["BM25Retriever", "words"]

_SCRIPTS_WITHOUT_SPACES: Final = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


class _Separators(dict[int, str]):
    """A translation table that is filled as characters are met.

    Letters, digits and the marks that belong to them stay; all else becomes a
    space. Characters of scripts written without spaces stand alone.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if unicodedata.category(character)[0] not in "LMN":
            kept = " "
        elif unicodedata.name(character, "").startswith(_SCRIPTS_WITHOUT_SPACES):
            kept = f" {character} "
        else:
            kept = character
        self[code] = kept
        return kept


_SEPARATORS: Final = _Separators()


def words(text: str) -> list[str]:
    """The words of a text, case folded, without punctuation, in Unicode's compatibility form.

    Full-width and ligature forms are their plain ones. In scripts without
    spaces between words each character is a word. Nothing is stemmed and no
    word is stopped.

    >>> words("Größe: ﬁve ｋｇ, it’s 東京")
    ['grösse', 'five', 'kg', 'it', 's', '東', '京']
    """
    return normal_form("NFKC", text).casefold().translate(_SEPARATORS).split()


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
