"""Roman numerals behind a name: "Henry VIII", "World War II"."""

import re
from fractions import Fraction

__all__ = ["roman_value"]

_NUMERAL = re.compile(r"(?=[ivx]{2})(x{0,3})(ix|iv|v?i{0,3})")
_NAMES = frozenset({"vi", "xi"})
_TAILS = {"": 0, "i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7, "viii": 8, "ix": 9}
_TEN = 10


def roman_value(word: str) -> Fraction | None:
    """Give the value of a folded Roman numeral of two or more letters, below forty.

    Single letters are initials and "vi" and "xi" are given names; they are no
    numerals here.

    >>> str(roman_value("xiv")), roman_value("xi"), roman_value("civil")
    ('14', None, None)
    """
    found = _NUMERAL.fullmatch(word)
    if found is None or word in _NAMES:
        return None
    return Fraction(_TEN * len(found[1]) + _TAILS[found[2]])
