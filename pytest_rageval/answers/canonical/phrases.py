"""Find the words of a reference in a prediction: in order and side by side, or as people shorten names."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_rageval.answers.canonical.parsing import Mark, ParsedQuestion, Token, content_at, form_at
from pytest_rageval.answers.canonical.words import (
    ARTICLES,
    DISTINGUISHING,
    FUNCTION_WORDS,
    PARTICLES,
    PREPOSITIONS,
    ROLES,
    TITLES,
    Word,
    listed,
    same_word,
    stem,
)

__all__ = ["Phrase", "Span", "initialisms", "phrase_spans"]

Span = tuple[int, int]
_LEAST_INITIALISM = 3
_INITIALISM_LENGTHS = range(2, 8)
_MOST_INVERTED = 4
_JOINING_MARKS = frozenset("-'\".")
_FILLERS = ARTICLES | PARTICLES | PREPOSITIONS | _JOINING_MARKS

# The last word of an office or a body is not a family name, in singular or plural.
_NO_FAMILY = frozenset(map(stem, ROLES)) | {"jr", "sr", "junior", "senior", "esq"}
_SUFFIXES = listed("jr sr junior senior esq inc ltd llc plc corp corporation company gmbh fc afc")
_RELATIONS = listed(
    "husband wife widow widower son daughter father mother parent brother sister sibling cousin nephew niece uncle "
    "aunt grandson granddaughter grandfather grandmother stepson stepdaughter fiancee mistress friend student pupil "
    "disciple assistant successor predecessor rival descendant heir"
)
_SHORTEST_CLIPPING = 3
_FULL_NAME = 2
_SHORT_FORMS = (
    "robert bob bobby rob robbie bert, william bill billy will willie, richard dick rick ricky, james jim "
    "jimmy jamie, john jack johnny, edward ed eddie ted teddy ned, theodore ted teddy theo, charles charlie "
    "chuck, henry harry hank, thomas tom tommy, michael mike mick mickey, joseph joe joey, anthony tony, "
    "andrew andy drew, lawrence larry, margaret maggie meg peggy, elizabeth liz lizzie beth betty eliza, "
    "katherine kate katie kathy, catherine kate cathy, rebecca becky, dorothy dolly dot, stephen steve, "
    "steven steve, francis frank, franklin frank, david dave davy, daniel danny, samuel sammy, benjamin benny, "
    "nicholas nicky, matthew matty, gerald jerry, leonard lenny, ronald ronnie, kenneth kenny, donald donnie, "
    "patricia patty, susan sue susie, barbara barb, jennifer jenny, deborah debbie"
)
_SHORT_NAMES = frozenset(
    (short, names[0]) for names in map(str.split, _SHORT_FORMS.split(",")) for short in names[1:]
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Content words that are side by side in a reference.

    `cut_left` and `cut_right` say that words which the question gives away were taken off at that side; `negated`
    that the reference denies the phrase; `article` that it has an article and so is no bare name. `companions` are
    the stems of all words of the reference, and `uncut` the words before any were taken off.
    """

    words: tuple[Word, ...]
    cut_left: bool = False
    cut_right: bool = False
    negated: bool = False
    article: bool = False
    companions: frozenset[str] = frozenset()
    uncut: tuple[Word, ...] = ()


def phrase_spans(tokens: Sequence[Token], phrase: Phrase, question: ParsedQuestion) -> Iterator[Span]:
    """Return the places of `_candidates` that do not name something else ("New York" for "York")."""
    for span in _candidates(tokens, phrase, question):
        if not _of_something_else(tokens, span, phrase, question):
            yield span


def _of_something_else(tokens: Sequence[Token], span: Span, phrase: Phrase, question: ParsedQuestion) -> bool:
    """Return True if the words before a span make it part of another name, or describe a relative of that person."""
    if question.person and _is_relation(tokens, span[0], question.stems | phrase.companions):
        return True
    before = content_at(tokens, span[0] - 1)
    if before is None or before.form not in DISTINGUISHING:
        return False
    unspecific = phrase.article or form_at(tokens, span[0] - 2) in {"a", "an"}
    known = before.stem in question.stems | phrase.companions
    return not known and not (before.form == "new" and unspecific)


def _is_relation(tokens: Sequence[Token], at: int, known: frozenset[str]) -> bool:
    """Return True if the words before a name describe a relation to it ("the husband of") or a contrast ("unlike")."""
    while form_at(tokens, at - 1) in TITLES | ROLES | ARTICLES:
        at -= 1
    last, link = content_at(tokens, at - 2), form_at(tokens, at - 1)
    related = link in {"of", "to"} and last is not None and last.form in _RELATIONS and last.stem not in known
    return related or link == "unlike"


