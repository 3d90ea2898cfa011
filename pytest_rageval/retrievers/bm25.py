"""BM25, a baseline retriever for texts in any script."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from pytest_rageval.datatypes import Document
from pytest_rageval.errors import InputError
from pytest_rageval.plural import counted
from pytest_rageval.retrievers.documents import corpus_from
from pytest_rageval.tokenize import CharacterMap, is_word_character, normal_form

__all__ = ["ENGLISH", "BM25Retriever", "words"]


def words(text: str) -> list[str]:
    """Return the words of a text, case folded, without punctuation, in Unicode's compatibility form.

    In scripts without spaces between words each character is a word. Nothing is stemmed, no word is left out.

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
        stop_words: words that are not searched for: "english" for `ENGLISH`, or words of your own; default: none.

    Raises:
        InputError: documents is not a list, or no document has a word; or stop_words is another text.
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
        self._stop_words = frozenset(word for each in listed for word in words(each))
        tokens = [self._searched(document.text) for document in self.documents]
        if not any(tokens):
            raise InputError(
                f"BM25 needs passages with words, found {counted(len(self.documents), 'document')} without any.\n"
                "Give it the corpus: strings, dicts with a text, or Documents."
            )
        self._weights = _weights(BM25Okapi(tokens))

    def __call__(self, query: str, k: int) -> list[Document]:
        """The k best documents, best first; of equal ones the earlier in the corpus."""
        scores = np.zeros(len(self.documents))
        for word in self._searched(query):
            if word in self._weights:
                at, weights = self._weights[word]
                scores[at] += weights
        return [replace(self.documents[i], score=float(scores[i])) for i in _best(scores, k)]

    def _searched(self, text: str) -> list[str]:
        return [word for word in words(text) if word not in self._stop_words]


def _weights(index: BM25Okapi) -> dict[str, tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """The documents with each word, and what the word adds to their scores.

    The formula is that of `BM25Okapi.get_scores`, which counts a word in every document of the corpus, at each query.
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


def _best(scores: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    """The places of the k highest scores, highest first; of equal ones the first."""
    if k < len(scores):
        # Without sorting the rest.
        found = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
        return found[np.argsort(-scores[found], kind="stable")][:k]
    return np.argsort(-scores, kind="stable")
