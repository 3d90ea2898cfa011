"""Converts records of the native format to examples and back, and checks every field."""

import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from sys import intern
from typing import Any, Final, NoReturn
from weakref import WeakValueDictionary

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EMPTY_MAPPING, RETRIEVER_CONTEXT, EvalSet, Example, Gold, Nugget
from pytest_rageval.core.extensions import declared
from pytest_rageval.evalsets.files import ARRAY_REMEDY
from pytest_rageval.lib.foreign_values import (
    as_identifier,
    id_key,
    id_keys,
    is_identifier,
    is_missing,
    whole_number,
)

Record = dict[str, Any]
"""A record: what its fields are is not known until `Check` has read them."""

Records = Iterator[tuple[str, Any]]
"""The place of each record for error messages, such as "support.jsonl line 3", and the record or an `Example`."""

OWN_FIELDS: Final = ("id", "question", "answers", "answer_set", "gold", "reference", "nuggets", "tags")
FIELDS: Final = (*OWN_FIELDS, *RETRIEVER_CONTEXT)
GOLD_FIELDS: Final = ("id", "text", "source", "start", "end", "grade", "group")
GOLD_FIELD_SET: Final = frozenset(GOLD_FIELDS)
OWN_FIELD_SET: Final = frozenset(OWN_FIELDS)
ID_ONLY: Final = {"id"}
NUGGET_FIELDS: Final = ("text", "vital", "importance")
VITAL_BY_IMPORTANCE: Final = {"vital": True, "okay": False}
NUGGET_REMEDY: Final = 'Write "a fact", or {"text": "a fact", "vital": false} for one that is not vital.'
GOLD_REMEDY: Final = 'Write {"id": "d1"} for the passage with the id d1, {"text": "…"} for one by its text.'

EXPORT_KEYS: Final = frozenset(
    {"resourceSpans", "run_type", "span_kind", "observations", "expectedOutput", "expected_output"}
)
EXPORT_PAIRS: Final = ({"input", "output"}, {"inputs", "outputs"})
EXPORT_REMEDY: Final = (
    "It looks like an export of traces or of a data set (Phoenix, OTLP, Langfuse, LangSmith): "
    "`rageval evalset from-traces FILE --output evalset.jsonl` makes an eval set of it."
)

LIST_TYPES: Final = (list, tuple)
SCALAR_TYPES: Final = frozenset({str, int, bool, type(None)})  # JSON can represent every value of these types
MAX_DEPTH: Final = 100  # levels of nested lists and objects; deeper data would exhaust the stack of readers
MAX_LISTED_KEYS: Final = 12  # number of keys that an error message lists

_CHECKED: Final[WeakValueDictionary[int, EvalSet]] = WeakValueDictionary()
"""Eval sets of checked examples, by `id`. Tests may receive as an object what `load` read, with 100,000 examples."""


def from_records(records: Iterable[tuple[str, Any]], *, name: str) -> EvalSet:
    examples: list[Example] = []
    places: dict[str, str] = {}
    for place, record in records:
        example = example_from(record, place=place)
        if example.id in places:
            raise same_id_error(example.id, place, places[example.id])
        places[example.id] = place
        examples.append(example)
    if not examples:
        raise no_examples_error(name)
    return checked_evalset(name, examples)


def checked_evalset(name: str, examples: Iterable[Example]) -> EvalSet:
    """Return an eval set of checked examples with different ids, which `check_evalset` does not check again."""
    evalset = EvalSet(name, tuple(examples))
    _CHECKED[id(evalset)] = evalset
    return evalset


def check_evalset(evalset: EvalSet) -> EvalSet:
    """Return an eval set of the user's code with checked examples; the same object if none needs a conversion.

    Examples are checked as records are: an integer id becomes a text, a list becomes a tuple, and an example or a gold
    passage may be a dict.
    """
    if _CHECKED.get(id(evalset)) is evalset:
        return evalset
    check = Check(f"EvalSet {evalset.name!r}")
    name, examples = check.text(evalset.name, "name"), check.array(evalset.examples, "examples")
    places = (f"{check.place}, example {number}" for number in range(1, len(examples) + 1))
    checked = from_records(zip(places, examples, strict=True), name=name).examples
    if type(examples) is tuple and all(map(operator.is_, checked, examples)):
        return evalset
    return replace(evalset, examples=checked)


def same_id_error(identifier: str, place: str, first_place: str) -> InputError:
    return InputError(
        f'{place}: the id "{identifier}" is already that of {first_place}.\n'
        "Ids identify examples in reports and baselines: change one of them."
    )


