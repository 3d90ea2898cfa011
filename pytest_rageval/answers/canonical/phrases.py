"""Find the words of a reference in a prediction, in order and side by side."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_rageval.answers.canonical.names import (
    initialisms,
    name_variants,
    same_given_name,
)
from pytest_rageval.answers.canonical.parsing import Mark, Question, Token
from pytest_rageval.answers.canonical.words import (
    ARTICLES,
    DISTINGUISHING,
    PARTICLES,
    PREPOSITIONS,
    ROLES,
    TITLES,
    Word,
    same_word,
)

__all__ = ["Phrase", "Span", "phrase_spans"]

Span = tuple[int, int]
_LEAST_INITIALISM = 3
_MOST_INVERTED = 4


@dataclass(frozen=True, slots=True)
class Phrase:
    """Content words that stand side by side in a reference.

    `cut_left` and `cut_right` say that words which the question gives away were taken off at that side; `negated`
    that the reference denies the phrase; `article` that it has an article and so is no bare name. `companions` are
    the stems of all words of the reference.
    """

    words: tuple[Word, ...]
    cut_left: bool = False
    cut_right: bool = False
    negated: bool = False
    article: bool = False
    companions: frozenset[str] = frozenset()


def phrase_spans(tokens: Sequence[Token], phrase: Phrase, question: Question) -> Iterator[Span]:
    """Return the places of `_candidates` that do not name something else ("New York" for "York")."""
    for span in _candidates(tokens, phrase, question):
        if not _of_something_else(tokens, span, phrase, question):
            yield span


def _candidates(tokens: Sequence[Token], phrase: Phrase, question: Question) -> Iterator[Span]:
    """Every place where a prediction states a phrase, best form first.

    The words stand in the order of the reference, next to each other but for articles, particles and one further
    word; or turned round about a preposition; or written together, apart or as an initialism; or as a shorter form of
    the name (see `names.name_variants`).
    """
    whole = phrase.words
    for words in name_variants(whole, person=question.person and not phrase.article):
        family_alone = len(words) < min(len(whole), 2)
        for span in _sequence(tokens, words, question):
            if family_alone and _is_other_name(tokens, span):
                continue
            if not _replaced(tokens, span, phrase, question):
                yield span
    if 1 < len(whole) <= _MOST_INVERTED:
        yield from _inverted(tokens, whole, question)
    if not whole[0].glyph:
        yield from _joined(tokens, whole)
        yield from _abbreviated(tokens, whole)


def _sequence(tokens: Sequence[Token], words: tuple[Word, ...], question: Question) -> Iterator[Span]:
    """The places where words stand in order with at most one other word among them.

    Characters of a script without spaces must follow each other directly.
    """
    if not any(isinstance(token, Word) and same_word(words[-1], token) for token in tokens):
        # Else each place would be followed up to the last word, and for nothing.
        return
    first, *rest = _matchers(words, question)
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


def _matchers(words: tuple[Word, ...], question: Question) -> list[Callable[[Word], bool]]:
    """A test for each word; all but the last may be given names."""
    given = partial(same_given_name, person=question.person)
    return [*(partial(given, word) for word in words[:-1]), partial(same_word, words[-1])]


def _next_match(tokens: Sequence[Token], at: int, matches: Callable[[Word], bool], spare: int) -> Span | None:
    """Find a word after a place, over fillers and at most `spare` other words.

    Returns the place after it and how many other words are still allowed.
    """
    while at < len(tokens):
        token = tokens[at]
        if isinstance(token, Word) and matches(token):
            return at + 1, spare
        if not _fills(token):
            if not spare or not isinstance(token, Word) or not token.content:
                return None
            spare -= 1
        at += 1
    return None


def _fills(token: Token) -> bool:
    """Whether a token may stand between two words of a phrase without counting."""
    if isinstance(token, Mark):
        return token.text in {"-", "'", '"', "."}
    return isinstance(token, Word) and (
        token.form in ARTICLES or token.form in PARTICLES or token.form in PREPOSITIONS
    )


def _is_other_name(tokens: Sequence[Token], span: Span) -> bool:
    """Whether a family name found alone stands after another given name or an article."""
    before = tokens[span[0] - 1] if span[0] else None
    if not isinstance(before, Word):
        return False
    return before.form in ARTICLES or (before.content and before.form not in TITLES | ROLES | PARTICLES)


def _replaced(tokens: Sequence[Token], span: Span, phrase: Phrase, question: Question) -> bool:
    """Whether another word stands where a word that was cut off belongs.

    A noun of the question may follow, since it names the kind of thing that is asked for, but not precede.
    """
    before = _is_content(tokens, span[0] - 1)
    if phrase.cut_left and before and before.stem not in phrase.companions:
        return True
    after = _is_content(tokens, span[1])
    ends = span[1] + 1 >= len(tokens) or not isinstance(tokens[span[1] + 1], Word)
    return (
        phrase.cut_right
        and after is not None
        and ends
        and after.stem not in phrase.companions | question.stems
    )


def _is_content(tokens: Sequence[Token], at: int) -> Word | None:
    token = tokens[at] if 0 <= at < len(tokens) else None
    return token if isinstance(token, Word) and token.content else None


def _inverted(tokens: Sequence[Token], words: tuple[Word, ...], question: Question) -> Iterator[Span]:
    """The places of "director of finance" for "finance director", of adverbs ("rained heavily") and "Shelley, Mary"."""
    for cut in range(1, len(words)):
        for start, middle in _sequence(tokens, words[cut:], question):
            at = middle
            while at < len(tokens) and _fills(tokens[at]):
                at += 1
            between = tokens[middle:at]
            moved = any(isinstance(token, Word) and token.form in PREPOSITIONS for token in between)
            follows = tokens[at] if at < len(tokens) else None
            if question.person and isinstance(follows, Mark) and follows.text == ",":
                at, moved = at + 1, True
            elif isinstance(follows, Word) and follows.form.endswith("ly"):
                moved = True
            if moved:
                yield from (
                    (start, end) for begin, end in _sequence(tokens, words[:cut], question) if begin == at
                )


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


def _abbreviated(tokens: Sequence[Token], words: tuple[Word, ...]) -> Iterator[Span]:
    """The places of an initialism of the words, or of the words after one."""
    content = [(at, token) for at, token in enumerate(tokens) if isinstance(token, Word) and token.content]
    if len(words) > 1:
        short = initialisms(words)
        for at, token in content:
            # Two letters are too easily something else inside a sentence.
            if (len(token.form) >= _LEAST_INITIALISM or len(content) == 1) and token.form in short:
                yield at, at + 1
    elif len(words[0].form) >= _LEAST_INITIALISM:
        size = len(words[0].form)
        for first in range(len(content) - size + 1):
            run = content[first : first + size]
            if words[0].form in initialisms([token for _, token in run]):
                yield run[0][0], run[-1][0] + 1


def _of_something_else(tokens: Sequence[Token], span: Span, phrase: Phrase, question: Question) -> bool:
    """Whether the word before a place makes it the name of something else."""
    before = _is_content(tokens, span[0] - 1)
    if (
        before is None
        or before.form not in DISTINGUISHING
        or before.stem in question.stems | phrase.companions
    ):
        return False
    article = tokens[span[0] - 2] if span[0] > 1 else None
    indefinite = isinstance(article, Word) and article.form in {"a", "an"}
    return not (before.form == "new" and (phrase.article or indefinite))
