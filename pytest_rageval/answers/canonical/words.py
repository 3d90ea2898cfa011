"""The words of a text: one form of each character, lexemes, stems that inflected forms share, closed word classes.

What differs only in case, in the width or composition of characters, in the shape of quotes and dashes or in the
script of digits comes out equal. A number keeps its written form without thousands separators; a numeric date, a
clock time and a simple fraction stay whole.
"""

import re
import unicodedata
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pytest_rageval.tokenize import COMMON_UNSPACED, is_word_character, normal_form

__all__ = [
    "ARTICLES",
    "DISTINGUISHING",
    "FUNCTION_WORDS",
    "NEGATORS",
    "PARTICLES",
    "PREPOSITIONS",
    "ROLES",
    "TITLES",
    "Lexeme",
    "Word",
    "fold",
    "lexemes",
    "listed",
    "numbered",
    "pairs",
    "same_word",
    "skip",
    "stem",
    "text_at",
    "word_of",
]

_QUOTES = dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u02bc\u2032\u0060\u00b4"), "'") | (
    dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"), '"')
)
_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-") | {0x2014: " - ", 0x2015: " - "}
_SIGNS = _QUOTES | _HYPHENS | {0x00B0: " degrees ", 0x00D7: " x "}
_CURRENCIES = {"$": "usd", "£": "gbp", "€": "eur", "¥": "jpy", "₹": "inr", "₩": "krw", "₽": "rub"}

# Letters that Unicode does not decompose although readers drop their mark.
_UNDECOMPOSED = str.maketrans("øłđð\u0131ħ", "olddih") | str.maketrans({"þ": "th", "æ": "ae", "œ": "oe"})

# The spelling of the same letters where a keyboard lacks them.
_EXPANDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_SPACED_THOUSANDS = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_DOLLARS_OF = re.compile(r"\b(?:us|au|ca|nz|hk)(?=\$)")

# In scripts without spaces each character is a lexeme, otherwise a name inside a sentence could never be found.
_UNSPACED = rf"\u3005-\u303f{COMMON_UNSPACED}"
_LETTER = f"(?:[a-z]|(?![{_UNSPACED}])[^\\x00-\\x7f])"
_LEXEME = re.compile(
    rf"""
      (?P<date>(?:\d{{4}}(?P<s>[-/.])\d{{1,2}}(?P=s)\d{{1,2}}|\d{{1,2}}(?P<t>[-/.])\d{{1,2}}(?P=t)\d{{4}})(?!\d))
    | (?P<clock>\d{{1,2}}:\d{{2}}(?!\d))
    | (?P<fraction>\d+/\d+(?![\d/]))
    | (?P<number>\d{{1,3}}(?:[,']\d{{3}})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)
    | (?P<word>{_LETTER}+(?:'{_LETTER}+)*(?:\d[\da-z]*)?(?:\+\+|\#)?)
    | (?P<glyph>[{_UNSPACED}])
    | (?P<mark>[^\s])
    """,
    re.VERBOSE,
)
_WRITTEN_OUT = {"%": "percent", "&": "and"}
_IRREGULAR_NOT = {"can't": "can", "won't": "will", "shan't": "shall"}
_CLITIC = re.compile(r"'(?:s|re|ll|ve|d|m)$|'")

# Longer rows of digits are codes, not amounts; Python refuses to read the longest.
_LONGEST_NUMBER = 40


