"""Files of the package: the cache folder, and files that are written whole or not at all."""

import contextlib
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from shutil import copymode
from typing import TYPE_CHECKING, Final
from uuid import uuid4

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "SpecialFileError",
    "make_cache_folder",
    "make_private_file",
    "planted",
    "refuse_special",
    "write_whole",
]

IGNORED: Final = "*\n"
"""What the `.gitignore` says that we put into a folder. By it a folder is known as one that we made."""

OTHERS: Final = 0o077
"""The permissions of all but the owner."""


def make_cache_folder(directory: Path) -> None:
    """Make it if it is missing, with a `.gitignore` in it, as pytest does with its own.

    Only then: in a folder of the user's the file would hide others from git, and who else may read it is the
    user's choice. One that an earlier version made, which others may read, is closed to them.
    """
    if directory.is_dir():
        if _is_ours(directory):
            _close(directory)
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / ".gitignore").write_text(IGNORED, encoding="utf-8")


def make_private_file(file: Path) -> None:
    """Make an empty file that its owner alone may read, where there is none.

    SQLite gives those that it keeps beside a database (`-wal`, `-shm`, `-journal`) the mode of the database.
    Files that are there already are closed to others where we made the folder.

    Raises:
        OSError: it cannot be made.
    """
    if not file.exists():
        with contextlib.suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    elif _is_ours(file.parent):
        for each in (file, *file.parent.glob(f"{file.name}-*")):
            _close(each)


def _is_ours(directory: Path) -> bool:
    try:
        return (directory / ".gitignore").read_text(encoding="utf-8") == IGNORED
    except (OSError, UnicodeDecodeError):
        return False


def _close(path: Path) -> None:
    """Take the permissions of others away; where that is not for us to do, they stay."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS & 0o7777)


def planted(connection: "sqlite3.Connection", made: Iterable[str]) -> list[str]:
    """What is in a SQLite file beside the tables that this package makes, by kind and name; mostly nothing.

    A view, a trigger or a column with an expression runs when the table is read or written: cache folders come
    from elsewhere in CI, and whoever can write there must not decide what is done here.

    Args:
        connection: to the file; nothing was read from its tables yet.
        made: the statements with which the tables are made, and were made by earlier versions.
    """
    known = {_condensed(statement) for statement in made}
    # What SQLite adds by itself has no statement, such as the index of a primary key.
    rows = connection.execute(
        "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master WHERE sql IS NOT NULL"
    )
    return [
        f"{kind.decode(errors='replace')} {name.decode(errors='replace')!r}"
        for kind, name, sql in rows
        if _condensed(sql.decode(errors="replace")) not in known
    ]


def _condensed(statement: str) -> str:
    """A statement as SQLite keeps it, whatever its white space, and however its names are quoted."""
    return "".join(statement.replace("IF NOT EXISTS", "").replace('"', "").split())


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
