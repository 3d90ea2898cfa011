"""Lines around quoted text in a prompt. The text cannot contain them, so it cannot end its quotation."""

import hashlib
import re
from collections.abc import Sequence
from itertools import chain, count
from typing import Final

__all__ = ["fenced", "mark_for", "unfenced"]

DIGITS: Final = 12

_OPENED: Final = re.compile(rf"^<\w+ ([0-9a-f]{{{DIGITS}}})>$", re.MULTILINE)

_PARAGRAPH: Final = re.compile(r"(?:\A|(?<=\n\n))[^\n]*\n\n")


def mark_for(texts: Sequence[str]) -> str:
    """Return a mark that occurs in none of the texts: 12 hex digits of a SHA-256 of them all.

    It is the same for the same texts, so that their prompt stays the same. Who writes one of them cannot know it: it
    depends on all of them, and on the text that would hold it.

    >>> mark_for(["How far?", "5 km"])
    '3cf00396661e'
    """
    whole = "\0".join(texts)
    marks = map(_digest, chain([whole], (f"{whole}\0{n}" for n in count())))
    return next(mark for mark in marks if mark not in whole.lower())


def fenced(name: str, text: str, mark: str) -> str:
    """Return a text between two lines with its name and the mark.

    >>> print(fenced("answer", "5 km", "3cf00396661e"))
    <answer 3cf00396661e>
    5 km
    </answer 3cf00396661e>
    """
    return f"<{name} {mark}>\n{text}\n</{name} {mark}>"


def unfenced(prompt: str) -> str:
    r"""Return a prompt without its fences, and without the paragraphs that mention their mark: to measure their effect.

    The mark is that of the first line that opens a fence. Another one is that of a quoted text, which stays as it is.

    >>> print(unfenced("Mind the mark 3cf00396661e.\n\n" + fenced("answer", "5 km", "3cf00396661e") + "\nRight?"))
    5 km
    Right?
    """
    opened = _OPENED.search(prompt)
    if opened is None:
        return prompt
    mark = opened[1]
    spoken = re.compile(rf"\b{mark}\b")
    prompt = _PARAGRAPH.sub(lambda found: "" if spoken.search(found[0]) else found[0], prompt)
    return re.sub(rf"^</?\w+ {mark}>(?:\n|\Z)", "", prompt, flags=re.MULTILINE)


def _digest(text: str) -> str:
    # Half of a surrogate pair is legal in a Python string, but not in UTF-8.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
