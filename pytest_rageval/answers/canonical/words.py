"""Normalizes a text, splits it into lexemes and stems words; lists of function words, titles and other word classes.

Two texts have the same lexemes if they differ only in case, in the width or composition of characters, in the shape of
quotes and dashes, or in the script of digits. A number keeps its written form without thousands separators. A numeric
date, a clock time and a simple fraction are one lexeme each.
"""

import re
import unicodedata
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from pytest_rageval.lib.normal_forms import COMMON_UNSPACED, is_word_character, normal_form

_QUOTES = dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u02bc\u2032\u0060\u00b4"), "'") | (
    dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"), '"')
)
_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-") | {0x2014: " - ", 0x2015: " - "}
_CHARACTER_FORMS = _QUOTES | _HYPHENS | {0x00B0: " degrees ", 0x00D7: " x "}
_CURRENCIES = {"$": "usd", "£": "gbp", "€": "eur", "¥": "jpy", "₹": "inr", "₩": "krw", "₽": "rub"}

# Letters that Unicode does not decompose into a base letter and a mark, with the base letters that replace them.
_UNDECOMPOSED = str.maketrans("øłđð\u0131ħ", "olddih") | str.maketrans({"þ": "th", "æ": "ae", "œ": "oe"})

# The two-letter spelling of letters that a keyboard may lack.
_TWO_LETTER_SPELLINGS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_SPACED_THOUSANDS = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_DOLLAR_COUNTRY = re.compile(r"\b(?:us|au|ca|nz|hk)(?=\$)")

# In scripts without spaces each character is a lexeme. Otherwise a name inside a sentence could not be found.
_UNSPACED = rf"\u3005-\u303f{COMMON_UNSPACED}"
_LETTER = f"[^\\x00-`{{-\\x7f{_UNSPACED}]"
_LEXEME = re.compile(
    rf"""
      (?P<word>{_LETTER}+(?:'{_LETTER}+)*(?:\d[\da-z]*)?(?:\+\+|\#)?)
    | (?P<date>(?:\d{{4}}(?P<s>[-/.])\d{{1,2}}(?P=s)\d{{1,2}}|\d{{1,2}}(?P<t>[-/.])\d{{1,2}}(?P=t)\d{{4}})(?!\d))
    | (?P<clock>\d{{1,2}}:\d{{2}}(?!\d))
    | (?P<fraction>\d+/\d+(?![\d/]))
    | (?P<number>\d{{1,3}}(?:[,']\d{{3}})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)
    | (?P<unspaced>[{_UNSPACED}])
    | (?P<punctuation>[^\s])
    """,
    re.VERBOSE,
)
_SYMBOL_WORDS = {"%": "percent", "&": "and"}
_IRREGULAR_NOT = {"can't": "can", "won't": "will", "shan't": "shall"}
_CLITIC = re.compile(r"'(?:s|re|ll|ve|d|m)$|'")

# Longer sequences of digits are codes, not amounts, and Python's `int` rejects very long ones.
_MAX_NUMBER_LENGTH = 40


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def numbers_by_word(words: str, start: int) -> dict[str, int]:
    """Number the words of a space-separated list in order: "zero one" with start 0 is {"zero": 0, "one": 1}."""
    return {word: number for number, word in enumerate(words.split(), start=start)}


def parse_pairs(table: str) -> dict[str, str]:
    return dict(pair.split() for pair in table.split(","))


_ABBREVIATED = word_set(
    "dr mr mrs ms st mt jr sr prof gen col capt lt sgt rev hon gov sen rep pres messrs "
    "jan feb mar apr jun jul aug sep sept oct nov dec am pm a p ft approx ca c no vol"
)
_IRREGULAR = parse_pairs(
    "men man, women woman, children child, people person, feet foot, teeth tooth, mice mouse, geese goose, lives life, "
    "wives wife, knives knife, leaves leaf, wolves wolf, halves half, countrymen countryman, won win, wrote write, "
    "written write, made make, began begin, begun begin, gave give, given give, took take, taken take, held hold, "
    "built build, sang sing, sung sing, left leave, paid pay, died die, dying die, beaten beat"
)

