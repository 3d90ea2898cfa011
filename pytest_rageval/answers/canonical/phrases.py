"""Finds phrases of a reference in a prediction: the same words in order, or another form, such as a shortened name."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_rageval.answers.canonical.parsing import (
    ParsedQuestion,
    Punctuation,
    Token,
    content_word_at,
    form_at,
)
from pytest_rageval.answers.canonical.words import (
    ARTICLES,
    DISTINGUISHING,
    FUNCTION_WORDS,
    PARTICLES,
    PREPOSITIONS,
    ROLES,
    TITLES,
    Word,
    same_word,
    stem,
    word_set,
)

Span = tuple[int, int]  # the index of the first token, and the index after the last
_MIN_INITIALISM_LENGTH = 3
_INITIALISM_LENGTHS = range(2, 8)
_MAX_INVERTED_WORDS = 4
_JOINING_MARKS = frozenset("-'\".")
_FILLERS = ARTICLES | PARTICLES | PREPOSITIONS | _JOINING_MARKS

# Stems of words that are not a family name, although they may be the last word of a phrase.
_NOT_FAMILY_NAMES = frozenset(map(stem, ROLES)) | {"jr", "sr", "junior", "senior", "esq"}
_SUFFIXES = word_set("jr sr junior senior esq inc ltd llc plc corp corporation company gmbh fc afc")
_BEFORE_NAMES = TITLES | ROLES | ARTICLES | PARTICLES
_RELATIONS = word_set(
    "husband wife widow widower son daughter father mother parent brother sister sibling cousin nephew niece uncle "
    "aunt grandson granddaughter grandfather grandmother stepson stepdaughter fiancee mistress friend student pupil "
    "disciple assistant successor predecessor rival descendant heir"
)
_CONNECTIONS = word_set("tributary colleague pupil student rival imitator follower")
_COMPARING = frozenset({"than", "unlike", "besides"})
_FOLLOWING = frozenset(
    tuple(pair.split())
    for pair in ("followed by", "succeeded by", "close to", "similar to", "second to", "only to")
)
_PRONOUNS = frozenset({"who", "which", "that"})
_MIN_CLIPPING_LENGTH = 3
_FULL_NAME_WORDS = 2
_NAMES_WITH_SHORT_FORMS = (
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
    (short, names[0]) for names in map(str.split, _NAMES_WITH_SHORT_FORMS.split(",")) for short in names[1:]
)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Adjacent content words of a reference, without the words that the question contains."""

    words: tuple[Word, ...]  # to find in a prediction
    cut_left: bool = False  # whether words were removed at the beginning
    cut_right: bool = False  # and at the end
    negated: bool = False  # in the reference
    has_article: bool = False  # before it in the reference
    reference_stems: frozenset[str] = frozenset()  # of the words of the reference, or of an item of its list
    sentence_stems: frozenset[str] = frozenset()  # of all words of the reference
    full_words: tuple[Word, ...] = ()  # the words before any were removed; empty for `words`


def phrase_spans(tokens: Sequence[Token], phrase: Phrase, question: ParsedQuestion) -> Iterator[Span]:
    """Yield the spans of tokens that state a phrase, without spans that name something else ("New York" for "York")."""
    for span in _candidate_spans(tokens, phrase, question):
        if not _names_something_else(tokens, span, phrase, question):
            yield span


def _names_something_else(
    tokens: Sequence[Token], span: Span, phrase: Phrase, question: ParsedQuestion
) -> bool:
    """Return True if the words before a span make it part of another name, or describe a relation to that person."""
    start = span[0]
    own = {word.form for word in phrase.words}
    while (form := form_at(tokens, start - 1)) in _BEFORE_NAMES or form in own:
        start -= 1
    known = question.stems | phrase.reference_stems
    if _is_only_mentioned(tokens, start, known | phrase.sentence_stems, person=question.wants_person):
        return True
    before = content_word_at(tokens, span[0] - 1)
    if before is None or before.form not in DISTINGUISHING:
        return False
    common_noun = phrase.has_article or form_at(tokens, span[0] - 2) in {"a", "an"}
    return before.stem not in known and not (before.form == "new" and common_noun)


