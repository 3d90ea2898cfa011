"""Words as they are compared, and the closed classes that carry no content."""

from dataclasses import dataclass
from functools import lru_cache

from pytest_rageval.answers.canonical.folding import expanded, unaccented
from pytest_rageval.answers.canonical.inflection import stem
from pytest_rageval.answers.canonical.word_lists import listed

__all__ = [
    "ARTICLES",
    "DISTINGUISHING",
    "FUNCTION_WORDS",
    "NEGATORS",
    "PARTICLES",
    "PREPOSITIONS",
    "Word",
    "same_word",
    "word_of",
]

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


@dataclass(frozen=True, slots=True)
class Word:
    """A word: its folded form and the stems under which it is known.

    `alternative` is the stem of the spelling with two letters for an umlaut;
    for most words both stems are the same. `glyph` marks a character of a
    script without spaces, which must touch its neighbours.
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
    """Tell whether two words are forms or spellings of one.

    >>> same_word(word_of("röntgen"), word_of("roentgen")), same_word(word_of("colours"), word_of("color"))
    (True, True)
    """
    return other.stem in {one.stem, one.alternative} or one.stem == other.alternative
