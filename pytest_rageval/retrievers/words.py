"""The words of a text, for matching by words in any script."""

import unicodedata
from typing import Final

from pytest_rageval.normal_form import normal_form

__all__ = ["words"]

_SCRIPTS_WITHOUT_SPACES: Final = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


class _Separators(dict[int, str]):
    """A translation table that is filled as characters are met.

    Letters, digits and the marks that belong to them stay; all else becomes a
    space. Characters of scripts written without spaces stand alone.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if unicodedata.category(character)[0] not in "LMN":
            kept = " "
        elif unicodedata.name(character, "").startswith(_SCRIPTS_WITHOUT_SPACES):
            kept = f" {character} "
        else:
            kept = character
        self[code] = kept
        return kept


_SEPARATORS: Final = _Separators()


def words(text: str) -> list[str]:
    """The words of a text, case folded, without punctuation, in Unicode's compatibility form.

    Full-width and ligature forms are their plain ones. In scripts without
    spaces between words each character is a word. Nothing is stemmed and no
    word is stopped.

    >>> words("Größe: ﬁve ｋｇ, it’s 東京")
    ['grösse', 'five', 'kg', 'it', 's', '東', '京']
    """
    return normal_form("NFKC", text).casefold().translate(_SEPARATORS).split()
