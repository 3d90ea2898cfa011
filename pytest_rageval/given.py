"""What somebody else's code returned, as a number."""

from typing import Any

__all__ = ["as_number", "as_share"]


def as_number(given: Any) -> float | None:
    """A number of any kind, numpy's and truth values among them; None where it is none, as a text is none.

    >>> as_number(True), as_number("1")
    (1.0, None)
    """
    if isinstance(given, str | bytes):
        return None
    try:
        return float(given)
    except (TypeError, ValueError):
        return None


def as_share(given: Any) -> float | None:
    """A number in [0, 1]; None where it is none."""
    value = as_number(given)
    return value if value is not None and 0 <= value <= 1 else None