# British spellings that differ from the American one in more than an ending.
_AMERICAN = parse_pairs(
    "grey gray, tyre tire, cheque check, kerb curb, plough plow, mould mold, storey story, aluminium "
    "aluminum, programme program, jewellery jewelry, moustache mustache, pyjama pajama, sceptic skeptic, "
    "draught draft, aeroplane airplane"
)
_SPELLINGS = tuple(
    (part, re.compile(spelling), american)
    for part, spelling, american in (
        ("our", r"(?<=[a-z]{2})our(?=$|s$|ed$|ing$|able$|ite|ful|less|er)", "or"),
        ("re", r"(?<=[bt])re(?=$|s$)", "er"),
        ("is", r"(?<=[a-z]{3})is(?=e$|es$|ed$|er$|ers$|ing$|ation)", "iz"),
        ("ys", r"(?<=[a-z]{2})ys(?=e$|es$|ed$|ing$)", "yz"),
        ("ogue", r"ogue(?=$|s$)", "og"),
        ("enc", r"^(def|off|lic|pret)enc(?=e)", r"\1ens"),
        ("ae", r"(?<=an)ae(?=m)|(?<=h)ae(?=m)|(?<=p)ae(?=d)|^ae(?=sth)|(?<=ch)ae(?=o)|(?<=i)ae(?=v)", "e"),
        ("oe", r"^oe(?=st|soph)|(?<=f)oe(?=t)|(?<=n)oe(?=uv)|(?<=rh)oe", "e"),
    )
)
_VOWEL = re.compile(r"[aeiouy]")
_DOUBLED = re.compile(r"([b-df-hj-np-tv-z])\1$")
# A country and its adjective ("Argentina", "Argentine"), and two nouns or adjectives of a verb ("legislature").
_MIN_ROOT = 4
_PLACE, _ADJECTIVE = "(?:ia|a|y|e|o|)", "(?:ian|an|ean|n|ese|ish|ine|e)s?"
_DERIVED = re.compile(
    rf"^(\w{{3,}}){_PLACE}\|\1{_ADJECTIVE}$|^(\w{{3,}}){_ADJECTIVE}\|\2{_PLACE}$"
    r"|^(\w{6,})(?:ure|ive|ion|or)s?\|\3(?:ure|ive|ion|or)s?$"
)
_MIN_INFLECTED_LENGTH = 4
_MIN_BASE_LENGTH = 3
ARTICLES = frozenset({"a", "an", "the"})
PREPOSITIONS = word_set(
    "of in on at to by for from with into onto within during through throughout via per upon among between "
    "toward towards until till as"
)

# Particles of family names. People may leave them out.
PARTICLES = word_set(
    "da de del della der di do dos du la le los las van von den ter zu al el bin ibn ben y e"
)
NEGATORS = word_set("not no never neither nor cannot without none nobody nothing")
AUXILIARIES = word_set(
    "is are was were be been being am has have had having do does did doing can could should would shall might must"
)
_PRONOUNS = word_set(
    "it its he him his she her hers they them their theirs we us our you your i me my this that these those there here "
    "who whom whose which what where when why how one ones s"
)

# Hedges, conjunctions and fillers. They add no fact to a text.
_FILLERS = word_set(
    "about around approximately approx roughly nearly almost circa ca typically usually generally normally probably "
    "likely currently actually officially originally mainly mostly primarily also just only so then thus than and or "
    "but if while because called named known located found every each ago somewhere exactly precisely some any such "
    "very both either some etc eg ie such namely please according"
)
FUNCTION_WORDS = ARTICLES | PREPOSITIONS | AUXILIARIES | _PRONOUNS | _FILLERS

# A name after one of these words is another name: "New York" is not "York".
DISTINGUISHING = word_set(
    "new north south east west northern southern eastern western upper lower northeast northwest southeast southwest "
    "northeastern northwestern southeastern southwestern vice deputy assistant former ex pre post anti non sub semi "
    "half step un co"
)

# Forms of address. They may be left out before any name.
TITLES = word_set("mr mrs ms miss dr sir dame lady lord madam mme prof professor rev reverend fr hon")

