"""What may be wrong with an eval set, as far as it shows from the set alone."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from pytest_rageval.answers.text import containment, normalize
from pytest_rageval.evalsets.near_misses import near_misses
from pytest_rageval.fingerprint import digest
from pytest_rageval.measures.similar_questions import similar_questions
from pytest_rageval.model import EvalSet, Example, excerpt

__all__ = ["FEWER", "Finding", "Kind", "of_the_set"]

FEWER: Final = 10
"""A tag is unbalanced where its commonest value has more than this many times the examples of its rarest."""


class Finding(NamedTuple):
    """One thing that was found.

    Attributes:
        ids: of the examples concerned, in their order.
        what: about them.
    """

    ids: tuple[str, ...]
    what: str


class Kind(NamedTuple):
    """A kind of findings.

    Attributes:
        name: for programs.
        title: for people.
        found: whatever there is.
        error: whether scores are wrong with it; else somebody should have a look.
    """

    name: str
    title: str
    found: Sequence[Finding]
    error: bool = False


def of_the_set(evalset: EvalSet) -> list[Kind]:
    """What is wrong with the questions, their tags, and what they can be scored by."""
    return [
        Kind(
            "duplicate",
            "the same question, but for case, punctuation and articles",
            _same_questions(evalset),
            error=True,
        ),
        Kind("near_duplicate", "nearly the same question", _near(evalset)),
        Kind("leak", "an answer stands in the question", _each(evalset, _leaked)),
        Kind("unanswerable", "neither answers nor gold passages nor a reference", _each(evalset, _bare)),
        Kind("no_gold", "no gold passage of a grade above 0", _each(evalset, _without_gold)),
        Kind("no_answers", "no answers", _each(evalset, _without_answers)),
        Kind(
            "misspelt",
            "a key that is not read, and nearly has the name of one that is",
            list(_misspelt(evalset)),
        ),
        Kind("unbalanced", "a tag with very rare values", list(_unbalanced(evalset))),
    ]


def _each(evalset: EvalSet, look: Callable[[Example], str | None]) -> list[Finding]:
    """What is found in each example by itself."""
    looked = ((example, look(example)) for example in evalset)
    return [Finding((example.id,), what) for example, what in looked if what is not None]


def _same_questions(evalset: EvalSet) -> list[Finding]:
    return [
        Finding(tuple(example.id for example in same), excerpt(same[0].question))
        for same in _by_question(evalset).values()
        if len(same) > 1
    ]


def _near(evalset: EvalSet) -> list[Finding]:
    first = [same[0] for same in _by_question(evalset).values()]
    return [
        Finding(tuple(first[i].id for i in group), " / ".join(excerpt(first[i].question) for i in group[:2]))
        for group in similar_questions([example.question for example in first])
    ]


def _by_question(evalset: EvalSet) -> dict[str, list[Example]]:
    found: dict[str, list[Example]] = defaultdict(list)
    for example in evalset:
        found[normalize(example.question)].append(example)
    return found


def _bare(example: Example) -> str | None:
    there = example.answers or example.answer_set or example.relevant or example.reference
    return None if there else excerpt(example.question)


def _without_gold(example: Example) -> str | None:
    return None if example.relevant or _bare(example) else excerpt(example.question)


def _without_answers(example: Example) -> str | None:
    return None if example.answers or example.answer_set or _bare(example) else excerpt(example.question)


def _leaked(example: Example) -> str | None:
    answers = [*example.answers, *(alias for aliases in example.answer_set for alias in aliases)]
    leaked = next((answer for answer in answers if containment(example.question, [answer])), None)
    return None if leaked is None else f"{excerpt(leaked, 30)} in {excerpt(example.question)}"


def _misspelt(evalset: EvalSet) -> Iterator[Finding]:
    for miss in near_misses(evalset):
        yield Finding(
            miss.ids, f'"{miss.key}"; if "{miss.meant}" is meant, say --field {miss.meant}={miss.key}'
        )


def _unbalanced(evalset: EvalSet) -> Iterator[Finding]:
    """Tags whose commonest value has over ten times the examples of the rarest.

    A missing tag is a value. One that has more values than half as many as there are examples names
    the examples, and divides nothing.
    """
    for tag in dict.fromkeys(tag for example in evalset for tag in example.tags):
        # By digest, since a value may be a list.
        keys = [digest(example.tags.get(tag)) for example in evalset]
        counts = Counter(keys)
        (most, often), (least, seldom) = counts.most_common()[0], counts.most_common()[-1]
        if len(counts) > len(evalset) / 2 or often <= FEWER * seldom:
            continue
        shown = {key: example.tags.get(tag) for key, example in zip(keys, evalset, strict=True)}
        yield Finding(
            tuple(example.id for key, example in zip(keys, evalset, strict=True) if key == least),
            f"{tag}: {shown[most]!r} has {often} examples, {shown[least]!r} {seldom}",
        )
