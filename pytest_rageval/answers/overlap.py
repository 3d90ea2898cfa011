"""Overlap of an answer with its references: exact match, token F1 and recall, containment, ROUGE, BLEU and METEOR.

Each measure takes an answer (`prediction`) and its alternative `references`. It returns the best score over the
references, in [0, 1]; 0.0 if the texts share no word, a text has no words, or there are no references.

Exact match, F1, recall and containment compare SQuAD's tokens, in any script. ROUGE, BLEU and METEOR use the packages
that define them, and raise InputError if the extra `overlap` is not installed. ROUGE and METEOR compare letters and
digits of any script in lower case, without punctuation. In scripts without spaces each character is a word. On ASCII
text these words are the tokens of the package rouge-score, whose own tokenizer drops every letter outside ASCII.

Source: Rajpurkar et al. (2016), SQuAD, the official evaluation script; further sources are named at the measures.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, Final

from pytest_rageval.core.errors import require
from pytest_rageval.lib.normal_forms import (
    CharacterMap,
    fold,
    has_unspaced,
    is_word_character,
    join_unspaced,
    separate_unspaced,
)

EXTRA: Final = "overlap"

MAX_SUBSEQUENCE_WORDS: Final = 20_000
"""ROUGE-L uses at most this many words of a text, because its time grows with the product of both lengths."""

MAX_STEMMED_LENGTH: Final = 100
"""A longer word is not stemmed: the stemmer's time is quadratic in the length of a word, and it recurses."""


def exact_match(prediction: str, references: Sequence[str]) -> float:
    """Return 1.0 if the prediction equals one of the references in normal form, otherwise 0.0.

    >>> exact_match("the Beatles", ["Beatles", "The Fab Four"])
    1.0
    """
    return float(any(normalize(prediction) == normalize(reference) for reference in references))


def token_f1(prediction: str, references: Sequence[str]) -> float:
    """Return the F1 of the tokens that prediction and reference share, in [0, 1].

    Tokens are the words of the normal form, as multisets: a repeated token counts as often as it occurs in both texts.
    `2PR / (P + R)` with `P = shared / |prediction|` and `R = shared / |reference|`; 0 if no token is shared.

    If both texts have characters of scripts without spaces between words, each such character with its marks is a token
    (see `separate_unspaced`). If only one text has them, a run of them is one token, as in SQuAD: a Chinese name of
    four characters in an English answer counts as one wrong word, not as four.

    >>> token_f1("eleven minutes", ["about eleven minutes"])
    0.8
    >>> token_f1("東京", ["東京都"])
    0.8
    """
    counts = (_count_tokens(prediction, reference) for reference in references)
    scores = (
        2 * shared / (predicted + expected) if shared else 0.0 for shared, predicted, expected in counts
    )
    return max(scores, default=0.0)


def token_recall(prediction: str, references: Sequence[str]) -> float:
    """Return the share of a reference's tokens that the prediction contains, in [0, 1], with tokens as for `token_f1`.

    `R = shared / |reference|`, so a whole sentence loses nothing in comparison with a short reference. Its other words
    do not count, not even a negation.

    Source: Adlakha et al. (2024), "Evaluating correctness and faithfulness of instruction-following models for
    question answering". There it is the lexical measure that agrees most with people on long answers.

    >>> token_recall("It takes about eleven minutes.", ["eleven minutes", "660 seconds"])
    1.0
    >>> token_recall("eleven hours", ["eleven minutes"])
    0.5
    """
    counts = (_count_tokens(prediction, reference) for reference in references)
    return max((shared / expected if shared else 0.0 for shared, _, expected in counts), default=0.0)


def containment(prediction: str, references: Sequence[str]) -> float:
    """Return 1.0 if the tokens of a reference occur in the prediction, adjacent and in order, otherwise 0.0.

    Tokens are whole words of the normal form ("art" is not in "party"), and single characters in scripts without
    spaces between words (京 is in 東京). The prediction may be a passage. Its other words do not count, not even a
    negation. A blank reference occurs in no text.

    Source: the check "has answer" of open-domain question answering, Chen et al. (2017).

    >>> containment("It was the Beatles, of course.", ["Fab Four", "Beatles"])
    1.0
    """
    tokens = _padded_tokens(prediction)
    return float(
        any(normalize(reference) and _padded_tokens(reference) in tokens for reference in references)
    )