# Offices and organisations. They may be left out before a person's name, and are not family names.
ROLES = word_set(
    "president king queen prince princess emperor empress pope saint st bishop archbishop cardinal duke duchess earl "
    "count countess baron baroness general captain colonel major lieutenant sergeant admiral marshal commander chief "
    "senator governor mayor minister secretary chancellor judge justice congressman congresswoman representative "
    "director manager officer chairman chair chairwoman head leader coach doctor nurse teacher engineer partner owner "
    "founder author writer actor actress singer artist player team company department committee council board "
    "authority agency association organization organisation government court office bank club group army party"
)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A lexical unit of a text, in normal form.

    The kind is "word", "unspaced" (one character of a script without spaces), "number", "fraction", "date", "clock" or
    "punctuation".
    """

    text: str
    kind: str
    touches_previous: bool = False  # without a space between them


class Lexemes(list[Lexeme]):
    """The lexemes of a text, and what `read_number` has found, by index."""

    def __init__(self, lexemes: Iterable[Lexeme]) -> None:
        super().__init__(lexemes)
        self.numbers: dict[int, Any] = {}


@lru_cache(maxsize=16384)
def fold(text: str) -> str:
    """Normalize case, width, composition, digits, quotes and dashes; keep accents.

    Other symbols outside ASCII become spaces. Currency signs and the degree sign become words. A text that has no word
    character folds to punctuation or to an empty text.

    >>> fold("  \uff23afé\u2019s  £26 ")
    "café's gbp 26"
    >>> fold("東京"), fold("٣")
    ('東京', '3')
    """
    if not text.isascii():
        text = _SPACED_THOUSANDS.sub("", text)
        text = "".join(map(_expand_fraction, text)).translate(_CHARACTER_FORMS)
        text = normal_form("NFKC", text).translate(_CHARACTER_FORMS)
        # Format characters, such as a soft hyphen, would split a word in two.
        text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = text.casefold()
    if not text.isascii():
        text = normal_form("NFKC", text)
        text = "".join(c if c.isascii() else _fold_character(c) for c in text)
    if "$" in text:
        text = _DOLLAR_COUNTRY.sub("", text).replace("$", " usd ")
    return " ".join(text.split())


def _expand_fraction(character: str) -> str:
    """Write a one-character fraction such as ½ with a slash and spaces around it."""
    if unicodedata.decomposition(character).startswith("<fraction>"):
        return f" {unicodedata.normalize('NFKC', character).replace(chr(0x2044), '/')} "
    return character


def _fold_character(character: str) -> str:
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if character in _CURRENCIES:
        return f" {_CURRENCIES[character]} "
    return character if is_word_character(character) else " "


def _strip_accents(word: str) -> str:
    """Remove the accents of Latin and Greek letters, such as "ö" and "ź", from a folded word; keep those of "が"."""
    if word.isascii():
        return word
    kept: list[str] = []
    base_loses_marks = False
    for character in normal_form("NFD", word.translate(_UNDECOMPOSED)):
        if not unicodedata.combining(character):
            base_loses_marks = character.isascii() or "\u0370" <= character <= "\u03ff"
        elif base_loses_marks:
            continue
        kept.append(character)
    return normal_form("NFC", "".join(kept))


def split_lexemes(folded: str) -> Lexemes:
    """Split a folded text into lexemes.

    The full stop of an abbreviation or an initial is dropped, so that a full stop always ends a sentence.

    >>> [lexeme.text for lexeme in split_lexemes("dr. smith's 1,200 cats, 9:30")]
    ['dr', 'smith', '1200', 'cats', ',', '9:30']
    >>> [lexeme.text for lexeme in split_lexemes("doesn't")], [lexeme.kind for lexeme in split_lexemes("東京")]
    (['does', 'not'], ['unspaced', 'unspaced'])
    """
    return Lexemes(chain.from_iterable(map(_split_word, folded.split())))


@lru_cache(maxsize=4096)
def _split_word(text: str) -> tuple[Lexeme, ...]:
    """Split a text without spaces. No lexeme has a space, and none depends on what is beyond one."""
    lexemes: list[Lexeme] = []
    end = -1
    for match in _LEXEME.finditer(text):
        kind, text = match.lastgroup or "punctuation", match.group()
        touches_previous = match.start() == end
        end = match.end()
        last = lexemes[-1].text if lexemes else ""
        if text == "." and touches_previous and ((len(last) == 1 and last.isalnum()) or last in _ABBREVIATED):
            continue
        if text.endswith("n't"):
            lexemes += (
                Lexeme(_IRREGULAR_NOT.get(text, text[:-3]), "word", touches_previous),
                Lexeme("not", "word"),
            )
            continue
        if kind == "word":
            text = _CLITIC.sub("", text)
        elif text in _SYMBOL_WORDS:
            kind, text = "word", _SYMBOL_WORDS[text]
        elif kind == "number":
            text = text.replace(",", "").replace("'", "")
        if kind in {"number", "fraction"} and len(text) > _MAX_NUMBER_LENGTH:
            kind = "word"
        lexemes.append(Lexeme(text, kind, touches_previous))
    return tuple(lexemes)


def text_at(lexemes: Lexemes, index: int) -> str:
    return lexemes[index].text if 0 <= index < len(lexemes) else ""


def skip_words(lexemes: Lexemes, index: int, words: Container[str]) -> int:
    while text_at(lexemes, index) in words:
        index += 1
    return index


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Return the stem of a folded word without accents; a word with characters outside a-z is returned unchanged.

    Singular and plural, verb forms, adjective and adverb, and British and American spelling have the same stem. Words
    of fewer than four letters lose no ending.

    >>> stem("colours") == stem("color"), stem("rained") == stem("rain")
    (True, True)
    >>> stem("heavily") == stem("heavy"), stem("travelled") == stem("traveling")
    (True, True)
    >>> stem("manager") == stem("management"), stem("bus"), stem("москва")
    (False, 'bus', 'москва')
    """
    short = len(word) < _MIN_INFLECTED_LENGTH or not (word.isascii() and word.isalpha())
    word = _IRREGULAR.get(word, word)
    if short:
        return word
    for part, spelling, american in _SPELLINGS:
        if part in word:
            word = spelling.sub(american, word)
    word = _strip_ending(_strip_plural(word))
    word = _AMERICAN.get(word, word)
    # Without its silent e, "use" has the same stem as "used" and "using".
    return word[:-1] if word.endswith("e") and len(word) > _MIN_BASE_LENGTH else _DOUBLED.sub(r"\1", word)


