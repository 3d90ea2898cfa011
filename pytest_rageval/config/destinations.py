"""Destinations of reports: files, or addresses such as `otlp:http://localhost:4318`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_rageval.secret import HIDDEN, public_url

__all__ = ["KIND_PATTERN", "Address", "destination_kind", "parse_destination"]

SCHEME: Final = r"[A-Za-z][A-Za-z0-9+-]+:"
"""The scheme of an address. It has at least two characters, since a single letter is a drive on Windows."""

KIND_PATTERN: Final = re.compile(rf"\.\w+|{SCHEME}")
"""The text that selects the kind of a report: the suffix of a file name, or the scheme of an address."""


@dataclass(frozen=True)
class Address:
    """An address to which a report is sent, in place of a file.

    Attributes:
        scheme: the scheme in lower case, with its colon.
        rest: the text after the scheme.
    """

    scheme: str
    rest: str

    def __str__(self) -> str:
        """Return the address without the user and the password of a URL in it."""
        if "://" not in self.rest:
            return f"{self.scheme}{self.rest}"
        try:
            return f"{self.scheme}{public_url(self.rest)}"
        except ValueError:
            return f"{self.scheme}{HIDDEN}"


def parse_destination(text: str) -> Path | Address:
    """Return an `Address` if the text begins with a scheme, else the path of a file.

    >>> parse_destination("otlp:http://localhost:4318").scheme, str(parse_destination("out/results.json"))
    ('otlp:', 'out/results.json')
    """
    match = re.match(SCHEME, text)
    return Address(match[0].lower(), text[match.end() :]) if match else Path(text)


def destination_kind(destination: Path | Address) -> str:
    """Return the scheme of an address, or the suffix of a file name."""
    return destination.scheme if isinstance(destination, Address) else destination.suffix
