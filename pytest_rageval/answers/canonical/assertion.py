"""Whether a prediction asserts the words of a reference that it has, or only mentions them.

What is denied is not asserted, and neither are one of several guesses and an aside to another answer.

A mention that is no answer is recognised by its syntax: what something is compared with ("larger than X"), what a
relative clause tells of another answer ("A, who was followed by X"), and what stands beside a sentence that repeats
the question and answers it in another way ("The capital of Q is A; X is ..."). The last two hold only where the
reference is a name or a figure, since other answers often stand in such clauses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_rageval.answers.canonical.parsing import Figure, Question, Token, content_at, form_at
from pytest_rageval.answers.canonical.words import ARTICLES, NEGATORS, PARTICLES, PREPOSITIONS, Word, listed

__all__ = ["Mention", "is_asserted", "is_negated", "negates"]

# A negation reaches over three content words within its clause.
_NEGATION_REACH = 3
_CLAUSE_ENDS = frozenset(".,;:!?()") | listed("but and although though however because while")

# "not only A", "not until 1989" and "no more than 20" assert what follows.
_ASSERTING = listed("only until till before merely just more less later fewer exceed")
_BE = listed("is are was were")
_VERBS = _BE | listed("be do does did has have had can could will would should shall may might must")
_REPLACING = (("rather", "than"), ("instead", "of"), ("opposed", "to"))

# "superior to X" and "compared with X" say what something else is held against.
_COMPARED = listed("similar comparable compared related superior inferior equal prior")
_RELATIVE = listed("who whom whose which that")
_GUESSES = listed("maybe perhaps possibly")
_UNDECIDED = _GUESSES | {"either"}
_GUESS_REACH = 4
_BEFORE_A_GUESS = ARTICLES | _UNDECIDED | {","}
_AROUND_A_NAME = ARTICLES | PREPOSITIONS | PARTICLES | frozenset(",-'\".")
_LONGEST_NAME = 5

# Words that say what else something is called: "Samuel Clemens, who wrote under the name Mark Twain".
_NAMING = listed("known called named name alias aka nickname nicknamed pseudonym title titled formerly short")
_SENTENCE_ENDS = frozenset(".;!?") | listed("but although though while whereas however")
# A repeated question has two thirds of its words, and two at least.
_LEAST_SHARE = Fraction(2, 3)
_LEAST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of a prediction, from `start` to before `end`, that has words or a figure of a reference.

    `known` are the stems of the reference and of the other references. `named` says that the reference is a name,
    `figure` that it is a figure.
    """

    start: int
    end: int
    known: frozenset[str] = frozenset()
    named: bool = False
    figure: bool = False


def is_asserted(tokens: Sequence[Token], mention: Mention, question: Question, *, negated: bool) -> bool:
    """Whether a prediction says (or denies, where the reference does: `negated`) what it mentions."""
    if question.negated:
        return True
    if is_negated(tokens, mention.start, mention.end) != negated:
        return False
    return negated or not (
        (not mention.figure and _is_compared_with(tokens, mention, question))
        or _is_one_of_several(tokens, mention)
        or (mention.named and _is_told_of_another(tokens, mention, question))
        or ((mention.named or mention.figure) and _is_beside_the_answer(tokens, mention, question))
    )