def no_examples_error(name: str) -> InputError:
    return InputError(
        f"{name} contains no examples.\n"
        'An eval set has one example a line: {"id": "q1", "question": "…", "answers": ["…"], '
        '"gold": [{"id": "doc-4"}]}'
    )


def field_map_remedy(name: str) -> str:
    """Return how to name a missing field in a field map."""
    number = ' or, for the number of each record, fields={"id": "#"}' if name == "id" else ""
    example = f'rageval_evalset("…", fields={{"{name}": "…"}})'
    return f"For native, CSV and Python records, name your field in the marker: {example}{number}."


def example_from(record: Any, *, place: str) -> Example:
    """Convert a native record, or an example of the user's code, to an example; unknown keys are kept under `extra`.

    Fields that an extension declares are kept under `added`. A key that misspells one of them is an error: what it says
    would have no effect.

    If `history`, `filters` or `metadata` does not have the form that an example requires, it is kept under `extra` too:
    it may be other data of the same name. It is an error only for a retriever that receives it.
    """
    check = Check(place)
    if isinstance(record, Example):
        return _checked_example(record, check)
    record = check.record(record, "id", "question")
    get = record.get
    reference, nuggets = get("reference"), get("nuggets")
    answer_set = enumerate(check.array(get("answer_set"), "answer_set"))
    return Example(
        id=check.name(record["id"], "id"),
        question=check.text(record["question"], "question"),
        answers=check.texts(get("answers"), "answers"),
        answer_set=tuple([check.texts(aliases, "answer_set", i, least=1) for i, aliases in answer_set]),
        gold=_parse_gold(get("gold"), check),
        reference=None if reference is None else check.text(reference, "reference"),
        tags=_parse_tags(get("tags"), check),
        # Most records have no other keys, and a set may have 100,000 records: skip the work for these.
        **({} if OWN_FIELD_SET.issuperset(record) else _extra_and_context(record, check)),
        nuggets=() if nuggets is None else _parse_nuggets(nuggets, check),
    )


def _parse_tags(value: Any, check: "Check") -> dict[str, object]:
    tags = check.plain(check.object(value, "tags"), '"tags"')
    # Many questions have the same values.
    return {tag: intern(text) if type(text) is str else text for tag, text in tags.items()}


def _checked_example(example: Example, check: "Check") -> Example:
    """Return an example with fields of the declared types; the same object if no field needs a conversion."""
    record = {name: getattr(example, name) for name in OWN_FIELDS} | check.object(example.added, "added")
    record["gold"] = [_as_record(item, GOLD_FIELDS) for item in check.array(example.gold, "gold")]
    record["nuggets"] = [_as_record(item, Nugget._fields) for item in check.array(example.nuggets, "nuggets")]
    converted = example_from(record, place=check.place)
    fields = {name: getattr(converted, name) for name in (*OWN_FIELDS, "added")}
    for name in ("extra", "filters", "metadata"):
        fields[name] = check.plain(check.object(getattr(example, name), name), f'"{name}"')
    history = check.array(example.history, "history")
    for i, message in enumerate(history):
        if not _is_message(message):
            found = f'"history"[{i}] is {_describe(message)}, expected a message'
            check.fail(found, 'Write {"role": "user", "content": "…"}.')
    fields["history"] = tuple(check.plain({"history": history}, '"history"')["history"])
    given = {name: getattr(example, name) for name in fields}
    changed = {
        name: value
        for name, value in fields.items()
        if value != given[name] or (type(value) is not type(given[name]) and given[name] is not EMPTY_MAPPING)
    }
    return replace(example, **changed) if changed else example


def _as_record(item: Any, fields: Iterable[str]) -> Any:
    if not isinstance(item, Gold | Nugget):
        return item
    added = (item.added or {}) if isinstance(item, Gold) else {}
    return {**added, **{name: value for name in fields if not is_missing(value := getattr(item, name))}}


def _extra_and_context(record: Mapping[Any, Any], check: "Check") -> dict[str, Any]:
    """Return the fields `extra`, `added` and `CONTEXT` of an example, from a record with keys not in `OWN_FIELDS`."""
    added = _added(record, declared("FIELDS"), check)
    for key in record:
        if meant := _misspelt_field(str(key)):
            check.fail(
                f'"{key}" is no field, and resembles "{meant}"', f'Write "{meant}", or rename the key.'
            )
    context = {name: record[name] for name in RETRIEVER_CONTEXT if _is_context(name, record.get(name))}
    known = OWN_FIELD_SET.union(context, declared("FIELDS"))
    return {
        "added": added,
        "extra": check.plain({str(key): value for key, value in record.items() if key not in known}, "it"),
        "history": tuple(check.plain({"history": context.get("history", ())}, '"history"')["history"]),
        "filters": check.plain(check.object(context.get("filters"), "filters"), '"filters"'),
        "metadata": check.plain(check.object(context.get("metadata"), "metadata"), '"metadata"'),
    }


