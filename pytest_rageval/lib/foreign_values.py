"""Values of foreign types, such as NumPy's and pandas': missing values, whole numbers, ids, mappings, data frames.

The types are recognized by their names and methods, so that their packages need not be imported.

Here is the one rule for ids, whether they are from a file, from records in Python or from a retriever: `as_identifier`
reads an id, and two ids are equal if their `id_key` is.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Number, Real
from pathlib import PurePath
from typing import Any, Final
from unicodedata import normalize

JsonObject = Mapping[str, Any]
"""An object of JSON from outside, such as a server's answer or a trace: its reader checks what it takes from it."""

MISSING_TYPES: Final = ("NAType", "NaTType")  # names of the types of missing values in pandas
MISSING_WORDS: Final = frozenset({"", "nan", "NaN", "<NA>", "NaT", "None"})
"""What Python and pandas print for a missing value."""
PRESENT_TYPES: Final = frozenset({str, int, bool, list, dict, tuple})  # their values are never missing
MAX_EXACT_INTEGER: Final = 2**53  # above it, floats cannot represent every integer
FLOAT_OF_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\.0")


def is_missing(value: Any) -> bool:
    """Whether a value is None, or a missing value of a data frame: NaN, NaT or NA.

    >>> is_missing(float("nan")), is_missing(0)
    (True, False)
    """
    if type(value) in PRESENT_TYPES:
        return False
    if value is None or type(value).__name__ in MISSING_TYPES:
        return True
    return isinstance(value, Number) and bool(value != value)  # noqa: PLR0124 - true of NaN alone


