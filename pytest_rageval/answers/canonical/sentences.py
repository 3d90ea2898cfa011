"""Compares a prediction with a reference that is a sentence: yes or no, what it asserts, parts, and replaced words.

A right answer often is a part of the sentence: "44" for "There are 44 counties". A wrong answer often is the sentence
with another word in the place of one, or with exchanged roles. The rules look at the words around a word, so they need
no dictionary.
"""

import re
from collections import Counter
from collections.abc import Container, Sequence
from itertools import islice, pairwise

from pytest_rageval.answers.canonical.parsing import (
    Figure,
    ParsedQuestion,
    Punctuation,
    Token,
    content_word_at,
    form_at,
    item_at,
    same_figure,
)
from pytest_rageval.answers.canonical.words import (
    ARTICLES,
    AUXILIARIES,
    DISTINGUISHING,
    NEGATORS,
    PREPOSITIONS,
    Word,
    make_word,
    same_word,
    word_set,
)

# A negation extends over three content words or figures within its clause.
_MAX_WORDS_AFTER_NEGATION = 3
CLAUSE_ENDS = frozenset(".,;:!?()") | word_set("and but although though however because while")

_VERBS = AUXILIARIES | {"may"}

# A negator before one of these words does not negate: "not only A", "not until 1989", "no more than 20".
_ASSERTING = word_set("only until till before merely just more less later fewer exceed")
_CONTRASTS = (("rather", "than"), ("instead", "of"), ("opposed", "to"))
_NEGATING = NEGATORS.union(first for first, _ in _CONTRASTS)

_HEDGE = re.compile(
    r"\b(?:not|cannot)(?: \w+){0,2}? (?:say|state|mention|specify|know|tell|sure|certain|clear|enough|confirm|name)\b"
    r"|\b(?:unclear|unsure|unknown|uncertain|asks? (?:whether|if))\b(?!.*\b(?:but|however)\b)"
    r"|\b(?:either|maybe|perhaps|possibly|could be|might be)\b.*\b(?:or|maybe|perhaps|possibly|might be)\b"
)


