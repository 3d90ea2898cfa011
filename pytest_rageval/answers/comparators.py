"""Expressions that compare two answers: "judge", "f1>=0.5", "judge and cosine>=0.6".

An expression joins comparators and answer measures, each with or without a threshold, by `and` and `or`; `and` binds
tighter. The value of `or` is the highest value of its operands, that of `and` the lowest. If an operand has no value,
the expression has one only if the other operands decide it: Kleene's strong logic on numbers in [0, 1].

An expression may end in `then judge`: where the part before it does not accept an answer, the judge decides, and of
several models one after the other, until two of them in a row agree; rules that refuse count as the first.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.answers.judge import Comparator, Judge
from pytest_rageval.core.errors import InputError, Planned, Unscored, did_you_mean
from pytest_rageval.core.extensions import installed
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.models.messages import is_placeholder
from pytest_rageval.options.settings import Settings

if TYPE_CHECKING:
    from pytest_rageval.answers.judge import JudgeTask


async def lowest(values: Iterable[Awaitable[float]]) -> float:
    """Return the lowest of some numbers in [0, 1] (logical and); 1.0 if there are none.

    The values are awaited one after the other. The first 0 is returned at once. If none is 0, the first Unscored that a
    value raised is raised, or Planned, which takes precedence: in a run that value may exist and decide.
    """
    return await _reduce(values, min, 1.0, decisive=0.0)


async def highest(values: Iterable[Awaitable[float]]) -> float:
    """Return the highest of some numbers in [0, 1] (logical or); 0.0 if there are none.

    The first 1 is returned at once; otherwise as `lowest`.
    """
    return await _reduce(values, max, 0.0, decisive=1.0)


async def _reduce(
    values: Iterable[Awaitable[float]],
    choose: Callable[[float, float], float],
    initial: float,
    *,
    decisive: float,
) -> float:
    result, missing = initial, None
    for value in values:
        try:
            result = choose(result, await value)
        except Unscored as error:
            if missing is None or (isinstance(error, Planned) and not isinstance(missing, Planned)):
                missing = error
        if choose(result, decisive) == result:
            return result
    if missing is not None:
        raise missing
    return result


AnswerMeasure = Callable[[str, Sequence[str]], float]
"""A function of an answer and its alternative references that returns a number in [0, 1]."""


@dataclass(frozen=True)
class Measure:
    """An answer measure that is documented, or depends on options of the run.

    `compute` is a function `(prediction, references, **arguments)` that returns a number in [0, 1]; without settings it
    has no arguments.
    """

    compute: Callable[..., float]
    definition: str = ""  # one or two sentences, for lists of scores
    extra: str | None = None  # of the package that it needs
    arguments: Callable[[Settings], Mapping[str, object]] = lambda _: {}
    fingerprint: Callable[[Settings], Mapping[str, str]] = lambda _: {}  # what the result depends on, by name
    settings: Settings | None = None
    # The value in the example of `scores.answer`, and how it is computed.
    worked: tuple[float, str] = (0.0, "")

    def __call__(self, prediction: str, references: Sequence[str]) -> float:
        return self.compute(prediction, references, **self._arguments)

    @cached_property
    def _arguments(self) -> Mapping[str, object]:
        return {} if self.settings is None else self.arguments(self.settings)


def measures_in_force(
    added: Mapping[str, AnswerMeasure], settings: Settings | None
) -> dict[str, AnswerMeasure]:
    """Return the built-in measures and the added ones as they compute under these settings."""
    return {
        name: replace(measure, settings=settings) if isinstance(measure, Measure) else measure
        for name, measure in {**MEASURES, **added}.items()
    }


def measure_fingerprint(measures: Mapping[str, AnswerMeasure], names: AbstractSet[str]) -> dict[str, str]:
    """Return the settings that the measures of these names depend on, as part of a fingerprint."""
    used = (measure for name, measure in measures.items() if name in names and isinstance(measure, Measure))
    parts = (measure.fingerprint(measure.settings or Settings()) for measure in used)
    return dict(chain.from_iterable(part.items() for part in parts))


def _smoothing(settings: Settings, keyword: str) -> dict[str, str]:
    """Return the smoothing method of BLEU under a keyword; empty for the default."""
    return {} if settings.bleu_smoothing == "exp" else {keyword: settings.bleu_smoothing}


_overlap: Final = partial(Lazy, "answers.overlap")

MEASURES: Final[Mapping[str, AnswerMeasure]] = {
    "em": Measure(
        _overlap("exact_match"),
        "Exact match: 1 if the answer equals a reference, else 0.",
        worked=(0.0, '"within" is not in the reference'),
    ),
    "f1": Measure(
        _overlap("token_f1"),
        "The harmonic mean of precision and recall of the words that answer and reference have in common.",
        worked=(0.8571, "precision ¾, recall 1: 2 · ¾ / 1¾"),
    ),
    "token_recall": Measure(
        _overlap("token_recall"),
        "The share of the reference's words that the answer has too.",
        worked=(1.0, "3 of 3 words"),
    ),
    "containment": Measure(
        _overlap("containment"),
        "1 if the words of a reference occur in the answer, in order and without gaps, else 0.",
        worked=(1.0, '"five working days" occurs'),
    ),
    "rouge1": Measure(
        _overlap("rouge1"),
        "ROUGE-1: F1 of the common words.",
        "overlap",
        worked=(0.8571, "3 of 4 and 3 of 3 words"),
    ),
    "rouge2": Measure(
        _overlap("rouge2"),
        "ROUGE-2: F1 of the common pairs of neighbouring words.",
        "overlap",
        worked=(0.8, "2 of 3 and 2 of 2 pairs"),
    ),
    "rougeL": Measure(
        _overlap("rouge_l"),
        "ROUGE-L: F1 by the longest common subsequence of words.",
        "overlap",
        worked=(0.8571, "3 words in the same order"),
    ),
    "bleu": Measure(
        _overlap("bleu"),
        "BLEU of the sentence: the geometric mean of the precisions of 1 to 4 words in a row, with a "
        "penalty for short answers.",
        "overlap",
        partial(_smoothing, keyword="smoothing"),
        partial(_smoothing, keyword="bleu smoothing"),
        worked=(0.5946, "precisions ¾, ⅔, ½ and a smoothed ½"),
    ),
    "meteor": Measure(
        _overlap("meteor"),
        "METEOR: mostly recall of words and stems, with a penalty for words out of order; without synonyms.",
        "overlap",
        worked=(0.9498, "precision ¾, recall 1, one run of words"),
    ),
    **{
        name: measure
        for extension in installed().values()
        for name, measure in getattr(extension, "answer_measures", dict)().items()
    },
}
"""The built-in answer measures by their name in expressions: those of this module, and those that an extension returns
from its function `answer_measures`."""

BINARY_MEASURES: Final = frozenset({"em", "containment"})
"""The measures that are always 0 or 1."""

BINARY_COMPARATORS: Final = frozenset({"judge", "canonical"})
"""Comparators that answer yes or no. If a user's judge returns another number in [0, 1], it is used unchanged."""