def whole_number(value: Any) -> int | None:
    """Return an integer, or a whole float as an integer; None for any other value, also for a bool.

    Data frames have whole floats in integer columns with missing values.

    >>> whole_number(2.0), whole_number(2.5), whole_number(True)
    (2, None, None)
    """
    number = plain_number(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() and abs(number) < MAX_EXACT_INTEGER else None
    return number if type(number) is int else None


def plain_number(value: Any) -> Any:
    """Return a number of any type as an int or a float; any other value, also a bool, unchanged.

    >>> from fractions import Fraction
    >>> plain_number(Fraction(1, 4)), plain_number("3")
    (0.25, '3')
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def as_identifier(value: Any) -> str | None:
    """Return an id of any type as a text; None for a missing value.

    White space around a text does not count. A whole number of any type is its digits. Bytes are decoded as UTF-8, a
    path has slashes, a time is in ISO 8601, and another object is its own text, such as that of a UUID. Missing is what
    `is_missing` says, an empty text, and `MISSING_WORDS`: a program that turned a missing value into a text wrote them.

    Raises:
        TypeError: the value is no id: a bool, a number that is not whole or that a float cannot hold exactly, a list or
            other collection, or an object without a text of its own. The message describes it: "a list: ['d1']".

    >>> as_identifier(2.0), as_identifier(" doc-1"), as_identifier(b"doc-1"), as_identifier(float("nan"))
    ('2', 'doc-1', 'doc-1', None)
    """
    if type(value) is str:  # nearly all ids
        stripped = value.strip()
        return None if stripped in MISSING_WORDS else stripped
    value = value.tolist() if hasattr(value, "tolist") else value
    if is_missing(value):
        return None
    text = None
    if isinstance(value, str):
        text = str.__str__(value)
    elif isinstance(value, bytes):
        text = value.decode(errors="backslashreplace")
    elif isinstance(value, PurePath):
        text = value.as_posix()
    elif isinstance(value, Number):
        text = None if isinstance(value, bool) else _digits_of(value)
    elif hasattr(value, "isoformat"):
        text = str(value.isoformat())
    elif not isinstance(value, Iterable) and _has_text(type(value)):
        text = str(value)
    if text is None:
        raise TypeError(f"a {type(value).__name__}: {value!r:.40}")
    text = text.strip()
    return None if text in MISSING_WORDS else text


def is_identifier(text: str) -> bool:
    """Whether `as_identifier` returns a text unchanged."""
    return text not in MISSING_WORDS and text == text.strip()


def _has_text(kind: Any) -> bool:
    return kind.__str__ is not object.__str__


def _digits_of(number: Any) -> str | None:
    """Return a whole number as a text; None if it is not whole, or a float that may have been rounded."""
    if isinstance(number, float) and abs(number) >= MAX_EXACT_INTEGER:
        return None
    try:
        return str(int(number)) if int(number) == number else None
    except (TypeError, ValueError, OverflowError):
        return None


def id_key(identifier: str) -> str:
    """Return the form in which ids are compared: ids with equal keys are equal.

    Letters with accents have one Unicode form (NFC), since names of files from macOS have another one. An integer that
    was printed as a float ("101.0") is that integer, since data frames turn columns of integers into floats.

    >>> id_key("101.0"), id_key("1.10"), id_key("e" + chr(0x301)) == chr(0xE9)
    ('101', '1.10', True)
    """
    if not identifier.isascii():
        return normalize("NFC", identifier)
    if identifier.endswith(".0") and FLOAT_OF_INTEGER.fullmatch(identifier):
        return identifier[:-2]
    return identifier


def id_keys(identifiers: Sequence[str]) -> Sequence[str]:
    """Return the `id_key` of each id. It is fast if all ids are their own keys, as most are."""
    joined = "\n".join(identifiers)
    return identifiers if joined.isascii() and ".0" not in joined else [*map(id_key, identifiers)]


def to_plain(value: Any) -> Any:
    """Convert a value of a data frame to one that JSON can represent; None for a missing value."""
    if isinstance(value, Mapping):
        return {name: to_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if is_missing(value):
        return None
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    return value.isoformat() if hasattr(value, "isoformat") else value


def is_data_frame(value: Any) -> bool:
    return (
        hasattr(value, "iter_rows")
        or hasattr(value, "itertuples")
        or (hasattr(value, "to_pylist") and hasattr(value, "column_names"))
    )


def data_frame_rows(frame: Any) -> Iterable[dict[str, object]]:
    """Return an iterator over the rows of a data frame, each as a dict by column, without the index."""
    if hasattr(frame, "iter_rows"):
        rows: Iterable[dict[str, object]] = frame.iter_rows(named=True)
        return rows
    if hasattr(frame, "to_pylist"):
        # By batch, so that not all rows of a large table are objects of Python at once.
        batches = frame.to_batches() if hasattr(frame, "to_batches") else [frame]
        return (row for batch in batches for row in batch.to_pylist())
    names = [str(name) for name in frame.columns]
    return (dict(zip(names, row, strict=True)) for row in frame.itertuples(index=False, name=None))


def modules_of(value: object) -> list[str]:
    """Return the modules of the class of an object, of its bases, and of its metaclass, the closest first.

    >>> modules_of(True)
    ['builtins']
    """
    kinds = (*type(value).__mro__, type(type(value)))
    return list(dict.fromkeys(str(kind.__module__) for kind in kinds))


def is_record(value: Any) -> bool:
    """Whether the iterator of a value returns the names of its fields: a mapping, a row, or a model of pydantic."""
    return isinstance(value, Mapping) or hasattr(value, "keys") or hasattr(type(value), "model_fields")


def as_mapping(value: Any) -> Mapping[Any, Any] | None:
    """Return a mapping, or an object that is read like one, as a mapping; None for any other value.

    Rows of databases and records of frameworks have keys and values without being a `Mapping`.
    """
    if isinstance(value, Mapping):
        return value
    if callable(getattr(value, "keys", None)) and hasattr(value, "__getitem__"):
        return {key: value[key] for key in value.keys()}  # noqa: SIM118 - iteration may give the values
    return None


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def format_signature(function: Callable[..., Any]) -> str:
    """Return the name of a function and its parameters, such as "search(query, k=5)"."""
    return f"{getattr(function, '__qualname__', type(function).__name__)}{inspect.signature(function)}"


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine: a coroutine function, or an object whose `__call__` is one."""
    called = getattr(function, "__call__", None)  # noqa: B004 - the type of the attribute matters, not its presence
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def has_parameter(function: Callable[..., Any], name: str) -> bool:
    return parameter_of(function, name) is not None


def parameter_of(function: Callable[..., Any], name: str) -> inspect.Parameter | None:
    """Return the parameter of this name if it can be given by keyword; else None."""
    signature = signature_of(function)
    parameter = None if signature is None else signature.parameters.get(name)
    by_keyword = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    return parameter if parameter is not None and parameter.kind in by_keyword else None


def accepts_arguments(function: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Whether a function can be called with these arguments; True if its signature is unknown."""
    signature = signature_of(function)
    if signature is None:
        return True
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def as_number(value: Any) -> float | None:
    """Return a number of any type, including bools and numpy's types, as a float; None for anything else.

    >>> as_number(True), as_number("1")
    (1.0, None)
    """
    if value is None or isinstance(value, str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def as_share(value: Any) -> float | None:
    number = as_number(value)
    return number if number is not None and 0 <= number <= 1 else None