def _candidates(tokens: Sequence[Token], phrase: Phrase, question: ParsedQuestion) -> Iterator[Span]:
    """Every place where a prediction states a phrase, best form first.

    The words are in the order of the reference, next to each other but for articles, particles and one further
    word; or turned round about a preposition; or written together, apart or as an initialism; or as a shorter form of
    the name (see `_name_variants`).
    """
    whole = phrase.words
    for words in _name_variants(whole, person=question.person and not phrase.article):
        family_alone = len(words) < min(len(whole), 2)
        for span in _sequence(tokens, words, question):
            other_name = family_alone and _is_other_name(tokens, span)
            if not other_name and not _replaced(tokens, span, phrase, question):
                yield span
    if 1 < len(whole) <= _MOST_INVERTED:
        yield from _inverted(tokens, whole, question)
    if not whole[0].glyph:
        yield from _joined(tokens, whole)
        yield from _abbreviated(tokens, phrase.uncut or whole, question)


def _sequence(tokens: Sequence[Token], words: tuple[Word, ...], question: ParsedQuestion) -> Iterator[Span]:
    """The places where words stand in order with at most one other word among them.

    All but the last may be given names. Characters of a script without spaces must follow each other directly.
    """
    if not any(isinstance(token, Word) and same_word(words[-1], token) for token in tokens):
        # Else each place would be followed up to the last word, and for nothing.
        return
    given = partial(_same_given_name, person=question.person)
    first, *rest = [*(partial(given, word) for word in words[:-1]), partial(same_word, words[-1])]
    for start, token in enumerate(tokens):
        if not (isinstance(token, Word) and first(token)):
            continue
        at, spare = start + 1, int(not words[0].glyph)
        for matches in rest:
            found = _next_match(tokens, at, matches, spare)
            if found is None or (words[0].glyph and found[0] > at + 1):
                break
            at, spare = found
        else:
            yield start, at


def _next_match(tokens: Sequence[Token], at: int, matches: Callable[[Word], bool], spare: int) -> Span | None:
    """Find a word after a place, over fillers and at most `spare` other words, one of which may follow an "and".

    Returns the place after it and how many other words are still allowed.
    """
    for place in range(at, len(tokens)):
        token = tokens[place]
        if isinstance(token, Word) and matches(token):
            return place + 1, spare
        if form_at(tokens, place) == "and" and spare:
            # "Maud and Petra Hollis" names Maud Hollis, and "Maud and Hollis" does not.
            other = content_at(tokens, place + 1)
            if other is None or matches(other):
                return None
            return _next_match(tokens, place + 2, matches, spare - 1)
        if form_at(tokens, place) not in _FILLERS:
            if not spare or content_at(tokens, place) is None:
                return None
            spare -= 1
    return None


def _is_other_name(tokens: Sequence[Token], span: Span) -> bool:
    """Return True if a family name that was found alone follows another given name or an article."""
    before = form_at(tokens, span[0] - 1)
    given = content_at(tokens, span[0] - 1) is not None and before not in TITLES | ROLES | PARTICLES
    return before in ARTICLES or given


def _replaced(tokens: Sequence[Token], span: Span, phrase: Phrase, question: ParsedQuestion) -> bool:
    """Return True if another word stands in place of a word that was cut from the phrase.

    A noun of the question may follow the phrase, because it names the kind of thing that is asked for. It may not
    precede it.
    """
    before, after = content_at(tokens, span[0] - 1), content_at(tokens, span[1])
    if phrase.cut_left and before and before.stem not in phrase.companions:
        return True
    ends = span[1] + 1 >= len(tokens) or not isinstance(tokens[span[1] + 1], Word)
    known = phrase.companions | question.stems
    return phrase.cut_right and after is not None and ends and after.stem not in known


def _inverted(tokens: Sequence[Token], words: tuple[Word, ...], question: ParsedQuestion) -> Iterator[Span]:
    """The places of "director of finance" for "finance director", of adverbs ("rained heavily") and "Shelley, Mary"."""
    for cut in range(1, len(words)):
        for start, middle in _sequence(tokens, words[cut:], question):
            at = middle
            while form_at(tokens, at) in _FILLERS:
                at += 1
            moved = any(form_at(tokens, place) in PREPOSITIONS for place in range(middle, at))
            follows = form_at(tokens, at)
            if question.person and follows == ",":
                at, moved = at + 1, True
            if moved or follows.endswith("ly"):
                places = _sequence(tokens, words[:cut], question)
                yield from ((start, end) for begin, end in places if begin == at)


