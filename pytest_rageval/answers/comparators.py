"""Expressions that compare two answers: "judge", "f1>=0.5", "judge and cosine>=0.6".

An expression consists of names, each a comparator or an answer measure, with or without a threshold, and of `and` and
`or`; `and` binds tighter. `or` is the highest of its parts and `and` the lowest. A part without a value decides
nothing: Kleene's strong logic on numbers in [0, 1].
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from pytest_rageval.answers.judge_protocol import Comparator, Judge
from pytest_rageval.answers.overlap import (
    bleu,
    containment,
    exact_match,
    meteor,
    rouge1,
    rouge2,
    rouge_l,
    token_f1,
    token_recall,
)
from pytest_rageval.errors import InputError, Planned, Unscored, did_you_mean, is_placeholder
from pytest_rageval.lazy import Lazy, lazy_pattern

__all__ = [
    "ASKED_OF_JUDGE",
    "EMBEDDED",
    "EXTRAS",
    "MEASURES",
    "YES_OR_NO",
    "AnswerMeasure",
    "Atom",
    "CanonicalComparator",
    "Expression",
    "GradedComparator",
    "MeasureSettings",
    "highest",
    "lowest",
    "parse_expression",
]


async def lowest(values: Iterable[Awaitable[float]]) -> float:
    """Return the lowest of some numbers in [0, 1], 1 of none: whether all hold.

    They are awaited in turn, up to the first 0, which decides.

    Raises:
        Unscored: one of them raised it and none is 0; the first reason.
        Planned: likewise, where one of them raised that.
    """
    return await _decided(values, min, 1.0, decisive=0.0)


async def highest(values: Iterable[Awaitable[float]]) -> float:
    """Return the highest of some numbers in [0, 1], 0 of none: whether any holds. A 1 decides; see `lowest`."""
    return await _decided(values, max, 0.0, decisive=1.0)


async def _decided(
    values: Iterable[Awaitable[float]],
    better: Callable[[float, float], float],
    found: float,
    *,
    decisive: float,
) -> float:
    unknown = None
    for value in values:
        try:
            found = better(found, await value)
        except Unscored as error:
            # A plan does not know the verdict, which may decide in a run; one that is unscored does not.
            if unknown is None or (isinstance(error, Planned) and not isinstance(unknown, Planned)):
                unknown = error
        if better(found, decisive) == found:
            return found
    if unknown is not None:
        raise unknown
    return found


AnswerMeasure = Callable[[str, Sequence[str]], float]
"""From an answer and its references, any one of which is right, to a number in [0, 1]."""


MEASURES: Final[Mapping[str, AnswerMeasure]] = {
    "em": exact_match,
    "f1": token_f1,
    "token_recall": token_recall,
    "containment": containment,
    "rouge1": rouge1,
    "rouge2": rouge2,
    "rougeL": rouge_l,
    "bleu": bleu,
    "meteor": meteor,
    "bertscore": Lazy("answers.embedding", "bertscore_f1"),
    "bertscore_p": Lazy("answers.embedding", "bertscore_precision"),
    "bertscore_r": Lazy("answers.embedding", "bertscore_recall"),
    "cosine": Lazy("answers.embedding", "cosine"),
}
"""Answer measures by the name users type."""

EMBEDDED: Final = frozenset({"bertscore", "bertscore_p", "bertscore_r", "cosine"})
"""The measures that need an encoder."""

EXTRAS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("rouge1", "rouge2", "rougeL", "bleu", "meteor"), "overlap"),
    **dict.fromkeys(EMBEDDED, "dense"),
}
"""The extra of the package that a measure needs."""


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """How answer measures are computed: the encoder's model (None: the packaged one), and BLEU's smoothing."""

    encoder: str | None = None
    bleu_smoothing: str = "exp"

    def of(self, measures: Mapping[str, AnswerMeasure]) -> dict[str, AnswerMeasure]:
        """These measures, with the built-in ones computed in this way."""
        found = dict(measures)
        if self.bleu_smoothing != "exp":
            found["bleu"] = partial(bleu, smoothing=self.bleu_smoothing)
        if self.encoder is not None:
            found |= {name: partial(_encoded, name, self.encoder) for name in EMBEDDED}
        return found

    def used(self, measures: AbstractSet[str]) -> dict[str, str]:
        """The part of these measures in a fingerprint; empty where none is of those that have settings."""
        found = {}
        if not measures.isdisjoint(EMBEDDED):
            from pytest_rageval.embeddings.encoder import shared_encoder  # noqa: PLC0415 - brings numpy

            found["encoder"] = shared_encoder(self.encoder).fingerprint
        if "bleu" in measures and self.bleu_smoothing != "exp":
            found["bleu smoothing"] = self.bleu_smoothing
        return found


def _encoded(name: str, encoder: str, prediction: str, references: Sequence[str]) -> float:
    from pytest_rageval.embeddings.encoder import shared_encoder  # noqa: PLC0415 - as above

    measure: Callable[..., float] = MEASURES[name]
    return measure(prediction, references, encoder=shared_encoder(encoder))


YES_OR_NO: Final = frozenset({"em", "containment"})
"""The measures that are always 0 or 1."""

VERDICTS: Final = frozenset({"judge", "canonical"})
"""Comparators that answer yes or no. A user's judge may grade; its numbers are then used unchanged."""

ASKED_OF_JUDGE: Final = {"judge": "compare", "graded": "grade"}
"""The comparators that ask the judge, each with the method that it calls."""

FORM: Final = re.compile(r"([A-Za-z]\w*)(?:\s*>=\s*(\d+(?:\.\d+)?|\.\d+))?", re.ASCII)