def _added(
    record: Mapping[Any, Any], fields: Mapping[str, Callable[..., None]], check: "Check", *keys: str | int
) -> dict[str, object]:
    """Return the values that a record has for fields of extensions, which check them; a null is no value."""
    added = {name: record[name] for name in fields if record.get(name) is not None}
    for name, value in added.items():
        fields[name](value, check, *keys, name)
    return check.plain(added, "it")


@cache
def _misspelt_field(key: str) -> str:
    """Return the field of an extension that a key misspells; empty for none."""
    if key in FIELDS or key in declared("FIELDS"):
        return ""
    return next((name for name in declared("FIELDS") if resembles(key, name)), "")


def resembles(key: str, name: str) -> bool:
    """Return True if a key probably misspells a name.

    Without case and punctuation they are equal or differ by one letter that is missing, added or replaced, or by two
    adjacent letters that are swapped.
    """
    a, b = ("".join(filter(str.isalnum, text.casefold())) for text in (key, name))
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return max(len(a), len(b)) <= 1 or (len(a) == len(b) == 2 and a == b[::-1])  # noqa: PLR2004 - two swapped


def _is_context(name: str, value: object) -> bool:
    if name != "history":
        return isinstance(value, Mapping) and bool(value)
    return isinstance(value, LIST_TYPES) and bool(value) and all(map(_is_message, value))


def _is_message(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(key), str) for key in ("role", "content"))


def _parse_nuggets(value: Any, check: "Check") -> tuple[Nugget, ...]:
    nuggets: dict[str, Nugget] = {}
    for i, item in enumerate(check.array(value, "nuggets")):
        is_text = isinstance(item, str)
        nugget = Nugget(check.text(item, "nuggets", i)) if is_text else _parse_nugget(item, i, check)
        if nugget.text in nuggets:
            check.fail(f'"nuggets"[{i}] is the same nugget as one before it', "Take one of them out.")
        nuggets[nugget.text] = nugget
    return tuple(nuggets.values())


def _parse_nugget(item: Any, i: int, check: "Check") -> Nugget:
    fields = check.mapping(item, "nuggets", i, remedy=NUGGET_REMEDY)
    _refuse_unknown(fields, NUGGET_FIELDS, f'"nuggets"[{i}]', check)
    if "text" not in fields:
        check.fail(f'"nuggets"[{i}] has no "text"', NUGGET_REMEDY)
    vital, importance = fields.get("vital"), fields.get("importance")
    by_importance = VITAL_BY_IMPORTANCE.get(importance) if isinstance(importance, str) else None
    if importance is not None and by_importance is None:
        check.fail(f'"nuggets"[{i}] "importance" is {_describe(importance)}', 'It is "vital" or "okay".')
    if vital is not None and not isinstance(vital, bool):
        check.fail(f'"nuggets"[{i}] "vital" is {_describe(vital)}', "It is true or false.")
    if None not in (vital, by_importance) and vital != by_importance:
        check.fail(f'"nuggets"[{i}] is {importance}, and "vital" is {vital}', "Leave one of the two out.")
    is_vital = next((flag for flag in (vital, by_importance) if flag is not None), True)
    return Nugget(check.text(fields["text"], "nuggets", i, "text"), is_vital)


def _parse_gold(value: Any, check: "Check") -> tuple[Gold, ...]:
    passages = [
        parse_passage(check.mapping(item, "gold", i, remedy=GOLD_REMEDY), check, "gold", i)
        for i, item in enumerate(check.array(value, "gold"))
    ]
    ids = [passage.id for passage in passages if passage.id is not None]
    if len({*id_keys(ids)}) == len(passages):
        return tuple(passages)
    known: set[tuple[Any, ...]] = set()
    for i, passage in enumerate(passages if len(passages) > 1 else ()):
        if _is_repeated(passage, known):
            check.fail(f'"gold"[{i}] is the same passage as one before it', "Take one of them out.")
    return tuple(passages)