def _is_only_mentioned(tokens: Sequence[Token], index: int, known: frozenset[str], *, person: bool) -> bool:
    """Return True if the words before a name relate something else to it.

    They are a comparison ("larger than", "unlike"), a relation ("a tributary of", of a person: "the husband of"), or a
    relative clause about another thing ("a painter who admired"). Words whose stems are in `known` do not count.
    """
    link, last = form_at(tokens, index - 1), content_word_at(tokens, index - 2)
    if link in _COMPARING and link not in known:
        return True
    marker = form_at(tokens, index - 2), link
    if marker in _FOLLOWING and stem(marker[0]) not in known:
        first = next(filter(None, (content_word_at(tokens, at) for at in range(index))), None)
        return first is not None and first.stem not in known
    if link in {"of", "to"} and last and last.form in _CONNECTIONS | (_RELATIONS if person else set()):
        return last.stem not in known
    verb = content_word_at(tokens, index - 1) or (last if link == "by" else None)
    near = range(index - 2, max(index - 5, -1), -1)
    pronoun = next((at for at in near if form_at(tokens, at) in _PRONOUNS), None)
    if verb is None or verb.stem in known or pronoun is None:
        return False
    head = pronoun - 1 - (form_at(tokens, pronoun - 1) == ",")
    thing = content_word_at(tokens, head)
    return thing is not None and (thing.stem not in known or form_at(tokens, head - 1) in {"a", "an"})


def _candidate_spans(tokens: Sequence[Token], phrase: Phrase, question: ParsedQuestion) -> Iterator[Span]:
    """Yield every span that may state a phrase, in four forms.

    1. The words, or those of a shorter form of the name (`_name_variants`), in the order of the reference.
    2. The words in inverted order ("director of finance", "Shelley, Mary").
    3. The same letters with other spaces and hyphens ("e-mail", "email").
    4. An initialism.
    """
    words = phrase.words
    for variant in _name_variants(words, person=question.wants_person and not phrase.has_article):
        family_name_alone = len(variant) < min(len(words), 2)
        for span in _find_sequence(tokens, variant, question):
            other_name = family_name_alone and _is_other_name(tokens, span)
            if not other_name and not _has_substitute(tokens, span, phrase, question):
                yield span
    if 1 < len(words) <= _MAX_INVERTED_WORDS:
        yield from _find_inverted(tokens, words, question)
    if not words[0].unspaced:
        yield from _find_respaced(tokens, words)
        yield from _find_initialism(tokens, phrase.full_words or words, question)


def _find_sequence(
    tokens: Sequence[Token], words: tuple[Word, ...], question: ParsedQuestion
) -> Iterator[Span]:
    """Yield the spans that have the words in order, with fillers and at most one other word between them.

    Every word except the last may be a given name, which matches its short forms. Characters of a script without spaces
    must be adjacent.
    """
    if not any(isinstance(token, Word) and same_word(words[-1], token) for token in tokens):
        # Without the last word there is no span, and the search below would take long.
        return
    same_given_name = partial(_same_given_name, person=question.wants_person)
    first, *rest = [*(partial(same_given_name, word) for word in words[:-1]), partial(same_word, words[-1])]
    for start, token in enumerate(tokens):
        if not (isinstance(token, Word) and first(token)):
            continue
        index, spare = start + 1, int(not words[0].unspaced)
        for matches in rest:
            match = _next_match(tokens, index, matches, spare)
            if match is None or (words[0].unspaced and match[0] > index + 1):
                break
            index, spare = match
        else:
            yield start, index