def listed(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


def numbered(words: str, start: int) -> dict[str, int]:
    """Number the words of a text, in order: {"zero": 0, "one": 1} of "zero one" from 0."""
    return {word: number for number, word in enumerate(words.split(), start=start)}


def pairs(table: str) -> dict[str, str]:
    """The words of a table "from to, from to"."""
    return dict(pair.split() for pair in table.split(","))


_ABBREVIATED = listed(
    "dr mr mrs ms st mt jr sr prof gen col capt lt sgt rev hon gov sen rep pres messrs "
    "jan feb mar apr jun jul aug sep sept oct nov dec am pm a p ft approx ca c no vol"
)
_IRREGULAR = pairs(
    "men man, women woman, children child, people person, feet foot, teeth tooth, mice mouse, geese goose, lives life, "
    "wives wife, knives knife, leaves leaf, wolves wolf, halves half, countrymen countryman, won win, wrote write, "
    "written write, made make, began begin, begun begin, gave give, given give, took take, taken take, held hold, "
    "built build, sang sing, sung sing, left leave, paid pay, died die, dying die"
)

# British forms that no ending rule reaches.
_AMERICAN = pairs(
    "grey gray, tyre tire, cheque check, kerb curb, plough plow, mould mold, storey story, aluminium "
    "aluminum, programme program, jewellery jewelry, moustache mustache, pyjama pajama, sceptic skeptic, "
    "draught draft, aeroplane airplane"
)
_SPELLINGS = tuple(
    (re.compile(spelling), american)
    for spelling, american in (
        (r"(?<=[a-z]{2})our(?=$|s$|ed$|ing$|able$|ite|ful|less|er)", "or"),
        (r"(?<=[bt])re(?=$|s$)", "er"),
        (r"(?<=[a-z]{3})is(?=e$|es$|ed$|er$|ers$|ing$|ation)", "iz"),
        (r"(?<=[a-z]{2})ys(?=e$|es$|ed$|ing$)", "yz"),
        (r"ogue(?=$|s$)", "og"),
        (r"^(def|off|lic|pret)enc(?=e)", r"\1ens"),
        (r"(?<=an)ae(?=m)|(?<=h)ae(?=m)|(?<=p)ae(?=d)|^ae(?=sth)|(?<=ch)ae(?=o)|(?<=i)ae(?=v)", "e"),
        (r"^oe(?=st|soph)|(?<=f)oe(?=t)|(?<=n)oe(?=uv)|(?<=rh)oe", "e"),
    )
)
_VOWEL = re.compile(r"[aeiouy]")
_DOUBLED = re.compile(r"([b-df-hj-np-tv-z])\1$")
_SHORTEST_INFLECTED = 4
_SHORTEST_BASE = 3
ARTICLES = frozenset({"a", "an", "the"})
PREPOSITIONS = listed(
    "of in on at to by for from with into onto within during through throughout via per upon among between "
    "toward towards until till as"
)

# Words inside a family name, which people leave out or keep as they like.
PARTICLES = listed("da de del della der di do dos du la le los las van von den ter zu al el bin ibn ben y e")
NEGATORS = listed("not no never neither nor cannot without none nobody nothing")
_AUXILIARIES = listed(
    "is are was were be been being am has have had having do does did doing can could should would shall might must"
)
_PRONOUNS = listed(
    "it its he him his she her hers they them their theirs we us our you your i me my this that these those there here "
    "who whom whose which what where when why how one ones s"
)

# Hedges and fillers say how sure or how exact a text is, not what it says.
_FILLERS = listed(
    "about around approximately approx roughly nearly almost circa ca typically usually generally normally probably "
    "likely currently actually officially originally mainly mostly primarily also just only so then thus than and or "
    "but if while because called named known located found every each ago somewhere exactly precisely some any such "
    "very both either some etc eg ie such namely please according"
)
FUNCTION_WORDS = ARTICLES | PREPOSITIONS | _AUXILIARIES | _PRONOUNS | _FILLERS

# Before a name these make it the name of something else: "New York" is not "York".
DISTINGUISHING = listed(
    "new north south east west northern southern eastern western upper lower northeast northwest southeast southwest "
    "northeastern northwestern southeastern southwestern vice deputy assistant former ex pre post anti non sub semi "
    "half step un co"
)

# Forms of address: left out without loss before any name.
TITLES = listed("mr mrs ms miss dr sir dame lady lord madam mme prof professor rev reverend fr hon")

# Offices: left out before a person's name, but no family names themselves.
ROLES = listed(
    "president king queen prince princess emperor empress pope saint st bishop archbishop cardinal duke duchess earl "
    "count countess baron baroness general captain colonel major lieutenant sergeant admiral marshal commander chief "
    "senator governor mayor minister secretary chancellor judge justice congressman congresswoman representative "
    "director manager officer chairman chair chairwoman head leader coach doctor nurse teacher engineer partner owner "
    "founder author writer actor actress singer artist player team company department committee council board "
    "authority agency association organization organisation government court office bank club group army party"
)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One piece of a text.

    `kind` is "word", "glyph", "number", "fraction", "date", "clock" or "mark"; `glued` says that nothing, not even a
    space, stands before it.
    """

    text: str
    kind: str
    glued: bool = False


@lru_cache(maxsize=16384)
def fold(text: str) -> str:
    """Fold case, width, composition, digits, quotes and dashes; keep every letter.

    Signs that carry no meaning for an answer become spaces; currency signs and the degree sign become words. Blank
    and sign-only texts fold to punctuation or to nothing.

    >>> fold("  \uff23afé\u2019s  £26 ")
    "café's gbp 26"
    >>> fold("東京"), fold("٣")
    ('東京', '3')
    """
    if not text.isascii():
        text = _SPACED_THOUSANDS.sub("", text)
        text = "".join(map(_spread_fraction, text)).translate(_SIGNS)
        text = normal_form("NFKC", text).translate(_SIGNS)
        # Characters that only steer the layout would split a word in two.
        text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = text.casefold()
    if not text.isascii():
        text = normal_form("NFKC", text)
        text = "".join(c if c.isascii() else _plain(c) for c in text)
    if "$" in text:
        text = _DOLLARS_OF.sub("", text).replace("$", " usd ")
    return " ".join(text.split())


def _spread_fraction(character: str) -> str:
    """Write a one-character fraction such as ½ with a slash, apart from what precedes it."""
    if unicodedata.decomposition(character).startswith("<fraction>"):
        return f" {unicodedata.normalize('NFKC', character).replace(chr(0x2044), '/')} "
    return character


def _plain(character: str) -> str:
    """The folded spelling of one character outside ASCII."""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if character in _CURRENCIES:
        return f" {_CURRENCIES[character]} "
    return character if is_word_character(character) else " "


def _unaccented(word: str) -> str:
    """Remove the accents of Latin and Greek letters from a folded word: "röntgen", "łódź", but not "が"."""
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


def lexemes(folded: str) -> list[Lexeme]:
    """Cut a folded text into lexemes, in order.

    The full stop of an abbreviation or an initial is dropped, so that only sentence ends remain as marks.

    >>> [piece.text for piece in lexemes("dr. smith's 1,200 cats, 9:30")]
    ['dr', 'smith', '1200', 'cats', ',', '9:30']
    >>> [piece.text for piece in lexemes("doesn't")], [piece.kind for piece in lexemes("東京")]
    (['does', 'not'], ['glyph', 'glyph'])
    """
    pieces: list[Lexeme] = []
    end = -1
    for found in _LEXEME.finditer(folded):
        kind, text = found.lastgroup or "mark", found.group()
        glued = found.start() == end
        end = found.end()
        last = pieces[-1].text if pieces else ""
        if text == "." and glued and (len(last) == 1 or last in _ABBREVIATED):
            continue
        if text.endswith("n't"):
            pieces += Lexeme(_IRREGULAR_NOT.get(text, text[:-3]), "word", glued), Lexeme("not", "word")
            continue
        if kind == "word":
            # Also the possessive ending goes.
            text = _CLITIC.sub("", text)
        elif text in _WRITTEN_OUT:
            kind, text = "word", _WRITTEN_OUT[text]
        elif kind == "number":
            text = text.replace(",", "").replace("'", "")
        if kind in {"number", "fraction"} and len(text) > _LONGEST_NUMBER:
            kind = "word"
        pieces.append(Lexeme(text, kind, glued))
    return pieces


def text_at(pieces: Sequence[Lexeme], at: int) -> str:
    """Return the text of a lexeme, or nothing beyond either end."""
    return pieces[at].text if 0 <= at < len(pieces) else ""


def skip(pieces: Sequence[Lexeme], at: int, words: Container[str]) -> int:
    """Return the first index from `at` on whose lexeme is none of the words."""
    while text_at(pieces, at) in words:
        at += 1
    return at


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Stem a folded, unaccented word; words outside a-z come back unchanged.

    Plurals, verb endings, adverbs and British or American spelling are levelled. Short words (fewer than four
    letters) are never cut.

    >>> stem("colours") == stem("color"), stem("rained") == stem("rain")
    (True, True)
    >>> stem("heavily") == stem("heavy"), stem("travelled") == stem("traveling")
    (True, True)
    >>> stem("manager") == stem("management"), stem("bus"), stem("москва")
    (False, 'bus', 'москва')
    """
    short = len(word) < _SHORTEST_INFLECTED or not (word.isascii() and word.isalpha())
    word = _IRREGULAR.get(word, word)
    if short:
        return word
    for spelling, american in _SPELLINGS:
        word = spelling.sub(american, word)
    word = _base(_singular(word))
    word = _AMERICAN.get(word, word)
    # "use", "used" and "using" meet only when the silent e goes as well.
    return word[:-1] if word.endswith("e") and len(word) > _SHORTEST_BASE else _DOUBLED.sub(r"\1", word)


def _base(word: str) -> str:
    """Strip at most one verb or adverb ending."""
    for ending, replacement in (("ied", "y"), ("ily", "y"), ("ing", ""), ("ed", ""), ("ly", "")):
        base = word.removesuffix(ending) + replacement
        if word.endswith(ending) and len(base) >= _SHORTEST_BASE and _VOWEL.search(base):
            return _DOUBLED.sub(r"\1", base)
    return word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > _SHORTEST_INFLECTED:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word if word.endswith(("ss", "us", "is")) else word.removesuffix("s")


@dataclass(frozen=True, slots=True)
class Word:
    """A word: its folded form and the stems under which it is known.

    `alternative` is the stem of the spelling with two letters for an umlaut; for most words both stems are the same.
    `glyph` marks a character of a script without spaces, which must touch its neighbours.
    """

    form: str
    stem: str
    alternative: str
    glyph: bool = False

    @property
    def content(self) -> bool:
        """True if the word is neither a function word nor a negator."""
        return self.form not in FUNCTION_WORDS and self.form not in NEGATORS


@lru_cache(maxsize=16384)
def word_of(form: str, *, glyph: bool = False) -> Word:
    """Make the word of a folded form.

    >>> word_of("röntgen").stem, word_of("röntgen").alternative
    ('rontgen', 'roentgen')
    """
    bare = _unaccented(form)
    return Word(bare, stem(bare), stem(_unaccented(form.translate(_EXPANDED))), glyph)


def same_word(one: Word, other: Word) -> bool:
    """Return whether two words are forms or spellings of one.

    >>> same_word(word_of("röntgen"), word_of("roentgen")), same_word(word_of("colours"), word_of("color"))
    (True, True)
    """
    return other.stem in {one.stem, one.alternative} or one.stem == other.alternative
