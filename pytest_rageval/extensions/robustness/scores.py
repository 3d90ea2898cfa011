"""Does the retriever find the same for a question with typos, without accents, as keywords?

Eval sets have clean questions, users do not. `perturb="typos,case"` of the marker names changes of each question; see
[Robustness](../how-to/robustness.md). Each changed question is one more retrieval. The scores are means over the
perturbations, with the value of each, and of the question as it is, below the score. A perturbation that leaves a
question as it is does not count for it; a question that none changes is undefined. `robust.rbo` compares with the
ranking of the question as it is, and needs no gold passages.

`perturb` is part of the question: with other perturbations all questions are edited ones for the baseline. So give
robustness a test of its own.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from statistics import fmean
from typing import Final, TypeVar

from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.evalsets.records import Check
from pytest_rageval.run.registry import resolve
from pytest_rageval.scores.definition import GOLD, Family, ScoreDef, WorkedExample, score_with_progress
from pytest_rageval.scores.pipeline import Evaluation, Pipeline, ResolvedScore
from pytest_rageval.stats.agreement import rank_biased_overlap

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
    return PERTURBATIONS[name](question, Random(f"{seed} {name} {question}"))  # noqa: S311 - no secret


def perturbations_of(example: Example, seed: int) -> Iterator[tuple[str, str]]:
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
    known = (*PERTURBATIONS, VARIANTS)
    for name in _names(value if isinstance(value, str) else check.texts(value, *keys, least=1)):
        if name not in known:
            check.fail(
                f'"{keys[0]}" has {name!r}, which is no perturbation',
                f"There are {', '.join(known)}.{did_you_mean(name, known)}",
            )


def check_variants(value: object, check: Check, *keys: str | int) -> None:
    check.texts(value, *keys, least=1)


UNPERTURBED: Final = "unperturbed"
RBO: Final = "rbo"


def _evaluation(measure: str, combine: Callable[[Iterable[float]], float] = fmean) -> Evaluation:
    """Return the evaluation of a measure on perturbed questions; `combine` makes one value of those of an example."""

    async def evaluate(
        pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
    ) -> list[Outcome]:
        if not any(PERTURB in example.added for example in examples):
            raise InputError(
                f"{resolved.spec} needs to know how questions are changed.\n"
                f'Write rageval_evalset("…", {PERTURB}="typos,case").'
            )
        changes = [(each, *change) for each in examples for change in perturbations_of(each, pipeline.seed)]
        # No id of an eval set begins with a line break, so that these are different ones.
        changed = [
            replace(example, id=f"\n{number}\n{example.id}", question=question)
            for number, (example, _, question) in enumerate(changes)
        ]
        origins = {new.id: old for new, (old, *_) in zip(changed, changes, strict=True)}
        if measure == RBO:
            outcomes = await _overlaps(pipeline, [*examples, *changed], origins, resolved.k)
        else:
            plain, score = resolve(ScoreRequest(f"{measure}@{resolved.k}"))
            outcomes = await score.evaluate(pipeline, [*examples, *changed], plain)
        by_example: defaultdict[str, list[tuple[str, Outcome]]] = defaultdict(list)
        for (example, name, _), outcome in zip(changes, outcomes[len(examples) :], strict=True):
            by_example[example.id].append((name, outcome))
        return [
            _combined(outcome, by_example[outcome.example.id], combine)
            for outcome in outcomes[: len(examples)]
        ]

    return evaluate


async def _overlaps(
    pipeline: Pipeline, examples: Sequence[Example], origins: Mapping[str, Example], k: int
) -> list[Outcome]:
    """Score each example by the overlap of its ranking with that of the example that it was made of, or of itself."""

    async def score(example: Example) -> tuple[float, Evidence]:
        ranking = await pipeline.ranking(example, k)
        original = await pipeline.ranking(origins.get(example.id, example), k)
        before, now = ([[each.identity] for each in one] for one in (original, ranking))
        return rank_biased_overlap(before, now), Evidence(ranking)

    return await score_with_progress(pipeline, examples, score)


def _combined(
    plain: Outcome, changed: Sequence[tuple[str, Outcome]], combine: Callable[[Iterable[float]], float]
) -> Outcome:
    lacking = next(
        (each for each in (plain, *(outcome for _, outcome in changed)) if each.value is None), None
    )
    if lacking is not None:
        return replace(lacking, example=plain.example)
    if not changed:
        return Outcome(plain.example, None, undefined="no perturbation changes the question")
    values: defaultdict[str, list[float]] = defaultdict(list, {UNPERTURBED: [plain.value or 0.0]})
    for name, outcome in changed:
        values[name].append(outcome.value or 0.0)
    name, worst = min(changed, key=lambda each: each[1].value or 0.0)
    is_worse = (worst.value or 0.0) < (plain.value or 0.0)
    evidence = replace(
        (worst if is_worse else plain).evidence,
        beside={each: fmean(items) for each, items in values.items()},
        remark=f"{name}: {worst.example.question}" if is_worse else "",
    )
    return Outcome(plain.example, combine(outcome.value or 0.0 for _, outcome in changed), None, evidence)


FAMILY: Final = Family(
    "Robustness",
    __doc__,
    requests="none",
    source="our own; rank-biased overlap: Webber et al. (2010), extrapolated, with p = 0.9.",
    example=WorkedExample(
        text="The only perturbation is a variant of the question. For it the retriever returns `a`, `c`, `d`, and for "
        "the question `c`, `a`, `d`. The gold passage is `c`.",
        k=3,
        record={
            "question": "Where is the company based?",
            "gold": [{"id": "c"}],
            "perturb": "variants",
            "variants": ["The company is where?"],
        },
        retrieved=("c", "a", "d"),
        others={"The company is where?": ("a", "c", "d")},
    ),
)


def _score(
    name: str, evaluate: Evaluation, definition: str, worked: tuple[float, str], *needs: str
) -> ScoreDef:
    return ScoreDef(
        f"robust.{name}",
        evaluate,
        settings=lambda pipeline, _: {"seed": pipeline.seed},
        definition=definition,
        worked=worked,
        needs=("perturbations", *needs),
    )


SCORES: Final = (
    *(
        _score(name, _evaluation(name), f"The mean of `{name}@k` over the perturbations.", worked, GOLD)
        for name, worked in {
            "recall": (1.0, "`c` is there"),
            "hit": (1.0, "`c` is there"),
            "mrr": (0.5, "`c` is at rank 2"),
            "ndcg": (0.6309, "1 / log₂ 3"),
        }.items()
    ),
    _score(
        "worst",
        _evaluation("recall", min),
        "The lowest `recall@k` of all perturbations.",
        (1.0, "`c` is there"),
        GOLD,
    ),
    _score(
        RBO,
        _evaluation(RBO),
        "The mean rank-biased overlap of the ranking with that of the question as it is.",
        (0.9, "the agreement is 0 at rank 1, and 1 from rank 2 on: 0.1 · 0 + 0.9"),
    ),
)
