"""What people said of answers, to hold a judge against: JSON lines, one labelled answer or pair a line."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.formats.native import read
from pytest_rageval.evalsets.records import example_from
from pytest_rageval.model import Example

__all__ = [
    "PREFERENCES",
    "HumanLabels",
    "LabelledAnswer",
    "LabelledPair",
    "Scale",
    "load_labels",
]

Scale = Literal["yes/no", "graded", "pairwise"]

FORM: Final = (
    'One labelled answer a line: {"question": "…", "references": ["…"], "prediction": "…", "human": true}; '
    'or one pair of answers: {"question": "…", "first": "…", "second": "…", "human": 1}'
)

PREFERENCES: Final[Mapping[float, float]] = {1: 1.0, 2: -1.0, 0: 0.0}
"""What people write, and judges say, for the better of two answers, as a number that rises with the first."""


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """An answer, and what people say of it.

    Attributes:
        example: its id and its question.
        references: what the answer is held against, one or more.
        prediction: the answer.
        human: for each annotator, by position: 0 wrong … 1 right, or None where they said nothing.
    """

    example: Example
    references: tuple[str, ...]
    prediction: str
    human: tuple[float | None, ...]

    @property
    def labelled(self) -> Hashable:
        """What was labelled, without its id and its labels."""
        return _plain(self.example.question), frozenset(map(_plain, self.references)), _plain(self.prediction)


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two answers, and which of them people prefer.

    Attributes:
        example: its id and its question.
        first: an answer.
        second: the other.
        human: for each annotator, by position: 1 for the first, -1 for the second, 0 for neither, or
            None where they said nothing.
    """

    example: Example
    first: str
    second: str
    human: tuple[float | None, ...]

    @property
    def labelled(self) -> Hashable:
        """What was labelled, without its id, its labels and the order of the answers."""
        return _plain(self.example.question), frozenset({_plain(self.first), _plain(self.second)})


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """The labels of a file, which are all of one scale.

    Attributes:
        name: of the file.
        scale: "yes/no" where every label of an answer is 0 or 1, else "graded"; "pairwise" of pairs.
        answers: the labelled answers; empty where pairs are labelled.
        pairs: the labelled pairs; empty where answers are.
    """

    name: str
    scale: Scale
    answers: tuple[LabelledAnswer, ...] = ()
    pairs: tuple[LabelledPair, ...] = ()

    @property
    def items(self) -> Sequence[LabelledAnswer | LabelledPair]:
        """Whichever there are."""
        return self.answers or self.pairs

    def __len__(self) -> int:
        return len(self.items)


def load_labels(path: Path) -> HumanLabels:
    """Read human labels from a JSONL file in UTF-8; blank lines and unknown keys do not count.

    `human` is one label, or a list of one for each annotator: always in the same order, null where one said
    nothing. A label of an answer is true, false or a number from 0 to 1, that of a pair 1 (the first is
    better), 2 (the second) or 0 (neither). An item without `id` is named by its line.

    An item has one line, whoever labelled it: what an interval resamples are items, and one that counted
    twice would narrow it by nothing that anybody learned. Items are the same where question, references and
    answer are, or question and the two answers, in either order.

    Raises:
        InputError: the file cannot be read, a line cannot be used, two have one id or one item or labels of
            unlike many people, answers and pairs are mixed, or there is nothing: file, line, what to do.
    """
    answers: list[LabelledAnswer] = []
    pairs: list[LabelledPair] = []
    places: dict[str, str] = {}
    labelled: dict[Hashable, str] = {}
    for place, record in read(path):
        item = _item(record, place, default_id=place.removeprefix(f"{path.name} "))
        before = places.setdefault(item.example.id, place)
        if before != place:
            _fail(place, f'the id "{item.example.id}" is already that of {before}', "Make one another.")
        before = labelled.setdefault(item.labelled, place)
        if before != place:
            what = "pair" if isinstance(item, LabelledPair) else "answer"
            _fail(
                place,
                f"the same {what} to the same question is already labelled in {before}",
                'Take one of them out; labels of several people go into one line: "human": [1, 0], in one order.',
            )
        annotators = len((answers or pairs or [item])[0].human)
        if len(item.human) != annotators:
            _fail(
                place,
                f'"human" has {_people(len(item.human))}, and that of {next(iter(places.values()))} has '
                f"{_people(annotators)}",
                "Write one label for each annotator in every line, in one order, and null where one said nothing.",
            )
        if isinstance(item, LabelledPair):
            pairs.append(item)
        else:
            answers.append(item)
        if answers and pairs:
            _fail(place, "labelled answers and labelled pairs are mixed", "Put them in two files.")
    if not places:
        raise InputError(f"{path.name} holds no labels.\n{FORM}.")
    return HumanLabels(path.name, _scale(answers), tuple(answers), tuple(pairs))


