"""The words of a text, and runs of them, as the comparison of passages sees them."""

import re
from functools import lru_cache
from typing import Final

from pytest_rageval.normal_form import normal_form

__all__ = ["runs", "words"]

# Thai, Lao, Myanmar, Khmer, kana and ideographs: no spaces between words, so each character is one.
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")


@lru_cache(maxsize=2048)  # some 10 kB each
def words(text: str) -> tuple[str, ...]:
    """Letters and digits of any script, case folded, in Unicode's compatibility form, without punctuation.

    In scripts without spaces between words a character is a word.

    >>> words("The Straße, 東京")
    ('the', 'strasse', '東', '京')
    """
    return tuple(_WORD.findall(normal_form("NFKC", text).casefold()))


@lru_cache(maxsize=512)  # some 80 kB each
def runs(text: str, length: int) -> frozenset[tuple[str, ...]]:
    """All runs of `length` words next to each other; none in a text with fewer.

    >>> sorted(runs("to be or not", 3))
    [('be', 'or', 'not'), ('to', 'be', 'or')]
    """
    said = words(text)
    return frozenset(zip(*(said[first:] for first in range(length)), strict=False))