def _next_match(
    tokens: Sequence[Token], start: int, matches: Callable[[Word], bool], spare: int
) -> tuple[int, int] | None:
    """Find a word from an index on; skip fillers and at most `spare` other words, also after an "and".

    Return the index after the word, and how many other words may still be skipped; None if it is not found.
    """
    for index in range(start, len(tokens)):
        token = tokens[index]
        if isinstance(token, Word) and matches(token):
            return index + 1, spare
        if form_at(tokens, index) == "and" and spare:
            # "Maud and Petra Hollis" names Maud Hollis, and "Maud and Hollis" does not.
            other = content_word_at(tokens, index + 1)
            if other is None or matches(other):
                return None
            return _next_match(tokens, index + 2, matches, spare - 1)
        if form_at(tokens, index) not in _FILLERS:
            if not spare or content_word_at(tokens, index) is None:
                return None
            spare -= 1
    return None


def _is_other_name(tokens: Sequence[Token], span: Span) -> bool:
    """Return True if another given name or an article precedes the span of a family name."""
    before = form_at(tokens, span[0] - 1)
    given_name = content_word_at(tokens, span[0] - 1) is not None and before not in _BEFORE_NAMES
    return before in ARTICLES or given_name


def _has_substitute(tokens: Sequence[Token], span: Span, phrase: Phrase, question: ParsedQuestion) -> bool:
    """Return True if the prediction has another word in place of a word that was removed from the phrase.

    A word of the question may follow the phrase, because it names the kind of thing that the question asks for. It may
    not precede the phrase.
    """
    before, after = content_word_at(tokens, span[0] - 1), content_word_at(tokens, span[1])
    if phrase.cut_left and before and before.stem not in phrase.reference_stems:
        return True
    after_is_last = span[1] + 1 >= len(tokens) or not isinstance(tokens[span[1] + 1], Word)
    known = phrase.reference_stems | question.stems
    return phrase.cut_right and after is not None and after_is_last and after.stem not in known


def _find_inverted(
    tokens: Sequence[Token], words: tuple[Word, ...], question: ParsedQuestion
) -> Iterator[Span]:
    """Yield spans in inverted order: "director of finance", "rained heavily", and "Shelley, Mary" for a person."""
    for cut in range(1, len(words)):
        for start, middle in _find_sequence(tokens, words[cut:], question):
            second_start = middle
            while form_at(tokens, second_start) in _FILLERS:
                second_start += 1
            inverts = any(form_at(tokens, index) in PREPOSITIONS for index in range(middle, second_start))
            following = form_at(tokens, second_start)
            if question.wants_person and following == ",":
                second_start, inverts = second_start + 1, True
            if inverts or following.endswith("ly"):
                spans = _find_sequence(tokens, words[:cut], question)
                yield from ((start, end) for begin, end in spans if begin == second_start)


def _find_respaced(tokens: Sequence[Token], words: tuple[Word, ...]) -> Iterator[Span]:
    """Yield the spans with the same letters, but other spaces or hyphens ("e-mail", "email")."""
    letters = "".join(word.form for word in words)
    for start, token in enumerate(tokens):
        if not isinstance(token, Word) or not letters.startswith(token.form):
            continue
        matched, index = len(token.form), start + 1
        while index < len(tokens) and matched < len(letters):
            following = tokens[index]
            if isinstance(following, Word) and letters.startswith(following.form, matched):
                matched += len(following.form)
            elif not (isinstance(following, Punctuation) and following.form in "-.,'"):
                break
            index += 1
        # `_find_sequence` finds the words with the same spaces.
        respaced = sum(isinstance(token, Word) for token in tokens[start:index]) != len(words)
        if matched == len(letters) and respaced:
            yield start, index


def _find_initialism(
    tokens: Sequence[Token], words: tuple[Word, ...], question: ParsedQuestion
) -> Iterator[Span]:
    """Yield the spans of an initialism of the words, or of words whose initialism is the only word.

    An initialism that is in the question does not count: the question asks for its full form, and other words may have
    the same initialism.
    """
    form = words[0].form
    if len(words) > 1:
        allowed = {
            each for each in initialisms(words) if question.offers_choice or stem(each) not in question.stems
        }
        content = [index for index, token in enumerate(tokens) if token.is_content_word] if allowed else []
        for index in content:
            short = tokens[index].form
            # Two letters inside a sentence may mean something else.
            if (len(short) >= _MIN_INITIALISM_LENGTH or len(content) == 1) and short in allowed:
                yield index, index + 1
    elif (
        _MIN_INITIALISM_LENGTH <= len(form) < _INITIALISM_LENGTHS.stop
        and form not in FUNCTION_WORDS
        and (question.offers_choice or words[0].stem not in question.stems)
    ):
        content = [index for index, token in enumerate(tokens) if token.is_content_word]
        letters = "".join(tokens[index].form[:1] or " " for index in content)
        first = letters.find(form)
        while first >= 0:
            yield content[first], content[first + len(form) - 1] + 1
            first = letters.find(form, first + 1)


