"""Serializes examples, outcomes and the objects in them to plain data for a JSON file, and deserializes them.

Two parts are not written: the metadata of documents, which may contain any object, and the extra keys of examples.
Verdicts need neither. A value that occurs several times, such as an example, a ranking or a document, is written once,
to a table.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields
from math import isfinite
from numbers import Integral, Real
from typing import Any, Final, cast

from pytest_rageval.core.conversation import Message, QuestionWithHistory
from pytest_rageval.core.data import Document, Example, Gold, Nugget, Ranking, Span
from pytest_rageval.core.errors import Cause, QueryError
from pytest_rageval.core.outcome import Evidence, Outcome, Places
from pytest_rageval.core.shape import check_fields, check_shape
from pytest_rageval.extensions.calibration.human_labels import (
    HumanLabels,
    LabelledAnswer,
    LabelledPair,
    LabelledPassage,
)
from pytest_rageval.stats.agreement import Tally

__all__ = ["Deserializer", "Serializer"]

DATACLASSES: Final = {
    kind.__name__: kind
    for kind in (
        Document, Evidence, Example, Gold, HumanLabels, LabelledAnswer, LabelledPair, LabelledPassage,
        Outcome, Ranking, Tally,
    )
}  # fmt: skip
"""The dataclasses that are serialized, by name. No other class can be instantiated from a file."""

TUPLES: Final[Mapping[str, type]] = {"Nugget": Nugget, "Places": Places, "Span": Span}
"""The named tuples that are serialized, by name."""

SHARED: Final = (Document, Example, Ranking)
"""The classes whose objects are written to the table, each object once."""

OMITTED_FIELDS: Final[Mapping[type, AbstractSet[str]]] = {Document: {"metadata"}, Example: {"extra"}}

TYPE_KEY: Final = "~"
"""The key that contains the type of a serialized object."""


class Serializer:
    """Converts objects to plain data.

    Attributes:
        table: the serialized objects of `SHARED`, to which the plain data refers by index.
    """

    def __init__(self) -> None:
        self.table: list[Any] = []
        self._places: dict[str, int] = {}
        self._known: dict[int, tuple[object, int]] = {}

    def serialize(self, value: Any) -> Any:
        """Return a value in the types of JSON; if JSON cannot represent the value, its text."""
        for kind, write in SERIALIZERS:
            if isinstance(value, kind):
                return write(self, value)
        return str(value)

    def serialize_all(self, values: Iterable[Any]) -> list[Any]:
        """Return a list of the serialized values."""
        return [self.serialize(value) for value in values]

    def serialize_shared(self, value: Any) -> dict[str, Any]:
        """Write a value to the table unless it is there; return a reference to it."""
        known = self._known.get(id(value))
        if known is None:
            serialized = self.serialize_dataclass(value)
            text = json.dumps(serialized)
            if text not in self._places:
                self._places[text] = len(self.table)
                self.table.append(serialized)
            # A reference to the value prevents that another object gets its id.
            known = self._known[id(value)] = value, self._places[text]
        return {TYPE_KEY: "at", "place": known[1]}

    def serialize_dataclass(self, value: Any) -> dict[str, Any]:
        """Return the fields of a dataclass that differ from their defaults."""
        omitted = OMITTED_FIELDS.get(type(value), ())
        values = {
            field.name: self.serialize(current)
            for field in fields(value)
            if field.name not in omitted and not _is_default(field, current := getattr(value, field.name))
        }
        return {TYPE_KEY: type(value).__name__, **values}

    def serialize_mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        """Return a JSON object; if a key is not a string or is `TYPE_KEY`, a list of pairs in an object."""
        if all(isinstance(key, str) for key in value) and TYPE_KEY not in value:
            return {key: self.serialize(item) for key, item in value.items()}
        return {TYPE_KEY: "dict", "of": [self.serialize_all(pair) for pair in value.items()]}


def _serialize_question(serializer: Serializer, value: QuestionWithHistory) -> Any:
    history = serializer.serialize_all(value.history)
    return {TYPE_KEY: "Question", "text": str(value), "history": history} if history else str(value)


def _serialize_query_error(_: Serializer, value: QueryError) -> dict[str, Any]:
    attributes = {"reason": value.reason, "part": value.part, "cause": value.cause}
    return {TYPE_KEY: "QueryError", "message": str(value), **attributes}


def _serialize_float(_: Serializer, value: float) -> Any:
    return float(value) if isfinite(value) else {TYPE_KEY: "float", "value": str(float(value))}


SERIALIZERS: Final[Sequence[tuple[Any, Callable[[Serializer, Any], Any]]]] = (
    (QuestionWithHistory, _serialize_question),
    ((str, int, type(None)), lambda _, value: value),
    (float, _serialize_float),
    # The integers and floats of numpy.
    (Integral, lambda _, value: int(value)),
    (Real, lambda serializer, value: _serialize_float(serializer, float(value))),
    (QueryError, _serialize_query_error),
    (
        tuple(TUPLES.values()),
        lambda serializer, value: {TYPE_KEY: type(value).__name__, "of": serializer.serialize_all(value)},
    ),
    (SHARED, Serializer.serialize_shared),
    (tuple(DATACLASSES.values()), Serializer.serialize_dataclass),
    (Mapping, Serializer.serialize_mapping),
    (
        AbstractSet,
        lambda serializer, value: {
            TYPE_KEY: "set",
            "of": serializer.serialize_all(sorted(value, key=repr)),
        },
    ),
    (list, Serializer.serialize_all),
    (Sequence, lambda serializer, value: {TYPE_KEY: "tuple", "of": serializer.serialize_all(value)}),
)
"""The serializer of each type; the first type that a value is an instance of applies."""


class Deserializer:
    """Restores objects from the plain data and the table of a `Serializer`.

    Fields of objects are checked against their types. If no `Serializer` wrote the data, the methods raise KeyError,
    TypeError or ValueError.
    """

    def __init__(self, table: Sequence[Any]) -> None:
        self._table = table
        self._restored: dict[int, Any] = {}

    def restore(self, data: Any, kind: Any) -> Any:
        """Return the value that was serialized; raise ValueError if it is not of this type (`check_shape`)."""
        value = self.deserialize(data)
        check_shape(value, kind)
        return value

    def deserialize(self, data: Any) -> Any:
        """Return the value that was serialized."""
        if isinstance(data, list):
            return [self.deserialize(item) for item in data]
        if not isinstance(data, dict):
            return data
        if TYPE_KEY not in data:
            return {key: self.deserialize(item) for key, item in data.items()}
        name = data[TYPE_KEY]
        if name in DATACLASSES:
            values = {key: self.deserialize(item) for key, item in data.items() if key != TYPE_KEY}
            check_fields(DATACLASSES[name], values)
            return DATACLASSES[name](**values)
        if name in TUPLES:
            value = TUPLES[name](*map(self.deserialize, data["of"]))
            check_fields(TUPLES[name], value._asdict())
            return value
        return DESERIALIZERS[name](self, data)

    def deserialize_shared(self, place: int) -> Any:
        """Return the value at an index of the table, always the same object."""
        if place not in self._restored:
            self._restored[place] = self.deserialize(self._table[place])
        return self._restored[place]


DESERIALIZERS: Final[Mapping[str, Callable[[Deserializer, Mapping[str, Any]], Any]]] = {
    "at": lambda deserializer, data: deserializer.deserialize_shared(data["place"]),
    "Question": lambda deserializer, data: QuestionWithHistory(
        _text(data["text"]), deserializer.restore(data["history"], list[Message])
    ),
    "QueryError": lambda _, data: QueryError(
        *map(_text, (data["message"], data["reason"])), part=_text(data["part"]), cause=_cause(data["cause"])
    ),
    "float": lambda _, data: float(_text(data["value"])),
    "dict": lambda deserializer, data: {
        deserializer.deserialize(key): deserializer.deserialize(item) for key, item in data["of"]
    },
    "set": lambda deserializer, data: set(map(deserializer.deserialize, data["of"])),
    "tuple": lambda deserializer, data: tuple(map(deserializer.deserialize, data["of"])),
}


def _text(value: Any) -> str:
    check_shape(value, str)
    return cast("str", value)


def _cause(value: Any) -> Cause:
    check_shape(value, Cause)
    return cast("Cause", value)


def _is_default(field: Any, value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    # 0.0 equals 0 and False, but is serialized differently.
    return type(value) is type(default) and bool(value == default)
