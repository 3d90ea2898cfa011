"""Files that are written whole: whoever reads one meanwhile, or after a failure, finds the old one or the new one."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from shutil import copymode
from uuid import uuid4

__all__ = ["write_whole"]


def write_whole(path: Path, content: Iterable[bytes]) -> None:
    """Replace the content of a file, all or nothing.

    The content is written beside the file and renamed. Where the path is a link, the file that it leads to
    is replaced. A file that is there keeps its permissions.

    Raises:
        OSError: it cannot be written; the file of before still stands.
    """
    there = path.resolve()
    if there.exists() and not (there.is_file() or there.is_dir()):
        # A pipe or a terminal has no content to lose, and cannot be replaced.
        with there.open("wb") as file:
            file.writelines(content)
        return
    # A short name of its own: the file's may be as long as names can be.
    beside = there.with_name(f".rageval-{uuid4().hex[:12]}")
    try:
        with beside.open("xb") as file:
            file.writelines(content)
            file.flush()
            # Some file systems say only here that the disk is full.
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            copymode(there, beside)
        beside.replace(there)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
