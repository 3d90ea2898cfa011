"""ROUGE, BLEU and METEOR of one answer against its references, by the packages that define them.

All take `(prediction, references)`: an answer, and one or more alternatives. They return the best score over the
references, in [0, 1], and 0.0 where no word is shared, a text has no words, or there are no references. They raise
InputError where the extra `overlap` is not installed.

ROUGE and METEOR compare letters and digits of any script in lower case, without punctuation; a character is a word in
scripts without spaces. On ASCII text these are the tokens of the package rouge-score, whose own tokenizer drops every
letter outside ASCII.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, Final

from pytest_rageval.errors import require
from pytest_rageval.text.tokenize import CharacterMap, fold, has_unspaced, is_word_character, set_apart

__all__ = ["bleu", "meteor", "rouge1", "rouge2", "rouge_l"]

EXTRA: Final = "overlap"

MOST_WORDS: Final = 20_000
"""Words of a text that are read where time or memory grows faster than the text."""

LONGEST_STEMMED: Final = 100
"""Characters of a word that is stemmed. The stemmer takes quadratic time for a word, and recurses."""


def rouge1(prediction: str, references: Sequence[str]) -> float:
    """ROUGE-1: F-measure of the words that both texts have, `2PR / (P + R)`.

    Words count as often as both have them; `P = shared / |prediction|` and `R = shared / |reference|`. Nothing is
    stemmed and no word is left out.

    Source: Lin (2004), by the package rouge-score.

    >>> rouge1("the cat sat", ["the cat ran", "a dog"])
    0.6666666666666666
    """
    return _rouge("rouge1", prediction, references)


def rouge2(prediction: str, references: Sequence[str]) -> float:
    """ROUGE-2: as `rouge1`, of pairs of neighbouring words.

    A text of a single word has no pair: its score is 0.0, even where both are equal.

    Source: Lin (2004), by the package rouge-score.

    >>> rouge2("the cat sat", ["the cat ran"])
    0.5
    """
    return _rouge("rouge2", prediction, references)


def rouge_l(prediction: str, references: Sequence[str]) -> float:
    """ROUGE-L: F-measure of the longest common subsequence of words, `2PR / (P + R)`.

    `P = length / |prediction|`, `R = length / |reference|`. Line breaks do not count: the whole text is one sequence
    (not the summary-level variant Lsum). Of each text the first 20,000 words are read.

    Source: Lin (2004). The package rouge-score fills a table of all pairs of words, which takes gigabytes for long
    texts; here the length is that of Hyyrö (2004), which is the same.

    >>> rouge_l("the cat then sat", ["the cat sat then"])
    0.75
    """
    fmeasure = require("rouge_score.scoring", extra=EXTRA, purpose="ROUGE").fmeasure
    ours = _words(prediction)[:MOST_WORDS]
    scores = []
    for reference in references:
        theirs = _words(reference)[:MOST_WORDS]
        length = _common_subsequence(ours, theirs)
        scores.append(fmeasure(length / len(ours), length / len(theirs)) if length else 0.0)
    return float(max(scores, default=0.0))


def bleu(prediction: str, references: Sequence[str]) -> float:
    """Sentence BLEU: geometric mean of the precision of 1 to 4-grams, times the brevity penalty.

    With sacrebleu's settings for a sentence: effective order (a text of two words is judged by its 1 and 2-grams),
    smoothing `exp` (the i-th order without a match counts as 1 / 2^i matches), tokenizer `13a`, upper and lower case
    distinct. In scripts without spaces each character is a token, as with sacrebleu's tokenizer `zh`; here also in
    Japanese, Thai and similar scripts.

    It is sacrebleu's score against each single reference, divided by 100, and the best of them; not the BLEU that
    merges the n-grams of all references.

    Source: Papineni et al. (2002); Chen and Cherry (2014), method 3; Post (2018), by the package sacrebleu.

    >>> round(bleu("the cat sat on the mat", ["the cat sat on a mat"]), 4)
    0.5373
    """
    score = _bleu().sentence_score
    ours = _for_bleu(prediction)
    scores = (score(ours, [_for_bleu(reference)]).score / 100 for reference in references)
    # The mean of logarithms may end a last bit above 1.
    return min(max(scores, default=0.0), 1.0)


def meteor(prediction: str, references: Sequence[str]) -> float:
    """METEOR without synonyms: weighted harmonic mean of P and R of aligned words, less a penalty.

    Words are aligned one to one, first equal ones, then those of equal Porter stem. The third stage, synonyms from
    WordNet, is left out, because WordNet has to be downloaded; the score is then mostly lower. With m aligned words
    in c chunks (runs that stand side by side in both texts), `P = m / |prediction|` and `R = m / |reference|`:

        F = P · R / (0.9 P + 0.1 R)        score = F · (1 - 0.5 (c / m)^3)

    Even equal texts are penalised: they score 0.5 with one word, 0.9375 with two, 0.9815 with three. A threshold for
    short answers must allow for it.

    Stems are English; words of other languages are in effect compared unstemmed. The alignment is that of nltk: from
    the right, with the last free occurrence, which is not always the one with the fewest chunks.

    Source: Lavie and Agarwal (2007), with alpha 0.9, beta 3, gamma 0.5, by the package nltk.

    >>> meteor("cats sleep", ["cat sleeps"])
    0.9375
    """
    nltk = require("nltk.translate.meteor_score", extra=EXTRA, purpose="METEOR")
    ours, stemmer = _words(prediction), _stemmer()
    scores = (
        nltk.single_meteor_score(
            _words(reference),
            ours,
            preprocess=str,
            stemmer=stemmer,
            wordnet=SimpleNamespace(synsets=lambda _word: ()),
            alpha=0.9,
            beta=3.0,
            gamma=0.5,
        )
        for reference in references
    )
    return float(max(scores, default=0.0))


_WORD_CHARACTERS: Final = CharacterMap(lambda character: character if is_word_character(character) else " ")


@lru_cache(maxsize=1 << 12)
def _words(text: str) -> tuple[str, ...]:
    # Not `normalize`, which drops articles: ROUGE and METEOR count every word.
    return tuple(set_apart(fold(text).translate(_WORD_CHARACTERS)).split())


@cache
def _stemmer() -> SimpleNamespace:
    """A stemmer for nltk, with a cache."""
    stem = lru_cache(maxsize=1 << 16)(
        require("nltk.stem.porter", extra=EXTRA, purpose="METEOR").PorterStemmer().stem
    )
    return SimpleNamespace(stem=lambda word: stem(word) if len(word) <= LONGEST_STEMMED else word)


@cache
def _scorer(name: str) -> Any:
    module = require("rouge_score.rouge_scorer", extra=EXTRA, purpose="ROUGE")
    return module.RougeScorer([name], tokenizer=SimpleNamespace(tokenize=_words))


@cache
def _bleu() -> Any:
    module = require("sacrebleu.metrics.bleu", extra=EXTRA, purpose="BLEU")
    return module.BLEU(effective_order=True, smooth_method="exp", tokenize="13a")


def _rouge(name: str, prediction: str, references: Sequence[str]) -> float:
    scorer = _scorer(name)
    scores = (scorer.score(reference, prediction)[name].fmeasure for reference in references)
    return float(max(scores, default=0.0))


def _common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest common subsequence, by the bits of integers."""
    places: dict[str, int] = {}
    for at, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << at
    every = (1 << len(one)) - 1
    open_places = every
    for word in other:
        met = open_places & places.get(word, 0)
        open_places = (open_places + met | open_places - met) & every
    return len(one) - open_places.bit_count()


def _for_bleu(text: str) -> str:
    """The text with unspaced characters, and the punctuation used with them, set apart."""
    return set_apart(text).translate(_CJK_SIGNS) if has_unspaced(text) else text


# The signs of CJK punctuation, and the full-width forms of ASCII.
_CJK_SIGNS: Final = {
    code: f" {chr(code)} "
    for code in (
        *range(0x3001, 0x3005),
        *range(0x3008, 0x3021),
        *range(0x3030, 0x3040),
        *range(0xFF00, 0xFFF0),
    )
}
