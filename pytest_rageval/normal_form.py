"""Unicode's normal forms in linear time, whatever a text holds."""

import re
import unicodedata
from typing import Final, Literal

__all__ = ["normal_form"]

MOST_MARKS: Final = 30
"""In a row, as Unicode's stream-safe text has them (UAX #15): no language writes more than a few on one letter."""

# What is neither ASCII nor a letter or digit, marks among it; and two letters that are marks in NFKC.
_RUN: Final = re.compile(rf"(?:[^\w\x00-\x7f]|[\uff9e\uff9f]){{{MOST_MARKS + 1},}}")
_JOINER: Final = "\u034f"


def normal_form(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """A text in a normal form.

    Marks are sorted for it, in quadratic time where thousands stand in a row. So after each 30 of them
    a combining grapheme joiner is put, as Unicode's stream-safe text has it.
    """
    return unicodedata.normalize(form, text if text.isascii() else _RUN.sub(_parted, text))


def _parted(run: re.Match[str]) -> str:
    parted, marks = [], 0
    for character in run[0]:
        # Some are marks only in their parts.
        parts = unicodedata.normalize("NFKD", character)
        marks = marks + len(parts) if unicodedata.combining(parts[0]) else 0
        if marks > MOST_MARKS:
            parted.append(_JOINER)
            marks = len(parts)
        parted.append(character)
    return "".join(parted)
