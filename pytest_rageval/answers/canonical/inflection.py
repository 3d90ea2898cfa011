"""Reduce an English word to a stem that its inflected forms and spellings share.

A stem is a key for comparison, not a word: it only has to be equal for forms
that a reader takes as one, and to stay apart for words with other meanings.
Endings that make a new word ("manage" → "manager") are left alone.
"""

import re
from functools import lru_cache

__all__ = ["stem"]

_IRREGULAR = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "people": "person",
    "feet": "foot",
    "teeth": "tooth",
    "mice": "mouse",
    "geese": "goose",
    "lives": "life",
    "wives": "wife",
    "knives": "knife",
    "leaves": "leaf",
    "wolves": "wolf",
    "halves": "half",
    "countrymen": "countryman",
    "won": "win",
    "wrote": "write",
    "written": "write",
    "made": "make",
    "began": "begin",
    "begun": "begin",
    "gave": "give",
    "given": "give",
    "took": "take",
    "taken": "take",
    "held": "hold",
    "built": "build",
    "sang": "sing",
    "sung": "sing",
    "left": "leave",
    "paid": "pay",
    "died": "die",
    "dying": "die",
}

# British forms that no ending rule reaches.
_AMERICAN = {
    "grey": "gray",
    "tyre": "tire",
    "cheque": "check",
    "kerb": "curb",
    "plough": "plow",
    "mould": "mold",
    "storey": "story",
    "aluminium": "aluminum",
    "programme": "program",
    "jewellery": "jewelry",
    "moustache": "mustache",
    "pyjama": "pajama",
    "sceptic": "skeptic",
    "draught": "draft",
    "aeroplane": "airplane",
}

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


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > _SHORTEST_INFLECTED:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word if word.endswith(("ss", "us", "is")) or not word.endswith("s") else word[:-1]


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


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Stem a folded, unaccented word; words outside a-z come back unchanged.

    Plurals, verb endings, adverbs and British or American spelling are
    levelled. Short words (fewer than four letters) are never cut.

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
