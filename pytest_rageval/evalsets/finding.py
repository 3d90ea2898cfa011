"""Where a file is that a marker names."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_rageval.errors import InputError

__all__ = ["find"]


def find(
    what: str, source: str | Path, *, bases: Sequence[Path], there: Callable[[Path], bool] = Path.exists
) -> Path:
    """The whole path of a file or folder; a relative one is looked for under each of the bases in turn.

    Args:
        what: it is, for the error.
        source: the path as it was written.
        bases: folders.
        there: whether a path is what is looked for.

    Raises:
        InputError: it is under none of the bases.
    """
    candidates = [base / source for base in bases]
    for candidate in candidates:
        if there(candidate):
            return candidate.resolve()
    looked = "\n".join(f"  {candidate}" for candidate in dict.fromkeys(candidates))
    raise InputError(f"There is no {what} {str(source)!r}. Looked for:\n{looked}")