def _joined(tokens: Sequence[Token], words: tuple[Word, ...]) -> Iterator[Span]:
    """The places where other word divisions spell the same letters ("e-mail", "email")."""
    letters = "".join(word.form for word in words)
    for start, token in enumerate(tokens):
        if not isinstance(token, Word) or not letters.startswith(token.form):
            continue
        said, at = len(token.form), start + 1
        while at < len(tokens) and said < len(letters):
            piece = tokens[at]
            if isinstance(piece, Word) and letters.startswith(piece.form, said):
                said += len(piece.form)
            elif not (isinstance(piece, Mark) and piece.text in "-.,'"):
                break
            at += 1
        # The same division was looked for before, with the guards of names.
        if said == len(letters) and sum(isinstance(piece, Word) for piece in tokens[start:at]) != len(words):
            yield start, at


def _abbreviated(
    tokens: Sequence[Token], words: tuple[Word, ...], question: ParsedQuestion
) -> Iterator[Span]:
    """The places of an initialism of the words, or of the words after one.

    An initialism of the question says nothing: it is what the words of the answer are for, and many words have it.
    """
    content = [(at, word) for at in range(len(tokens)) if (word := content_at(tokens, at))]
    if len(words) > 1:
        short = {form for form in initialisms(words) if question.choice or stem(form) not in question.stems}
        for at, word in content:
            # Two letters are too easily something else inside a sentence.
            if (len(word.form) >= _LEAST_INITIALISM or len(content) == 1) and word.form in short:
                yield at, at + 1
    elif len(words[0].form) >= _LEAST_INITIALISM and (question.choice or words[0].stem not in question.stems):
        size = len(words[0].form)
        for first in range(len(content) - size + 1):
            run = content[first : first + size]
            if words[0].form in initialisms([word for _, word in run]):
                yield run[0][0], run[-1][0] + 1


def initialisms(words: Sequence[Word]) -> frozenset[str]:
    """Return the initialisms of some words: of all ("DoD"), and of those with content ("USA").

    Function words ("is", "it") are no initialisms.

    >>> from pytest_rageval.answers.canonical.words import word_of
    >>> sorted(initialisms([word_of(form) for form in "department of defense".split()]))
    ['dd', 'dod']
    """
    every = "".join(word.form[:1] for word in words)
    content = "".join(word.form[:1] for word in words if word.content)
    short = {every, content} - FUNCTION_WORDS if len(words) > 1 else set()
    return frozenset(each for each in short if len(each) in _INITIALISM_LENGTHS)


def _same_given_name(one: Word, other: Word, *, person: bool) -> bool:
    """Return whether two words may be one given name before the same family name.

    An initial stands for a name, a customary short form for the full one and, where the question asks for a person,
    any clipping of three letters or more.

    >>> from pytest_rageval.answers.canonical.words import word_of
    >>> bob, robert, dan, daniel = map(word_of, ("bob", "robert", "dan", "daniel"))
    >>> _same_given_name(bob, robert, person=False), _same_given_name(dan, daniel, person=True)
    (True, True)
    >>> _same_given_name(dan, daniel, person=False), _same_given_name(bob, daniel, person=True)
    (False, False)
    """
    if same_word(one, other) or not _SHORT_NAMES.isdisjoint({(one.form, other.form), (other.form, one.form)}):
        return True
    short, full = sorted((one.form, other.form), key=len)
    clipped = len(short) == 1 or (person and len(short) >= _SHORTEST_CLIPPING)
    return clipped and full.startswith(short)


def _name_variants(words: tuple[Word, ...], *, person: bool) -> tuple[tuple[Word, ...], ...]:
    """Return the shorter forms that state the same name, longest first, itself included.

    Everywhere forms of address, "junior" and middle initials may go. Of a person, also the office, the middle names
    and all but the family name.

    >>> from pytest_rageval.answers.canonical.words import word_of
    >>> name = tuple(map(word_of, ("general", "george", "h", "thomas")))
    >>> [" ".join(word.form for word in variant) for variant in _name_variants(name, person=True)]
    ['general george h thomas', 'george h thomas', 'george thomas', 'thomas']
    >>> [" ".join(word.form for word in variant) for variant in _name_variants(name[1:], person=False)]
    ['george h thomas', 'george thomas']
    """
    bare = _without_titles(words, person=person)
    first, family = bare[0], bare[-1]
    variants = [words, bare]
    if len(bare) > _FULL_NAME:
        inner = (word for word in bare[1:-1] if len(word.form) > 1 and word.form not in PARTICLES)
        variants.append((first, *inner, family))
    if person and len(bare) >= _FULL_NAME:
        variants.append((first, family))
        shortened = first.form not in DISTINGUISHING | TITLES and len(family.form) > 1
        if shortened and family.stem not in _NO_FAMILY:
            variants.append((family,))
    return tuple(dict.fromkeys(variants))


def _without_titles(words: tuple[Word, ...], *, person: bool) -> tuple[Word, ...]:
    titles = TITLES | ROLES if person else TITLES
    while len(words) > 1 and words[0].form in titles:
        words = words[1:]
    while len(words) > 1 and words[-1].form in _SUFFIXES:
        words = words[:-1]
    return words
