"""Write sets and series of words as plain text."""

__all__ = ["listed", "numbered"]


def listed(words: str) -> frozenset[str]:
    """Give the words of a text as a set.

    >>> sorted(listed("may march"))
    ['march', 'may']
    """
    return frozenset(words.split())


def numbered(words: str, start: int) -> dict[str, int]:
    """Give the words of a text their numbers, in order.

    >>> numbered("zero one", start=0)
    {'zero': 0, 'one': 1}
    """
    return {word: number for number, word in enumerate(words.split(), start=start)}
