"""Numbers with nouns in the singular or plural, for messages."""

__all__ = ["counted", "plural", "singular"]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "reply"), counted(2, "reply"), counted(0, "day"), counted(2, "batch")
    ('1 reply', '2 replies', '0 days', '2 batches')
    """
    return f"{number} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """Return the noun alone, as it follows the number."""
    if number == 1:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeo":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


def singular(noun: str) -> str:
    """Return a plural in -s as the singular; any other text as it is.

    >>> singular("ties"), singular("losses"), singular("hallucinated citations"), singular("no answer")
    ('tie', 'loss', 'hallucinated citation', 'no answer')
    """
    if noun.endswith(("ss", "us", "is")):
        return noun
    return noun[:-2] if noun.endswith("sses") else noun.removesuffix("s")
