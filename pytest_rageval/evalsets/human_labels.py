"""Human labels, with which a judge is compared: JSON lines, one labelled answer, pair or passage per line."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pytest_rageval.conversation import conversation_text
from pytest_rageval.datatypes import Example
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Check, example_from

__all__ = [
    "PREFERENCES",
    "HumanLabels",
    "Kind",
    "LabelledAnswer",
    "LabelledItem",
    "LabelledPair",
    "LabelledPassage",
    "Scale",
    "load_labels",
]

Scale = Literal["yes/no", "graded", "pairwise"]

Kind = Literal["answers", "pairs", "passages"]

FORM: Final = (
    'One labelled answer a line: {"question": "…", "references": ["…"], "prediction": "…", "human": true}; '
    'or one pair of answers: {"question": "…", "first": "…", "second": "…", "human": 1}; '
    'or one passage: {"question": "…", "passage": "…", "human": true}'
)

MOST_UNUSABLE: Final = 0.1  # of the items; a file with more is refused

PREFERENCES: Final[Mapping[float, float]] = {1: 1.0, 2: -1.0, 0: 0.0}
"""The score of each label of a pair: 1 if the first answer is better, -1 if the second is, 0 if neither."""


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """An answer (`prediction`), and its labels by annotator: 0 wrong … 1 right, or None without a label."""

    example: Example
    references: tuple[str, ...]
    prediction: str
    human: tuple[float | None, ...]
    noun: ClassVar = "answer"


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two answers, and which is better by annotator: 1 the first, -1 the second, 0 neither, or None without a label."""

    example: Example
    first: str
    second: str
    human: tuple[float | None, ...]
    noun: ClassVar = "pair"


@dataclass(frozen=True, slots=True)
class LabelledPassage:
    """A passage, and whether it is relevant to the question by annotator: 1 yes, 0 no, or None without a label."""

    example: Example
    passage: str
    human: tuple[float | None, ...]
    noun: ClassVar = "passage"


LabelledItem = LabelledAnswer | LabelledPair | LabelledPassage


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """The labels of a file: of answers, pairs or passages.

    The scale is "pairwise" for pairs, else "yes/no" if every label is 0 or 1, else "graded".

    `unusable` lists each item that was left out, with the reason.
    """

    name: str
    scale: Scale
    answers: tuple[LabelledAnswer, ...] = ()
    pairs: tuple[LabelledPair, ...] = ()
    unusable: tuple[str, ...] = ()
    passages: tuple[LabelledPassage, ...] = ()

    @property
    def items(self) -> Sequence[LabelledItem]:
        """The answers, the pairs or the passages."""
        return self.answers or self.pairs or self.passages

    @property
    def kind(self) -> Kind:
        """What is labelled."""
        return "passages" if self.passages else "pairs" if self.pairs else "answers"

    def __len__(self) -> int:
        return len(self.items)


def load_labels(path: Path) -> HumanLabels:
    """Read human labels from a JSONL file in UTF-8; blank lines and unknown keys do not count.

    `human` is one label, or a list with one for each annotator in the same order, null without a label. A label
    of an answer is true, false or a number from 0 to 1; of a pair, 1 (the first is better), 2 (the second) or 0
    (neither); of a passage, true or false. An item without `id` is named by its line.

    An item (question, references and answer, question and two answers in either order, or question and passage) counts
    once: intervals resample items, and one that counted twice would make them too narrow.

    An item that cannot be used is left out and listed in `unusable`, with an id or an item that came before: up to a
    tenth of all, since beyond that the file is hardly what it is taken for.

    Raises:
        InputError: the file or a line cannot be read, more than a tenth of the items cannot be used, or answers,
            pairs and passages are mixed.
    """
    reading = _Reading()
    unusable: list[InputError] = []
    for place, record in json_records(path):
        check = Check(place)
        try:
            reading.add(_item(record, check, default_id=place.removeprefix(f"{path.name} ")), check)
        except InputError as error:
            unusable.append(error)
    items = reading.items
    if not (items or unusable):
        raise InputError(f"{path.name} contains no labels.\n{FORM}.")
    if len(unusable) > MOST_UNUSABLE * (len(items) + len(unusable)):
        if len(unusable) == 1:
            raise unusable[0]
        share = f"{len(unusable)} of {len(items) + len(unusable)} items cannot be used"
        raise InputError(f"{unusable[0]}\n{share}, and this is the first; at most a tenth is left out.")
    answers = tuple(item for item in items if isinstance(item, LabelledAnswer))
    pairs = tuple(item for item in items if isinstance(item, LabelledPair))
    passages = tuple(item for item in items if isinstance(item, LabelledPassage))
    found: list[Sequence[LabelledItem]] = [each for each in (answers, pairs, passages) if each]
    if len(found) > 1:
        names = " and ".join(f"labelled {each[0].noun}s" for each in found)
        few = min(found, key=len)[0]
        raise InputError(
            f"{path.name}: {names} are mixed, as {reading.places[few.example.id]} shows.\n"
            "Put each kind in a file of its own."
        )
    labels = {label for item in items for label in item.human if label is not None}
    scale: Scale = "pairwise" if pairs else "yes/no" if labels <= {0.0, 1.0} else "graded"
    left_out = tuple(str(error).partition("\n")[0] for error in unusable)
    return HumanLabels(path.name, scale, answers, pairs, left_out, passages)


