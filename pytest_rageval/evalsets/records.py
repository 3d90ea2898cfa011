"""From records of the native form to examples; the one place where they are checked."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.checks import Check
from pytest_rageval.model import EvalSet, Example, Gold

__all__ = ["GOLD_KNOWN", "KNOWN", "example_from", "from_records", "no_examples", "same_id"]

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