def _strip_ending(word: str) -> str:
    for ending, replacement in (("ied", "y"), ("ily", "y"), ("ing", ""), ("ed", ""), ("ly", "")):
        if word.endswith(ending):
            base = word.removesuffix(ending) + replacement
            if len(base) >= _MIN_BASE_LENGTH and _VOWEL.search(base):
                return _DOUBLED.sub(r"\1", base)
    return word


def _strip_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > _MIN_INFLECTED_LENGTH:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word if word.endswith(("ss", "us", "is")) else word.removesuffix("s")


@dataclass(frozen=True, slots=True)
class Word:
    """A word in its folded form without accents, with its stems."""

    form: str
    stem: str
    alternative_stem: str  # of the spelling with two letters for an umlaut; mostly equal to `stem`
    is_content_word: bool  # neither a function word nor a negator
    unspaced: bool = False  # True for a character of a script without spaces


@lru_cache(maxsize=16384)
def make_word(form: str, *, unspaced: bool = False) -> Word:
    """Build the `Word` of a folded form.

    >>> make_word("röntgen").stem, make_word("röntgen").alternative_stem
    ('rontgen', 'roentgen')
    """
    bare = _strip_accents(form)
    alternative = stem(_strip_accents(form.translate(_TWO_LETTER_SPELLINGS)))
    return Word(bare, stem(bare), alternative, bare not in FUNCTION_WORDS and bare not in NEGATORS, unspaced)


def same_word(first: Word, second: Word) -> bool:
    """Return True if two words are inflected forms, spellings or derivations of the same word.

    >>> same_word(make_word("röntgen"), make_word("roentgen")), same_word(make_word("colours"), make_word("color"))
    (True, True)
    >>> same_word(make_word("argentine"), make_word("argentina")), same_word(make_word("titan"), make_word("titania"))
    (True, False)
    """
    if second.stem in (first.stem, first.alternative_stem) or first.stem == second.alternative_stem:
        return True
    if first.form[:_MIN_ROOT] != second.form[:_MIN_ROOT]:
        return False
    return _DERIVED.search("|".join(sorted((first.form, second.form)))) is not None
