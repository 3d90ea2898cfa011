"""Reads human labels, with which a judge is compared: JSON lines, one labelled answer, pair or passage per line."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example, conversation_text
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Check, example_from

Scale = Literal["yes/no", "graded", "pairwise"]

Kind = Literal["answers", "pairs", "passages"]

FORM_REMEDY: Final = (
    'One labelled answer a line: {"question": "…", "references": ["…"], "prediction": "…", "human": true}; '
    'or one pair of answers: {"question": "…", "first": "…", "second": "…", "human": 1}; '
    'or one passage: {"question": "…", "passage": "…", "human": true}'
)

UNCLEAR: Final = "unclear"  # the label of an item that someone could not decide, which is no item
MAX_UNUSABLE_SHARE: Final = 0.1  # share of the items that may be unusable; a file with more is refused

PREFERENCES: Final[Mapping[float, float]] = {1: 1.0, 2: -1.0, 0: 0.0}
"""The score of each label of a pair: 1 if the first answer is better, -1 if the second is, 0 if neither."""

STEPS: Final[Mapping[str, float]] = {
    "better": 1.0, "slightly better": 1.0, "tie": 0.0, "slightly worse": -1.0, "worse": -1.0,
}  # fmt: skip
"""The score of each step of the scale by which people rate the first answer in RAG-QA Arena, merged to three."""


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    example: Example
    references: tuple[str, ...]
    prediction: str
    human: tuple[float | None, ...]  # of each annotator, from 0 (wrong) to 1 (right)
    noun: ClassVar[str] = "answer"


@dataclass(frozen=True, slots=True)
class LabelledPair:
    example: Example
    first: str
    second: str
    human: tuple[float | None, ...]  # 1: the first answer is better, -1: the second, 0: neither
    noun: ClassVar[str] = "pair"


@dataclass(frozen=True, slots=True)
class LabelledPassage:
    example: Example
    passage: str
    human: tuple[float | None, ...]  # 1: relevant
    noun: ClassVar[str] = "passage"


LabelledItem = LabelledAnswer | LabelledPair | LabelledPassage


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """The labels of a file. Only one of `answers`, `pairs` and `passages` has items."""

    name: str
    scale: Scale  # "yes/no" if every label is 0 or 1
    answers: tuple[LabelledAnswer, ...] = ()
    pairs: tuple[LabelledPair, ...] = ()
    unusable: tuple[str, ...] = ()  # for each item that was left out, its place and the reason
    passages: tuple[LabelledPassage, ...] = ()
    sampled: bool = False  # the lines are the first ones of a file of `rageval judge sample`

    @property
    def items(self) -> Sequence[LabelledItem]:
        return self.answers or self.pairs or self.passages

    @property
    def kind(self) -> Kind:
        return "passages" if self.passages else "pairs" if self.pairs else "answers"

    def __len__(self) -> int:
        return len(self.items)


def load_labels(path: Path) -> HumanLabels:
    """Read human labels from a JSONL file in UTF-8; blank lines and unknown keys are ignored.

    The key `human` is one label, or a list with one label for each annotator, always in the same order, with null for a
    missing label. A line with the label "unclear" is left out. A label of an answer is true, false or a number from 0
    to 1. A label of a pair is 1 (the first answer is better), 2 (the second) or 0 (neither), or one of `STEPS`. A label
    of a passage is true or false. The default id of an item is its line.

    An item that cannot be used, or that repeats the id or the texts of an earlier item, is left out and listed in
    `unusable`. Two items are the same if they have the same question and the same references and answer, the same two
    answers in either order, or the same passage. Repeated items would make confidence intervals too narrow, since
    intervals resample items. If more than a tenth of the items cannot be used, the file probably has another form, and
    is refused.

    Raises:
        InputError: the file or a line cannot be read, more than a tenth of the items cannot be used, or answers,
            pairs and passages are mixed.
    """
    collector = _LabelCollector()
    unusable: list[InputError] = []
    for place, record in json_records(path):
        if _is_not_labelled_yet(record):
            continue
        check = Check(place)
        if isinstance(record, Mapping) and record.get("human") == UNCLEAR:
            continue
        try:
            collector.add(_parse_item(record, check, default_id=place.removeprefix(f"{path.name} ")), check)
        except InputError as error:
            unusable.append(error)
    items = collector.items
    if not (items or unusable):
        raise InputError(f"{path.name} contains no labels.\n{FORM_REMEDY}.")
    if len(unusable) > MAX_UNUSABLE_SHARE * (len(items) + len(unusable)):
        if len(unusable) == 1:
            raise unusable[0]
        share = f"{len(unusable)} of {len(items) + len(unusable)} items cannot be used"
        raise InputError(f"{unusable[0]}\n{share}, and this is the first; at most a tenth is left out.")
    answers = tuple(item for item in items if isinstance(item, LabelledAnswer))
    pairs = tuple(item for item in items if isinstance(item, LabelledPair))
    passages = tuple(item for item in items if isinstance(item, LabelledPassage))
    kinds: list[Sequence[LabelledItem]] = [kind for kind in (answers, pairs, passages) if kind]
    if len(kinds) > 1:
        names = " and ".join(f"labelled {kind[0].noun}s" for kind in kinds)
        rarest = min(kinds, key=len)[0]
        raise InputError(
            f"{path.name}: {names} are mixed, as {collector.places[rarest.example.id]} shows.\n"
            "Put each kind in a file of its own."
        )
    labels = {label for item in items for label in item.human if label is not None}
    scale: Scale = "pairwise" if pairs else "yes/no" if labels <= {0.0, 1.0} else "graded"
    left_out = tuple(str(error).partition("\n")[0] for error in unusable)
    return HumanLabels(path.name, scale, answers, pairs, left_out, passages, _are_sampled(items))


def _are_sampled(items: Sequence[LabelledItem]) -> bool:
    """Whether these items are the first of one draw; some of it may have no label yet."""
    found = [item.example.extra.get("sample") for item in items]
    samples = [sample for sample in found if isinstance(sample, Mapping)]
    draws = {(sample.get("seed"), sample.get("of"), sample.get("n")) for sample in samples}
    return len(draws) == 1 and {sample.get("place") for sample in samples} == {*range(1, len(items) + 1)}


def _is_not_labelled_yet(record: object) -> bool:
    """Whether this is a line of `rageval judge sample` that nobody has labelled."""
    return isinstance(record, Mapping) and "sample" in record and record.get("human", ...) is None


class _LabelCollector:
    def __init__(self) -> None:
        self.items: list[LabelledItem] = []
        self.places: dict[str, str] = {}
        self._places_by_key: dict[Hashable, str] = {}

    def add(self, item: LabelledItem, check: Check) -> None:
        first_place = self.places.get(item.example.id)
        if first_place is not None:
            check.fail(f'the id "{item.example.id}" is already that of {first_place}', "Make one another.")
        first_place = self._places_by_key.get(_item_key(item))
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
        self.places[item.example.id] = self._places_by_key[_item_key(item)] = check.place
        self.items.append(item)


def _item_key(item: LabelledItem) -> Hashable:
    texts: tuple[str, ...] = ()
    if isinstance(item, LabelledPair):
        texts, answer = (item.first, item.second), ""
    elif isinstance(item, LabelledPassage):
        answer = item.passage
    else:
        texts, answer = item.references, item.prediction
    return (
        normalize_space(item.example.question),
        conversation_text(item.example.history),
        frozenset(map(normalize_space, texts)),
        normalize_space(answer),
    )


def normalize_space(text: str) -> str:
    return " ".join(text.split())


def _parse_item(record: Any, check: Check, *, default_id: str) -> LabelledItem:
    with_id = {"id": default_id, **record} if isinstance(record, Mapping) else record
    example = example_from(with_id, place=check.place)
    fields = example.extra
    required: tuple[str, ...] = "references", "prediction"
    if "first" in fields or "second" in fields:
        required = "first", "second"
    elif "passage" in fields:
        required = ("passage",)
    for name in (*required, "human"):
        if name not in fields:
            check.fail(
                f'"{name}" is missing. Found: {", ".join(fields) or "nothing more"}', f"{FORM_REMEDY}."
            )
    if required == ("passage",):
        passage = check.text(fields["passage"], "passage")
        return LabelledPassage(example, passage, _parse_labels(fields["human"], check, _parse_relevance))
    if "first" in required:
        first, second = (check.text(fields[name], name) for name in required)
        if normalize_space(first) == normalize_space(second):
            check.fail(
                '"first" and "second" are the same answer', "Take the line out: there is nothing to prefer."
            )
        return LabelledPair(example, first, second, _parse_labels(fields["human"], check, _parse_preference))
    return LabelledAnswer(
        example,
        check.texts(fields["references"], "references", least=1),
        check.text(fields["prediction"], "prediction"),
        _parse_labels(fields["human"], check, _parse_grade),
    )


def _parse_labels(
    value: Any, check: Check, parse_label: Callable[[Any, str, Check], float]
) -> tuple[float | None, ...]:
    if not isinstance(value, list):
        return (parse_label(value, '"human"', check),)
    labels = tuple(
        None if item is None else parse_label(item, f'"human"[{i}]', check) for i, item in enumerate(value)
    )
    if not any(label is not None for label in labels):
        check.fail('"human" holds no label', "Give one at least, or take the line out.")
    return labels


def _parse_grade(value: Any, name: str, check: Check) -> float:
    if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
        check.fail(f"{name} is {value!r:.40}", "Write true or false, or a number from 0 to 1.")
    return float(value)


def _parse_relevance(value: Any, name: str, check: Check) -> float:
    if not isinstance(value, bool | int | float) or value not in {0, 1}:
        check.fail(f"{name} is {value!r:.40}", "A passage is relevant or not: write true or false.")
    return float(value)


def _parse_preference(value: Any, name: str, check: Check) -> float:
    if isinstance(value, str) and (step := normalize_space(value).lower()) in STEPS:
        return STEPS[step]
    # 1.0 counts as 1: data frames write integer columns with missing values as floats.
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in PREFERENCES:
        *steps, last = STEPS
        check.fail(
            f"{name} is {value!r:.40}",
            "Write 1 where the first answer is better, 2 where the second is, 0 where neither; or in words, of the "
            f"first answer: {', '.join(steps)} or {last}.",
        )
    return PREFERENCES[value]
