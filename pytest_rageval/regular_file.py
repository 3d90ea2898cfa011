"""Files that a user names are regular ones: reading a pipe, a device or a socket may never end."""

import stat
from pathlib import Path
from typing import Final

__all__ = ["SpecialFileError", "refuse_special"]

SPECIAL: Final = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class SpecialFileError(OSError):
    """It is no regular file; the message says what it is, and is meant for the user."""


def refuse_special(path: Path) -> None:
    """Let pass a file that can be read to its end, and a folder, which opening will refuse.

    Raises:
        SpecialFileError: it is something else.
        OSError: it is missing, or out of reach.
    """
    mode = path.stat().st_mode
    for is_kind, kind in SPECIAL:
        if is_kind(mode):
            raise SpecialFileError(f"it is {kind}, and only a regular file is read")