def initialisms(words: Sequence[Word]) -> frozenset[str]:
    """Return the initialisms of two or more words: of all of them ("DoD"), and of the content words only ("USA").

    An initialism that spells a function word ("is", "it") is left out.

    >>> from pytest_rageval.answers.canonical.words import make_word
    >>> sorted(initialisms([make_word(form) for form in "department of defense".split()]))
    ['dd', 'dod']
    """
    of_all = "".join(word.form[:1] for word in words)
    of_content = "".join(word.form[:1] for word in words if word.is_content_word)
    candidates = {of_all, of_content} - FUNCTION_WORDS if len(words) > 1 else set()
    return frozenset(initialism for initialism in candidates if len(initialism) in _INITIALISM_LENGTHS)


def _same_given_name(first: Word, second: Word, *, person: bool) -> bool:
    """Return True if two words may be the same given name before the same family name.

    A name matches its initial and its customary short forms. If the question asks for a person, it also matches its
    first three letters or more.

    >>> from pytest_rageval.answers.canonical.words import make_word
    >>> bob, robert, dan, daniel = map(make_word, ("bob", "robert", "dan", "daniel"))
    >>> _same_given_name(bob, robert, person=False), _same_given_name(dan, daniel, person=True)
    (True, True)
    >>> _same_given_name(dan, daniel, person=False), _same_given_name(bob, daniel, person=True)
    (False, False)
    """
    forms = first.form, second.form
    if same_word(first, second) or not _SHORT_NAMES.isdisjoint({forms, forms[::-1]}):
        return True
    short, full = sorted(forms, key=len)
    clipped = len(short) == 1 or (person and len(short) >= _MIN_CLIPPING_LENGTH)
    return clipped and full.startswith(short)


def _name_variants(words: tuple[Word, ...], *, person: bool) -> tuple[tuple[Word, ...], ...]:
    """Return a name and its shorter forms, longest first.

    Forms of address, "junior" and middle initials may be left out of every name. A person may also be named without the
    office, without middle names, or by the family name alone.

    >>> from pytest_rageval.answers.canonical.words import make_word
    >>> name = tuple(map(make_word, ("general", "george", "h", "thomas")))
    >>> [" ".join(word.form for word in variant) for variant in _name_variants(name, person=True)]
    ['general george h thomas', 'george h thomas', 'george thomas', 'thomas']
    >>> [" ".join(word.form for word in variant) for variant in _name_variants(name[1:], person=False)]
    ['george h thomas', 'george thomas']
    """
    name = _strip_titles(words, person=person)
    given, family = name[0], name[-1]
    variants = [words, name]
    if len(name) > _FULL_NAME_WORDS:
        middle = (word for word in name[1:-1] if len(word.form) > 1 and word.form not in PARTICLES)
        variants.append((given, *middle, family))
    if person and len(name) >= _FULL_NAME_WORDS:
        variants.append((given, family))
        family_alone = not (given.form in DISTINGUISHING or given.form in TITLES) and len(family.form) > 1
        if family_alone and family.stem not in _NOT_FAMILY_NAMES:
            variants.append((family,))
    return tuple(dict.fromkeys(variants))


def _strip_titles(words: tuple[Word, ...], *, person: bool) -> tuple[Word, ...]:
    while len(words) > 1 and (words[0].form in TITLES or (person and words[0].form in ROLES)):
        words = words[1:]
    while len(words) > 1 and words[-1].form in _SUFFIXES:
        words = words[:-1]
    return words
