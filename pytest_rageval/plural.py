"""Numbers with nouns in the singular or plural, for messages."""

__all__ = ["counted", "plural"]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "reply"), counted(2, "reply"), counted(0, "day")
    ('1 reply', '2 replies', '0 days')
    """
    return f"{number} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """Return the noun alone, as it follows the number."""
    if number == 1:
        return noun
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeo" else f"{noun}s"
