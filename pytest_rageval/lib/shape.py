"""Reads JSON, and checks that it has the shape that a type describes, such as a `TypedDict`.

A file may be damaged, edited, of another version or hostile. It is checked once, as a whole, where it is read: code
behind that door relies on the types.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from math import inf
from reprlib import Repr
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pytest_rageval.lib.text import parse_failure

MAX_NUMBER: Final = 1e100  # sums and squares of larger numbers overflow
MAX_INTEGER_DIGITS: Final = 300  # an integer with more digits is read as infinite
MAX_DEPTH: Final = 64  # of the lists and objects in a value of any type
BOM: Final = b"\xef\xbb\xbf"

_SHORT: Final = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 40
_SHORT.maxlevel = _SHORT.maxlist = _SHORT.maxdict = 2


class _MismatchError(Exception):
    """A value has another shape; `places` lead to it, the innermost first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.places: list[str] = []


Check = Callable[[Any], None]  # raises `_MismatchError` for a value of another shape


def check_shape(value: object, kind: Any) -> None:
    """Check a value against a type; ValueError has the place of the first difference.

    Understands `TypedDict` (unknown keys are allowed: a later version may have written them), `list[…]`, `dict[…]`,
    `Mapping`, `Sequence` and `tuple` with the types of their items, unions, `Literal`, `Annotated` with `Between` or
    `Length`, and classes. Numbers are finite, a boolean is no number, and an integer is also a `float`. `Any` allows
    everything that does not nest too deeply.
    """
    try:
        _check_for(kind)(value)
    except _MismatchError as mismatch:
        place = "".join(reversed(mismatch.places)).removeprefix(".")
        raise ValueError(f"{place or 'it'} {mismatch}") from None


def check_fields(kind: type, values: Mapping[str, object]) -> None:
    """Check values for the fields of a dataclass or a named tuple against the types of the fields.

    ValueError has the place of a value of another type, or names the field that there is not.
    """
    checks = _checks_of_fields(kind)
    for name, value in values.items():
        if name not in checks:
            raise ValueError(f"{kind.__name__} has no field {name!r:.40}")
        try:
            checks[name](value)
        except _MismatchError as mismatch:
            place = "".join(reversed([*mismatch.places, f".{name}"]))
            raise ValueError(f"{kind.__name__}{place} {mismatch}") from None


def parse_json(content: bytes) -> Any:
    """Return parsed JSON; ValueError if it is none, contains `NaN` or an infinite number, or nests too deeply."""
    try:
        return json.loads(
            content.removeprefix(BOM).decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_integer,
        )
    except RecursionError as error:
        raise ValueError(parse_failure(error)) from None


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if abs(number) == inf:
        raise ValueError(f"{digits:.40} is too large a number")
    return number


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"{digits:.40}… is too large a number")
    return int(digits)


@cache
def _checks_of_fields(kind: type) -> dict[str, Check]:
    hints = get_type_hints(kind, include_extras=True)
    names = getattr(kind, "_fields", ()) or getattr(kind, "__dataclass_fields__", ())
    return {name: _check_for(hints[name]) for name in names}


@cache
def _check_for(kind: Any) -> Check:  # noqa: PLR0911, C901 - one branch for each form of a type
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return _check_depth
    if kind is None or kind is NoneType:
        return _instance_check(NoneType, "null")
    if is_typeddict(kind):
        return _typed_dict_check(kind)
    if kind in SCALARS:
        return SCALARS[kind]
    if origin in {Required, NotRequired}:
        return _check_for(arguments[0])
    if origin is Annotated:
        return _annotated_check(_check_for(arguments[0]), arguments[1:])
    if origin in {Union, UnionType}:
        return _union_check(arguments)
    if origin is Literal:
        return _literal_check(arguments)
    if origin is tuple:
        return _tuple_check(arguments)
    if isinstance(origin or kind, type) and issubclass(origin or kind, Mapping):
        return _mapping_check(origin or kind, *map(_check_for, arguments or (Any, Any)))
    if isinstance(origin, type) and issubclass(origin, Collection):
        return _list_check(list if origin is list else origin, _check_for(arguments[0]))
    return _instance_check(kind, f"of the type {getattr(kind, '__name__', kind)}")


def _differs(value: object, expected: str) -> _MismatchError:
    return _MismatchError(f"is {_SHORT.repr(value)}, and must be {expected}")


