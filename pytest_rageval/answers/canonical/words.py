"""Words as they are compared: stems that inflected forms share, and the closed word classes."""

import re
from dataclasses import dataclass
from functools import lru_cache

from pytest_rageval.answers.canonical.lexemes import expanded, listed, unaccented

__all__ = [
    "ARTICLES",
    "DISTINGUISHING",
    "FUNCTION_WORDS",
    "NEGATORS",
    "PARTICLES",
    "PREPOSITIONS",
    "Word",
    "same_word",
    "stem",
    "word_of",
]


def _pairs(table: str) -> dict[str, str]:
    """The words of a table "from to, from to"."""
    return dict(pair.split() for pair in table.split(","))


_IRREGULAR = _pairs(
    "men man, women woman, children child, people person, feet foot, teeth tooth, mice mouse, geese goose, "
    "lives life, wives wife, knives knife, leaves leaf, wolves wolf, halves half, countrymen countryman, "
    "won win, wrote write, written write, made make, began begin, begun begin, gave give, given give, took "
    "take, taken take, held hold, built build, sang sing, sung sing, left leave, paid pay, died die, dying "
    "die"
)

# British forms that no ending rule reaches.
_AMERICAN = _pairs(
    "grey gray, tyre tire, cheque check, kerb curb, plough plow, mould mold, storey story, aluminium "
    "aluminum, programme program, jewellery jewelry, moustache mustache, pyjama pajama, sceptic skeptic, "
    "draught draft, aeroplane airplane"
)
_SPELLINGS = (
    (re.compile(r"(?<=[a-z]{2})our(?=$|s$|ed$|ing$|able$|ite|ful|less|er)"), "or"),
    (re.compile(r"(?<=[bt])re(?=$|s$)"), "er"),
    (re.compile(r"(?<=[a-z]{3})is(?=e$|es$|ed$|er$|ers$|ing$|ation)"), "iz"),
    (re.compile(r"(?<=[a-z]{2})ys(?=e$|es$|ed$|ing$)"), "yz"),
    (re.compile(r"ogue(?=$|s$)"), "og"),
    (re.compile(r"^(def|off|lic|pret)enc(?=e)"), r"\1ens"),
    (
        re.compile(r"(?<=an)ae(?=m)|(?<=h)ae(?=m)|(?<=p)ae(?=d)|^ae(?=sth)|(?<=ch)ae(?=o)|(?<=i)ae(?=v)"),
        "e",
    ),
    (re.compile(r"^oe(?=st|soph)|(?<=f)oe(?=t)|(?<=n)oe(?=uv)|(?<=rh)oe"), "e"),
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


def _without(ending: str, word: str, replacement: str = "") -> str | None:
    if not word.endswith(ending):
        return None
    base = word[: -len(ending)] + replacement
    return base if len(base) >= _SHORTEST_BASE and _VOWEL.search(base) else None


def _base(word: str) -> str:
    """Strip at most one verb or adverb ending."""
    for ending, replacement in (("ied", "y"), ("ily", "y"), ("ing", ""), ("ed", ""), ("ly", "")):
        base = _without(ending, word, replacement)
        if base is not None:
            return _DOUBLED.sub(r"\1", base)
    return word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > _SHORTEST_INFLECTED:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word if word.endswith(("ss", "us", "is")) or not word.endswith("s") else word[:-1]


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
    if len(word) < _SHORTEST_INFLECTED or not (word.isascii() and word.isalpha()):
        return _IRREGULAR.get(word, word)
    if word in _IRREGULAR:
        word = _IRREGULAR[word]
    for spelling, american in _SPELLINGS:
        word = spelling.sub(american, word)
    word = _base(_singular(word))
    word = _AMERICAN.get(word, word)
    # "use", "used" and "using" meet only when the silent e goes as well.
    return word[:-1] if word.endswith("e") and len(word) > _SHORTEST_BASE else _DOUBLED.sub(r"\1", word)


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
        """Whether the word carries content of its own."""
        return self.form not in FUNCTION_WORDS and self.form not in NEGATORS


@lru_cache(maxsize=16384)
def word_of(form: str, *, glyph: bool = False) -> Word:
    """Make the word of a folded form.

    >>> word_of("röntgen").stem, word_of("röntgen").alternative
    ('rontgen', 'roentgen')
    """
    bare = unaccented(form)
    return Word(bare, stem(bare), stem(expanded(form)), glyph)


def same_word(one: Word, other: Word) -> bool:
    """Return whether two words are forms or spellings of one.

    >>> same_word(word_of("röntgen"), word_of("roentgen")), same_word(word_of("colours"), word_of("color"))
    (True, True)
    """
    return other.stem in {one.stem, one.alternative} or one.stem == other.alternative