def _people(count: int) -> str:
    return f"{count} label{'' if count == 1 else 's'}"


def _plain(text: str) -> str:
    """A text with its white space made even."""
    return " ".join(text.split())


def _scale(answers: Sequence[LabelledAnswer]) -> Scale:
    if not answers:
        return "pairwise"
    labels = {label for item in answers for label in item.human if label is not None}
    return "yes/no" if labels <= {0.0, 1.0} else "graded"


def _item(record: Any, place: str, *, default_id: str) -> LabelledAnswer | LabelledPair:
    named = {"id": default_id, **record} if isinstance(record, Mapping) else record
    example = example_from(named, place=place)
    found = example.extra
    if "first" in found or "second" in found:
        _require(found, ("first", "second", "human"), place)
        first, second = (_text(found[name], f'"{name}"', place) for name in ("first", "second"))
        if _plain(first) == _plain(second):
            _fail(
                place,
                '"first" and "second" are the same answer',
                "Take the line out: there is nothing to prefer.",
            )
        return LabelledPair(example, first, second, _human(found["human"], place, _preference))
    _require(found, ("references", "prediction", "human"), place)
    references = found["references"]
    if not isinstance(references, list) or not references:
        _fail(place, '"references" is no list of texts', 'Write "references": ["…"], with one at least.')
    return LabelledAnswer(
        example,
        tuple(_text(text, f'"references"[{i}]', place) for i, text in enumerate(references)),
        _text(found["prediction"], '"prediction"', place),
        _human(found["human"], place, _grade),
    )


def _require(found: Mapping[str, Any], names: Sequence[str], place: str) -> None:
    for name in names:
        if name not in found:
            _fail(place, f'"{name}" is missing. Found: {", ".join(found) or "nothing more"}', f"{FORM}.")


def _text(value: Any, where: str, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        _fail(place, f"{where} is {value!r:.40}, expected text", "Give a string that is not empty.")
    return value


def _human(value: Any, place: str, label: Callable[[Any, str, str], float]) -> tuple[float | None, ...]:
    if not isinstance(value, list):
        return (label(value, '"human"', place),)
    labels = tuple(
        None if each is None else label(each, f'"human"[{i}]', place) for i, each in enumerate(value)
    )
    if not any(each is not None for each in labels):
        _fail(place, '"human" holds no label', "Give one at least, or take the line out.")
    return labels


def _grade(value: Any, where: str, place: str) -> float:
    if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
        _fail(place, f"{where} is {value!r:.40}", "Write true or false, or a number from 0 to 1.")
    return float(value)


def _preference(value: Any, where: str, place: str) -> float:
    # 1.0 is 1, as data frames write a column with gaps.
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in PREFERENCES:
        _fail(
            place,
            f"{where} is {value!r:.40}",
            "Write 1 where the first answer is better, 2 where the second is, 0 where neither.",
        )
    return PREFERENCES[value]


def _fail(place: str, found: str, remedy: str) -> NoReturn:
    raise InputError(f"{place}: {found}.\n{remedy}")