JUDGING_COMPARATORS: Final = frozenset({"judge", "graded"})
"""The comparators that ask the judge."""


def judge_tasks(names: AbstractSet[str]) -> "list[JudgeTask[Any]]":
    if names.isdisjoint(JUDGING_COMPARATORS):
        return []
    from pytest_rageval.answers.judge.tasks import COMPARE, GRADE  # noqa: PLC0415 - a ranking score needs no prompts

    return [task for name, task in (("judge", COMPARE), ("graded", GRADE)) if name in names]


ATOM: Final = re.compile(r"([A-Za-z]\w*)(?:\s*>=\s*(\d+(?:\.\d+)?|\.\d+))?", re.ASCII)

# Common mistakes, for hints in error messages.
WRONG_OPERATOR: Final = re.compile(r"([A-Za-z]\w*)\s*(?:>|=>|==?|≥)\s*(\d+(?:\.\d+)?|\.\d+)", re.ASCII)
UPPER_CASE_OPERATOR: Final = re.compile(r"\b(?:AND|OR|THEN)\b")


CANONICAL_RULES: Final = "2"
"""The version of the rules of canonical comparison, a part of the fingerprint. It changes when verdicts change."""


@dataclass(frozen=True, slots=True)
class CanonicalComparator:
    """Compares by rules, without a model, after normalizing numbers, units, dates and names."""

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return 1.0 if the prediction matches a reference, otherwise 0.0. Unscored: one is too long for the rules."""
        from pytest_rageval.answers.canonical import is_long, matches_any  # noqa: PLC0415 - compiles many rules

        if matches_any(prediction, references, question=question):
            return 1.0
        if any(map(is_long, references)):
            raise Unscored("a reference is longer than 300 words, which canonical comparison does not read")
        return 0.0


def in_turn(judge: Comparator) -> Callable[[str, Sequence[str], str], Awaitable[float]]:
    """Return the function by which a judge of several models asks them one after the other, or else its `compare`."""
    function: Callable[[str, Sequence[str], str], Awaitable[float]]
    function = getattr(judge, "compare_in_turn", judge.compare)
    return function


@dataclass(frozen=True, slots=True)
class GradedComparator:
    judge: Judge

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return the judge's grade."""
        from pytest_rageval.answers.judge.tasks import GRADE  # noqa: PLC0415 - a ranking score needs no prompts

        return await self.judge.ask(GRADE, question, references, prediction)