class _Reading:
    """The items of a file so far, each once."""

    def __init__(self) -> None:
        self.items: list[LabelledItem] = []
        self.places: dict[str, str] = {}
        self._labelled: dict[Hashable, str] = {}

    def add(self, item: LabelledItem, check: Check) -> None:
        """Keep an item; InputError where its id or itself is there already, or others have other annotators."""
        first_place = self.places.get(item.example.id)
        if first_place is not None:
            check.fail(f'the id "{item.example.id}" is already that of {first_place}', "Make one another.")
        first_place = self._labelled.get(_labelled(item))
        if first_place is not None:
            check.fail(
                f"the same {item.noun} to the same question is already labelled in {first_place}",
                'Take one of them out; labels of several people go into one line: "human": [1, 0], in one order.',
            )
        annotators = len(self.items[0].human) if self.items else len(item.human)
        if len(item.human) != annotators:
            check.fail(
                f"the number of labels is {len(item.human)}, and in {next(iter(self.places.values()))} it is "
                f"{annotators}",
                "Write one label for each annotator in every line, in one order, and null without a label.",
            )
        self.places[item.example.id] = self._labelled[_labelled(item)] = check.place
        self.items.append(item)


def _labelled(item: LabelledItem) -> Hashable:
    texts: tuple[str, ...] = ()
    if isinstance(item, LabelledPair):
        texts, answer = (item.first, item.second), ""
    elif isinstance(item, LabelledPassage):
        answer = item.passage
    else:
        texts, answer = item.references, item.prediction
    return (
        _single_spaced(item.example.question),
        conversation_text(item.example.history),
        frozenset(map(_single_spaced, texts)),
        _single_spaced(answer),
    )


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def _item(record: Any, check: Check, *, default_id: str) -> LabelledItem:
    named = {"id": default_id, **record} if isinstance(record, Mapping) else record
    example = example_from(named, place=check.place)
    fields = example.extra
    needed: tuple[str, ...] = "references", "prediction"
    if "first" in fields or "second" in fields:
        needed = "first", "second"
    elif "passage" in fields:
        needed = ("passage",)
    for name in (*needed, "human"):
        if name not in fields:
            check.fail(f'"{name}" is missing. Found: {", ".join(fields) or "nothing more"}', f"{FORM}.")
    if needed == ("passage",):
        return LabelledPassage(
            example, check.text(fields["passage"], "passage"), _human(fields["human"], check, _relevance)
        )
    if "first" in needed:
        first, second = (check.text(fields[name], name) for name in needed)
        if _single_spaced(first) == _single_spaced(second):
            check.fail(
                '"first" and "second" are the same answer', "Take the line out: there is nothing to prefer."
            )
        return LabelledPair(example, first, second, _human(fields["human"], check, _preference))
    return LabelledAnswer(
        example,
        check.texts(fields["references"], "references", least=1),
        check.text(fields["prediction"], "prediction"),
        _human(fields["human"], check, _grade),
    )


def _human(value: Any, check: Check, label: Callable[[Any, str, Check], float]) -> tuple[float | None, ...]:
    if not isinstance(value, list):
        return (label(value, '"human"', check),)
    labels = tuple(
        None if each is None else label(each, f'"human"[{i}]', check) for i, each in enumerate(value)
    )
    if not any(each is not None for each in labels):
        check.fail('"human" holds no label', "Give one at least, or take the line out.")
    return labels


def _grade(value: Any, name: str, check: Check) -> float:
    if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
        check.fail(f"{name} is {value!r:.40}", "Write true or false, or a number from 0 to 1.")
    return float(value)


def _relevance(value: Any, name: str, check: Check) -> float:
    if not isinstance(value, bool | int | float) or value not in {0, 1}:
        check.fail(f"{name} is {value!r:.40}", "A passage is relevant or not: write true or false.")
    return float(value)


def _preference(value: Any, name: str, check: Check) -> float:
    # 1.0 is 1, as data frames write a column with gaps.
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in PREFERENCES:
        check.fail(
            f"{name} is {value!r:.40}",
            "Write 1 where the first answer is better, 2 where the second is, 0 where neither.",
        )
    return PREFERENCES[value]
