"""Examples from records of the native format and back, with the checks of every field."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NoReturn

from pytest_rageval.errors import InputError
from pytest_rageval.files import write_whole
from pytest_rageval.model import EvalSet, Example, Gold

__all__ = [
    "GOLD_KNOWN",
    "KNOWN",
    "Check",
    "example_from",
    "from_records",
    "map_for",
    "no_examples",
    "record_of",
    "same_id",
    "write_jsonl",
]

LISTS: Final = (list, tuple)
SIMPLE: Final = frozenset({str, int, bool, type(None)})
"""Types whose values are JSON whatever they are."""

EXACT: Final = 2**53

MAX_DEPTH: Final = 100
"""How deep lists and objects may nest: what is deeper has no place in a report, and exhausts the stack
of whoever reads it."""

LISTED: Final = 12
"""How many names of a record's keys an error lists."""


def map_for(name: str) -> str:
    """What to write in a field map for a field of ours."""
    number = ' or, for the number of each record, fields={"id": "#"}' if name == "id" else ""
    return f'Native, CSV and Python records: fields={{"{name}": "…"}}{number}.'


class Check:
    """Reads the values of one record.

    Every method takes the value and then the way to it, for the message only: `"gold", 0, "id"` is
    shown as `"gold"[0] "id"`.

    Args:
        place: of the record, such as "support.jsonl line 3".
    """

    __slots__ = ("place",)

    def __init__(self, place: str) -> None:
        self.place = place

    def fail(self, found: str, remedy: str) -> NoReturn:
        """Raise the error."""
        message = f"{self.place}: {found}.\n{remedy}"
        raise InputError(message)

    def record(self, value: Any, *required: str) -> Mapping[str, Any]:
        """The record itself: an object that has the required keys."""
        if not isinstance(value, dict) and not isinstance(value, Mapping):
            self.fail(f"an example is an object, found {_kind(value)}", 'Write {"name": value, …}.')
        for name in required:
            if name not in value:
                remedy = f"Add it, or rename the field. {map_for(name)}"
                self.fail(f'"{name}" is missing. Found: {_listed(value)}', remedy)
        return value

    def text(self, value: Any, *way: str | int) -> str:
        """A text that is not empty."""
        if not isinstance(value, str) or not value or value.isspace():
            self.fail(f"{_shown(way)} is {_kind(value)}, expected text", "Give a string that is not empty.")
        return value

    def texts(self, value: Any, *way: str | int, least: int = 0) -> tuple[str, ...]:
        """A list of texts; null is an empty list."""
        if value is None and not least:
            return ()
        items = self.array(value, *way)
        if len(items) < least:
            self.fail(f"{_shown(way)} is an empty list", "Name at least one, or leave it out.")
        return tuple([self.text(item, *way, i) for i, item in enumerate(items)])

    def name(self, value: Any, *way: str | int) -> str:
        """An identifier: a text, or an integer, which is read as its digits; 2.0 is one too."""
        number = None if isinstance(value, str) else _integral(value)
        return self.text(value, *way) if number is None else str(number)

    def array(self, value: Any, *way: str | int) -> list[Any] | tuple[Any, ...]:
        """A list; null is an empty one."""
        if value is None:
            return []
        if not isinstance(value, LISTS):
            self.fail(f"{_shown(way)} is {_kind(value)}, expected a list", "Put it in square brackets.")
        return value

    def object(self, value: Any, *way: str | int) -> dict[str, Any]:
        """An object, as a dict of its own; null is an empty one."""
        if value is None:
            return {}
        return {str(key): item for key, item in self.mapping(value, *way).items()}

    def mapping(
        self, value: Any, *way: str | int, remedy: str = 'Write {"name": value}.'
    ) -> Mapping[Any, Any]:
        """An object as it is; null is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, dict) and not isinstance(value, Mapping):
            self.fail(f"{_shown(way)} is {_kind(value)}, expected an object", remedy)
        return value

    def natural(self, value: Any, *way: str | int) -> int:
        """An integer ≥ 0; 2.0 is one too."""
        number = _integral(value)
        if number is None or number < 0:
            self.fail(f"{_shown(way)} is {_kind(value)}, expected an integer", "Give 0 or more.")
        return number

    def plain(self, value: dict[str, Any], what: str) -> dict[str, Any]:
        """What JSON can hold: a digest is made of it, and reports show it."""
        if SIMPLE.issuperset(map(type, value.values())):
            return value
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            self.fail(f"{what} holds what JSON cannot ({error})", "Give text, numbers, lists and objects.")
        except RecursionError:
            self._too_deep(what)
        level: list[Any] = [value]
        for _ in range(MAX_DEPTH):
            level = [child for parent in level for child in _children(parent)]
            if not level:
                break
        else:
            self._too_deep(what)
        return value

    def _too_deep(self, what: str) -> NoReturn:
        self.fail(f"{what} nests lists or objects deeper than {MAX_DEPTH} levels", "Make it flatter.")


def _integral(value: Any) -> int | None:
    """An integer, or a float that is one, as data frames make them of columns with gaps; else None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # Beyond, floats skip integers: its digits may be another's.
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < EXACT else None