def parse_passage(fields: Mapping[Any, Any], check: "Check", *keys: str | int) -> Gold:
    if fields.keys() == ID_ONLY and type(identifier := fields["id"]) is str and is_identifier(identifier):
        # Most gold passages have only an id, and a set may have a million passages: return early.
        return Gold(identifier)
    added = None
    if not fields.keys() <= GOLD_FIELD_SET:
        _refuse_unknown(fields, (*GOLD_FIELDS, *declared("GOLD_FIELDS")), _key_path(keys), check)
        added = _added(fields, declared("GOLD_FIELDS"), check, *keys) or None
    identifier, text, source, start, end, grade, group = map(fields.get, GOLD_FIELDS)
    passage = Gold(
        id=check.optional_name(identifier, *keys, "id"),
        text=None if text is None else check.text(text, *keys, "text"),
        source=None if source is None else check.text(source, *keys, "source"),
        start=None if start is None else check.natural(start, *keys, "start"),
        end=None if end is None else check.natural(end, *keys, "end"),
        grade=1 if grade is None else check.natural(grade, *keys, "grade"),
        group=check.optional_name(group, *keys, "group"),
        added=added,
    )
    span = passage.span
    has_span = source is not None or start is not None or end is not None
    if has_span and (span is None or span.start >= span.end):
        remedy = 'A span is {"source": "handbook.md", "start": 120, "end": 310}: characters, end excluded.'
        check.fail(f"{_key_path(keys)} has an incomplete or empty span", remedy)
    if passage.id is None and text is None and source is None:
        why = "" if identifier is None else f": its id is {_describe(identifier)}, a missing value"
        found = f"{_key_path(keys)} does not say which passage it is{why}"
        check.fail(found, 'Give its "id", its "text" or its span.')
    return passage


def _refuse_unknown(fields: Iterable[Any], known: tuple[str, ...], where: str, check: "Check") -> None:
    unknown = sorted(str(key)[:40] for key in {*fields}.difference(known))
    if unknown:
        found = f"{where} has unknown keys: {', '.join(unknown[:MAX_LISTED_KEYS])}"
        check.fail(found, f"Known: {', '.join(known)}.")


def _is_repeated(passage: Gold, known: set[tuple[Any, ...]]) -> bool:
    """Return True if an earlier passage of the example is the same; add the passage's keys to `known`.

    Two passages are the same if their ids are equal; if one of them has no id, if their texts are equal; if one of
    them has no text either, if their spans are equal. `known` is a set of keys, which is fast for thousands of
    passages.
    """
    identifier, text, span = passage.id and id_key(passage.id), passage.text, passage.span
    has_id, has_text = identifier is not None, text is not None
    # If both passages have ids, only the ids are compared; so the text of a passage with an id is compared only with
    # passages without an id. The same holds for spans of passages with texts.
    other_ids = (False,) if has_id else (False, True)
    other_texts = (False,) if has_text else (False, True)
    sought = {
        ("id", identifier),
        *(("text", text, has) for has in other_ids),
        *(("span", span, *has) for has in product(other_ids, other_texts)),
    }
    repeated = not known.isdisjoint(sought)
    own = (("id", identifier), ("text", text, has_id), ("span", span, has_id, has_text))
    known.update(key for key in own if key[1] is not None)
    return repeated


def check_records(records: Iterable[tuple[str, Any]], *required: str) -> Iterator[tuple["Check", Record]]:
    """Yield a `Check` for each record and a copy of the record that the caller may change."""
    for place, value in records:
        check = Check(place)
        yield check, dict(check.record(value, *required))