@lru_cache(maxsize=1 << 16)
def normalize(answer: str) -> str:
    """Return an answer in SQuAD's normal form: lower case, no punctuation, no English articles, single spaces.

    For ASCII text the result is that of SQuAD's script. SQuAD leaves all other characters unchanged. Here also

    - case is folded, and full-width forms, ligatures and decimal digits of every script become ordinary ones (see
      `fold`);
    - punctuation of every script («», „“, 。、, ¿¡, …) and invisible characters are removed; currency and mathematical
      symbols are kept;
    - spaces next to characters of scripts without spaces between words are removed, because Chinese, Japanese and Thai
      texts may have them or not.

    In two cases these rules would change SQuAD's published scores, and SQuAD's rule is used: a dash between two spaces
    (word – word) stays a token, and single quotation marks around words (‘word’) are kept. The apostrophe (it’s) is
    removed as in ASCII, and so are double quotation marks.

    An answer that consists of articles and punctuation ("The", "?!") keeps its folded form. Otherwise all such answers
    would be equal.

    >>> normalize("The  Beatles!"), normalize("«Ｂｅｙｏｎｃé»"), normalize("東京 。")
    ('beatles', 'beyoncé', '東京')
    """
    folded = fold(answer)
    text = folded.translate(_ASCII_PUNCTUATION)
    if not text.isascii():
        text = _DASH_NOT_BETWEEN_SPACES.sub("", " ".join(text.translate(_OTHER_PUNCTUATION).split()))
        # Without an opening quotation mark, every closing one is an apostrophe.
        text = _APOSTROPHE.sub("", text) if _OPENING in text else text.replace(_CLOSING, "")
    return join_unspaced(" ".join(_ARTICLES.sub(" ", text).split()) or " ".join(folded.split()))


def _strip_character(character: str) -> str:
    category = unicodedata.category(character)
    if character in _WORD_SEPARATORS:
        return " "
    if character in _KEPT_BY_SQUAD:
        return character
    # "Cf" is the category of invisible format characters.
    removed = category[0] == "P" or category == "Cf" or character in _TYPED_FOR_PUNCTUATION
    return "" if removed or ord(character) in _VARIATION_SELECTORS else character


_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_ASCII_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_OTHER_PUNCTUATION: Final = CharacterMap(_strip_character)

# Letters, an accent and the minus sign, which people type for an apostrophe or a hyphen.
_TYPED_FOR_PUNCTUATION: Final = frozenset("\u02bb\u02bc\u00b4\u2212")
# Tibetan and Ethiopic separators of words or syllables.
_WORD_SEPARATORS: Final = frozenset("\u0f0b\u0f0c\u1361")
_VARIATION_SELECTORS: Final = range(0xFE00, 0xFE10)

# SQuAD keeps dashes between spaces and single quotation marks around words. Elsewhere they are removed.
_DASHES: Final = "\u2013\u2014\u2015"
_OPENING, _CLOSING = "\u2018\u2019"
_KEPT_BY_SQUAD: Final = frozenset({*_DASHES, _OPENING, _CLOSING})
_DASH_NOT_BETWEEN_SPACES: Final = re.compile(rf"(?<!\S\s)[{_DASHES}]|[{_DASHES}](?!\s\S)")
_APOSTROPHE: Final = re.compile(rf"(?<=\w)[{_OPENING}{_CLOSING}](?=\w)")


def _count_tokens(prediction: str, reference: str) -> tuple[int, int, int]:
    texts = normalize(prediction), normalize(reference)
    by_character = all(map(has_unspaced, texts))
    predicted, expected = (separate_unspaced(text, by_character=by_character).split() for text in texts)
    # `isdisjoint` is faster than counting, and most wrong answers share no token.
    shared = 0 if set(predicted).isdisjoint(expected) else (Counter(predicted) & Counter(expected)).total()
    return shared, len(predicted), len(expected)


def _padded_tokens(answer: str) -> str:
    """Return the tokens with a space around each, so that a search finds whole words only."""
    return f" {' '.join(separate_unspaced(normalize(answer)).split())} "


def rouge1(prediction: str, references: Sequence[str]) -> float:
    """Return ROUGE-1: the F-measure of shared words, `2PR / (P + R)`, with P and R as for `token_f1`.

    Words are not stemmed, and no word is left out. Source: Lin (2004), by the package rouge-score.

    >>> rouge1("the cat sat", ["the cat ran", "a dog"])
    0.6666666666666666
    """
    return _rouge("rouge1", prediction, references)


def rouge2(prediction: str, references: Sequence[str]) -> float:
    """Return ROUGE-2: as `rouge1`, of pairs of adjacent words; 0.0 for a text of a single word.

    >>> rouge2("the cat sat", ["the cat ran"])
    0.5
    """
    return _rouge("rouge2", prediction, references)


def rouge_l(prediction: str, references: Sequence[str]) -> float:
    """Return ROUGE-L: the F-measure of the longest common subsequence of words, `2PR / (P + R)`.

    `P = length / |prediction|`, `R = length / |reference|`. Line breaks do not count: the whole text is one sequence
    (not the summary-level variant Lsum). Of each text the first 20,000 words are compared.

    Source: Lin (2004). The package rouge-score fills a table of all pairs of words, which takes gigabytes for long
    texts. Here the algorithm of Hyyrö (2004) computes the same length.

    >>> rouge_l("the cat then sat", ["the cat sat then"])
    0.75
    """
    fmeasure = require("rouge_score.scoring", extra=EXTRA, purpose="ROUGE").fmeasure
    predicted = _words(prediction)[:MAX_SUBSEQUENCE_WORDS]
    scores = []
    for reference in references:
        expected = _words(reference)[:MAX_SUBSEQUENCE_WORDS]
        length = _common_subsequence_length(predicted, expected)
        scores.append(fmeasure(length / len(predicted), length / len(expected)) if length else 0.0)
    return float(max(scores, default=0.0))


