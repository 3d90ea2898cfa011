"""Writes objects as plain data for a JSON file, and restores them, by the types of the fields of their classes.

A dataclass becomes an object with the fields that differ from their defaults, and a named tuple a list. The objects of
`SHARED`, which many others contain, are written once, to tables; other objects have their numbers. A field with
`NOT_WRITTEN` in its metadata is left out. A value of the type `Any`, such as a tag, may be anything: what JSON has no
form for becomes an object with the key `TYPE_KEY`, or at last its text.

`restore` creates no object of a class that the types do not name, and checks each field against its type.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from math import isfinite
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypedDict,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pytest_rageval.core.errors import Cause, QueryError, RagevalError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import NOT_WRITTEN, Document, Ranking
from pytest_rageval.lib.shape import check_fields, check_shape

SHARED: Final[tuple[type, ...]] = (Document, Example, Ranking)

TYPE_KEY: Final = "~"

T = TypeVar("T")


class Plain(TypedDict):
    """An object as plain data: its value, and the tables of the shared objects by the name of their class."""

    value: Any
    tables: dict[str, list[Any]]


def to_plain(value: Any, kind: Any) -> Plain:
    writer = _Writer()
    return {"value": _form(kind).write(writer, value), "tables": writer.tables}


def restore(plain: Plain, kind: Any) -> Any:
    """Return the value that `to_plain` has written; ValueError or another error if it has not written it."""
    return _form(kind).read(_Reader(plain["tables"]), plain["value"])


class _Writer:
    def __init__(self) -> None:
        self.tables: dict[str, list[Any]] = {kind.__name__: [] for kind in SHARED}
        self._places: dict[tuple[str, str], int] = {}
        self._known: dict[int, tuple[object, int]] = {}

    def place(self, kind: type, value: object) -> int:
        if known := self._known.get(id(value)):
            return known[1]
        plain = _fields_form(kind).write(self, value)
        table, key = self.tables[kind.__name__], (kind.__name__, json.dumps(plain))
        if key not in self._places:
            self._places[key] = len(table)
            table.append(plain)
        if kind is not Document:
            # A reference to the value prevents that another object gets its id. Documents are read from a spool: they
            # would stay in memory.
            self._known[id(value)] = value, self._places[key]
        return self._places[key]


class _Reader:
    def __init__(self, tables: Mapping[str, Sequence[Any]]) -> None:
        self._tables = tables
        self._restored: dict[tuple[type, int], Any] = {}

    def at(self, kind: type, place: int) -> Any:
        if (kind, place) not in self._restored:
            self._restored[kind, place] = _fields_form(kind).read(self, self._tables[kind.__name__][place])
        return self._restored[kind, place]


class _Form(NamedTuple):
    write: Callable[[_Writer, Any], Any]
    read: Callable[[_Reader, Any], Any]


@cache
def _form(kind: Any) -> _Form:  # noqa: PLR0911 - one branch for each form of a type
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _form(arguments[0])
    if origin in {Union, UnionType}:
        return _union_form(arguments)
    if kind in SHARED:
        return _Form(
            lambda writer, value: writer.place(kind, value), lambda reader, data: reader.at(kind, data)
        )
    if kind in FORMS:
        return FORMS[kind]
    if is_dataclass(kind):
        return _fields_form(cast("type", kind))
    if hasattr(kind, "_fields"):
        return _named_tuple_form(kind)
    if not isinstance(origin, type) or not issubclass(origin, Collection):
        return ANY
    if issubclass(origin, Mapping):
        return _mapping_form(*map(_form, arguments), text_keys=arguments[0] is str)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _tuple_form([*map(_form, arguments)])
    return _list_form(_form(arguments[0]), list if origin is list else tuple)


def _union_form(kinds: Sequence[Any]) -> _Form:
    """Return the form of an optional value, of a value or the error that prevented it, or else of any value."""
    first, *others = (kind for kind in kinds if kind is not NoneType)
    if others == [RagevalError]:
        value, error = _form(first), FORMS[RagevalError]

        return _Form(
            lambda writer, item: (error if isinstance(item, RagevalError) else value).write(writer, item),
            lambda reader, data: (error if _is_error(data) else value).read(reader, data),
        )
    if others:
        return ANY
    form = _form(first)
    return _Form(
        lambda writer, value: None if value is None else form.write(writer, value),
        lambda reader, data: None if data is None else form.read(reader, data),
    )


def _is_error(data: Any) -> bool:
    return isinstance(data, dict) and data.keys() == {"error"}


@cache
def _fields_form(kind: type) -> _Form:
    # The forms of the fields are made late: a type may contain itself.
    @cache
    def forms() -> dict[str, tuple[Field[Any], _Form]]:
        hints = get_type_hints(kind)
        written = (field for field in fields(cast("Any", kind)) if not field.metadata.get(NOT_WRITTEN))
        return {field.name: (field, _form(hints[field.name])) for field in written}

    def write(writer: _Writer, value: Any) -> dict[str, object]:
        return {
            name: form.write(writer, current)
            for name, (field, form) in forms().items()
            if not _is_default(field, current := getattr(value, name))
        }

    def read(reader: _Reader, data: Any) -> Any:
        known = forms()
        items = _require(data, dict).items()
        values = {name: known[name][1].read(reader, item) if name in known else item for name, item in items}
        check_fields(kind, values)
        return kind(**values)

    return _Form(write, read)


def _require(data: Any, kind: type[T]) -> T:
    if not isinstance(data, kind):
        raise ValueError(f"{data!r:.40} is there, and must be a {kind.__name__}")  # noqa: TRY004 - the file is at fault
    return data


def _is_default(field: Field[Any], value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    # 0.0 equals 0 and False, but is written differently.
    return type(value) is type(default) and bool(value == default)


def _named_tuple_form(kind: Any) -> _Form:
    hints = get_type_hints(kind)
    form = _tuple_form([_form(hints[name]) for name in kind._fields])

    def read(reader: _Reader, data: Any) -> Any:
        value = kind(*form.read(reader, data))
        check_fields(kind, value._asdict())
        return value

    return _Form(form.write, read)


def _tuple_form(forms: Sequence[_Form]) -> _Form:
    return _Form(
        lambda writer, value: [form.write(writer, item) for form, item in zip(forms, value, strict=True)],
        lambda reader, data: tuple([form.read(reader, item) for form, item in zip(forms, data, strict=True)]),
    )


def _list_form(form: _Form, make: Callable[[list[Any]], Any]) -> _Form:
    def read(reader: _Reader, data: Any) -> Any:
        return make([form.read(reader, item) for item in _require(data, list)])

    return _Form(lambda writer, value: [form.write(writer, item) for item in value], read)


def _mapping_form(key: _Form, form: _Form, *, text_keys: bool) -> _Form:
    if not text_keys:
        pairs = _list_form(_tuple_form([key, form]), list)
        return _Form(
            lambda writer, value: pairs.write(writer, value.items()),
            lambda reader, data: dict(pairs.read(reader, data)),
        )

    def write(writer: _Writer, value: Mapping[Any, Any]) -> dict[str, object]:
        return {str(name): form.write(writer, item) for name, item in value.items()}

    def read(reader: _Reader, data: Any) -> dict[str, object]:
        return {name: form.read(reader, item) for name, item in _require(data, dict).items()}

    return _Form(write, read)


def _write_any(writer: _Writer, value: Any) -> Any:  # noqa: PLR0911 - one branch for each type
    if isinstance(value, str | int | NoneType):
        return value
    if isinstance(value, Integral):  # of numpy
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if isfinite(number) else {TYPE_KEY: "float", "of": str(number)}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value) and TYPE_KEY not in value:
            return {key: _write_any(writer, item) for key, item in value.items()}
        return {TYPE_KEY: "dict", "of": _write_any(writer, [[*pair] for pair in value.items()])}
    if isinstance(value, AbstractSet):
        return {TYPE_KEY: "set", "of": _write_any(writer, sorted(value, key=repr))}
    if isinstance(value, list):
        return [_write_any(writer, item) for item in value]
    if isinstance(value, Sequence):
        return {TYPE_KEY: "tuple", "of": _write_any(writer, list(value))}
    return str(value)


MARKED: Final[Mapping[str, Callable[[Any], Any]]] = {"float": float, "dict": dict, "set": set, "tuple": tuple}
"""Make the values that are marked by their type."""


def _read_any(reader: _Reader, data: Any) -> Any:
    if isinstance(data, list):
        return [_read_any(reader, item) for item in data]
    if not isinstance(data, dict):
        return data
    if TYPE_KEY in data:
        return MARKED[data[TYPE_KEY]](_read_any(reader, data["of"]))
    return {key: _read_any(reader, item) for key, item in data.items()}


def _write_query_error(_: _Writer, error: QueryError) -> dict[str, str]:
    return {"message": str(error), "reason": error.reason, "cause": error.cause}


def _read_query_error(_: _Reader, data: Any) -> QueryError:
    check_shape(data, dict[str, str])
    check_shape(data["cause"], Cause)
    return QueryError(data["message"], data["reason"], cause=data["cause"])


def _read_error(_: _Reader, data: Any) -> RagevalError:
    check_shape(data, dict[str, str])
    return RagevalError(data["error"])


ANY: Final = _Form(_write_any, _read_any)

FORMS: Final[Mapping[Any, _Form]] = {
    QueryError: _Form(_write_query_error, _read_query_error),
    RagevalError: _Form(lambda _, error: {"error": str(error)}, _read_error),
}