# Common mistakes, for hints.
OTHER_SIGN: Final = lazy_pattern(r"([A-Za-z]\w*)\s*(?:>|=>|==?|≥)\s*(\d+(?:\.\d+)?|\.\d+)", re.ASCII)
UPPER: Final = lazy_pattern(r"\b(?:AND|OR)\b")


@dataclass(frozen=True, slots=True)
class CanonicalComparator:
    """Compares in canonical form: numbers, units, dates and names by rule, without a model."""

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Compare by rule; unscored where a reference is too long for the rules."""
        from pytest_rageval.answers.canonical import is_long, matches_any  # noqa: PLC0415 - compiles many rules

        if matches_any(prediction, references, question=question):
            return 1.0
        if any(map(is_long, references)):
            raise Unscored("a reference is longer than 300 words, which canonical comparison does not read")
        return 0.0


@dataclass(frozen=True, slots=True)
class GradedComparator:
    """Compares by the grade that a judge gives."""

    judge: Judge

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return the judge's grade."""
        return await self.judge.grade(question, references, prediction)


@dataclass(frozen=True, slots=True)
class Atom:
    """The name of a comparator or an answer measure, and the threshold from which its value is yes, if there is one."""

    name: str
    least: float | None = None

    @property
    def graded(self) -> bool:
        """Whether its value may lie between 0 and 1."""
        return self.least is None and self.name not in VERDICTS | YES_OR_NO


@dataclass(frozen=True)
class Expression:
    """A parsed expression: alternatives, each of atoms that must all hold."""

    text: str
    alternatives: tuple[tuple[Atom, ...], ...]
    measures: Mapping[str, AnswerMeasure]
    comparators: Mapping[str, Comparator]

    @property
    def graded(self) -> bool:
        """Whether its values may lie between 0 and 1."""
        return any(atom.graded for atoms in self.alternatives for atom in atoms)

    @property
    def names(self) -> frozenset[str]:
        """The comparators and answer measures in it."""
        return frozenset(atom.name for atoms in self.alternatives for atom in atoms)

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Evaluate the expression, in [0, 1]; a model is asked only where the measures do not decide.

        Raises:
            Unscored: the result depends on a part without a verdict.
            Planned: the result depends on a part that is not known in a plan.
        """
        alternatives = self._measures_first
        if len(alternatives) == len(alternatives[0]) == 1:
            # As below, in half the time.
            return max(0.0, min(1.0, await self._value(alternatives[0][0], question, references, prediction)))
        return await highest(
            lowest(self._value(atom, question, references, prediction) for atom in atoms)
            for atoms in alternatives
        )

    @cached_property
    def _measures_first(self) -> Sequence[Sequence[Atom]]:
        def asks(atom: Atom) -> bool:
            return atom.name in self.comparators

        atoms_in_turn = [sorted(atoms, key=asks) for atoms in self.alternatives]
        return sorted(atoms_in_turn, key=lambda atoms: sum(map(asks, atoms)))

    async def _value(self, atom: Atom, question: str, references: Sequence[str], prediction: str) -> float:
        """The value of one atom, as 0 or 1 where it has a threshold."""
        asks = atom.name in self.comparators
        if asks:
            value = await self.comparators[atom.name].compare(question, references, prediction)
        if any(map(is_placeholder, [prediction, *references])):
            # These texts stand for replies. The comparator was called so that its requests are counted.
            raise Planned("not compared in a plan")
        if not asks:
            value = self.measures[atom.name](prediction, references)
        return value if atom.least is None else float(value >= atom.least)


def parse_expression(
    text: object,
    *,
    measures: Mapping[str, AnswerMeasure],
    comparators: Mapping[str, Comparator],
    keyword: str = "comparator",
) -> Expression:
    """Parse an expression such as `"judge or em"`; `keyword` is the name of the argument, for messages.

    Raises:
        InputError: it is malformed, a name is unknown, or a threshold is not in (0, 1].
    """

    def wrong(why: str) -> InputError:
        form = 'Examples: "judge", "canonical", "f1>=0.5", "judge or em".'
        return InputError(f"{keyword}={text!r}: {why}.\n{form}")

    if not isinstance(text, str) or not text.strip():
        raise wrong("nothing is named")
    if set(text) & set("()"):
        raise wrong("there are no brackets; and binds tighter than or")
    known = {**measures, **comparators}
    alternatives = tuple(
        tuple(_atom(part, known, wrong) for part in re.split(r"\s+and\s+", alternative.strip()))
        for alternative in re.split(r"\s+or\s+", text.strip())
    )
    return Expression(text.strip(), alternatives, measures, comparators)


def _atom(part: str, known: Mapping[str, object], wrong: Callable[[str], InputError]) -> Atom:
    match = FORM.fullmatch(part.strip())
    if match is None:
        raise wrong(f"{part!r} is not of the form NAME or NAME>=NUMBER{_hint(part)}")
    name, least = match[1], match[2]
    if name not in known:
        raise wrong(f"there is no {name!r}.{did_you_mean(name, known)} There are: {', '.join(known)}")
    if least is not None and not 0 < float(least) <= 1:
        raise wrong(f"the threshold of {name} is {least}, and must be above 0 and at most 1")
    return Atom(name, None if least is None else float(least))


def _hint(part: str) -> str:
    """A correction of a common mistake, or nothing."""
    if other := OTHER_SIGN.fullmatch(part.strip()):
        return f"; the sign is >=, as in {other[1]}>={other[2]}"
    if upper := UPPER.search(part):
        return f"; write {upper[0].lower()} in lower case"
    return ""
