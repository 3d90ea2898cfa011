"""BM25, a baseline retriever for texts in any script."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from pytest_rageval.core.data import Document
from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.text import CharacterMap, counted, is_word_character, normal_form
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
        tokens = [self._query_words(document.text) for document in self.documents]
        if not any(tokens):
            raise InputError(
                f"BM25 needs passages with words, found {counted(len(self.documents), 'document')} without any.\n"
                "Give it the corpus: strings, dicts with a text, or Documents."
            )
        self._word_weights = _word_weights(BM25Okapi(tokens))

    def __call__(self, query: str, k: int) -> list[Document]:
        """Return the k best documents, best first. Documents with equal scores are in the order of the corpus."""
        scores = np.zeros(len(self.documents))
        for word in self._query_words(query):
            if word in self._word_weights:
                indices, weights = self._word_weights[word]
                scores[indices] += weights
        return [replace(self.documents[i], score=float(scores[i])) for i in _best_indices(scores, k)]

    def _query_words(self, text: str) -> list[str]:
        return [word for word in words(text) if word not in self._stop_words]


def _word_weights(index: BM25Okapi) -> dict[str, tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """Return, for each word, the indices of the documents with the word, and its contribution to their scores.

    The formula is that of `BM25Okapi.get_scores`, which looks up a word in every document of the corpus at each query.
    """
    number = {word: i for i, word in enumerate(index.idf)}
    distinct = [len(counts) for counts in index.doc_freqs]
    word = np.fromiter((number[word] for counts in index.doc_freqs for word in counts), np.intp)
    count = np.fromiter((n for counts in index.doc_freqs for n in counts.values()), np.int64)
    length = np.repeat(index.doc_len, distinct)
    idf = np.fromiter(index.idf.values(), np.float64)[word]
    k1, b = index.k1, index.b
    added = idf * (count * (k1 + 1) / (count + k1 * (1 - b + b * length / index.avgdl)))
    by_word = np.argsort(word, kind="stable")
    ends = np.cumsum(np.bincount(word))[:-1]
    documents = np.repeat(np.arange(len(distinct)), distinct)[by_word]
    return dict(
        zip(number, zip(np.split(documents, ends), np.split(added[by_word], ends), strict=True), strict=True)
    )


def _best_indices(scores: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """Return the indices of the k highest scores, highest first, equal scores by index."""
    if k < len(scores):
        # A partition, so that only the highest scores are sorted.
        candidates = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
        return candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return np.argsort(-scores, kind="stable")
