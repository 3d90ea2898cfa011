"""Overlap of an answer with its references: exact match, token F1 and recall, containment, ROUGE, BLEU and METEOR.

All take `(prediction, references)`: an answer, and one or more alternatives. They return the best score over the
references, in [0, 1], and 0.0 where no word is shared, a text has no words, or there are no references.

Exact match, F1, recall and containment are of SQuAD's tokens, in any script. ROUGE, BLEU and METEOR are by the
packages that define them, and raise InputError where the extra `overlap` is not installed. ROUGE and METEOR compare
letters and digits of any script in lower case, without punctuation; a character is a word in scripts without spaces. On
ASCII text these are the tokens of the package rouge-score, whose own tokenizer drops every letter outside ASCII.

Source: Rajpurkar et al. (2016), SQuAD, the official evaluation script; those named at each measure.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, Final

from pytest_rageval.errors import require
from pytest_rageval.lazy import lazy_pattern
from pytest_rageval.tokenize import (
    CharacterMap,
    fold,
    has_unspaced,
    is_word_character,
    join_unspaced,
    separate_unspaced,
)

__all__ = [
    "bleu",
    "containment",
    "exact_match",
    "meteor",
    "normalize",
    "rouge1",
    "rouge2",
    "rouge_l",
    "token_f1",
    "token_recall",
]

EXTRA: Final = "overlap"

MOST_WORDS: Final = 20_000  # words of a text that are read where time or memory grows faster than the text

LONGEST_STEMMED: Final = 100  # characters of a word; the stemmer takes quadratic time for one, and recurses


def exact_match(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the prediction equals one of the references in normal form, else 0.0.

    >>> exact_match("the Beatles", ["Beatles", "The Fab Four"])
    1.0
    """
    return float(any(normalize(prediction) == normalize(reference) for reference in references))


def token_f1(prediction: str, references: Sequence[str]) -> float:
    """F1 of the tokens that prediction and reference share, in [0, 1].

    Tokens are the words of the normal form, as multisets: a token counts as often as both have it. `2PR / (P + R)`
    with `P = shared / |prediction|` and `R = shared / |reference|`; 0 where nothing is shared.

    In scripts without spaces between words each character with its marks is a token (see `separate_unspaced`) where
    both texts have such characters. Where only one has, a run of them counts as one token, as in SQuAD: an English
    answer that quotes a Chinese name is not four wrong words longer.

    >>> token_f1("eleven minutes", ["about eleven minutes"])
    0.8
    >>> token_f1("東京", ["東京都"])
    0.8
    """
    return max((_f1(prediction, reference) for reference in references), default=0.0)


def token_recall(prediction: str, references: Sequence[str]) -> float:
    """The share of a reference's tokens that the prediction has too, in [0, 1], with tokens as for `token_f1`.

    `R = shared / |reference|`, so that a longer answer loses nothing: a whole sentence is compared with a short answer.
    What else it says does not count, not even a negation.

    Source: Adlakha et al. (2024), "Evaluating correctness and faithfulness of instruction-following models for
    question answering", where it is the lexical measure nearest to people for long answers.

    >>> token_recall("It takes about eleven minutes.", ["eleven minutes", "660 seconds"])
    1.0
    >>> token_recall("eleven hours", ["eleven minutes"])
    0.5
    """
    return max((_recall(prediction, reference) for reference in references), default=0.0)