@dataclass(frozen=True)
class RecordingComparator:
    """The judge, whose verdicts are recorded."""

    _judge: Judge
    _verdicts: dict[tuple[str, ...], float]

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        verdict = await self._judge.compare(question, references, prediction)
        self._verdicts[question, prediction, *references] = verdict
        return verdict

    async def compare_in_turn(self, question: str, references: Sequence[str], prediction: str) -> float:
        """As `compare`. It is not recorded: of answers that rules refuse, a judge may always say the same."""
        return await in_turn(self._judge)(question, references, prediction)


@dataclass(frozen=True, slots=True)
class Atom:
    """An operand of an expression, such as "judge" or "f1>=0.5": a comparator or an answer measure."""

    name: str
    threshold: float | None = None  # the value is 1.0 from here on and 0.0 below; None for the value itself

    @property
    def graded(self) -> bool:
        """True if the value may lie between 0 and 1."""
        return self.threshold is None and self.name not in BINARY_COMPARATORS | BINARY_MEASURES


@dataclass(frozen=True)
class Expression:
    text: str  # as written, without surrounding space
    alternatives: tuple[tuple[Atom, ...], ...]  # the operands of `or`, each with its operands of `and`
    measures: Mapping[str, AnswerMeasure]
    comparators: Mapping[str, Comparator]
    then_judge: bool = False  # whether the judge decides on answers that the alternatives do not accept

    @property
    def graded(self) -> bool:
        return any(atom.graded for atoms in self.alternatives for atom in atoms)

    @cached_property
    def names(self) -> frozenset[str]:
        names = {atom.name for atoms in self.alternatives for atom in atoms}
        return frozenset(names | {"judge"} if self.then_judge else names)

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return the value of the expression, in [0, 1]; call a comparator only if the measures do not decide.

        Unscored (in a plan, Planned): the value depends on an operand without a value.
        """
        if self.then_judge:
            # Of an answer that the first part has no value for, the judge decides; a plan counts its requests.
            with suppress(Unscored):
                if await self._first(question, references, prediction) == 1.0:
                    return 1.0
            value = await in_turn(self.comparators["judge"])(question, references, prediction)
            if any(map(is_placeholder, [prediction, *references])):
                raise Planned("not compared in a plan")
            return value
        return await self._first(question, references, prediction)

    async def _first(self, question: str, references: Sequence[str], prediction: str) -> float:
        alternatives = self._measures_first
        if len(alternatives) == len(alternatives[0]) == 1:
            # The result is the same as below, in half the time.
            return max(0.0, min(1.0, await self._value(alternatives[0][0], question, references, prediction)))
        return await highest(
            lowest(self._value(atom, question, references, prediction) for atom in atoms)
            for atoms in alternatives
        )

    @cached_property
    def _measures_first(self) -> Sequence[Sequence[Atom]]:
        def is_comparator(atom: Atom) -> bool:
            return atom.name in self.comparators

        sorted_alternatives = [sorted(atoms, key=is_comparator) for atoms in self.alternatives]
        return sorted(sorted_alternatives, key=lambda atoms: sum(map(is_comparator, atoms)))

    async def _value(self, atom: Atom, question: str, references: Sequence[str], prediction: str) -> float:
        is_comparator = atom.name in self.comparators
        if is_comparator:
            value = await self.comparators[atom.name].compare(question, references, prediction)
        if any(map(is_placeholder, [prediction, *references])):
            # In a plan, placeholders stand for missing replies. The comparator was called to count its requests.
            raise Planned("not compared in a plan")
        if not is_comparator:
            value = self.measures[atom.name](prediction, references)
        return value if atom.threshold is None else float(value >= atom.threshold)


def parse_expression(
    text: object,
    *,
    measures: Mapping[str, AnswerMeasure],
    comparators: Mapping[str, Comparator],
    keyword: str = "comparator",
) -> Expression:
    """Parse an expression such as `"judge or em"`; messages call it by the name of the argument, `keyword`."""

    def wrong(why: str) -> InputError:
        examples = 'Examples: "judge", "canonical", "f1>=0.5", "judge or em".'
        return InputError(f"{keyword}={text!r}: {why}.\n{examples}")

    if not isinstance(text, str) or not text.strip():
        raise wrong("nothing is named")
    if set(text) & set("()"):
        raise wrong("there are no brackets; and binds tighter than or")
    known = {**measures, **comparators}
    first, *last = re.split(r"\s+then\s+", text.strip())
    alternatives = tuple(
        tuple(_parse_atom(part, known, wrong) for part in re.split(r"\s+and\s+", alternative.strip()))
        for alternative in re.split(r"\s+or\s+", first)
    )
    expression = Expression(text.strip(), alternatives, measures, comparators, then_judge=bool(last))
    if last and (last != ["judge"] or "judge" not in comparators):
        raise wrong("then is followed by judge, and nothing comes after it")
    if last and (expression.graded or any(atom.name == "judge" for atoms in alternatives for atom in atoms)):
        raise wrong(
            "before then stand comparisons without a model that say yes or no, such as canonical or f1>=0.9"
        )
    return expression


def _parse_atom(part: str, known: Mapping[str, object], wrong: Callable[[str], InputError]) -> Atom:
    match = ATOM.fullmatch(part.strip())
    if match is None:
        raise wrong(f"{part!r} is not of the form NAME or NAME>=NUMBER{_hint(part)}")
    name, threshold = match[1], match[2]
    if name not in known:
        raise wrong(f"there is no {name!r}.{did_you_mean(name, known)} There are: {', '.join(known)}")
    if threshold is not None and not 0 < float(threshold) <= 1:
        raise wrong(f"the threshold of {name} is {threshold}, and must be above 0 and at most 1")
    return Atom(name, None if threshold is None else float(threshold))


def _hint(part: str) -> str:
    """Return a correction of a common mistake; empty if there is none."""
    if match := WRONG_OPERATOR.fullmatch(part.strip()):
        return f"; the sign is >=, as in {match[1]}>={match[2]}"
    if match := UPPER_CASE_OPERATOR.search(part):
        return f"; write {match[0].lower()} in lower case"
    return ""
