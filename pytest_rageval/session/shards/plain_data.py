"""Examples, outcomes and the like as plain data for a JSON file, and back: nothing is lost that a verdict needs.

Left out are the metadata of documents, which may hold any object, and extra keys of examples. Values that occur
several times, such as an example, a ranking or a document, are written once, in a table.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields
from math import isfinite
from numbers import Integral, Real
from typing import Any, Final

from pytest_rageval.conversation import QuestionWithHistory
from pytest_rageval.datatypes import Document, Example, Gold, Nugget, Ranking, Span
from pytest_rageval.errors import QueryError
from pytest_rageval.evalsets.human_labels import HumanLabels, LabelledAnswer, LabelledPair, LabelledPassage
from pytest_rageval.scores import Evidence, Outcome, Places
from pytest_rageval.stats.agreement import Tally

__all__ = ["Reader", "Writer"]

KINDS: Final = {
    kind.__name__: kind
    for kind in (
        Document, Evidence, Example, Gold, HumanLabels, LabelledAnswer, LabelledPair, LabelledPassage,
        Outcome, Ranking, Tally,
    )
}  # fmt: skip
"""The dataclasses that are written; nothing else is made of what a file says."""

TUPLES: Final = {"Nugget": Nugget, "Places": Places, "Span": Span}

SHARED: Final = (Document, Example, Ranking)
"""What is written once, to the table."""

LEFT_OUT: Final = {Document: {"metadata"}, Example: {"extra"}}

NAME: Final = "~"
"""The key that says what an object was."""


class Writer:
    """Makes plain data; `table` has what it refers to."""

    def __init__(self) -> None:
        self.table: list[Any] = []
        self._places: dict[str, int] = {}
        self._known: dict[int, tuple[object, int]] = {}

    def plain(self, value: Any) -> Any:
        """The value in JSON's types; a text for a value that JSON cannot represent."""
        for kind, write in WRITTEN:
            if isinstance(value, kind):
                return write(self, value)
        return str(value)

    def each(self, values: Iterable[Any]) -> list[Any]:
        """The values in a list."""
        return [self.plain(value) for value in values]

    def shared(self, value: Any) -> dict[str, Any]:
        """The index in the table of a value that may occur several times."""
        known = self._known.get(id(value))
        if known is None:
            written = self.fields(value)
            text = json.dumps(written)
            if text not in self._places:
                self._places[text] = len(self.table)
                self.table.append(written)
            # The value is kept, so that no other object gets its id.
            known = self._known[id(value)] = value, self._places[text]
        return {NAME: "at", "place": known[1]}

    def fields(self, value: Any) -> dict[str, Any]:
        """The fields of a dataclass that are not as by default."""
        left_out = LEFT_OUT.get(type(value), ())
        found = {
            field.name: self.plain(now)
            for field in fields(value)
            if field.name not in left_out and not _is_default(field, now := getattr(value, field.name))
        }
        return {NAME: type(value).__name__, **found}

    def mapping(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        """An object, or where its keys cannot be those of one, a list of pairs."""
        if all(isinstance(key, str) for key in value) and NAME not in value:
            return {key: self.plain(each) for key, each in value.items()}
        return {NAME: "dict", "of": [self.each(pair) for pair in value.items()]}


def _question(writer: Writer, value: QuestionWithHistory) -> Any:
    history = writer.each(value.history)
    return {NAME: "Question", "text": str(value), "history": history} if history else str(value)


def _query_error(_: Writer, value: QueryError) -> dict[str, Any]:
    words = {"reason": value.reason, "part": value.part, "cause": value.cause}
    return {NAME: "QueryError", "message": str(value), **words}


def _float(_: Writer, value: float) -> Any:
    return float(value) if isfinite(value) else {NAME: "float", "value": str(float(value))}


WRITTEN: Final[Sequence[tuple[Any, Callable[[Writer, Any], Any]]]] = (
    (QuestionWithHistory, _question),
    ((str, int, type(None)), lambda _, value: value),
    (float, _float),
    # Those of numpy.
    (Integral, lambda _, value: int(value)),
    (Real, lambda writer, value: _float(writer, float(value))),
    (QueryError, _query_error),
    (tuple(TUPLES.values()), lambda writer, value: {NAME: type(value).__name__, "of": writer.each(value)}),
    (SHARED, Writer.shared),
    (tuple(KINDS.values()), Writer.fields),
    (Mapping, Writer.mapping),
    (AbstractSet, lambda writer, value: {NAME: "set", "of": writer.each(sorted(value, key=repr))}),
    (list, Writer.each),
    (Sequence, lambda writer, value: {NAME: "tuple", "of": writer.each(value)}),
)
"""How values are written; the first kind that fits counts."""


class Reader:
    """Makes values of what a `Writer` wrote; KeyError, TypeError or ValueError where it did not write it."""

    def __init__(self, table: Sequence[Any]) -> None:
        self._table = table
        self._made: dict[int, Any] = {}

    def value(self, plain: Any) -> Any:
        """The value that was written."""
        if isinstance(plain, list):
            return [self.value(each) for each in plain]
        if not isinstance(plain, dict):
            return plain
        if NAME not in plain:
            return {key: self.value(each) for key, each in plain.items()}
        name = plain[NAME]
        if name in KINDS:
            return KINDS[name](**{key: self.value(each) for key, each in plain.items() if key != NAME})
        if name in TUPLES:
            return TUPLES[name](*map(self.value, plain["of"]))
        return READ[name](self, plain)

    def at(self, place: int) -> Any:
        """The value at an index of the table."""
        if place not in self._made:
            self._made[place] = self.value(self._table[place])
        return self._made[place]


READ: Final[Mapping[str, Callable[[Reader, Mapping[str, Any]], Any]]] = {
    "at": lambda reader, plain: reader.at(plain["place"]),
    "Question": lambda reader, plain: QuestionWithHistory(plain["text"], reader.value(plain["history"])),
    "QueryError": lambda _, plain: QueryError(
        plain["message"], plain["reason"], part=plain["part"], cause=plain["cause"]
    ),
    "float": lambda _, plain: float(plain["value"]),
    "dict": lambda reader, plain: {reader.value(key): reader.value(each) for key, each in plain["of"]},
    "set": lambda reader, plain: set(map(reader.value, plain["of"])),
    "tuple": lambda reader, plain: tuple(map(reader.value, plain["of"])),
}


def _is_default(field: Any, value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    # 0.0 is equal to 0 and to False, which are written otherwise.
    return type(value) is type(default) and bool(value == default)
