"""BM25, a baseline retriever for texts in any script."""

import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.ranking import Document
from pytest_rageval.lib.normal_forms import CharacterMap, is_word_character, normal_form
from pytest_rageval.lib.text import counted
from pytest_rageval.retrievers.documents import corpus_from


def words(text: str) -> list[str]:
    """Return the words of a text, case folded, without punctuation, in Unicode's compatibility form (NFKC).

    In scripts without spaces between words each character is a word. There is no stemming and no stop word list.

    >>> words("Größe: ﬁve ｋｇ, it’s 東京")
    ['grösse', 'five', 'kg', 'it', 's', '東', '京']
    """
    return normal_form("NFKC", text).casefold().translate(_WORD_CHARACTERS).split()


def _word_character(character: str) -> str:
    # In these scripts combining marks are separate tokens, unlike with `separate_unspaced`. Documents and queries are
    # split in the same way, and another split would change rankings.
    if not is_word_character(character):
        return " "
    return f" {character} " if unicodedata.name(character, "").startswith(_UNSPACED_SCRIPTS) else character


_UNSPACED_SCRIPTS: Final = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
_WORD_CHARACTERS: Final = CharacterMap(_word_character)

ENGLISH: Final = frozenset(
    words(
        """
        i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
        it its itself they them their theirs themselves what which who whom this that these those am is are was were be
        been being have has had having do does did doing a an the and but if or because as until while of at by for
        with about against between into through during before after above below to from up down in out on off over
        under again further then once here there when where why how all any both each few more most other some such no
        nor not only own same so than too very s t can will just don should now d ll m o re ve y ain aren couldn didn
        doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren won wouldn
        """
    )
)
"""English stop words: those of Snowball and nltk, as `words` splits them."""


class BM25Retriever:
    """Okapi BM25 over passages, by the package rank-bm25 with its k1 = 1.5, b = 0.75.

    Args:
        documents: strings, dicts or Documents, as a retriever may return them; at least one.
        stop_words: words that are ignored: "english" for `ENGLISH`, or a list of words; default: none.

    Raises:
        InputError: `documents` is not a list, no document has a word, or `stop_words` is a text other than "english".
        CallableError: a document has no text.

    >>> search = BM25Retriever(["the cat sat", "a dog ran", "birds sing"])
    >>> [document.text for document in search("DOG!", 1)]
    ['a dog ran']
    """

    def __init__(
        self, documents: Iterable[object], *, stop_words: Literal["english"] | Iterable[str] = ()
    ) -> None:
        self.documents: Sequence[Document] = corpus_from(documents)
        if isinstance(stop_words, str) and stop_words != "english":
            raise InputError(
                f'stop_words={stop_words!r:.60}: there is a list for "english".\nGive that, or a list of words.'
            )
        listed = ENGLISH if stop_words == "english" else stop_words
        self._stop_words = frozenset(word for text in listed for word in words(text))
        self._index = _Index(self._query_words(document.text) for document in self.documents)

    def __call__(self, query: str, k: int) -> list[Document]:
        """Return the k best documents, best first. Documents with equal scores are in the order of the corpus."""
        scores = np.zeros(len(self.documents))
        for word in self._query_words(query):
            found = self._index.entries.get(word)
            if found is not None:
                scores[self._index.documents[found]] += self._index.added[found]
        return [replace(self.documents[i], score=float(scores[i])) for i in _best_indices(scores, k)]

    def _query_words(self, text: str) -> list[str]:
        return [word for word in words(text) if word not in self._stop_words]


class _Index(BM25Okapi):  # type: ignore[misc]  # rank-bm25 has no types
    """The index of `BM25Okapi`, in arrays with an entry for each word of each document, ordered by word.

    `BM25Okapi` has a dict for each document, in which `get_scores` looks up each word of a query. Parameters, formulas
    and scores are the same.

    Attributes:
        entries: by word, the range of its entries.
        documents: of each entry, the index of the document.
        added: of each entry, the contribution of the word to the score of the document.
    """

    def __init__(self, corpus: Iterable[Sequence[str]]) -> None:
        super().__init__(corpus)
        idf, frequencies = np.array(list(self.idf.values())), np.bincount(self._words)
        ends = np.cumsum(frequencies).tolist()
        self.entries = dict(zip(self.idf, map(slice, [0, *ends], ends), strict=False))
        by_word = np.argsort(self._words, kind="stable")
        del self._words
        self.added = np.array(self._counts, np.float64)[by_word]
        self.documents = np.repeat(np.arange(self.corpus_size, dtype=np.int32), self._distinct)[by_word]
        del self._counts, self._distinct, by_word
        # In place: the arrays have millions of entries.
        norms = self.k1 * (1 - self.b + self.b * np.array(self.doc_len) / self.avgdl)
        divisors = norms[self.documents]
        divisors += self.added
        self.added *= self.k1 + 1
        self.added /= divisors
        del divisors
        self.added *= np.repeat(idf, frequencies)

    def _initialize(self, corpus: Iterable[Sequence[str]]) -> dict[str, int]:
        """Return the number of documents with each word, in the order of their first appearance."""
        numbers = defaultdict[str, int](count().__next__)
        self._words, self._counts, self._distinct = array("i"), array("i"), array("i")
        for document in corpus:
            counts = Counter(document)
            self._words.extend(map(numbers.__getitem__, counts))
            self._counts.extend(counts.values())
            self._distinct.append(len(counts))
            self.doc_len.append(len(document))
        self.corpus_size = len(self.doc_len)
        if not numbers:
            raise InputError(
                f"BM25 needs passages with words, found {counted(self.corpus_size, 'document')} without any.\n"
                "Give it the corpus: strings, dicts with a text, or Documents."
            )
        self.avgdl = sum(self.doc_len) / self.corpus_size
        return dict(zip(numbers, np.bincount(self._words).tolist(), strict=True))


def _best_indices(scores: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Return the indices of the k highest scores, highest first, equal scores by index."""
    # Most passages have no word of the query, and a partition of many equal scores is slow.
    candidates = np.flatnonzero(scores > 0)
    if len(candidates) < k:
        candidates = np.arange(len(scores))
    highest = scores[candidates]
    if k < len(candidates):
        # A partition, so that only the highest scores are sorted.
        best = highest >= np.partition(highest, -k)[-k]
        candidates, highest = candidates[best], highest[best]
    return candidates[np.argsort(-highest, kind="stable")][:k]
