"""The folder in which replies and embeddings are kept, and what may be in its SQLite files.

It is for its user alone, since they quote passages and answers.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

__all__ = ["make_cache_folder", "make_private_file", "planted"]

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
