"""Text for messages: numbers with a noun in the singular or plural, and lists cut to a length."""

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Return a number and a noun, in the singular or plural.

    >>> counted(1, "reply"), counted(2, "reply"), counted(0, "day"), counted(2, "batch")
    ('1 reply', '2 replies', '0 days', '2 batches')
    """
    return f"{number} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """Return a noun in the singular if the number is 1, else in the plural."""
    if number == 1:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeo":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def singular(noun: str) -> str:
    """Return the singular of a plural in -s; any other text is returned unchanged.

    >>> singular("ties"), singular("losses"), singular("hallucinated citations"), singular("no answer")
    ('tie', 'loss', 'hallucinated citation', 'no answer')
    """
    if noun.endswith(("ss", "us", "is")):
        return noun
    return noun[:-2] if noun.endswith("sses") else noun.removesuffix("s")


def join_first(names: Sequence[str], limit: int) -> str:
    """Return the first names of a list, separated by commas, with ", …" at the end if the list has more names.

    >>> join_first(["a", "b"], 2), join_first(["a", "b", "c"], 2)
    ('a, b', 'a, b, …')
    """
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
