"""Field maps: which field of a foreign record is which of ours, and fields with nearly the right name."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.records import GOLD_KNOWN, KNOWN, Check
from pytest_rageval.model import EvalSet

__all__ = ["NUMBER", "NearMiss", "checked_fields", "is_target", "mapped", "near_misses", "refuse_gold_twice"]

NUMBER: Final = "#"
"""As a field: the record's number."""

ABSENT: Final = object()


def mapped(records: Iterable[tuple[str, Any]], fields: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Records of the native form, made of others.

    Args:
        records: with their places.
        fields: of ours to theirs, such as `{"question": "query", "gold.id": "doc", "tags.topic":
            "category"}`. Ours: `id`, `question`, `answers`, `answer_set`, `gold`, `reference`, `tags`,
            and with a dot one part of the gold passages (`gold.id`, `gold.text`, …: one value, or a
            list with one a passage) or one tag. Theirs: a field's name, or with dots the way to it
            through objects (`meta.category`); `"#"` is the record's number, from 1. A single value
            for `answers` is the one answer; for `gold`, the id of the one passage. Fields that are
            not named stay as they are.

    Raises:
        InputError: the map is no map, names an unknown field of ours, `gold` besides a part of it, or
            one of theirs that no record has; a record's passages have parts of different numbers, or
            are there already.
    """
    fields = checked_fields(fields)
    unseen = set(fields.values()) - {NUMBER}
    place = ""
    for number, (place, record) in enumerate(records, 1):
        yield place, _native(Check(place).record(record), fields, number, Check(place), unseen)
    if unseen and place:
        message = (
            f"{place}, the last of all records, and those before it have no field {', '.join(sorted(unseen))}.\n"
            "The field map is {ours: theirs}; correct the name on the right."
        )
        raise InputError(message)


def checked_fields(fields: object) -> Mapping[str, str]:
    """A field map as the user gave it.

    Returns:
        The map, with whole fields before parts of them.

    Raises:
        InputError: it is none, or gives the gold passages twice.
    """
    if not isinstance(fields, Mapping) or not all(
        isinstance(word, str) for pair in fields.items() for word in pair
    ):
        _refuse(f"fields={fields!r} is no map of names to names")
    for target in fields:
        if not is_target(target):
            _refuse(f"fields names {target!r}, which is no field of an example")
    refuse_gold_twice(fields, "fields")
    return {target: fields[target] for target in sorted(fields, key=lambda target: "." in target)}


def refuse_gold_twice(targets: Collection[str], place: str) -> None:
    """Let the gold passages not be given whole and in parts, of which one would be lost.

    Args:
        targets: fields of ours.
        place: what gives them.

    Raises:
        InputError: they are.
    """
    parts = [target for target in targets if target.startswith("gold.")]
    if "gold" in targets and parts:
        message = f"{place}: gold and {', '.join(parts)} both say which the gold passages are.\nTake one or the other."
        raise InputError(message)


def is_target(name: str) -> bool:
    """Whether a field of ours, or a part of one, has this name."""
    root, dot, part = name.partition(".")
    if not dot:
        return name in KNOWN
    return part in GOLD_KNOWN if root == "gold" else root == "tags" and bool(part)


def _refuse(found: str) -> NoReturn:
    message = (
        f'{found}.\nWrite fields={{"question": "query"}}: ours, then theirs. Ours are '
        f"{', '.join(KNOWN)}, gold.{', gold.'.join(GOLD_KNOWN)}, tags.NAME."
    )
    raise InputError(message)


def _native(
    record: Mapping[str, Any], fields: Mapping[str, str], number: int, check: Check, unseen: set[str]
) -> dict[str, Any]:
    result = dict(record)
    values = {}
    for target, source in fields.items():
        value = number if source == NUMBER else _at(record, source)
        if value is not ABSENT:
            unseen.discard(source)
            values[target] = value
        result.pop(source, None)
    parts: dict[str, Any] = {}
    for target, value in values.items():
        root, dot, part = target.partition(".")
        if dot and root == "tags":
            result["tags"] = {**check.object(result.get("tags"), "tags"), part: value}
        elif dot:
            parts[part] = value
        elif root == "answers" and not isinstance(value, list | tuple | None):
            result[root] = [value]
        elif root == "gold":
            result[root] = _passages(value)
        else:
            result[root] = value
    if parts:
        if result.get("gold") is not None:
            check.fail(
                f"it has gold passages already, besides {', '.join(f'gold.{part}' for part in parts)}",
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


def _passages(value: Any) -> Any:
    if value is None:
        return None
    items = value if isinstance(value, list | tuple) else [value]
    return [{"id": item} if isinstance(item, str | int | float) else item for item in items]


def _zipped(parts: dict[str, Any], check: Check) -> list[dict[str, Any]]:
    columns = {part: value if isinstance(value, list | tuple) else [value] for part, value in parts.items()}
    columns = {part: column for part, column in columns.items() if column not in ([], (), [None])}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        found = ", ".join(f"{len(column)} of gold.{part}" for part, column in columns.items())
        check.fail(f"its gold passages do not match: {found}", "Each part has one value a passage.")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# Not `id`: a record without one is an error, and beside it stand many of two and three letters.
MEANT: Final = (
    *(name for name in KNOWN if name != "id"),
    *(f"gold.{part}" for part in GOLD_KNOWN),
    "tags.topic",
)


class NearMiss(NamedTuple):
    """A key that was probably meant to be another.

    Attributes:
        key: as it stands in the records.
        meant: the field of ours, as in a field map.
        ids: of the examples that have the key.
    """

    key: str
    meant: str
    ids: tuple[str, ...]


def near_misses(evalset: EvalSet) -> list[NearMiss]:
    """The keys under `extra` that are nearly ours; other keys are whatever the user wants to keep.

    Nearly: but for case, punctuation, and one letter too few or too many, another one, or two
    swapped. `topic` too, which is a tag in most sets that have it.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for example in evalset:
        for key in example.extra:
            found[key].append(example.id)
    meant = {key: next((name for name in MEANT if _alike(_letters(key), FORMS[name])), None) for key in found}
    return [NearMiss(key, name, tuple(found[key])) for key, name in meant.items() if name is not None]


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


FORMS: Final = {name: _letters(name.removeprefix("tags.")) for name in MEANT}


def _alike(a: str, b: str) -> bool:
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return max(len(a), len(b)) <= 1 or (len(a) == len(b) == 2 and a == b[::-1])  # noqa: PLR2004 - two swapped
