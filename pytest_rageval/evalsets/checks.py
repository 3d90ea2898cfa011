"""Values of expected kinds; what does not fit is an error that names the place."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from pytest_rageval.errors import InputError

__all__ = ["Check", "map_for"]

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