def bleu(prediction: str, references: Sequence[str], *, smoothing: str = "exp") -> float:
    """Return sentence BLEU: the geometric mean of the precision of 1 to 4-grams, times the brevity penalty.

    The settings are those of sacrebleu for a sentence: effective order (a text of two words is scored by its 1 and
    2-grams), smoothing `exp` (the i-th order without a match counts as 1 / 2^i matches), tokenizer `13a`, upper and
    lower case distinct. In scripts without spaces each character is a token, as with sacrebleu's tokenizer `zh`; here
    also in Japanese, Thai and similar scripts.

    The result is the best of sacrebleu's scores with each single reference, divided by 100. It is not the BLEU that
    merges the n-grams of all references.

    With smoothing "none" the result is the BLEU of four orders without smoothing: 0 if an order has no match, as in
    every text of fewer than four words.

    Source: Papineni et al. (2002); Chen and Cherry (2014), method 3; Post (2018), by the package sacrebleu.

    >>> round(bleu("the cat sat on the mat", ["the cat sat on a mat"]), 4)
    0.5373
    """
    score = _bleu(smoothing).sentence_score
    prepared = _prepare_for_bleu(prediction)
    scores = (score(prepared, [_prepare_for_bleu(reference)]).score / 100 for reference in references)
    # Rounding in the mean of logarithms may make a score slightly larger than 1.
    return min(max(scores, default=0.0), 1.0)


def meteor(prediction: str, references: Sequence[str]) -> float:
    """Return METEOR without synonyms: the weighted harmonic mean of P and R of aligned words, less a penalty.

    Words are aligned one to one: first equal words, then words with the same Porter stem. The third stage, synonyms of
    WordNet, is left out, because WordNet has to be downloaded; this mostly lowers the score. With m aligned words in c
    chunks (words that are adjacent in both texts), `P = m / |prediction|` and `R = m / |reference|`:

        F = P · R / (0.9 P + 0.1 R)        score = F · (1 - 0.5 (c / m)^3)

    The penalty also applies to equal texts: they score 0.5 with one word, 0.9375 with two, 0.9815 with three. Choose a
    threshold for short answers accordingly.

    The stemmer is for English and leaves most words of other languages unchanged. The alignment is that of nltk: it
    starts from the right and takes the last free occurrence of a word, which does not always give the fewest chunks.

    Source: Lavie and Agarwal (2007), with alpha 0.9, beta 3, gamma 0.5, by the package nltk.

    >>> meteor("cats sleep", ["cat sleeps"])
    0.9375
    """
    nltk = require("nltk.translate.meteor_score", extra=EXTRA, purpose="METEOR")
    predicted, stemmer = _words(prediction), _stemmer()
    scores = (
        nltk.single_meteor_score(
            _words(reference),
            predicted,
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
    return tuple(separate_unspaced(fold(text).translate(_WORD_CHARACTERS)).split())


@cache
def _stemmer() -> SimpleNamespace:
    stem = lru_cache(maxsize=1 << 16)(
        require("nltk.stem.porter", extra=EXTRA, purpose="METEOR").PorterStemmer().stem
    )
    return SimpleNamespace(stem=lambda word: stem(word) if len(word) <= MAX_STEMMED_LENGTH else word)


@cache
def _bleu(smoothing: str) -> Any:
    module = require("sacrebleu.metrics.bleu", extra=EXTRA, purpose="BLEU")
    return module.BLEU(effective_order=smoothing != "none", smooth_method=smoothing, tokenize="13a")


def _rouge(name: str, prediction: str, references: Sequence[str]) -> float:
    module = require("rouge_score.rouge_scorer", extra=EXTRA, purpose="ROUGE")
    scorer = module.RougeScorer([name], tokenizer=SimpleNamespace(tokenize=_words))
    scores = (scorer.score(reference, prediction)[name].fmeasure for reference in references)
    return float(max(scores, default=0.0))


def _common_subsequence_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, by the bit-parallel algorithm of Hyyrö (2004)."""
    positions: dict[str, int] = {}
    for index, word in enumerate(first):
        positions[word] = positions.get(word, 0) | 1 << index
    all_bits = (1 << len(first)) - 1
    unmatched = all_bits
    for word in second:
        matches = unmatched & positions.get(word, 0)
        unmatched = (unmatched + matches | unmatched - matches) & all_bits
    return len(first) - unmatched.bit_count()


def _prepare_for_bleu(text: str) -> str:
    """Put spaces around characters of scripts without spaces, and around the punctuation of these scripts."""
    return separate_unspaced(text).translate(_CJK_PUNCTUATION) if has_unspaced(text) else text


# CJK punctuation, and the full-width forms of ASCII.
_CJK_PUNCTUATION: Final = {
    code: f" {chr(code)} "
    for first, last in ((0x3001, 0x3004), (0x3008, 0x3020), (0x3030, 0x303F), (0xFF00, 0xFFEF))
    for code in range(first, last + 1)
}
