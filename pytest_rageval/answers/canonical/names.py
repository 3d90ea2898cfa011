"""How people shorten names: titles, initials, initialisms, short given names, family names alone."""

from collections.abc import Sequence

from pytest_rageval.answers.canonical.words import (
    DISTINGUISHING,
    FUNCTION_WORDS,
    PARTICLES,
    ROLES,
    TITLES,
    Word,
    listed,
    same_word,
    stem,
)

__all__ = ["initialisms", "name_variants", "same_given_name"]

_SHORTEST, _LONGEST = 2, 7


# The last word of an office or a body is no family name, in either number.
_NO_FAMILY = frozenset(map(stem, ROLES)) | {"jr", "sr", "junior", "senior", "esq"}
_SUFFIXES = listed("jr sr junior senior esq inc ltd llc plc corp corporation company gmbh fc afc")
_SHORTEST_CLIPPING = 3
_FULL_NAME = 2
_SHORT_FORMS = (
    "robert bob bobby rob robbie bert, william bill billy will willie, richard dick rick ricky, james jim "
    "jimmy jamie, john jack johnny, edward ed eddie ted teddy ned, theodore ted teddy theo, charles charlie "
    "chuck, henry harry hank, thomas tom tommy, michael mike mick mickey, joseph joe joey, anthony tony, "
    "andrew andy drew, lawrence larry, margaret maggie meg peggy, elizabeth liz lizzie beth betty eliza, "
    "katherine kate katie kathy, catherine kate cathy, rebecca becky, dorothy dolly dot, stephen steve, "
    "steven steve, francis frank, franklin frank"
)
_SHORT_NAMES = frozenset(
    (short, names[0]) for names in map(str.split, _SHORT_FORMS.split(",")) for short in names[1:]
)


def initialisms(words: Sequence[Word]) -> frozenset[str]:
    """Return the initialisms of some words: of all ("DoD"), and of those with content ("USA").

    Function words ("is", "it") are no initialisms.

    >>> from pytest_rageval.answers.canonical.words import word_of
    >>> sorted(initialisms([word_of(form) for form in "department of defense".split()]))
    ['dd', 'dod']
    """
    if len(words) < _SHORTEST:
        return frozenset()
    every = "".join(word.form[:1] for word in words)
    content = "".join(word.form[:1] for word in words if word.content)
    return frozenset(
        short
        for short in (every, content)
        if _SHORTEST <= len(short) <= _LONGEST and short not in FUNCTION_WORDS
    )


def same_given_name(one: Word, other: Word, *, person: bool) -> bool:
    """Return whether two words may be one given name before the same family name.

    An initial stands for a name, a customary short form for the full one and, where the question asks for a person,
    any clipping of three letters or more.

    >>> from pytest_rageval.answers.canonical.words import word_of
    >>> bob, robert, dan, daniel = map(word_of, ("bob", "robert", "dan", "daniel"))
    >>> same_given_name(bob, robert, person=False), same_given_name(dan, daniel, person=True)
    (True, True)
    >>> same_given_name(dan, daniel, person=False), same_given_name(bob, daniel, person=True)
    (False, False)
    """
    if (
        same_word(one, other)
        or _initial(one, other)
        or _initial(other, one)
        or _short(one, other)
        or _short(other, one)
    ):
        return True
    short, full = sorted((one.form, other.form), key=len)
    return person and len(short) >= _SHORTEST_CLIPPING and full.startswith(short)


def name_variants(words: tuple[Word, ...], *, person: bool) -> tuple[tuple[Word, ...], ...]:
    """Return the shorter forms that state the same name, longest first, itself included.

    Everywhere forms of address, "junior" and middle initials may go. Of a person, also the office, the middle names
    and all but the family name.

    >>> from pytest_rageval.answers.canonical.words import word_of
    >>> name = tuple(map(word_of, ("general", "george", "h", "thomas")))
    >>> [" ".join(word.form for word in variant) for variant in name_variants(name, person=True)]
    ['general george h thomas', 'george h thomas', 'george thomas', 'thomas']
    >>> [" ".join(word.form for word in variant) for variant in name_variants(name[1:], person=False)]
    ['george h thomas', 'george thomas']
    """
    variants = [words, bare := _without_titles(words, person=person)]
    if len(bare) > _FULL_NAME:
        inner = tuple(word for word in bare[1:-1] if len(word.form) > 1 and word.form not in PARTICLES)
        variants.append((bare[0], *inner, bare[-1]))
        if person:
            variants.append((bare[0], bare[-1]))
    family = bare[-1]
    shortened = (
        len(bare) >= _FULL_NAME and bare[0].form not in DISTINGUISHING | TITLES and len(family.form) > 1
    )
    if person and shortened and family.stem not in _NO_FAMILY:
        variants.append((family,))
    return tuple(dict.fromkeys(variants))


def _initial(one: Word, other: Word) -> bool:
    return len(one.form) == 1 and other.form.startswith(one.form)


def _short(one: Word, other: Word) -> bool:
    return (one.form, other.form) in _SHORT_NAMES


def _without_titles(words: tuple[Word, ...], *, person: bool) -> tuple[Word, ...]:
    first = 0
    while first < len(words) - 1 and (
        words[first].form in TITLES or (person and len(words) - first > 1 and words[first].form in ROLES)
    ):
        first += 1
    last = len(words)
    while last - first > 1 and words[last - 1].form in _SUFFIXES:
        last -= 1
    return words[first:last]
