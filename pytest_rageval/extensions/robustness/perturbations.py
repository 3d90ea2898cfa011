"""Changes of a question that leave its meaning, without a model. They depend on the question and the seed alone."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Final, TypeVar

from pytest_rageval.core.data import Example
from pytest_rageval.core.errors import did_you_mean
from pytest_rageval.evalsets.records import Check

T = TypeVar("T")

PERTURB: Final = "perturb"
VARIANTS: Final = "variants"
TYPO_SHARE: Final = 0.2  # of the words with at least four letters; at least one word
WORD: Final = re.compile(r"[^\W\d_]{4,}")
ACCENTS: Final = range(0x300, 0x370)  # the combining marks of Latin, Greek and Cyrillic
BASES: Final = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ı": "i"})
KEYBOARD: Final = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
STOP_WORDS: Final = {
    "en": "a about an and are at be by can could do does did for from had has have how i if in is it its my of on or "
    "our should that the their there these they this to was we were what when where which who why will with would you "
    "your",
    "de": "aber als am an auf aus bei bin bis das dem den der des die dies diese ein eine einem einen einer es für hat "
    "ich im in ist kann man mein meine mit muss nach oder sich sie sind soll über um und uns von vor wann warum was "
    "wer welche welcher wenn werden wie wir wird wo zu zum zur",
    "fr": "à au aux avec ce ces cette comment dans de des du elle en est et il ils je l la le les leur ma mes mon nous "
    "on ou où par pas pour pourquoi puis quand que quel quelle quelles quels qui sa sans se ses son sont sur un une "
    "vous",
    "es": "a al como cómo con cual cuál cuando cuándo cuánto de del donde dónde el ella en es esta este está hay la "
    "las lo los me mi mis o para pero por porque puedo que qué quien quién se ser si sin son su sus un una y yo",
}


def typos(question: str, rng: Random) -> str:
    """Mistype one in five of the words with at least four letters, and at least one word: its first letter stays."""
    words = list(WORD.finditer(question))
    chosen = _shuffled(words, rng)[: max(1, round(TYPO_SHARE * len(words)))]
    for match in sorted(chosen, key=re.Match.start, reverse=True):
        question = question[: match.start()] + _mistyped(match[0], rng) + question[match.end() :]
    return question


def _mistyped(word: str, rng: Random) -> str:
    """Swap a letter with the next, leave it out, type it twice, or hit a neighbouring key."""
    at = 1 + int(rng.random() * (len(word) - 2))
    letter, following = word[at], word[at + 1]
    row = next((row for row in KEYBOARD if letter in row), letter)
    beside = row[row.index(letter) - 1 if row.index(letter) else 1 % len(row)]
    forms = {following + letter, following, letter * 2 + following, beside + following} - {letter + following}
    return word[:at] + _shuffled(sorted(forms), rng)[0] + word[at + 2 :]


def case(question: str, _: Random) -> str:
    """Write all letters small; if they are, all large."""
    lower = question.lower()
    return question.upper() if lower == question else lower


def diacritics(question: str, _: Random) -> str:
    """Leave out accents: ü becomes u, and ß ss."""
    letters = unicodedata.normalize("NFD", question)
    bare = "".join(letter for letter in letters if ord(letter) not in ACCENTS)
    return unicodedata.normalize("NFC", bare).translate(BASES)


def punctuation(question: str, _: Random) -> str:
    """Leave out punctuation around words: that within a word or a number stays."""
    return " ".join(filter(None, (word.strip("".join(_marks(word))) for word in question.split())))


def _marks(word: str) -> set[str]:
    return {letter for letter in word if unicodedata.category(letter).startswith("P")}


def stopwords(question: str, _: Random) -> str:
    """Leave out stop words of the language that has most of the words: English, German, French or Spanish."""
    words = question.split()
    bare = [word.strip("".join(_marks(word))).lower() for word in words]
    lists = [set(text.split()) for text in STOP_WORDS.values()]
    most = max(lists, key=lambda known: sum(word in known for word in bare))
    kept = [word for word, plain in zip(words, bare, strict=True) if plain not in most]
    return " ".join(kept) if any(map(str.isalnum, "".join(kept))) else question


def order(question: str, rng: Random) -> str:
    """Shuffle the words."""
    words = question.split()
    shuffled = _shuffled(words, rng)
    return " ".join(shuffled if shuffled != words else reversed(words))


def _shuffled(items: Iterable[T], rng: Random) -> list[T]:
    # The order of `random()` is the same in every release of Python, that of `shuffle` is not.
    return [item for _, _, item in sorted((rng.random(), n, item) for n, item in enumerate(items))]


PERTURBATIONS: Final[Mapping[str, Callable[[str, Random], str]]] = {
    function.__name__: function for function in (typos, case, diacritics, punctuation, stopwords, order)
}


def perturbed(name: str, question: str, seed: int) -> str:
    """Return a question after a perturbation, which may leave it unchanged."""
    return PERTURBATIONS[name](question, Random(f"{seed} {name} {question}"))  # noqa: S311 - no secret


def perturbations_of(example: Example, seed: int) -> Iterator[tuple[str, str]]:
    """Yield the perturbed questions of an example, each after the name of its perturbation; unchanged ones not."""
    for name in _names(example.added.get(PERTURB, ())):
        changed = (
            example.added.get(VARIANTS, ())
            if name == VARIANTS
            else (perturbed(name, example.question, seed),)
        )
        yield from ((name, text) for text in changed if text.strip() and text != example.question)


def _names(value: str | Iterable[str]) -> list[str]:
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else list(value)


def check_perturb(value: object, check: Check, *keys: str | int) -> None:
    """Refuse what is no list of perturbations."""
    known = (*PERTURBATIONS, VARIANTS)
    for name in _names(value if isinstance(value, str) else check.texts(value, *keys, least=1)):
        if name not in known:
            check.fail(
                f'"{keys[0]}" has {name!r}, which is no perturbation',
                f"There are {', '.join(known)}.{did_you_mean(name, known)}",
            )


def check_variants(value: object, check: Check, *keys: str | int) -> None:
    """Refuse what is no list of texts."""
    check.texts(value, *keys, least=1)