def is_negated(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Return whether the stretch of tokens from `start` to before `end` is denied.

    A verb with "not" right after the stretch denies it too ("six months is not ...").

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> is_negated(parse("not six months"), 1, 2), is_negated(parse("No, six months"), 2, 3)
    (True, False)
    """
    passed = 0
    for at in range(start - 1, -1, -1):
        if form_at(tokens, at) in _CLAUSE_ENDS or passed > _NEGATION_REACH:
            break
        if negates(tokens, at):
            return True
        passed += not isinstance(tokens[at], Word) or content_at(tokens, at) is not None
    return form_at(tokens, end) in _VERBS and form_at(tokens, end + 1) == "not" and negates(tokens, end + 1)


def negates(tokens: Sequence[Token], at: int) -> bool:
    """Whether the token at a place denies what follows it."""
    form, following = form_at(tokens, at), form_at(tokens, at + 1)
    if form in NEGATORS:
        return following not in _ASSERTING and not _is_no_other(tokens, at)
    return (form, following) in _REPLACING


def _is_no_other(tokens: Sequence[Token], at: int) -> bool:
    """Whether "no other than" is at a place: it asserts what follows."""
    return form_at(tokens, at) in NEGATORS and [form_at(tokens, at + step) for step in (1, 2)] == [
        "other",
        "than",
    ]


def _is_compared_with(tokens: Sequence[Token], mention: Mention, question: Question) -> bool:
    """Whether the words before a mention compare something else with it: "larger than X", "inferior to X"."""
    link = _last(tokens, mention.start, ARTICLES | {"that", "of"})
    compared = form_at(tokens, link if form_at(tokens, link) == "than" else link - 1)
    if compared in mention.known | question.forms:
        return False
    if compared == "than":
        return not _is_no_other(tokens, link - 2)
    return compared in _COMPARED and form_at(tokens, link) in {"to", "with"}


def _last(tokens: Sequence[Token], at: int, skipped: frozenset[str]) -> int:
    """The place of the last token before a place that is none of these words."""
    at -= 1
    while form_at(tokens, at) in skipped:
        at -= 1
    return at


def _next(tokens: Sequence[Token], at: int, skipped: frozenset[str]) -> int:
    """The first place from here on whose token is none of these words."""
    while form_at(tokens, at) in skipped:
        at += 1
    return at


def _is_one_of_several(tokens: Sequence[Token], mention: Mention) -> bool:
    """Whether a mention is one of several guesses: "either A or B", "A or B" of names, "maybe A, maybe B".

    A name after a comma and "or" is another name of the same: "Myanmar, or Burma".
    """
    left, right = _last(tokens, mention.start, _BEFORE_A_GUESS), _next(tokens, mention.end, frozenset(","))
    beside = ((left, _last(tokens, left, frozenset(","))), (right, _next(tokens, right + 1, _BEFORE_A_GUESS)))
    for link, other in beside:
        around = {form_at(tokens, at) for at in range(link - _GUESS_REACH, link + _GUESS_REACH)}
        offered = not _UNDECIDED.isdisjoint(around) or (mention.named and form_at(tokens, link - 1) != ",")
        if form_at(tokens, link) == "or" and offered and _is_other(tokens, other, mention):
            return True
    guesses = [at for at in range(len(tokens)) if form_at(tokens, at) in _GUESSES]
    return mention.start - 1 in guesses and any(
        _is_other(tokens, _next(tokens, at + 1, ARTICLES), mention)
        for at in guesses
        if at != mention.start - 1
    )


def _is_other(tokens: Sequence[Token], at: int, mention: Mention) -> bool:
    """Whether the token at a place is a figure or a content word that the references do not have."""
    word = content_at(tokens, at)
    return (
        word.stem not in mention.known if word else 0 <= at < len(tokens) and isinstance(tokens[at], Figure)
    )


def _is_told_of_another(tokens: Sequence[Token], mention: Mention, question: Question) -> bool:
    """Whether a relative clause has a mention to describe another answer: "A, who was followed by X".

    That other answer stands alone at the start of a sentence. A clause that has a word of the question, or says what
    something is called, may give the answer.
    """
    passed = False
    for at in range(mention.start - 1, 0, -1):
        form, word = form_at(tokens, at), content_at(tokens, at)
        if form in _RELATIVE:
            return passed and _is_answer_alone(tokens, at, mention, indefinite=form == "that")
        aside = form not in _CLAUSE_ENDS and (form not in _BE or form_at(tokens, at - 1) in _RELATIVE)
        if not aside or form in _NAMING or (word and word.stem in question.stems):
            return False
        passed = passed or (word is not None and word.stem not in mention.known)
    return False


def _is_answer_alone(tokens: Sequence[Token], end: int, mention: Mention, *, indefinite: bool) -> bool:
    """Whether before a place stands only another name or "a" thing, perhaps after a preposition: "In a country"."""
    start = max((at + 1 for at in range(end) if form_at(tokens, at) in _SENTENCE_ENDS), default=0)
    others = [at for at in range(start, end) if _is_other(tokens, at, mention)]
    forms = {form_at(tokens, at) for at in range(start, end) if at not in others}
    return (
        0 < len(others) <= _LONGEST_NAME
        and forms <= _AROUND_A_NAME - {"the"}
        and (not indefinite or not forms.isdisjoint({"a", "an"}))
    )


def _is_beside_the_answer(tokens: Sequence[Token], mention: Mention, question: Question) -> bool:
    """Whether another part of a prediction repeats the question with another answer: "The capital of Q is A; X is ...".

    Such a part has words of the question, the other answer and nothing else. After a mere comma, a name often adds to
    the answer ("in Cusco, Peru").
    """
    parts = list(_parts(tokens))
    if len(parts) == 1:
        return False
    own = next((part for part in parts if mention.start in part), range(0))
    repeated = _repeated(tokens, own, question)
    return any(
        _repeated(tokens, part, question) > repeated
        and (mention.figure or _are_apart(tokens, *sorted((part, own), key=lambda each: each.start)))
        and _answers_otherwise(tokens, part, mention, question)
        for part in parts
    )


def _are_apart(tokens: Sequence[Token], one: range, other: range) -> bool:
    between = range(one.stop, other.start + 1)
    return any(form_at(tokens, at) in _SENTENCE_ENDS | _RELATIVE for at in between)


def _parts(tokens: Sequence[Token]) -> Iterator[range]:
    """The stretches between commas, ends of sentences and words of contrast."""
    start = 0
    for at in range(len(tokens)):
        if form_at(tokens, at) in _SENTENCE_ENDS | {","}:
            yield range(start, at)
            start = at + 1
    yield range(start, len(tokens))


def _repeated(tokens: Sequence[Token], part: range, question: Question) -> int:
    """How many words of the question a part of a text has."""
    words = {word.stem for at in part if (word := content_at(tokens, at))}
    return len(words & question.stems)


def _answers_otherwise(tokens: Sequence[Token], part: range, mention: Mention, question: Question) -> bool:
    """Whether a part of a text repeats the question, with another name or figure in place of what is mentioned."""
    forms = {form_at(tokens, at) for at in part}
    if (
        _repeated(tokens, part, question) < _LEAST_SHARE * max(len(question.stems), _LEAST_WORDS)
        or not forms.isdisjoint(NEGATORS | _GUESSES | _NAMING)
        or not forms & _BE <= question.forms
        or forms.isdisjoint(_BE) != question.forms.isdisjoint(_BE)
    ):
        return False
    names = [at for at in part if (word := content_at(tokens, at)) and word.stem not in question.stems]
    figures = [
        token for at in part if isinstance(token := tokens[at], Figure) and token not in question.figures
    ]
    if mention.figure:
        wanted = tokens[mention.start]
        same_kind = [
            isinstance(wanted, Figure) and type(wanted.value) is type(each.value) for each in figures
        ]
        return not names and same_kind == [True]
    run = range(names[0], names[-1] + 1) if names else range(0)
    return (
        not figures
        and 0 < len(run) <= _LONGEST_NAME
        and (run.start == part.start or run.stop == part.stop)
        and form_at(tokens, run.start - 1) not in {"a", "an"}
        and all(_is_other(tokens, at, mention) or form_at(tokens, at) in _AROUND_A_NAME for at in run)
    )