def is_negated(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Return True if the tokens from `start` to before `end` are negated.

    A verb with "not" directly after them negates them too ("six months is not ...").

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> is_negated(parse("not six months"), 1, 2), is_negated(parse("No, six months"), 2, 3)
    (True, False)
    """
    distance = 0
    for index in range(start - 1, -1, -1):
        token = tokens[index]
        if token.form in CLAUSE_ENDS or distance > _MAX_WORDS_AFTER_NEGATION:
            break
        if token.form in _NEGATING and negates(tokens, index):
            return True
        distance += token.is_content_word or not isinstance(token, Word)
    return form_at(tokens, end) in _VERBS and form_at(tokens, end + 1) == "not" and negates(tokens, end + 1)


def negates(tokens: Sequence[Token], index: int) -> bool:
    form, following = form_at(tokens, index), form_at(tokens, index + 1)
    return following not in _ASSERTING if form in NEGATORS else (form, following) in _CONTRASTS


def is_hedged(tokens: Sequence[Token], reference: Sequence[Token], given: Container[str] = ()) -> bool:
    """Return True if a prediction mentions a reference without commitment, in each sentence that mentions it.

    Hedges are "either A or B", "maybe A, maybe B" and "I cannot say whether it is A", but not "it is probably A". The
    stems that are `given` by the question are no hedges.

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> texts = "It is probably Oslo.", "Either Oslo or Bergen", "They name Oslo, but do not say why."
    >>> [is_hedged(parse(text), parse("Oslo")) for text in texts]
    [False, True, True]
    """
    expected = [token.form for token in reference]
    content = {token.form for token in reference if token.is_content_word}
    text = " ".join(
        "#" if isinstance(token, Word) and token.stem in given else token.form or "#" for token in tokens
    )
    sentences = [
        part for part in re.split(r"[.!?]", text) if not content or not content.isdisjoint(part.split())
    ]
    hedged = bool(sentences) and all(_HEDGE.search(part) for part in sentences)
    return hedged and "or" not in expected and not _HEDGE.search(" ".join(expected))


Item = Word | Figure
Items = list[tuple[int, Item]]
"""Content words and figures, each with the index of its token."""

_MIN_SENTENCE = 5
_MIN_SENTENCE_WITHOUT_AUXILIARY = 8
_MAX_QUALIFIERS = 3
_MAX_WORDS_BESIDE_VERB = 5
_MAX_TOKENS_TO_AGENT = 10
_SEGMENT_ENDS = frozenset(".,;:!?(")
_SEPARATORS = frozenset({"and", "or", ",", ";"})
_INSIDE_NAMES = ARTICLES | frozenset("-'\"")


def states_part(tokens: Sequence[Token], reference: Sequence[Token], question: ParsedQuestion) -> bool:
    """Return True if a prediction without the words of the question is a part of a reference.

    A part is a figure, or at least two adjacent words. Of a sentence one word is a part too, and several words need not
    be adjacent. One item of a list is not a part. After the first clause a prediction may say more. Without a question
    nothing is a part, because any part could be the answer.

    >>> from pytest_rageval.answers.canonical.parsing import parse, parse_question
    >>> states_part(parse("44"), parse("There are 44 counties in Idaho."), parse_question("How many counties?"))
    True
    """
    if not question.stems:
        return False
    forms = [token.form for token in tokens]
    if "only" in forms or "alone" in forms:
        return False
    end = next((index for index, form in enumerate(forms) if form in _SEGMENT_ENDS), None)
    every = _items(reference)
    whole, items = _answer_items(every, reference, question), _answer_items(_items(tokens), tokens, question)
    parts = [(tokens, items)]
    if end is not None:
        parts.append((tokens[:end], [item for item in items if item[0] < end]))
    for text, part in parts:
        stated = _without_qualifiers(part, whole, question) if question.wants_person else part
        if 0 < len(stated) < len(every) and _is_part(text, stated, reference, whole, question):
            return True
    return False


def _is_part(
    tokens: Sequence[Token], part: Items, reference: Sequence[Token], whole: Items, question: ParsedQuestion
) -> bool:
    """Return True if the items of a text are a part of a reference; `whole` are its items that the question lacks."""
    found = _find_part(part, whole, reference, question)
    if not found or (question.asks_when and _has_figure(whole) and not _has_figure(part)):
        return False
    chosen, offered = (
        [item for _, item in items if isinstance(item, Word) and item.stem in question.alternatives]
        for items in (found, whole)
    )
    negated, expected = (
        any(is_negated(text, index, index + 1) for index, _ in items)
        for text, items in ((tokens, part), (reference, found))
    )
    return chosen[:1] == offered[:1] and (question.is_negated or negated == expected)


def _find_part(part: Items, whole: Items, reference: Sequence[Token], question: ParsedQuestion) -> Items:
    """Return the items of a reference that are the items of a part; none if it is not a part."""
    is_sentence, size = _is_sentence(reference), len(part)
    for start in range(len(whole) - size + 1):
        run = whole[start : start + size]
        if all(_same(old, new, question) for (_, old), (_, new) in zip(run, part, strict=True)):
            is_enough = is_sentence or size > 1 or _has_figure(part)
            return run if is_enough and not _is_cut_off(reference, run, is_sentence=is_sentence) else []
    left, found = whole.copy(), []
    for _, new in part if is_sentence and size > 1 else ():
        match = next((item for item in left if _same(item[1], new, question)), None)
        if match is None:
            return []
        left.remove(match)
        found.append(match)
    return found


def _is_cut_off(reference: Sequence[Token], part: Items, *, is_sentence: bool) -> bool:
    """Return True if a part lacks "north" before it, "II" after it, or the other items of a list."""
    before, after = part[0][0] - 1, part[-1][0] + 1
    while form_at(reference, before) in ARTICLES:
        before -= 1
    forms = [token.form for token in reference]
    # A single comma separates no list: "Landover, Maryland".
    is_list = forms.count(",") != 1 or not _SEPARATORS.isdisjoint({*forms} - {","})
    beside = {form_at(reference, before), form_at(reference, after)}
    is_item = not is_sentence and is_list and not _SEPARATORS.isdisjoint(beside)
    is_numbered = not _has_figure(part) and isinstance(item_at(reference, after), Figure)
    return is_item or is_numbered or form_at(reference, before) in DISTINGUISHING


def _without_qualifiers(part: Items, whole: Items, question: ParsedQuestion) -> Items:
    """Return a part without the words directly before a name: "the Swedish botanist Carl Linnaeus"."""
    for start, ((index, item), (following, _)) in enumerate(pairwise(part)):
        if any(_same(old, item, question) for _, old in whole):
            return part[start:]
        if start == _MAX_QUALIFIERS or following != index + 1:
            break
    return part


def _items(tokens: Sequence[Token]) -> Items:
    """Return the items of a text.

    Adjacent initials are one word: "T.S. Eliot" has the items of "TS Eliot", although "s" is no content word.
    """
    items: Items = []
    initials = ""
    for index, token in enumerate(tokens):
        if len(token.form) == 1 and "a" <= token.form <= "z":
            initials += token.form
            if len(initials) > 1:
                if items and items[-1][0] == index - 1:
                    items.pop()
                items.append((index, make_word(initials)))
                continue
        else:
            initials = ""
        if not isinstance(token, Punctuation) and (token.is_content_word or isinstance(token, Figure)):
            items.append((index, token))
    return items


def _answer_items(items: Items, tokens: Sequence[Token], question: ParsedQuestion) -> Items:
    """Return the items of a text that are not in the question; all of them if the question offers a choice.

    Joined initials are never in the question.
    """
    if question.offers_choice:
        return items
    return [
        (index, item)
        for index, item in items
        if item is not tokens[index]
        or (item.stem not in question.stems if isinstance(item, Word) else item not in question.figures)
    ]


def _has_figure(items: Items) -> bool:
    return any(isinstance(item, Figure) for _, item in items)


def _same(expected: Item, predicted: Item, question: ParsedQuestion) -> bool:
    if isinstance(expected, Figure) and isinstance(predicted, Figure):
        return expected.in_range == predicted.in_range and same_figure(expected, predicted, question)
    return isinstance(expected, Word) and isinstance(predicted, Word) and same_word(expected, predicted)


def _is_sentence(tokens: Sequence[Token]) -> bool:
    """Return True for five words with an auxiliary verb ("is", "has"), and for eight words that are no list."""
    words = sum(not isinstance(token, Punctuation) for token in tokens)
    forms = [token.form for token in tokens]
    if not AUXILIARIES.isdisjoint(forms):
        return words >= _MIN_SENTENCE
    is_list = 3 * sum(form in _SEPARATORS for form in forms) >= words
    return words >= _MIN_SENTENCE_WITHOUT_AUXILIARY and not is_list


def alters(tokens: Sequence[Token], reference: Sequence[Token], question: ParsedQuestion) -> bool:
    """Return True if a prediction has another word in a place of a reference, or exchanges who does what to whom.

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> texts = ("It is written in Java.", "It is written in Rust."), ("Ali beat Frazier", "Frazier beat Ali")
    >>> [alters(parse(second), parse(first), ParsedQuestion()) for first, second in texts]
    [True, True]
    """
    replaces = len(reference) >= _MIN_SENTENCE and _replaces(tokens, reference, question)
    return replaces or _exchanges(tokens, reference)


def _replaces(tokens: Sequence[Token], reference: Sequence[Token], question: ParsedQuestion) -> bool:
    """Return True if, between the same two words, a prediction has another item than a reference.

    The other item is new, or the two change places. A new item of the question only repeats the question.
    """
    expected, predicted = _places(reference), _places(tokens)
    known, stated = (
        {item for items in places.values() for item in items} for places in (expected, predicted)
    )
    given = frozenset() if question.offers_choice else question.stems
    for place in expected.keys() & predicted.keys():
        pairs = ((old, new) for old in expected[place] for new in predicted[place])
        for old, new in pairs if expected[place].isdisjoint(predicted[place]) else ():
            moved, replaced = new in known and old in stated, new not in known and old not in stated
            if _same(old, new, question) or not (moved or replaced):
                continue
            if not _are_listed(reference, old, new) if moved else _stem(new) not in given:
                return True
    return False


def _places(tokens: Sequence[Token]) -> dict[tuple[str, str], set[Item]]:
    """Return the items between each pair of words, without articles; the word of a pause is empty."""
    kept = [None, *(token for token in tokens if token.form not in _INSIDE_NAMES), None]
    places: dict[tuple[str, str], set[Item]] = {}
    for before, token, after in zip(kept, kept[1:], kept[2:], strict=False):
        place = _stem(before), _stem(after)
        item = item_at([token], 0) if token and any(place) else None
        if item:
            places.setdefault(place, set()).add(Figure(item.value) if isinstance(item, Figure) else item)
    return places


def _stem(token: Token | None) -> str:
    return token.stem if isinstance(token, Word) else "#" if isinstance(token, Figure) else ""


def _are_listed(tokens: Sequence[Token], first: Item, second: Item) -> bool:
    """Return True if two items are in one list, in which items may change places: "red, yellow and blue"."""
    linked: set[Item] = set()
    separated = False
    for index in range(len(tokens)):
        item, form = item_at(tokens, index), form_at(tokens, index)
        if item:
            linked.add(Figure(item.value) if isinstance(item, Figure) else item)
        elif form in _SEPARATORS:
            separated = True
        elif form not in ARTICLES:
            linked, separated = set(), False
        if separated and first in linked and second in linked:
            return True
    return False


def _exchanges(tokens: Sequence[Token], reference: Sequence[Token]) -> bool:
    """Return True if words change sides of a verb or a comparative and the voice stays, or the reverse.

    "Ali beat Frazier" exchanges the roles of "Frazier beat Ali", and so does "Frazier was beaten by Ali".
    """
    expected, predicted = _unique_positions(reference), _unique_positions(tokens)
    for verb in expected.keys() & predicted.keys():
        at, now = expected[verb], predicted[verb]
        before_at, before_now = form_at(reference, at - 1), form_at(tokens, now - 1)
        copulas = form_at(reference, at - 2), form_at(tokens, now - 2)
        # A noun is no verb, except in "Oslo is the capital of Norway", if both texts have the same "is the".
        is_noun = before_at in ARTICLES | PREPOSITIONS
        if is_noun and not (
            before_at == before_now and copulas[0] == copulas[1] and copulas[0] in AUXILIARIES
        ):
            continue
        # The items of a list may change places. A verb after "and" keeps its place.
        ends = CLAUSE_ENDS - {"and"} if before_at == before_now == "and" else CLAUSE_ENDS
        left, right = (
            [predicted[stem] for stem in _stems_beside(reference, at, step, ends) if stem in predicted]
            for step in (-1, 1)
        )
        if any(index > now for index in left) and any(index < now for index in right):
            if _has_agent(reference, at) == _has_agent(tokens, now):
                return True
        elif (
            left
            and right
            and left[0] < now < right[0]
            and _is_passive(reference, at) != _is_passive(tokens, now)
        ):
            return True
    return False


def _stems_beside(tokens: Sequence[Token], index: int, step: int, ends: Container[str]) -> list[str]:
    """Return the stems of the content words on one side of an index in its clause, without adverbs."""
    stems: list[str] = []
    index += step
    while (
        0 <= index < len(tokens)
        and form_at(tokens, index) not in ends
        and len(stems) < _MAX_WORDS_BESIDE_VERB
    ):
        word = content_word_at(tokens, index)
        stems += [word.stem] if word and not word.form.endswith("ly") else []
        index += step
    return stems


def _unique_positions(tokens: Sequence[Token]) -> dict[str, int]:
    stems = [token.stem if isinstance(token, Word) and token.is_content_word else "" for token in tokens]
    counts = Counter(stems)
    return {stem: index for index, stem in enumerate(stems) if stem and counts[stem] == 1}


def _has_agent(tokens: Sequence[Token], index: int) -> bool:
    """Return True if "by" follows a verb in its clause."""
    for following in range(index, min(index + _MAX_TOKENS_TO_AGENT, len(tokens))):
        form = form_at(tokens, following)
        if form == "by" or form in CLAUSE_ENDS:
            return form == "by"
    return False


def _is_passive(tokens: Sequence[Token], index: int) -> bool:
    return form_at(tokens, index - 1) in AUXILIARIES and form_at(tokens, index + 1) == "by"


_YES = word_set("yes yeah yep true correct right affirmative indeed")
_NO = word_set("no nope false incorrect wrong")
_YES_OR_NO = _YES | _NO
ANSWER_STEMS = frozenset(make_word(form).stem for form in _YES_OR_NO)

# "no" in "Typically, no" is the answer, although a word precedes it.
_MAX_WORDS_BEFORE_POLARITY = 2


def explicit_polarity(tokens: Sequence[Token]) -> bool | None:
    """Return True for "yes" and False for "no" at the start of a text; None if it starts with neither.

    In "no dogs", "no" negates a word and is not an answer.

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> [explicit_polarity(parse(text)) for text in ("Yes, it is", "Typically, no", "six")]
    [True, False, None]
    """
    words = ((index, token.form) for index, token in enumerate(tokens) if isinstance(token, Word))
    for index, form in islice(words, _MAX_WORDS_BEFORE_POLARITY + 1):
        if form not in _YES_OR_NO:
            continue
        alone = index + 1 >= len(tokens) or isinstance(tokens[index + 1], Punctuation)
        if form in _YES and (alone or index == 0):
            return True
        follows = None if alone else tokens[index + 1]
        pronoun = isinstance(follows, Word) and not follows.is_content_word and follows.form not in NEGATORS
        if form in _NO and (alone or (index == 0 and pronoun)):
            return False
    return None


def polarity(tokens: Sequence[Token], question: ParsedQuestion) -> bool | None:
    """Return True if a text answers yes, False if it answers no, and None if neither.

    As an answer to a yes-or-no question, a text with a negation means no. A text without one that repeats a content
    word of the question means yes.

    >>> from pytest_rageval.answers.canonical.parsing import parse, parse_question
    >>> free = parse_question("Is parking free for staff?")
    >>> polarity(parse("Parking is free."), free), polarity(parse("It is not free"), free)
    (True, False)
    """
    explicit = explicit_polarity(tokens)
    if explicit is not None or not question.is_polar or question.offers_choice:
        return explicit
    if any(negates(tokens, index) for index in range(len(tokens))):
        return False
    repeats = any(
        isinstance(token, Word) and token.is_content_word and token.stem in question.stems for token in tokens
    )
    return True if repeats else None