def _children(value: Any) -> Iterable[Any]:
    """The lists and objects right in a list or an object."""
    inner = value.values() if isinstance(value, Mapping) else value
    return [item for item in inner if isinstance(item, (Mapping, *LISTS))]


def _shown(way: tuple[str | int, ...]) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f' "{part}"' for part in way]
    return "".join(parts).lstrip()


def _listed(record: Mapping[Any, Any]) -> str:
    names = [str(name)[:40] for name in list(record)[:LISTED]]
    return ", ".join([*names, "…"] if len(record) > LISTED else names) or "nothing"


def _kind(value: Any) -> str:
    """What was found, in JSON's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return repr(value)
    if isinstance(value, int | float):
        return "not a number" if isinstance(value, float) and math.isnan(value) else repr(value)[:40]
    if isinstance(value, str):
        return "an empty text" if not value.strip() else f"the text {value[:40]!r}"
    return "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"


KNOWN: Final = ("id", "question", "answers", "answer_set", "gold", "reference", "tags")
GOLD_KNOWN: Final = ("id", "text", "source", "start", "end", "grade")
OF_GOLD: Final = 'Write {"id": "d1"} for the passage with the id d1, {"text": "…"} for one by its text.'
FIELDS: Final = frozenset(KNOWN)
GOLD_FIELDS: Final = frozenset(GOLD_KNOWN)
OTHERS: Final = {True: (False,), False: (False, True)}
"""By whether a passage has an id (a text): the others it is compared to by something else."""


def from_records(records: Iterable[tuple[str, Any]], *, name: str) -> EvalSet:
    """An eval set from records and where each came from.

    Args:
        records: pairs of a place for error messages ("support.jsonl line 3") and a record.
        name: of the eval set.

    Raises:
        InputError: a record cannot be used, two have one id, or there is none.
    """
    examples: dict[str, Example] = {}
    places: list[str] = []
    for place, record in records:
        example = example_from(record, place=place)
        if example.id in examples:
            raise same_id(example.id, place, places[list(examples).index(example.id)])
        examples[example.id] = example
        places.append(place)
    if not examples:
        raise no_examples(name)
    return EvalSet(name, tuple(examples.values()))


def same_id(identifier: str, place: str, before: str) -> InputError:
    """The error for an id that comes twice."""
    return InputError(
        f'{place}: the id "{identifier}" is already that of {before}.\n'
        "Ids tell examples apart in reports and baselines: make one of them another."
    )


def no_examples(name: str) -> InputError:
    """The error for an eval set without any."""
    return InputError(
        f"{name} holds no examples.\n"
        'An eval set has one example a line: {"id": "q1", "question": "…", "answers": ["…"], '
        '"gold": [{"id": "doc-4"}]}'
    )


def example_from(record: Any, *, place: str) -> Example:
    """One example from a record of the native form; unknown keys are kept under `extra`.

    Raises:
        InputError: the record cannot be used: place, what was found, what to do.
    """
    check = Check(place)
    record = check.record(record, "id", "question")
    get = record.get
    reference = get("reference")
    return Example(
        id=check.name(record["id"], "id"),
        question=check.text(record["question"], "question"),
        answers=check.texts(get("answers"), "answers"),
        answer_set=_answer_set(get("answer_set"), check),
        gold=_gold(get("gold"), check),
        reference=None if reference is None else check.text(reference, "reference"),
        tags=check.plain(check.object(get("tags"), "tags"), '"tags"'),
        extra=_extra(record, check),
    )


def _extra(record: Mapping[Any, Any], check: Check) -> dict[str, Any]:
    if FIELDS.issuperset(record):
        return {}
    return check.plain({str(key): value for key, value in record.items() if key not in FIELDS}, "it")


def _answer_set(value: Any, check: Check) -> tuple[tuple[str, ...], ...]:
    if value is None:
        return ()
    wanted = enumerate(check.array(value, "answer_set"))
    return tuple([check.texts(aliases, "answer_set", i, least=1) for i, aliases in wanted])


def _gold(value: Any, check: Check) -> tuple[Gold, ...]:
    passages = [
        _passage(check.mapping(item, "gold", i, remedy=OF_GOLD), i, check)
        for i, item in enumerate(check.array(value, "gold"))
    ]
    if len(passages) > 1:
        seen = _Seen()
        for i, passage in enumerate(passages):
            if not seen.add(passage):
                check.fail(f'"gold"[{i}] is the same passage as one before it', "Take one of them out.")
    return tuple(passages)


def _passage(fields: Mapping[Any, Any], i: int, check: Check) -> Gold:
    if not GOLD_FIELDS.issuperset(fields):
        unknown = sorted(str(key)[:40] for key in fields if key not in GOLD_FIELDS)
        found = f'"gold"[{i}] has unknown keys: {", ".join(unknown[:12])}'
        check.fail(found, f"Known: {', '.join(GOLD_KNOWN)}.")
    get = fields.get
    identifier, text, source = get("id"), get("text"), get("source")
    start, end, grade = get("start"), get("end"), get("grade")
    passage = Gold(
        id=None if identifier is None else check.name(identifier, "gold", i, "id"),
        text=None if text is None else check.text(text, "gold", i, "text"),
        source=None if source is None else check.text(source, "gold", i, "source"),
        start=None if start is None else check.natural(start, "gold", i, "start"),
        end=None if end is None else check.natural(end, "gold", i, "end"),
        grade=1 if grade is None else check.natural(grade, "gold", i, "grade"),
    )
    if (source is not None or start is not None or end is not None) and not _is_span(passage):
        check.fail(
            f'"gold"[{i}] has an incomplete or empty span',
            'A span is {"source": "handbook.md", "start": 120, "end": 310}: characters, end excluded.',
        )
    if identifier is None and text is None and source is None:
        check.fail(f'"gold"[{i}] does not say which passage it is', 'Give its "id", its "text" or its span.')
    return passage


def _is_span(passage: Gold) -> bool:
    start, end = passage.start, passage.end
    return passage.source is not None and start is not None and end is not None and start < end


class _Seen:
    """The gold passages of an example so far, by what they can be told apart by.

    Two are the same where their ids are; without both ids, where their texts are; without both
    texts, where their spans are. Sets, because a topic may have thousands.
    """

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._rest: set[tuple[Any, ...]] = set()

    def add(self, passage: Gold) -> bool:
        """Take it in; False where it is there already."""
        known = False
        if passage.id is not None:
            known = passage.id in self._ids
            self._ids.add(passage.id)
        # With both ids the ids decide, so only those without one are asked about; so for texts.
        has_id, has_text = passage.id is not None, passage.text is not None
        if has_text:
            known = known or any((passage.text, other) in self._rest for other in OTHERS[has_id])
            self._rest.add((passage.text, has_id))
        if passage.source is not None:
            span = (passage.source, passage.start, passage.end)
            known = known or any(
                (*span, other_id, other_text) in self._rest
                for other_id in OTHERS[has_id]
                for other_text in OTHERS[has_text]
            )
            self._rest.add((*span, has_id, has_text))
        return not known


def write_jsonl(evalset: EvalSet, path: Path) -> None:
    """Write an eval set as JSON lines in UTF-8; what is read back has the same digest.

    A file that is there is replaced once the whole is written.

    Raises:
        InputError: the file cannot be written, or an example cannot be told from another record.
    """
    try:
        write_whole(path, (_line(record_of(example)) for example in evalset))
    except OSError as error:
        message = f"The eval set {path} cannot be written: {error.strerror or error}."
        raise InputError(message) from error


def record_of(example: Example) -> dict[str, Any]:
    """The example as a record of the native form, without what is empty.

    Raises:
        InputError: a key of `extra` is one of the form's own, and would be read as that.
    """
    clash = sorted(set(example.extra) & set(KNOWN))
    if clash:
        message = (
            f"The example {example.id!r} has {', '.join(clash)} under extra.\n"
            "These are fields of an example: take them out, or call them something else."
        )
        raise InputError(message)
    record = {
        "id": example.id,
        "question": example.question,
        "answers": list(example.answers),
        "answer_set": [list(aliases) for aliases in example.answer_set],
        "gold": [_gold_as_record(gold) for gold in example.gold],
        "reference": example.reference,
        "tags": dict(example.tags),
    }
    empty: tuple[object, ...] = (None, [], {})
    return {key: value for key, value in record.items() if value not in empty} | dict(example.extra)


def _gold_as_record(gold: Gold) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(gold).items() if value is not None}
    return fields if gold.grade != 1 else {name: value for name, value in fields.items() if name != "grade"}


def _line(record: dict[str, Any]) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        # Half of a surrogate pair is legal in JSON, where it is escaped, and in no UTF-8.
        return json.dumps(record, allow_nan=False).encode() + b"\n"
