"""The files of the `evalset` commands: eval sets with options from the command line, and files to be written."""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pytest_rageval.datatypes import EvalSet
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.format import Format, find_format
from pytest_rageval.evalsets.formats import FORMATS
from pytest_rageval.evalsets.records import from_records

__all__ = ["read_evalset", "refuse_existing"]

FLAGS: Final[Mapping[str, str]] = {"fields": "--field OURS=THEIRS", "format": "--format NAME"}
"""The flags for arguments of the marker that are no `--option`."""

SWITCH: Final = {"true": True, "false": False}


def read_evalset(options: argparse.Namespace) -> tuple[EvalSet, Mapping[str, str]]:
    """Read the eval set that a command names, and the place of each example by its id: "support.jsonl line 3".

    InputError if it cannot be used, with the remedy in terms of the command line.
    """
    path: Path = options.file
    if not path.exists():
        raise InputError(f"The eval set {path} cannot be read: there is no such file.")
    path = path.absolute()  # "." has no name, and errors and reports need one.
    field_map = _pairs("field", "OURS=THEIRS", "question=query", options.field)
    with _flags_named(FLAGS):
        found = find_format(path, FORMATS, options.format, ["fields"] if field_map else ())
    parsed = _format_options(found, options.option, field_map)
    places: list[str] = []

    def records() -> Iterator[tuple[str, Any]]:
        for place, record in found.records(path, parsed):
            places.append(place)
            yield place, record

    with _flags_named({name: f"--option {name}=VALUE" for name in found.options} | dict(FLAGS)):
        evalset = from_records(records(), name=path.name)
    return evalset, dict(zip((example.id for example in evalset), places, strict=True))


def refuse_existing(files: Sequence[Path], *, read: Sequence[Path], force: bool) -> None:
    """Refuse output files that exist (without `force`), are equal, are read, or have no folder.

    This is checked before the work, which may cost money.
    """
    if len({file.resolve() for file in files}) < len(files):
        raise InputError(f"{files[0]} is to be written twice, nothing was written.\nName two files.")
    for file in files:
        if file.resolve() in {source.resolve() for source in read}:
            raise InputError(
                f"{file} is the input and would be overwritten. Nothing was written.\nName another file."
            )
        if not file.parent.is_dir():
            raise InputError(
                f"{file} cannot be written: there is no folder {file.parent}.\nMake it, or name another file."
            )
        if file.exists() and not force:
            raise InputError(
                f"{file} exists already, nothing was written.\nName another file, or add --force."
            )


def _format_options(
    form: Format, arguments: Sequence[str] | None, fields: Mapping[str, str]
) -> dict[str, Any]:
    known = {name: default for name, default in form.options.items() if name not in FLAGS}
    options: dict[str, Any] = {"fields": fields} if fields else {}
    if fields and "fields" not in form.options:
        raise InputError(f"The format {form.name!r} takes no field map, and so no --field.")
    for name, value in _pairs("option", "NAME=VALUE", "separator=' | '", arguments).items():
        if name in FLAGS:
            raise InputError(f"--option {name}={value} has a flag of its own.\nWrite {FLAGS[name]}.")
        if name not in known:
            raise InputError(
                f"The format {form.name!r} has no option {name}.\nIt has: {', '.join(known) or 'none'}."
            )
        options[name] = SWITCH.get(value.lower()) if isinstance(known[name], bool) else value
        if options[name] is None:
            raise InputError(
                f"--option {name}={value} is neither true nor false.\nWrite --option {name}=false, say."
            )
    return options


def _pairs(flag: str, form: str, example: str, arguments: Sequence[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for argument in arguments or ():
        name, equals, value = argument.partition("=")
        # An option may be empty, such as the quotes of a table.
        if not (name and equals and (value or flag == "option")):
            raise InputError(f"--{flag} {argument} is not of the form {form}.\nExample: --{flag} {example}")
        if name in pairs:
            raise InputError(f"--{flag} {name} is there twice.\nSay it once.")
        pairs[name] = value
    return pairs


@contextmanager
def _flags_named(flags: Mapping[str, str]) -> Iterator[None]:
    """Add to an error the flags for the marker's arguments that it mentions."""
    try:
        yield
    except InputError as error:
        mentioned = [
            f"{name}=… is {flag}" for name, flag in flags.items() if re.search(rf"\b{name}=", str(error))
        ]
        if not mentioned:
            raise
        raise InputError(f"{error}\nAt the command line, {', '.join(mentioned)}.") from None