@dataclass(slots=True)
class Check:
    """Checks and converts the values of the record at a place, such as "support.jsonl line 3".

    Each method returns a checked value or raises InputError. Its arguments `keys` are the path of the value in the
    record, for the message: `"gold", 0, "id"` is shown as `"gold"[0] "id"`.
    """

    place: str

    def fail(self, found: str, remedy: str) -> NoReturn:
        raise InputError(f"{self.place}: {found}.\n{remedy}")

    def record(self, value: Any, *required: str) -> Mapping[str, object]:
        if not isinstance(value, dict) and not isinstance(value, Mapping):
            hint = f" {ARRAY_REMEDY}" if isinstance(value, list) else ""
            found = f"an example is an object, found {_describe(value)}"
            self.fail(found, f'Write {{"name": value, …}}.{hint}')
        for name in required:
            if name not in value:
                remedy = f"Add it, or rename the field. {field_map_remedy(name)}"
                if looks_like_export(value):
                    remedy = f"{EXPORT_REMEDY}\n{remedy}"
                self.fail(f'"{name}" is missing. Found: {_list_keys(value)}', remedy)
        return value

    def text(self, value: Any, *keys: str | int) -> str:
        if not isinstance(value, str) or not value or value.isspace():
            self._fail_type(value, keys, "text", "Give a string that is not empty.")
        return value

    def texts(self, value: Any, *keys: str | int, least: int = 0) -> tuple[str, ...]:
        """Return a list of texts with at least `least` items; if `least` is 0, null becomes an empty list."""
        if value is None and not least:
            return ()
        items = self.array(value, *keys)
        if len(items) < least:
            self.fail(f"{_key_path(keys)} is an empty list", "Name at least one, or leave it out.")
        return tuple([self.text(item, *keys, i) for i, item in enumerate(items)])

    def name(self, value: Any, *keys: str | int) -> str:
        name = self.optional_name(value, *keys)
        if name is None:
            self._fail_name(value, keys)
        return name

    def optional_name(self, value: Any, *keys: str | int) -> str | None:
        try:
            return as_identifier(value)
        except TypeError:
            self._fail_name(value, keys)

    def _fail_name(self, value: Any, keys: tuple[str | int, ...]) -> NoReturn:
        remedy = "Give a text or an integer."
        if isinstance(value, str) and value.strip():
            remedy += f" {value.strip()} is what a missing value is printed as."
        self._fail_type(value, keys, "text or an integer", remedy)

    def _fail_type(self, value: Any, keys: tuple[str | int, ...], expected: str, remedy: str) -> NoReturn:
        self.fail(f"{_key_path(keys)} is {_describe(value)}, expected {expected}", remedy)

    def array(self, value: Any, *keys: str | int) -> list[Any] | tuple[Any, ...]:
        """Return a list; null becomes an empty list."""
        if value is None:
            return []
        if not isinstance(value, LIST_TYPES):
            self._fail_type(value, keys, "a list", "Put it in square brackets.")
        return value

    def object(self, value: Any, *keys: str | int) -> dict[str, object]:
        """Return an object as a new dict; null becomes an empty dict, as an empty list in `objects`."""
        return {str(key): item for key, item in self.mapping(value, *keys).items()}

    def objects(self, value: Any, *keys: str | int) -> list[Record]:
        return [self.object(item, *keys, i) for i, item in enumerate(self.array(value, *keys))]

    def mapping(
        self, value: Any, *keys: str | int, remedy: str = 'Write {"name": value}.'
    ) -> Mapping[Any, Any]:
        """Return an object without copying it; null becomes an empty dict."""
        if value is None:
            return {}
        if not isinstance(value, dict) and not isinstance(value, Mapping):
            self._fail_type(value, keys, "an object", remedy)
        return value

    def natural(self, value: Any, *keys: str | int) -> int:
        """Return an integer of at least 0; the float 2.0 counts as an integer."""
        number = whole_number(value)
        if number is None or number < 0:
            self._fail_type(value, keys, "an integer", "Give 0 or more.")
        return number

    def plain(self, value: Record, what: str) -> Record:
        """Return an object that JSON can represent, as digests and reports require; `what` names it in messages."""
        if SCALAR_TYPES.issuperset(map(type, value.values())):
            return value
        too_deep = f"{what} nests lists or objects deeper than {MAX_DEPTH} levels", "Make it flatter."
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            self.fail(f"{what} holds what JSON cannot ({error})", "Give text, numbers, lists and objects.")
        except RecursionError:
            self.fail(*too_deep)
        level: list[Any] = [value]
        for _ in range(MAX_DEPTH):
            inner = (each.values() if isinstance(each, Mapping) else each for each in level)
            level = [child for each in inner for child in each if isinstance(child, (Mapping, *LIST_TYPES))]
            if not level:
                break
        else:
            self.fail(*too_deep)
        return value


def looks_like_export(record: Mapping[Any, Any]) -> bool:
    has_key = not EXPORT_KEYS.isdisjoint(record) or any(pair <= record.keys() for pair in EXPORT_PAIRS)
    return has_key or any(isinstance(record.get(key), Mapping) for key in ("input", "inputs", "attributes"))


def _key_path(keys: tuple[str | int, ...]) -> str:
    """Return the path of a value for a message: `"gold"[0] "id"`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f' "{key}"' for key in keys).lstrip()


def _list_keys(record: Mapping[Any, Any]) -> str:
    names = [str(name)[:40] for name in list(record)[:MAX_LISTED_KEYS]]
    return ", ".join([*names, "…"] if len(record) > MAX_LISTED_KEYS else names) or "nothing"


def _describe(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return "not a number" if isinstance(value, float) and math.isnan(value) else repr(value)[:40]
    if isinstance(value, str):
        return "an empty text" if not value.strip() else f"the text {value[:40]!r}"
    return "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"
