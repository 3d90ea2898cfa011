"""How two answers are compared, as users write it: "judge", "f1>=0.5", "judge and cosine>=0.6".

An expression is made of names, each a comparator or an answer measure, with a
threshold or without, and of `and` and `or`; `and` binds tighter. `or` is the
highest of its parts, `and` the lowest: on verdicts of 0 and 1 that is logic.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_rageval.answers.compare import Comparator
from pytest_rageval.answers.logic import highest, lowest
from pytest_rageval.answers.measures import YES_OR_NO, AnswerMeasure
from pytest_rageval.errors import InputError, Planned, did_you_mean
from pytest_rageval.llm.plan import is_mark

__all__ = ["ASKED_OF_JUDGE", "Atom", "Expression", "parse_expression"]

FORM: Final = re.compile(r"([A-Za-z]\w*)(?:\s*>=\s*(\d+(?:\.\d+)?|\.\d+))?", re.ASCII)

OTHER_SIGN: Final = re.compile(r"([A-Za-z]\w*)\s*(?:>|=>|==?|≥)\s*(\d+(?:\.\d+)?|\.\d+)", re.ASCII)
UPPER: Final = re.compile(r"\b(?:AND|OR)\b")
"""What is written for `>=`, `and` and `or`, and is none."""

VERDICTS: Final = frozenset({"judge", "canonical"})
"""Comparators that say yes or no; a judge of the user's may grade, and is then taken at its word."""

ASKED_OF_JUDGE: Final = {"judge": "compare", "graded": "grade"}
"""The comparators that ask the judge, and the method that each of them asks."""


@dataclass(frozen=True, slots=True)
class Atom:
    """One name in an expression.

    Attributes:
        name: of a comparator or an answer measure.
        least: its value counts as yes from here on; None takes the value itself.
    """

    name: str
    least: float | None = None

    @property
    def graded(self) -> bool:
        """Whether it may be something between yes and no."""
        return self.least is None and self.name not in VERDICTS | YES_OR_NO


@dataclass(frozen=True, slots=True)
class Expression:
    """A comparison, ready to be made: alternatives, each of atoms that must all hold."""

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
        """The comparators and answer measures it is made of."""
        return frozenset(atom.name for atoms in self.alternatives for atom in atoms)

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `pytest_rageval.answers.compare.Comparator`.

        What costs nothing is looked at first, and a model is asked only where it still matters: where
        what is known does not decide (`answers.logic`).

        Raises:
            Unscored: a part that has no verdict decides.
            Planned: one that is not known in a plan does.
        """

        def value(atom: Atom) -> Awaitable[float]:
            return self._value(atom, question, references, prediction)

        return await highest(
            lowest(map(value, sorted(atoms, key=lambda atom: atom.name in self.comparators)))
            for atoms in sorted(self.alternatives, key=self._asks)
        )

    async def _value(self, atom: Atom, question: str, references: Sequence[str], prediction: str) -> float:
        """What a comparator or a measure says, as yes or no where there is a threshold."""
        asks = atom.name in self.comparators
        if asks:
            value = await self.comparators[atom.name].compare(question, references, prediction)
        if any(map(is_mark, [prediction, *references])):
            # Of texts that stand for replies a measure says nothing, and a comparator only what it asks.
            reason = "not compared in a plan"
            raise Planned(reason)
        if not asks:
            value = self.measures[atom.name](prediction, references)
        return value if atom.least is None else float(value >= atom.least)

    def _asks(self, atoms: Sequence[Atom]) -> int:
        return sum(atom.name in self.comparators for atom in atoms)


def parse_expression(
    text: object,
    *,
    measures: Mapping[str, AnswerMeasure],
    comparators: Mapping[str, Comparator],
    word: str = "comparator",
) -> Expression:
    """Take an expression apart.

    Args:
        text: such as `"judge or em"`.
        measures: the answer measures there are, by name.
        comparators: the comparators there are, by name.
        word: that the text was given as, for messages.

    Raises:
        InputError: it is not of the form, a name is unknown, or a threshold is not in (0, 1].
    """

    def wrong(why: str) -> InputError:
        form = 'Write "judge", "canonical", "f1>=0.5" or "judge or em", say.'
        return InputError(f"{word}={text!r}: {why}.\n{form}")

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
        raise wrong(f"{part!r} is no NAME or NAME>=NUMBER{_hint(part)}")
    name, least = match[1], match[2]
    if name not in known:
        raise wrong(f"there is no {name!r}.{did_you_mean(name, known)} There are: {', '.join(known)}")
    if least is not None and not 0 < float(least) <= 1:
        raise wrong(f"the threshold of {name} is {least}, and must be above 0 and at most 1")
    return Atom(name, None if least is None else float(least))


def _hint(part: str) -> str:
    """How it could be written, where that can be guessed."""
    if other := OTHER_SIGN.fullmatch(part.strip()):
        return f"; the sign is >=, as in {other[1]}>={other[2]}"
    if upper := UPPER.search(part):
        return f"; write {upper[0].lower()} in lower case"
    return ""