def containment(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the tokens of a reference occur in the prediction side by side, else 0.0.

    Tokens are whole words of the normal form ("art" is not in "party"), and single characters in scripts without
    spaces between words (京 is in 東京). The prediction may be a passage. What else it says does not count, not even a
    negation. A blank reference occurs nowhere.

    Source: the check "has answer" of open-domain question answering, Chen et al. (2017).

    >>> containment("It was the Beatles, of course.", ["Fab Four", "Beatles"])
    1.0
    """
    searched = _padded(prediction)
    return float(any(normalize(reference) and _padded(reference) in searched for reference in references))


@lru_cache(maxsize=1 << 16)
def normalize(answer: str) -> str:
    """Return an answer in SQuAD's normal form: one case, no punctuation, no English articles, single spaces.

    ASCII text comes out as from SQuAD's script. SQuAD leaves all other characters unchanged; here also

    - case is folded, and full-width forms, ligatures and decimal digits of every script become plain (see `fold`);
    - punctuation of every script («», „“, 。、, ¿¡, …) and invisible signs are dropped; currency and mathematical signs
      stay;
    - spaces beside characters of scripts without spaces between words are dropped, since Chinese, Japanese and Thai
      texts set them or not.

    Where that would change SQuAD's published scores, SQuAD wins, in two points: a dash between two spaces (word –
    word) stays a token, and single quotation marks around words (‘word’) stay, while the apostrophe (it’s) goes as in
    ASCII. Double quotation marks go.

    An answer of nothing but articles and punctuation ("The", "?!") keeps its folded form, so that it does not equal
    every other such answer.

    >>> normalize("The  Beatles!"), normalize("«Ｂｅｙｏｎｃé»"), normalize("東京 。")
    ('beatles', 'beyoncé', '東京')
    """
    folded = fold(answer)
    bare = folded.translate(_ASCII_PUNCTUATION)
    if not bare.isascii():
        bare = _strip_beyond_ascii(bare)
    return join_unspaced(" ".join(_ARTICLES.sub(" ", bare).split()) or " ".join(folded.split()))


def _strip_beyond_ascii(text: str) -> str:
    kept = _NOT_BETWEEN_WORDS.sub("", " ".join(text.translate(_BEYOND_ASCII).split()))
    return _WITHIN_A_WORD.sub("", kept) if _OPENING in kept else kept.replace(_CLOSING, "")


def _without_punctuation(character: str) -> str:
    category = unicodedata.category(character)
    if character in _WORD_SPACES:
        return " "
    if character in _COUNTED_BY_SQUAD:
        return character
    # "Cf" are invisible signs that steer the layout.
    dropped = category[0] == "P" or category == "Cf" or character in _TYPED_FOR_PUNCTUATION
    return "" if dropped or ord(character) in _VARIATION_SELECTORS else character


_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_ASCII_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_BEYOND_ASCII: Final = CharacterMap(_without_punctuation)

# Letters, an accent and a sign that are typed for an apostrophe or a hyphen.
_TYPED_FOR_PUNCTUATION: Final = frozenset("\u02bb\u02bc\u00b4\u2212")
# They stand between words or syllables, as a space does: Tibetan, Ethiopic.
_WORD_SPACES: Final = frozenset("\u0f0b\u0f0c\u1361")
_VARIATION_SELECTORS: Final = range(0xFE00, 0xFE10)

# SQuAD counts these in place as below; elsewhere they go like other punctuation.
_DASHES: Final = "\u2013\u2014\u2015"
_OPENING, _CLOSING = "\u2018\u2019"
_COUNTED_BY_SQUAD: Final = frozenset({*_DASHES, _OPENING, _CLOSING})
_NOT_BETWEEN_WORDS: Final = lazy_pattern(rf"(?<!\S\s)[{_DASHES}]|[{_DASHES}](?!\s\S)")
_WITHIN_A_WORD: Final = lazy_pattern(rf"(?<=\w)[{_OPENING}{_CLOSING}](?=\w)")


def _f1(prediction: str, reference: str) -> float:
    shared, own, wanted = _shared(prediction, reference)
    return 2 * shared / (own + wanted) if shared else 0.0


def _recall(prediction: str, reference: str) -> float:
    shared, _, wanted = _shared(prediction, reference)
    return shared / wanted if shared else 0.0


def _shared(prediction: str, reference: str) -> tuple[int, int, int]:
    """The numbers of tokens that both have, of the prediction's, and of the reference's."""
    texts = normalize(prediction), normalize(reference)
    by_character = all(map(has_unspaced, texts))
    own, wanted = (separate_unspaced(text, by_character=by_character).split() for text in texts)
    # Most wrong answers share nothing.
    shared = 0 if set(own).isdisjoint(wanted) else (Counter(own) & Counter(wanted)).total()
    return shared, len(own), len(wanted)


def _padded(answer: str) -> str:
    """The tokens with a space around each, so that words are found whole."""
    return f" {' '.join(separate_unspaced(normalize(answer)).split())} "


def rouge1(prediction: str, references: Sequence[str]) -> float:
    """ROUGE-1: F-measure of the words that both texts have, `2PR / (P + R)`, with P and R as for `token_f1`.

    Nothing is stemmed and no word is left out. Source: Lin (2004), by the package rouge-score.

    >>> rouge1("the cat sat", ["the cat ran", "a dog"])
    0.6666666666666666
    """
    return _rouge("rouge1", prediction, references)


def rouge2(prediction: str, references: Sequence[str]) -> float:
    """ROUGE-2: as `rouge1`, of pairs of neighbouring words; 0.0 for a text of a single word, which has no pair.

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


def bleu(prediction: str, references: Sequence[str], *, smoothing: str = "exp") -> float:
    """Sentence BLEU: geometric mean of the precision of 1 to 4-grams, times the brevity penalty.

    With sacrebleu's settings for a sentence: effective order (a text of two words is judged by its 1 and 2-grams),
    smoothing `exp` (the i-th order without a match counts as 1 / 2^i matches), tokenizer `13a`, upper and lower case
    distinct. In scripts without spaces each character is a token, as with sacrebleu's tokenizer `zh`; here also in
    Japanese, Thai and similar scripts.

    It is sacrebleu's score against each single reference, divided by 100, and the best of them; not the BLEU that
    merges the n-grams of all references.

    With smoothing "none" it is the plain BLEU of four orders: 0 where an order has no match, as in every text of fewer
    than four words.

    Source: Papineni et al. (2002); Chen and Cherry (2014), method 3; Post (2018), by the package sacrebleu.

    >>> round(bleu("the cat sat on the mat", ["the cat sat on a mat"]), 4)
    0.5373
    """
    score = _bleu(smoothing).sentence_score
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
    return tuple(separate_unspaced(fold(text).translate(_WORD_CHARACTERS)).split())


@cache
def _stemmer() -> SimpleNamespace:
    """A stemmer for nltk, with a cache."""
    stem = lru_cache(maxsize=1 << 16)(
        require("nltk.stem.porter", extra=EXTRA, purpose="METEOR").PorterStemmer().stem
    )
    return SimpleNamespace(stem=lambda word: stem(word) if len(word) <= LONGEST_STEMMED else word)


@cache
def _bleu(smoothing: str) -> Any:
    module = require("sacrebleu.metrics.bleu", extra=EXTRA, purpose="BLEU")
    return module.BLEU(effective_order=smoothing != "none", smooth_method=smoothing, tokenize="13a")


def _rouge(name: str, prediction: str, references: Sequence[str]) -> float:
    module = require("rouge_score.rouge_scorer", extra=EXTRA, purpose="ROUGE")
    scorer = module.RougeScorer([name], tokenizer=SimpleNamespace(tokenize=_words))
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
    return separate_unspaced(text).translate(_CJK_SIGNS) if has_unspaced(text) else text


# The signs of CJK punctuation, and the full-width forms of ASCII.
_CJK_SIGNS: Final = {
    code: f" {chr(code)} "
    for first, last in ((0x3001, 0x3004), (0x3008, 0x3020), (0x3030, 0x303F), (0xFF00, 0xFFEF))
    for code in range(first, last + 1)
}
