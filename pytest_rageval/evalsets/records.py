"""From records, as files and users have them, to examples; the one place where they are checked."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from pytest_rageval.errors import InputError
from pytest_rageval.model import EvalSet, Example, Gold

__all__ = ["example_from", "from_records"]

KNOWN: Final = ("id", "question", "answers", "answer_set", "gold", "reference", "tags")
GOLD_KNOWN: Final = ("id", "text", "source", "start", "end", "grade")


def from_records(records: Iterable[tuple[str, Any]], *, name: str) -> EvalSet:
    """An eval set from records and where each came from.

    Args:
        records: pairs of a place for error messages ("support.jsonl line 3") and a record.
        name: of the eval set.

    Raises:
        InputError: a record cannot be used, two have one id, or there is none.
    """
    examples: dict[str, Example] = {}
    places: dict[str, str] = {}
    for place, record in records:
        example = example_from(record, place=place)
        if example.id in examples:
            message = (
                f'{place}: the id "{example.id}" is already that of {places[example.id]}.\n'
                "Ids tell examples apart in reports and baselines: make one of them another."
            )
            raise InputError(message)
        examples[example.id] = example
        places[example.id] = place
    if not examples:
        message = (
            f"{name} holds no examples.\n"
            'An eval set has one example a line: {"id": "q1", "question": "…", "answers": ["…"], '
            '"gold": [{"id": "doc-4"}]}'
        )
        raise InputError(message)
    return EvalSet(name, tuple(examples.values()))


def example_from(record: Any, *, place: str) -> Example:
    """One example from a record of the native form; unknown keys are kept under `extra`.

    Raises:
        InputError: the record cannot be used: place, what was found, what to do.
    """
    check = _Check(place)
    if not isinstance(record, Mapping):
        check.fail(f"an example is an object, found {_kind(record)}", "Write {…} with id and question.")
    for required in ("id", "question"):
        if required not in record:
            found = ", ".join(map(str, record)) or "nothing"
            check.fail(f'"{required}" is missing. Found: {found}', "Add it, or rename the field.")
    identifier = record["id"]
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        identifier = str(identifier)
    return Example(
        id=check.text(identifier, '"id"'),
        question=check.text(record["question"], '"question"'),
        answers=check.texts(record.get("answers"), '"answers"'),
        answer_set=tuple(
            check.texts(aliases, f'"answer_set"[{i}]', least=1)
            for i, aliases in enumerate(check.array(record.get("answer_set"), '"answer_set"'))
        ),
        gold=_gold(record.get("gold"), check),
        reference=None if record.get("reference") is None else check.text(record["reference"], '"reference"'),
        tags=check.plain(check.object(record.get("tags"), '"tags"'), '"tags"'),
        extra=check.plain({str(key): value for key, value in record.items() if key not in KNOWN}, "it"),
    )


def _gold(value: Any, check: "_Check") -> tuple[Gold, ...]:
    passages: list[Gold] = []
    for i, item in enumerate(check.array(value, '"gold"')):
        where = f'"gold"[{i}]'
        fields = check.object(item, where)
        unknown = sorted(set(fields) - set(GOLD_KNOWN))
        if unknown:
            check.fail(
                f"{where} has unknown keys: {', '.join(unknown)}",
                f"Known: {', '.join(GOLD_KNOWN)}.",
            )
        identifier = fields.get("id")
        if isinstance(identifier, int) and not isinstance(identifier, bool):
            identifier = str(identifier)
        passage = Gold(
            id=None if identifier is None else check.text(identifier, f'{where} "id"'),
            text=None if fields.get("text") is None else check.text(fields["text"], f'{where} "text"'),
            source=None
            if fields.get("source") is None
            else check.text(fields["source"], f'{where} "source"'),
            start=check.natural(fields.get("start"), f'{where} "start"'),
            end=check.natural(fields.get("end"), f'{where} "end"'),
            grade=_grade(fields.get("grade", 1), f'{where} "grade"', check),
        )
        _check_named(passage, where, check)
        if any(_twice(passage, other) for other in passages):
            check.fail(f"{where} is the same passage as one before it", "Take one of them out.")
        passages.append(passage)
    return tuple(passages)


def _check_named(passage: Gold, where: str, check: "_Check") -> None:
    span = (passage.source, passage.start, passage.end)
    if any(part is not None for part in span) and (
        passage.source is None or passage.start is None or passage.end is None or passage.start >= passage.end
    ):
        check.fail(
            f"{where} has an incomplete or empty span",
            'A span is {"source": "handbook.md", "start": 120, "end": 310}: characters, end excluded.',
        )
    if passage.id is None and passage.text is None and passage.source is None:
        check.fail(f"{where} does not say which passage it is", 'Give its "id", its "text" or its span.')


def _twice(one: Gold, other: Gold) -> bool:
    if one.id is not None and other.id is not None:
        return one.id == other.id
    if one.text is not None and other.text is not None:
        return one.text == other.text
    span = (one.source, one.start, one.end)
    return one.source is not None and span == (other.source, other.start, other.end)


def _grade(value: Any, where: str, check: "_Check") -> int:
    grade = check.natural(value, where)
    return 1 if grade is None else grade


class _Check:
    """Reads values of expected kinds; what does not fit is an error that names the place."""

    def __init__(self, place: str) -> None:
        self.place = place

    def fail(self, found: str, remedy: str) -> NoReturn:
        message = f"{self.place}: {found}.\n{remedy}"
        raise InputError(message)

    def text(self, value: Any, where: str) -> str:
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{where} is {_kind(value)}, expected text", "Give a string that is not empty.")
        return value

    def array(self, value: Any, where: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.fail(f"{where} is {_kind(value)}, expected a list", "Put it in square brackets.")
        return list(value)

    def texts(self, value: Any, where: str, *, least: int = 0) -> tuple[str, ...]:
        items = self.array(value, where)
        if len(items) < least:
            self.fail(f"{where} is an empty list", "Name at least one, or leave it out.")
        return tuple(self.text(item, f"{where}[{i}]") for i, item in enumerate(items))

    def object(self, value: Any, where: str) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.fail(f"{where} is {_kind(value)}, expected an object", 'Write {"name": value}.')
        return {str(key): item for key, item in value.items()}

    def plain(self, value: dict[str, Any], where: str) -> dict[str, Any]:
        """What JSON can hold: a digest is made of it, and reports show it."""
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            self.fail(f"{where} holds what JSON cannot ({error})", "Give text, numbers, lists and objects.")
        return value

    def natural(self, value: Any, where: str) -> int | None:
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.fail(f"{where} is {_kind(value)}, expected an integer", "Give 0 or more.")
        return value


def _kind(value: Any) -> str:
    """What was found, in JSON's words."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return "not a number" if isinstance(value, float) and math.isnan(value) else repr(value)
    if isinstance(value, str):
        return "an empty text" if not value.strip() else f"the text {value[:40]!r}"
    return "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"
