"""Field maps, which rename the fields of foreign records, and keys that resemble a field's name."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from pytest_rageval.datatypes import EvalSet
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.records import FIELDS, GOLD_FIELDS, OWN_FIELDS, Check, Records, checked

__all__ = ["NUMBER", "checked_fields", "is_target", "mapped", "near_misses", "refuse_gold_twice"]

NUMBER: Final = "#"  # as a field's name: the number of the record
ABSENT: Final = object()
OBJECTS: Final = ("tags", "filters")  # the fields with names of the user's, which a map can name one by one


def mapped(records: Iterable[tuple[str, Any]], fields: Mapping[str, str]) -> Records:
    """Make records of the native format from others.

    Args:
        records: with their places.
        fields: from our names to theirs, such as `{"question": "query", "gold.id": "doc", "tags.topic":
            "category"}`. Ours are the native fields, a part of the gold passages (`gold.id`: one value, or a list
            with one a passage), or one tag or filter. Theirs: a field's name, or with dots the way to it through
            objects; `"#"` is the record's number, from 1. A single value for `answers` is the one answer; for `gold`,
            the id of the one passage. Other fields are kept.

    Raises:
        InputError: the map cannot be used, or names a foreign field that no record has; a record's passages
            have parts of different numbers, or are there already.
    """
    fields = checked_fields(fields)
    unseen = set(fields.values()) - {NUMBER}
    place = ""
    for number, (check, record) in enumerate(checked(records), 1):
        place = check.place
        yield place, _native(record, fields, number, check, unseen)
    if unseen and place:
        raise InputError(
            f"{place}, the last of all records, and those before it have no field {', '.join(sorted(unseen))}.\n"
            "The field map is {ours: theirs}; correct the name on the right."
        )


def checked_fields(fields: object) -> Mapping[str, str]:
    """Return a user's field map, whole fields before parts of them; InputError if it cannot be used."""
    if not isinstance(fields, Mapping) or not all(
        isinstance(name, str) for pair in fields.items() for name in pair
    ):
        raise _unusable(f"fields={fields!r} is not a map of names to names")
    for target in fields:
        if not is_target(target):
            raise _unusable(f"fields names {target!r}, which is not a field of an example")
    refuse_gold_twice(fields, "fields")
    return {target: fields[target] for target in sorted(fields, key=lambda target: "." in target)}


def _unusable(found: str) -> InputError:
    return InputError(
        f'{found}.\nWrite fields={{"question": "query"}}: ours, then theirs. Ours are '
        f"{', '.join(FIELDS)}, gold.{', gold.'.join(GOLD_FIELDS)}, tags.NAME, filters.NAME."
    )


def is_target(name: str) -> bool:
    """Whether a name is that of a native field, or of a part of one."""
    root, dot, part = name.partition(".")
    if not dot:
        return name in FIELDS
    return part in GOLD_FIELDS if root == "gold" else root in OBJECTS and bool(part)


def refuse_gold_twice(targets: Collection[str], place: str) -> None:
    """Raise InputError if the gold passages as a whole and parts of them are among the targets."""
    parts = [target for target in targets if target.startswith("gold.")]
    if "gold" in targets and parts:
        raise InputError(
            f"{place}: gold and {', '.join(parts)} both say which the gold passages are.\nTake one or the other."
        )


def _native(
    record: dict[str, Any], fields: Mapping[str, str], number: int, check: Check, unseen: set[str]
) -> dict[str, Any]:
    result = {key: value for key, value in record.items() if key not in fields.values()}
    values = {}
    for target, source in fields.items():
        value = number if source == NUMBER else _at(record, source)
        if value is not ABSENT:
            unseen.discard(source)
            values[target] = value
    parts: dict[str, Any] = {}
    # A tag without a value is a value; a filter without one is none.
    given = {
        name: value for name, value in values.items() if value is not None or not name.startswith("filters.")
    }
    for target, value in given.items():
        root, dot, part = target.partition(".")
        if dot and root in OBJECTS:
            result[root] = {**check.object(result.get(root), root), part: value}
        elif dot:
            parts[part] = value
        elif root in ("answers", "nuggets") and not isinstance(value, list | tuple | None):
            result[root] = [value]
        elif root == "gold" and value is not None:
            items = value if isinstance(value, list | tuple) else [value]
            result[root] = [{"id": item} if isinstance(item, str | int | float) else item for item in items]
        else:
            result[root] = value
    if parts:
        if result.get("gold") is not None:
            check.fail(
                f"it has gold passages already, as well as {', '.join(f'gold.{part}' for part in parts)}",
                'Take one or the other; fields={"gold.id": "gold"} reads what is there as ids.',
            )
        result["gold"] = _zipped(parts, check)
    return result


def _at(record: Mapping[str, Any], source: str) -> Any:
    if source in record:
        return record[source]
    value: Any = record
    for step in source.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return ABSENT
        value = value[step]
    return value


def _zipped(parts: dict[str, Any], check: Check) -> list[dict[str, Any]]:
    columns = {part: value if isinstance(value, list | tuple) else [value] for part, value in parts.items()}
    columns = {part: column for part, column in columns.items() if column not in ([], (), [None])}
    if len({len(column) for column in columns.values()}) > 1:
        found = ", ".join(f"{len(column)} of gold.{part}" for part, column in columns.items())
        check.fail(f"its gold passages do not match: {found}", "Each part has one value a passage.")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class NearMiss(NamedTuple):
    """A key in records that was probably meant to be a native field, and the ids of the examples with it."""

    key: str
    meant: str
    ids: tuple[str, ...]


def near_misses(evalset: EvalSet) -> list[NearMiss]:
    """Find the keys under `extra` that resemble a field's name, or `topic`, a tag in most eval sets that have it.

    They are equal but for case, punctuation, and one letter that is missing, added or another, or two swapped.
    """
    ids: dict[str, list[str]] = defaultdict(list)
    for example in evalset:
        for key in example.extra:
            if key not in FIELDS:
                ids[key].append(example.id)
    meant = {key: next((name for name in MEANT if _alike(_letters(key), MEANT[name])), None) for key in ids}
    return [NearMiss(key, name, tuple(ids[key])) for key, name in meant.items() if name is not None]


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


MEANT: Final = {
    name: _letters(name.removeprefix("tags."))
    # `id` is required, and resembles many keys of two and three letters.
    for name in (
        *OWN_FIELDS[1:],
        "history",
        "filters",
        *(f"gold.{part}" for part in GOLD_FIELDS),
        "tags.topic",
    )
}


def _alike(a: str, b: str) -> bool:
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return max(len(a), len(b)) <= 1 or (len(a) == len(b) == 2 and a == b[::-1])  # noqa: PLR2004 - two swapped
