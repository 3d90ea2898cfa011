"""An eval set as the commands read it: with the place of each example in its file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.format import Format, format_of
from pytest_rageval.evalsets.formats import FORMATS
from pytest_rageval.evalsets.records import from_records
from pytest_rageval.model import EvalSet

__all__ = ["read_evalset"]

FLAGS: Final[Mapping[str, str]] = {"fields": "--field OURS=THEIRS", "format": "--format NAME"}
"""How the words of the marker are typed that have a flag of their own."""
SWITCH: Final = {"true": True, "false": False}


def read_evalset(
    path: Path, form: str | None, typed_fields: Sequence[str] | None, typed_options: Sequence[str] | None
) -> tuple[EvalSet, Mapping[str, str]]:
    """Read one, and say where each example stands.

    Args:
        path: of a file or a folder.
        form: the name of its format; None: by its shape.
        typed_fields: a field map, "OURS=THEIRS" each; None or none: no map.
        typed_options: those of the format, "NAME=VALUE" each; a switch is true or false.

    Returns:
        The eval set, and by the examples' ids their places: "support.jsonl line 3".

    Raises:
        InputError: it cannot be used; with how to type what the message would have one write.
    """
    if not path.exists():
        raise InputError(f"The eval set {path} cannot be read: there is no such file.")
    path = path.absolute()  # "." has no name, which errors and reports want.
    fields = _fields(typed_fields or ())
    with _as_typed(FLAGS):
        found = format_of(path, FORMATS, form, ["fields"] if fields else ())
    given = _options(found, typed_options or (), fields)
    places: list[str] = []

    def noted() -> Iterator[tuple[str, Any]]:
        for place, record in found.records(path, given):
            places.append(place)
            yield place, record

    with _as_typed({name: f"--option {name}=VALUE" for name in found.options} | dict(FLAGS)):
        evalset = from_records(noted(), name=path.name)
    return evalset, dict(zip((example.id for example in evalset), places, strict=True))


def _fields(typed: Sequence[str]) -> dict[str, str]:
    """A field map.

    Raises:
        InputError: one is no pair, or is there twice.
    """
    fields: dict[str, str] = {}
    for each in typed:
        ours, theirs = _pair("field", "OURS=THEIRS", each)
        if ours in fields:
            raise InputError(f"--field {ours} is there twice.\nSay it once.")
        fields[ours] = theirs
    return fields


def _options(form: Format, typed: Sequence[str], fields: Mapping[str, str]) -> dict[str, Any]:
    """The options of a format, by name.

    Raises:
        InputError: one is no pair, is there twice, or is unknown.
    """
    own = {name: default for name, default in form.options.items() if name not in FLAGS}
    given: dict[str, Any] = {"fields": fields} if fields else {}
    if fields and "fields" not in form.options:
        raise InputError(f"The format {form.name!r} takes no field map, and so no --field.")
    for each in typed:
        name, value = _pair("option", "NAME=VALUE", each)
        if name in FLAGS:
            raise InputError(f"--option {name}={value} has a flag of its own.\nWrite {FLAGS[name]}.")
        if name in given:
            raise InputError(f"--option {name} is there twice.\nSay it once.")
        if name not in own:
            raise InputError(
                f"The format {form.name!r} has no option {name}.\nIt has: {', '.join(own) or 'none'}."
            )
        given[name] = _value(name, value) if isinstance(own[name], bool) else value
    return given


def _value(name: str, typed: str) -> bool:
    if typed.lower() not in SWITCH:
        raise InputError(
            f"--option {name}={typed} is neither true nor false.\nWrite --option {name}=false, say."
        )
    return SWITCH[typed.lower()]


def _pair(flag: str, form: str, typed: str) -> tuple[str, str]:
    name, equals, value = typed.partition("=")
    # An option may be empty, such as the quotes of a table.
    if not (name and equals and (value or flag == "option")):
        example = "question=query" if flag == "field" else "separator=' | '"
        raise InputError(f"--{flag} {typed} is no {form}.\nWrite --{flag} {example}, say.")
    return name, value


@contextmanager
def _as_typed(flags: Mapping[str, str]) -> Iterator[None]:
    """Add to an error how its words are typed: they are those of the marker in a test."""
    try:
        yield
    except InputError as error:
        named = [
            f"{word}=… is {flag}" for word, flag in flags.items() if re.search(rf"\b{word}=", str(error))
        ]
        if not named:
            raise
        raise InputError(f"{error}\nAt the command line, {', '.join(named)}.") from None
