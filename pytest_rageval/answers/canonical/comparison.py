"""Decides whether a prediction matches a reference: figures and phrases that it must state, and negation.

People accept an answer that leaves out a detail of a long reference: "Landover, Maryland" for "FedExField in Landover,
Maryland". They reject an answer that lacks a figure, an item of a list or a word such as "south".
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from pytest_rageval.answers.canonical.dates import Date, date_matches, dates_compatible
from pytest_rageval.answers.canonical.parsing import (
    Figure,
    ParsedQuestion,
    Punctuation,
    Token,
    content_word_at,
    figure_matches,
    form_at,
    parse,
    parse_question,
    same_figure,
)
from pytest_rageval.answers.canonical.phrases import Phrase, Span, initialisms, phrase_spans
from pytest_rageval.answers.canonical.sentences import (
    ANSWER_STEMS,
    alters,
    explicit_polarity,
    is_hedged,
    is_negated,
    polarity,
    states_part,
)
from pytest_rageval.answers.canonical.words import (
    ARTICLES,
    DISTINGUISHING,
    PARTICLES,
    Word,
    fold,
    make_word,
)

MIN_WORD_SHARE = Fraction(2, 3)
_MIN_WORDS = 3
_MAX_MISSING_WORDS = 20
MAX_CHARACTERS = 4000
"""The comparison uses at most this many characters of a text: it compares each word with each word."""
MAX_PREDICTION_TOKENS = 1000
"""The comparison uses at most this many tokens of a prediction."""
MAX_REFERENCE_TOKENS = 300
"""A reference with more tokens only matches an equal prediction."""

_PARENTHESIS = re.compile(r"\s*\(([^()]*)\)\s*")
_TOWN_BEFORE_REGION = re.compile(r"^([^,]+),(?!.*\b(?:and|or)\b)", re.IGNORECASE)
_PLACE_IN_PLACE = re.compile(r"[^,]+? in ([^,]+)(?:,.*)?", re.IGNORECASE | re.DOTALL)
_ALTERNATIVE_SEPARATOR = re.compile(r"\s+/\s+|\s*;\s*or\s+")
# The number of a footnote at the end of a word ("Lloyd1"), or a number that is part of a name ("Apollo12").
_ATTACHED_FOOTNOTE = re.compile(r"(?<=[^\W\d_]{3})\d{1,2}(?!\w)")
_DIGIT = re.compile(r"\d")
_CAPITALS = re.compile(r"[A-Z]{2,7}")
_PHRASE_JOINERS = ARTICLES | frozenset("-'\".#")


@dataclass(frozen=True, slots=True)
class Requirements:
    """The figures and phrases that a prediction must state to match a reference."""

    figures: tuple[tuple[Figure, bool], ...]  # each with True if the reference negates it
    phrases: tuple[Phrase, ...]
    counted: tuple[tuple[Figure, str], ...]  # those that a noun follows directly, each with the noun's stem
    itemised: bool = False  # True if the phrases are the items of a list

    def __bool__(self) -> bool:
        return bool(self.figures or self.phrases)


def is_long(reference: str) -> bool:
    """Return True if a reference is too long for the comparison: over 4,000 characters or 300 tokens."""
    return len(reference) > MAX_CHARACTERS or len(parse(reference)) > MAX_REFERENCE_TOKENS


def matches_any(prediction: str, references: Sequence[str], *, question: str = "") -> bool:
    """Return True if a prediction matches at least one of the references.

    A prediction matches a reference if it contains

    - every figure of the reference (number, date or time; units are converted if the conversion is exact), and
    - the content words of the reference, as phrases in order. Of three or more content words two thirds are enough.

    The prediction must not negate them or name them as one of several alternatives. It may contain more information.
    With a question, a part of the reference is enough too (`states_part`). A prediction with another word in the place
    of one, with exchanged roles (`alters`), or with a hedge (`is_hedged`) does not match.

    The question changes what is required:

    - Words of the question need not be repeated. An initialism of the question is not enough.
    - If it asks for a person, the family name alone is enough. A name that only describes a relative ("the husband of
      Mary Shelley") is not.
    - If it starts with "when", the year of a date is enough. If it starts with "where", the town of a building is.

    Case, spaces, accents and the spelling of numbers do not matter. A blank prediction matches nothing. A reference
    without words ("?!") and a long one (`is_long`) match only an equal prediction. Of a prediction the first 4,000
    characters are compared. The rules are for short factual answers in English. Words of other languages and scripts
    are compared by equality and containment. Synonyms do not match.

    If several references are dates, an exact date in the prediction must agree with the exact references: "12 March
    1990" does not match "1990" if "14 June 1990" is a reference too. If there are exact references in several years, a
    year alone does not match.

    >>> matches_any("The period is half a year.", ["six months"])
    True
    >>> matches_any("York", ["New York"]), matches_any("It is not allowed", ["allowed"])
    (False, False)
    >>> matches_any("Shelley", ["Mary Shelley"], question="Who wrote Frankenstein?")
    True
    >>> [matches_any(date, ["1990", "14 June 1990"]) for date in ("12 March 1990", "14 June 1990", "1990")]
    [False, True, True]
    """
    if not prediction.strip():
        return False
    # The usual case of a right answer.
    if len(references) == 1 and prediction == references[0]:
        return True
    # A date can only contradict another reference.
    dates = {
        reference: date
        for reference in (references if len(references) > 1 else ())
        if (date := _as_date(reference)) is not None
    }
    predicted_dates = [
        token.value
        for token in (parse(_truncate(prediction)) if len(dates) > 1 else ())
        if isinstance(token, Figure) and isinstance(token.value, Date)
    ]

    def is_contradicted(reference: str) -> bool:
        """Return True if the prediction has an exact date within the reference, but none of the exact references."""
        date = dates.get(reference)
        if date is None:
            return False
        more_exact = [
            other
            for other in dates.values()
            if other.exactness > date.exactness and date_matches(date, other)
        ]
        within = [predicted for predicted in predicted_dates if date_matches(date, predicted)]
        all_exact = bool(within) and all(predicted.exactness > date.exactness for predicted in within)
        return (
            all_exact
            and bool(more_exact)
            and not any(dates_compatible(predicted, other) for predicted in within for other in more_exact)
        )

    # Whatever the question is, so that it need not be parsed.
    equal = {reference: _equals(prediction, reference) for reference in references}
    if any(equal[reference] and not is_contradicted(reference) for reference in references):
        return True
    years = {date.year for date in dates.values() if date.month is not None}
    parsed_question = parse_question(_truncate(question))
    if len(years) > 1:
        parsed_question = replace(parsed_question, asks_when=False)
    return any(
        equal[reference] is None
        and _matches(prediction, reference, parsed_question)
        and not is_contradicted(reference)
        for reference in references
    )


def _equals(prediction: str, reference: str) -> bool | None:
    """Return True if a prediction has the letters of a reference; None if it has others.

    Texts without letters and digits, of which nothing is left after folding, must be the same.
    """
    folded = fold(prediction)
    if _letters(folded) != _letters(fold(reference)):
        return None
    return bool(folded) or prediction.strip().casefold() == reference.strip().casefold()


def _matches(prediction: str, reference: str, question: ParsedQuestion) -> bool:
    if is_long(reference) or not parse(reference):
        return False
    tokens = parse(_truncate(prediction))[:MAX_PREDICTION_TOKENS]
    variants = _reference_variants(
        reference, place=question.wants_place, given=frozenset() if question.offers_choice else question.stems
    )
    if any(_matches_variant(tokens, variant, question) for variant in variants):
        return not _has_other_number(tokens, reference)
    return question.wants_place and _names_enclosing_place(tokens, reference, question)


def _letters(folded: str) -> str:
    """Return a folded text without spaces and full stops ("t.s. eliot" is "ts eliot"); unchanged if it has a digit."""
    return folded if _DIGIT.search(folded) else folded.replace(".", "").replace(" ", "") or folded


def _has_other_number(tokens: Sequence[Token], reference: str) -> bool:
    """Return True if the prediction has only other numbers after a word with an attached number, such as "Apollo11"."""
    if not _ATTACHED_FOOTNOTE.search(reference):
        return False
    expected = {
        (form_at(pair, 0), pair[1]) for pair in pairwise(parse(reference)) if isinstance(pair[1], Figure)
    }
    words = {word for word, _ in expected}
    predicted = {
        (form_at(tokens, index), following)
        for index, following in enumerate(tokens[1:])
        if isinstance(following, Figure) and form_at(tokens, index) in words
    }
    return bool(predicted) and predicted.isdisjoint(expected)


def _as_date(reference: str) -> Date | None:
    """Return the date of a reference that consists of one date and perhaps function words ("in 1974"); else None."""
    tokens = parse(reference) if not is_long(reference) else ()
    if any(isinstance(token, Word) and token.is_content_word for token in tokens):
        return None
    figures = [token for token in tokens if isinstance(token, Figure)]
    value = figures[0].value if len(figures) == 1 else None
    return value if isinstance(value, Date) else None


def _names_enclosing_place(tokens: Sequence[Token], reference: str, question: ParsedQuestion) -> bool:
    """Return True if a prediction names the larger place of a reference such as "the stadium in Orlando".

    "Orlando, Florida" names it. "the harbour in Orlando" names another place in it: before the larger place, only
    function words and words of the question are allowed.
    """
    match = _PLACE_IN_PLACE.fullmatch(reference)
    parsed = parse(match[1]) if match else ()
    words = tuple(token for token in parsed if isinstance(token, Word) and token.is_content_word)
    if question.stems.issuperset(word.stem for word in words):
        return False
    for start, end in phrase_spans(tokens, Phrase(words), question):
        before = filter(None, (content_word_at(tokens, index) for index in range(start)))
        if question.stems.issuperset(word.stem for word in before) and not is_negated(tokens, start, end):
            return True
    return False


def _truncate(text: str) -> str:
    """Return the first `MAX_CHARACTERS` characters of a text, cut at the end of a word."""
    if len(text) <= MAX_CHARACTERS:
        return text
    beginning = text[: MAX_CHARACTERS + 1].rsplit(maxsplit=1)
    return beginning[0][:MAX_CHARACTERS] if text[:MAX_CHARACTERS].strip() else ""


def _matches_variant(tokens: Sequence[Token], reference: str, question: ParsedQuestion) -> bool:
    parsed = parse(reference)
    expected, predicted = polarity(parsed, question), polarity(tokens, question)
    answers = explicit_polarity(tokens) is not None
    if (
        expected is not None
        and predicted is not expected
        and (answers or explicit_polarity(parsed) is not None)
    ):
        return False
    agrees = expected is not None and predicted is expected
    # Most predictions state something else. Whether they alter the reference or hedge is then not asked.
    return (
        _states(tokens, reference, question, agrees=agrees, answers=answers)
        and not alters(tokens, parsed, question)
        and not is_hedged(tokens, parsed, question.stems)
    )


def _states(
    tokens: Sequence[Token], reference: str, question: ParsedQuestion, *, agrees: bool, answers: bool
) -> bool:
    """Return True if a prediction states a part of a reference, or what is required.

    `agrees` says that both are a yes, or both a no; `answers` that the prediction says so with such a word.
    """
    parsed = parse(reference)
    if agrees and answers:
        words = {token.stem for token in parsed if isinstance(token, Word)}
        rest = [token for token in tokens if not isinstance(token, Word) or token.stem not in ANSWER_STEMS]
        only_answers = all(isinstance(token, Punctuation) for token in rest)
        # "Yes" is enough if the reference repeats the question as a statement.
        if states_part(rest, parsed, question) or (only_answers and question.stems <= words):
            return True
    elif states_part(tokens, parsed, question):
        return True
    requirements = _requirements_of(reference, question)
    if not requirements:
        return agrees
    return (
        all(
            _is_asserted(tokens, _figure_spans(tokens, figure, question), question, negated=negated)
            for figure, negated in requirements.figures
        )
        and _matches_phrases(tokens, requirements, question)
        and not _miscounts(tokens, requirements, question)
    )


@lru_cache(maxsize=8192)
def _requirements_of(reference: str, question: ParsedQuestion) -> Requirements:
    """Return the requirements of a reference.

    Words and figures of the question are required only if nothing else is left or the question offers a choice. If the
    reference consists of function words ("The Who"), all its words are required.
    """
    tokens = parse(reference)
    given = frozenset() if question.offers_choice else question.stems
    if polarity(tokens, question) is not None:
        # `_matches_variant` compares yes and no. Here the rest of the reference is required.
        return _build_requirements(tokens, question, given | ANSWER_STEMS)
    requirements = _build_requirements(tokens, question, given) or _build_requirements(
        tokens, question, frozenset()
    )
    return requirements or _build_requirements(tokens, question, frozenset(), every=True)


def _build_requirements(
    tokens: tuple[Token, ...], question: ParsedQuestion, given: frozenset[str], *, every: bool = False
) -> Requirements:
    indexed_figures = [(index, token) for index, token in enumerate(tokens) if isinstance(token, Figure)]
    figures = (
        (figure, is_negated(tokens, index, index + 1))
        for index, figure in indexed_figures
        if not given or figure not in question.figures
    )
    followed = ((figure, content_word_at(tokens, index + 1)) for index, figure in indexed_figures)
    counted = ((figure, noun.stem) for figure, noun in followed if noun)
    phrases = (_build_phrase(tokens, run, given) for run in _group_words(tokens, every=every))
    separators = {"and", "or"} if question.wants_place else {"and", "or", ",", ";"}
    itemised = any(token.form in separators for token in tokens)
    return Requirements(tuple(figures), tuple(filter(None, phrases)), tuple(counted), itemised)


def _build_phrase(tokens: tuple[Token, ...], run: list[int], given: frozenset[str]) -> Phrase | None:
    """Build the phrase of a run of indices without the words whose stems are `given`; None if no word is left."""
    words = [token for index in run if isinstance(token := tokens[index], Word)]
    stems = frozenset(token.stem for token in tokens if isinstance(token, Word))
    kept = [word for word in words if word.stem not in given]
    if not kept:
        return None
    return Phrase(
        tuple(kept),
        cut_left=words[0] is not kept[0],
        cut_right=words[-1] is not kept[-1],
        negated=is_negated(tokens, run[0], run[-1] + 1),
        has_article=form_at(tokens, run[0] - 1) in ARTICLES,
        reference_stems=stems,
        sentence_stems=stems,
        full_words=tuple(words),
    )


def _group_words(tokens: tuple[Token, ...], *, every: bool) -> list[list[int]]:
    """Group the indices of content words (with `every`: of all words) into phrases.

    A hyphen, an article or a particle inside a name ("Leonardo da Vinci") does not end a phrase.
    """
    runs: list[list[int]] = [[]]
    for index, token in enumerate(tokens):
        form = form_at(tokens, index)
        is_particle = form in PARTICLES and 0 < index < len(tokens) - 1
        inside_name = is_particle and runs[-1] and content_word_at(tokens, index + 1)
        if isinstance(token, Word) and (every or (token.is_content_word and not inside_name)):
            runs[-1].append(index)
        elif form not in _PHRASE_JOINERS and not is_particle:
            runs.append([])
    return [run for run in runs if run]


def _is_asserted(
    tokens: Sequence[Token], spans: Iterable[Span], question: ParsedQuestion, *, negated: bool
) -> bool:
    """Return True if at least one span is negated exactly as in the reference; any span if the question is negated."""
    return any(question.is_negated or is_negated(tokens, *span) == negated for span in spans)


def _figure_spans(tokens: Sequence[Token], figure: Figure, question: ParsedQuestion) -> Iterator[Span]:
    """Yield the spans of the figures of a prediction that match a figure of the reference."""
    for index, token in enumerate(tokens):
        if isinstance(token, Figure) and same_figure(figure, token, question):
            yield index, index + 1


def _matches_phrases(tokens: Sequence[Token], requirements: Requirements, question: ParsedQuestion) -> bool:
    def is_stated(phrase: Phrase) -> bool:
        return _is_asserted(tokens, phrase_spans(tokens, phrase, question), question, negated=phrase.negated)

    if all(map(is_stated, requirements.phrases)):
        return True
    # `phrase_spans` finds the short forms of a person's name. Another part of a name may name someone else.
    return not question.wants_person and _matches_most_words(tokens, requirements, is_stated)


def _matches_most_words(
    tokens: Sequence[Token], requirements: Requirements, is_stated: Callable[[Phrase], bool]
) -> bool:
    """Return True if a prediction states two thirds of at least three content words, and part of each list item."""
    total = sum(len(phrase.words) for phrase in requirements.phrases)
    if total < _MIN_WORDS:
        return False
    predicted_stems = {token.stem for token in tokens if isinstance(token, Word)}
    # Most predictions share too few words with the reference. This check is much faster than the search below.
    shared = sum(word.stem in predicted_stems for phrase in requirements.phrases for word in phrase.words)
    if shared < MIN_WORD_SHARE * total:
        return False
    covered = 0
    for phrase in requirements.phrases:
        # In a list, a part of one item next to a word of another item is not that part.
        own = frozenset(word.stem for word in phrase.words)
        allowed = own if requirements.itemised else phrase.reference_stems
        shortened = _shortened_phrases(replace(phrase, reference_stems=allowed))
        stated = next((variant for variant in (phrase, *shortened) if is_stated(variant)), None)
        if stated is None and (requirements.itemised or _has_distinguishing_word(phrase.words)):
            return False
        covered += len(stated.words) if stated else 0
    return covered >= MIN_WORD_SHARE * total


def _has_distinguishing_word(words: Sequence[Word]) -> bool:
    return any(word.form in DISTINGUISHING for word in words)


def _shortened_phrases(phrase: Phrase) -> Iterator[Phrase]:
    """Yield the beginnings and ends of a phrase, longest first, with at most `_MAX_MISSING_WORDS` words missing."""
    words = phrase.words
    for missing in range(1, min(len(words), _MAX_MISSING_WORDS + 1)):
        if not _has_distinguishing_word(words[-missing:]):
            yield replace(phrase, words=words[:-missing], cut_right=True, full_words=())
        if not _has_distinguishing_word(words[:missing]):
            yield replace(phrase, words=words[missing:], cut_left=True, full_words=())


def _miscounts(tokens: Sequence[Token], requirements: Requirements, question: ParsedQuestion) -> bool:
    """Return True if the prediction has only other numbers before a noun that the reference counts."""
    asked = [(figure, question.counted_noun) for figure, _ in requirements.figures if question.counted_noun]
    for figure, noun in requirements.counted or asked:
        counts = [
            token
            for token, following in pairwise(tokens)
            if isinstance(token, Figure) and isinstance(following, Word) and following.stem == noun
        ]
        if counts and not any(figure_matches(figure, count, question.implied_dimensions) for count in counts):
            return True
    return False


@lru_cache(maxsize=8192)
def _reference_variants(
    reference: str, *, place: bool = False, given: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Return the variants of a reference. A prediction that matches one of them matches the reference.

    A parenthesis may be left out. If it abbreviates the rest, it is a variant, unless its stem is `given`. A slash
    between spaces separates variants. If `place`, the region after the comma may be left out.

    >>> _reference_variants("Tulsa (Oklahoma)"), _reference_variants("International Border (IB)")
    (('Tulsa',), ('International Border', 'IB'))
    >>> _reference_variants("soccer / football")
    ('soccer', 'football')
    """
    variants: list[str] = []
    for alternative in _ALTERNATIVE_SEPARATOR.split(reference):
        outside = _PARENTHESIS.sub(" ", alternative).strip()
        inside = [text.strip() for text in _PARENTHESIS.findall(alternative)]
        if not parse(outside):
            variants.append(alternative.strip())
            continue
        variants.append(outside)
        if _ATTACHED_FOOTNOTE.search(outside):
            variants.append(_ATTACHED_FOOTNOTE.sub("", outside))
        town = _TOWN_BEFORE_REGION.match(outside) if place else None
        if town:
            variants.append(town[1])
        if not inside:
            continue
        short = initialisms([token for token in parse(outside) if isinstance(token, Word)])
        variants.extend(
            text
            for text in inside
            if (fold(text) in short or _abbreviates(text, outside))
            and make_word(fold(text)).stem not in given
        )
    return tuple(dict.fromkeys(variants))


def _abbreviates(short: str, text: str) -> bool:
    """Return True if a text has the capitals of `short` in order: "ADP" abbreviates "adenosine diphosphate"."""
    letters, capitals = iter(fold(text)), fold(short)
    starts = _CAPITALS.fullmatch(short) is not None and fold(text)[:1] == capitals[:1]
    return starts and all(letter in letters for letter in capitals)
