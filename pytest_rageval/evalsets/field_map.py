"""Field maps, which rename the fields of a user's records; and a search for keys that misspell a field's name."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.core.extensions import declared
from pytest_rageval.evalsets.records import (
    FIELDS,
    GOLD_FIELDS,
    OWN_FIELDS,
    Check,
    Records,
    check_records,
    resembles,
)

RECORD_NUMBER: Final = "#"  # in a field map, in place of a field's name: the number of the record
MISSING: Final = object()
OBJECT_FIELDS: Final = ("tags", "filters")  # fields whose keys the user chooses; a map may name each key


def map_fields(
    records: Iterable[tuple[str, Any]], fields: Mapping[str, str], *, optional: Collection[str] = ()
) -> Records:
    """Convert records to the native format by a field map, such as `{"question": "query", "gold.id": "doc"}`.

    A name in the records may be a path with dots through nested objects; `"#"` is the record's number, from 1. A single
    value for `answers` is the only answer; for `gold`, the id of the only passage. Fields that the map does not name
    are kept. A name that no record has is an error, unless it is `optional`.
    """
    fields = check_field_map(fields)
    unseen = set(fields.values()) - {RECORD_NUMBER, *optional}
    place = ""
    for number, (check, record) in enumerate(check_records(records), 1):
        place = check.place
        yield place, _to_native(record, fields, number, check, unseen)
    if unseen and place:
        raise InputError(
            f"{place}, the last of all records, and those before it have no field {', '.join(sorted(unseen))}.\n"
            "The field map is {ours: theirs}; correct the name on the right."
        )


def check_field_map(fields: Any) -> Mapping[str, str]:
    """Check a user's field map; return it with whole fields ordered before parts of fields."""
    found = ""
    if not isinstance(fields, Mapping) or not all(
        isinstance(name, str) for pair in fields.items() for name in pair
    ):
        found = f"fields={fields!r} is not a map of names to names"
    elif unknown := [target for target in fields if not is_target(target)]:
        found = f"fields names {unknown[0]!r}, which is not a field of an example"
    if found:
        raise InputError(
            f'{found}.\nWrite fields={{"question": "query"}}: ours, then theirs. Ours are '
            f"{', '.join(FIELDS)}, gold.{', gold.'.join(GOLD_FIELDS)}, tags.NAME, filters.NAME."
        )
    refuse_gold_twice(fields, "fields")
    return {target: fields[target] for target in sorted(fields, key=lambda target: "." in target)}


def is_target(name: str) -> bool:
    """Return True for the name of a native field ("gold") or of a part of one ("gold.id", "tags.topic")."""
    root, dot, part = name.partition(".")
    if not dot:
        return name in FIELDS or name in declared("FIELDS")
    return (
        part in (*GOLD_FIELDS, *declared("GOLD_FIELDS"))
        if root == "gold"
        else root in OBJECT_FIELDS and bool(part)
    )


def refuse_gold_twice(targets: Collection[str], place: str) -> None:
    parts = [target for target in targets if target.startswith("gold.")]
    if "gold" in targets and parts:
        raise InputError(
            f"{place}: gold and {', '.join(parts)} both say which the gold passages are.\nTake one or the other."
        )


def _to_native(
    record: dict[str, object], fields: Mapping[str, str], number: int, check: Check, unseen: set[str]
) -> dict[str, object]:
    result = {key: value for key, value in record.items() if key not in fields.values()}
    values = {}
    for target, source in fields.items():
        value = number if source == RECORD_NUMBER else _value_at(record, source)
        if value is not MISSING:
            unseen.discard(source)
            values[target] = value
    parts: dict[str, object] = {}
    # A null tag is kept as a value; a null filter is left out.
    given = {
        name: value for name, value in values.items() if value is not None or not name.startswith("filters.")
    }
    for target, value in given.items():
        root, dot, part = target.partition(".")
        if dot and root in OBJECT_FIELDS:
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
        result["gold"] = _zip_gold_parts(parts, check)
    return result


def _value_at(record: Mapping[str, object], source: str) -> Any:
    if source in record:
        return record[source]
    value: Any = record
    for step in source.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return MISSING
        value = value[step]
    return value


def _zip_gold_parts(parts: dict[str, object], check: Check) -> list[dict[str, object]]:
    """Return one object for each gold passage, from a column of values for each part."""
    columns = {part: value if isinstance(value, list | tuple) else [value] for part, value in parts.items()}
    columns = {part: column for part, column in columns.items() if column not in ([], (), [None])}
    if len({len(column) for column in columns.values()}) > 1:
        found = ", ".join(f"{len(column)} of gold.{part}" for part, column in columns.items())
        check.fail(f"its gold passages do not match: {found}", "Each part has one value a passage.")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class NearMiss(NamedTuple):
    """A key that is probably a misspelt native field, and the ids of the examples with this key."""

    key: str
    meant: str
    ids: tuple[str, ...]


def near_misses(evalset: EvalSet) -> list[NearMiss]:
    """Find the keys under `extra` that resemble a field's name or `topic`, which is usually meant as a tag."""
    ids: dict[str, list[str]] = defaultdict(list)
    for example in evalset:
        for key in example.extra:
            if key not in FIELDS:
                ids[key].append(example.id)
    misses = []
    for key, having in ids.items():
        meant = (name for name in NAMES if resembles(key, name.removeprefix("tags.")))
        misses += [NearMiss(key, name, tuple(having)) for name in islice(meant, 1)]
    return misses


GOLD_PARTS: Final = tuple(f"gold.{part}" for part in GOLD_FIELDS)
NAMES: Final = (*OWN_FIELDS[1:], "history", "filters", *GOLD_PARTS, "tags.topic")
"""The native names that a key may misspell. `id` is required, and resembles many keys of two and three letters."""
