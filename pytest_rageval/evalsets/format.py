"""The protocol of an eval-set format: how its files are recognized, and how they are read."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_elements, opened, parse, wrapper
from pytest_rageval.evalsets.records import EXPORT_KEYS, EXPORT_REMEDY, Records

__all__ = ["COMPRESSED", "Format", "Shape", "format_of"]

HEAD_BYTES: Final = 2**18
COMPRESSED: Final = (".gz", ".zst")


class Shape:
    """The path of a file or folder, and the beginning of its content, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def folder(self) -> bool:
        """Whether the path is a folder."""
        return self.path.is_dir()

    @cached_property
    def suffix(self) -> str:
        """The name's suffix in lower case, without that of a compression: ".jsonl"."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        while suffixes and suffixes[-1] in COMPRESSED:
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    @cached_property
    def is_table(self) -> bool:
        """Whether the suffix is that of comma- or tab-separated values."""
        return self.suffix in (".csv", ".tsv")

    @cached_property
    def head(self) -> str:
        """The first 256 KiB as text, empty for a folder; bytes that are not UTF-8 are U+FFFD."""
        if self.folder:
            return ""
        with opened(self.path) as reading:
            return reading.stream.read(HEAD_BYTES).decode("utf-8-sig", "replace")

    @cached_property
    def line(self) -> str:
        """The first line of the head that is not blank, without its end."""
        return next((line.rstrip("\r") for line in self.head.split("\n") if line.strip()), "")

    @cached_property
    def is_json(self) -> bool:
        """Whether the content begins as a JSON object or array."""
        return self.head.lstrip()[:1] in ("{", "[")

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """The first record of JSON lines or of a JSON array, also under a key; empty if there is none."""
        try:
            key = wrapper(self.path) if self.suffix == ".json" and self.is_json else None
            if key is not None or self.head.lstrip()[:1] == "[":
                first = next(json_elements(self.path, key), ("", None))[1]
            else:
                first = parse(self.line, self.path.name)
        except InputError:
            return {}
        return first if isinstance(first, Mapping) else {}

    def has(self, *keys: str) -> bool:
        """Whether the first record has all of these keys."""
        return all(key in self.record for key in keys)

    def mentions(self, *keys: str) -> bool:
        """Whether the head is that of a JSON object with all of these keys, at any depth."""
        return self.head.lstrip()[:1] == "{" and all(
            re.search(rf'"{re.escape(key)}"\s*:', self.head) for key in keys
        )


@dataclass(frozen=True, slots=True)
class Format:
    """An eval-set format, by the name that users type.

    `recognises` says whether a file or folder looks like it; a `general` format gives way to any other that does.
    `read` makes of a path and the format's options, by name, its records in the native format, each with its place
    for errors ("support.jsonl line 3"); lazy, and from the first record each time. It raises `InputError` if a file
    is missing or has another form.
    """

    name: str
    recognises: Callable[[Shape], bool]
    read: Callable[..., Records]
    general: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The format's options, with their defaults."""
        parameters = list(inspect.signature(self.read).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in parameters}

    def records(self, path: Path, options: Mapping[str, Any]) -> Records:
        """Read records with a user's options; InputError for an unknown one, or from the iterator for the file."""
        known = self.options
        unknown = [name for name in options if name not in known]
        if unknown:
            raise InputError(
                f"{path.name} is read as {self.name!r}, which has no option {', '.join(map(repr, unknown))}.\n"
                f"That format knows: {', '.join([*known, 'format', 'sample', 'seed', 'stratify'])}."
            )
        return self.read(path, **options)


def format_of(
    path: Path, formats: Mapping[str, Format], name: str | None = None, options: Collection[str] = ()
) -> Format:
    """Return the format with a name or, without one, the format that recognizes a path.

    Among several, those that have all of the user's options are preferred, then those that are not general.
    InputError if there is no such format, or if none or several recognize the path.
    """
    if name is not None:
        if name not in formats:
            raise InputError(f"There is no eval set format {name!r}. There are: {', '.join(formats)}.")
        return formats[name]
    shape = Shape(path)
    recognized = [form for form in formats.values() if form.recognises(shape)]
    fitting = [form for form in recognized if form.options.keys() >= set(options)] or recognized
    chosen = [form for form in fitting if not form.general] or fitting
    # An export over several lines has no first record, whose keys would say what it is.
    if (
        all(form.general for form in chosen)
        and not (shape.folder or shape.record)
        and any(map(shape.mentions, EXPORT_KEYS))
    ):
        raise InputError(f"{path.name} is not an eval set.\n{EXPORT_REMEDY}")
    if not chosen:
        raise InputError(
            f"{path.name} looks like no format of eval sets.\n"
            f'Say which it is, format="…". There are: {", ".join(formats)}.'
        )
    if len(chosen) > 1:
        names = " or ".join(form.name for form in chosen)
        raise InputError(f'{path.name} may be {names}.\nSay which: format="{chosen[0].name}".')
    return chosen[0]
