"""Shared functions of the `evalset` commands: read an eval set with options, and check the files to write."""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.evalsets.formats import FORMATS, Format, find_format
from pytest_rageval.evalsets.loading import missing_file_error
from pytest_rageval.evalsets.records import from_records

FLAGS: Final[Mapping[str, str]] = {"fields": "--field OURS=THEIRS", "format": "--format NAME"}
"""The flag for each argument of the marker `rageval_evalset` that is not passed with `--option`."""


def read_evalset(options: argparse.Namespace) -> tuple[EvalSet, Mapping[str, str]]:
    path: Path = options.file
    if not path.exists():
        raise missing_file_error("eval set", path)
    path = path.absolute()  # the path "." has no name, and error messages and reports need one
    field_map = _parse_pairs("field", "OURS=THEIRS", "question=query", options.field)
    with _with_flag_names(FLAGS):
        form = find_format(path, FORMATS, options.format, ["fields"] if field_map else ())
    format_options = _format_options(form, options.option, field_map)
    places: list[str] = []

    def records() -> Iterator[tuple[str, Any]]:
        for place, record in form.records(path, format_options):
            places.append(place)
            yield place, record

    with _with_flag_names({name: f"--option {name}=VALUE" for name in form.options} | dict(FLAGS)):
        evalset = from_records(records(), name=path.name)
    return evalset, dict(zip((example.id for example in evalset), places, strict=True))


def refuse_existing(files: Sequence[Path], *, read: Sequence[Path], force: bool) -> None:
    """Check the files that a command will write, before work that may cost money."""
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
) -> dict[str, object]:
    known = {name: default for name, default in form.options.items() if name not in FLAGS}
    options: dict[str, object] = {"fields": fields} if fields else {}
    if fields and "fields" not in form.options:
        raise InputError(f"The format {form.name!r} takes no field map, and so no --field.")
    for name, value in _parse_pairs("option", "NAME=VALUE", "separator=' | '", arguments).items():
        if name in FLAGS:
            raise InputError(f"--option {name}={value} has a flag of its own.\nWrite {FLAGS[name]}.")
        if name not in known:
            raise InputError(
                f"The format {form.name!r} has no option {name}.\nIt has: {', '.join(known) or 'none'}."
            )
        is_switch = isinstance(known[name], bool)
        options[name] = {"true": True, "false": False}.get(value.lower()) if is_switch else value
        if options[name] is None:
            raise InputError(
                f"--option {name}={value} is neither true nor false.\nWrite --option {name}=false, say."
            )
    return options


def _parse_pairs(flag: str, form: str, example: str, arguments: Sequence[str] | None) -> dict[str, str]:
    """Parse the arguments NAME=VALUE of a repeatable flag; `form` and `example` are for error messages."""
    pairs: dict[str, str] = {}
    for argument in arguments or ():
        name, equals, value = argument.partition("=")
        # The value of an option may be empty: quote= means that a table has no quotes.
        if not (name and equals and (value or flag == "option")):
            raise InputError(f"--{flag} {argument} is not of the form {form}.\nExample: --{flag} {example}")
        if name in pairs:
            raise InputError(f"--{flag} {name} is given twice.\nGive it once.")
        pairs[name] = value
    return pairs


@contextmanager
def _with_flag_names(flags: Mapping[str, str]) -> Iterator[None]:
    """Add to an InputError the command-line flag for each argument of the marker that the message mentions."""
    try:
        yield
    except InputError as error:
        mentioned = [
            f"{name}=… is {flag}" for name, flag in flags.items() if re.search(rf"\b{name}=", str(error))
        ]
        if not mentioned:
            raise
        raise InputError(f"{error}\nAt the command line, {', '.join(mentioned)}.") from None
