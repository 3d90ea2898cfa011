"""Where reports go: to files, or to addresses such as `otlp:http://localhost:4318`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_rageval.secret import HIDDEN, public_url

__all__ = ["KIND", "Address", "kind_of", "parse_destination"]

SCHEME: Final = r"[A-Za-z][A-Za-z0-9+-]+:"
"""Of two characters at least: one alone is a drive of Windows."""

KIND: Final = re.compile(rf"\.\w+|{SCHEME}")
"""What the kind of a report is known by: the suffix of a file's name, or the scheme of an address."""


@dataclass(frozen=True)
class Address:
    """What a report is sent to, in place of a file: a scheme with its colon, and what follows it."""

    scheme: str
    rest: str

    def __str__(self) -> str:
        """Without the user and the password of a URL."""
        if "://" not in self.rest:
            return f"{self.scheme}{self.rest}"
        try:
            return f"{self.scheme}{public_url(self.rest)}"
        except ValueError:
            return f"{self.scheme}{HIDDEN}"


def parse_destination(text: str) -> Path | Address:
    """The address, where the text begins with a scheme, else the file.

    >>> parse_destination("otlp:http://localhost:4318").scheme, str(parse_destination("out/results.json"))
    ('otlp:', 'out/results.json')
    """
    found = re.match(SCHEME, text)
    return Address(found[0].lower(), text[found.end() :]) if found else Path(text)


def kind_of(destination: Path | Address) -> str:
    """The suffix of a file, or the scheme of an address."""
    return destination.scheme if isinstance(destination, Address) else destination.suffix