def _check_float(value: Any) -> None:
    # The exact type is compared, since a boolean is an instance of `int`. NaN is not below any number.
    if type(value) not in {int, float} or not abs(value) <= MAX_NUMBER:
        raise _differs(value, "a finite number")


def _check_int(value: Any) -> None:
    if type(value) is not int or not abs(value) <= MAX_NUMBER:
        raise _differs(value, "a whole number")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [
        item
        for container in level
        if isinstance(container, dict | list | tuple)
        for item in (container.values() if isinstance(container, dict) else container)
    ]:
        depth += 1
        if depth > MAX_DEPTH:
            raise _MismatchError(f"nests more than {MAX_DEPTH} levels deep")


def _instance_check(kind: type, expected: str) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, kind):
            raise _differs(value, expected)

    return check


SCALARS: Final[Mapping[Any, Check]] = {
    float: _check_float,
    int: _check_int,
    bool: _instance_check(bool, "true or false"),
    str: _instance_check(str, "a text"),
}


def _typed_dict_check(kind: Any) -> Check:
    # The checks are made late: a type may contain itself.
    checks: dict[str, Check] = {}
    required = sorted(kind.__required_keys__)

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise _differs(value, "an object")
        if not checks:
            hints = get_type_hints(kind, include_extras=True)
            checks.update({name: _check_for(hint) for name, hint in hints.items()})
        for name in required:
            if name not in value:
                raise _MismatchError(f"has no {name!r}")
        for name, item in value.items():
            if name in checks:
                _check_item(checks[name], item, f".{name}")

    return check


def _check_item(check: Check, item: Any, place: str) -> None:
    try:
        check(item)
    except _MismatchError as mismatch:
        mismatch.places.append(place)
        raise


def _annotated_check(check: Check, rules: Sequence[Any]) -> Check:
    def check_rules(value: Any) -> None:
        check(value)
        for rule in rules:
            if problem := rule.problem(value):
                raise _MismatchError(f"is {_SHORT.repr(value)}, which {problem}")

    return check_rules


def _union_check(kinds: Sequence[Any]) -> Check:
    checks = [_check_for(kind) for kind in kinds if kind not in {None, NoneType}]
    is_optional = len(checks) < len(kinds)

    def check(value: Any) -> None:
        if value is None and is_optional:
            return
        for number, one in enumerate(checks, 1):
            try:
                one(value)
            except _MismatchError as mismatch:
                if number == len(checks):
                    raise _or_null(mismatch) if is_optional and not mismatch.places else mismatch from None
            else:
                return

    return check


def _or_null(mismatch: _MismatchError) -> _MismatchError:
    return _MismatchError(f"{mismatch}, or null" if "must be" in str(mismatch) else str(mismatch))


def _literal_check(allowed: Sequence[Any]) -> Check:
    kinds = {(type(value), value) for value in allowed}

    def check(value: Any) -> None:
        # An unhashable value is none of them.
        if not isinstance(value, str | int | float | None) or (type(value), value) not in kinds:
            raise _differs(value, " or ".join(map(repr, allowed)))

    return check


def _tuple_check(kinds: Sequence[Any]) -> Check:
    if kinds[-1] is Ellipsis:
        return _list_check(tuple, _check_for(kinds[0]))
    checks = [*map(_check_for, kinds)]

    def check(value: Any) -> None:
        if not isinstance(value, tuple) or len(value) != len(checks):
            raise _differs(value, f"a tuple of {len(checks)} items")
        for number, (one, item) in enumerate(zip(checks, value, strict=True)):
            _check_item(one, item, f"[{number}]")

    return check


def _list_check(kind: Any, check: Check) -> Check:
    def check_items(value: Any) -> None:
        if not isinstance(value, kind) or isinstance(value, str):
            raise _differs(value, "a list")
        for number, item in enumerate(value):
            _check_item(check, item, f"[{number}]")

    return check_items


def _mapping_check(kind: Any, check_key: Check, check: Check) -> Check:
    def check_items(value: Any) -> None:
        if not isinstance(value, kind):
            raise _differs(value, "an object")
        for name, item in value.items():
            _check_item(check_key, name, f" key {_SHORT.repr(name)}")
            _check_item(check, item, f"[{_SHORT.repr(name)}]")

    return check_items
