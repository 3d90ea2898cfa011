"""The protocol of an eval-set format: how its files are recognised, and how they are read."""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_elements, opened, parse

__all__ = ["Format", "Shape", "format_of"]

HEAD: Final = 2**18
COMPRESSED: Final = (".gz", ".zst")


class Shape:
    """A path and the beginning of what is there, each read when it is asked for.

    Attributes:
        path: of the file or the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def folder(self) -> bool:
        """Whether it is one."""
        return self.path.is_dir()

    @cached_property
    def suffix(self) -> str:
        """The name's ending without that of a compression, in lower case: ".jsonl"."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        while suffixes and suffixes[-1] in COMPRESSED:
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    @cached_property
    def head(self) -> str:
        """The first 256 KiB as text, empty for a folder; what is no UTF-8 is U+FFFD.

        Raises:
            InputError: the file cannot be read.
        """
        if self.folder:
            return ""
        with opened(self.path) as reading:
            return reading.stream.read(HEAD).decode("utf-8-sig", "replace")

    @cached_property
    def line(self) -> str:
        """The first line of the head that is not blank, without its end."""
        return next((line.rstrip("\r") for line in self.head.split("\n") if line.strip()), "")

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """The first record of JSON lines or of a JSON array; empty where there is none."""
        try:
            if self.head.lstrip()[:1] == "[":
                first = next(json_elements(self.path), ("", None))[1]
            else:
                first = parse(self.line, self.path.name)
        except InputError:
            return {}
        return first if isinstance(first, Mapping) else {}

    def has(self, *keys: str) -> bool:
        """Whether the first record has all of these keys."""
        return all(key in self.record for key in keys)

    def mentions(self, *keys: str) -> bool:
        """Whether the head is a JSON object in which all of these keys stand, at any depth."""
        return self.head.lstrip()[:1] == "{" and all(
            re.search(rf'"{re.escape(key)}"\s*:', self.head) for key in keys
        )


@dataclass(frozen=True, slots=True)
class Format:
    """A form in which people have eval sets.

    Attributes:
        name: as users type it.
        recognises: whether a file or folder looks like this.
        read: from a path and the format's own options, by name, to its records in the native form,
            each with its place for error messages ("support.jsonl line 3"); lazily, and from the start
            each time.
        general: it takes whatever no other format recognises.
    """

    name: str
    recognises: Callable[[Shape], bool]
    read: Callable[..., Iterator[tuple[str, Any]]]
    general: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The format's own options, with their defaults."""
        parameters = list(inspect.signature(self.read).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in parameters}

    def records(self, path: Path, options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Read, with options as a user gave them.

        Raises:
            InputError: there is no such option; and, from the iterator, whatever is wrong with the file.
        """
        known = self.options
        unknown = [name for name in options if name not in known]
        if unknown:
            message = (
                f"{path.name} is read as {self.name!r}, which has no option {', '.join(map(repr, unknown))}.\n"
                f"That format knows: {', '.join([*known, 'format', 'sample', 'seed', 'stratify'])}."
            )
            raise InputError(message)
        return self.read(path, **options)


def format_of(
    path: Path, formats: Mapping[str, Format], name: str | None = None, options: Collection[str] = ()
) -> Format:
    """The format of that name or, without one, the format that a path looks like.

    Args:
        path: of a file or a folder.
        formats: those there are, by name.
        name: of one; None: by its shape.
        options: that were given: of the formats that fit, those that have them are meant.

    Raises:
        InputError: there is no such format, none fits, or several do.
    """
    if name is not None:
        if name not in formats:
            message = f"There is no eval set format {name!r}. There are: {', '.join(formats)}."
            raise InputError(message)
        return formats[name]
    shape = Shape(path)
    looked = [known for known in formats.values() if known.recognises(shape)]
    fitting = [known for known in looked if known.options.keys() >= set(options)] or looked
    chosen = [known for known in fitting if not known.general] or fitting
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        names = " or ".join(known.name for known in chosen)
        message = f'{path.name} may be {names}.\nSay which: format="{chosen[0].name}".'
    else:
        message = (
            f"{path.name} looks like no format of eval sets.\n"
            f'Say which it is, format="…". There are: {", ".join(formats)}.'
        )
    raise InputError(message)
