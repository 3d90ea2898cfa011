"""Files: the cache folder, atomic writes, and checks of files that others may have created."""

import errno
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
    "append_line",
    "foreign_objects",
    "make_cache_folder",
    "make_private_file",
    "refuse_special",
    "write_whole",
]

IGNORED: Final = "*\n"  # the content of the `.gitignore` in a cache folder; it marks the folder as ours
OTHERS: Final = 0o077  # the permissions of everyone but the owner


def make_cache_folder(directory: Path) -> None:
    """Make the folder if it is missing, private and with a `.gitignore`; one that the user made is left unchanged."""
    if directory.is_dir():
        if _is_ours(directory):
            _make_private(directory)
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / ".gitignore").write_text(IGNORED, encoding="utf-8")


def make_private_file(file: Path) -> None:
    """Make an empty file that only its owner may read, if it is missing.

    An existing one and its companions (`-wal`, `-shm`, `-journal`) are made private where the folder is ours.
    """
    if not file.exists():
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    elif _is_ours(file.parent):
        for each in (file, *file.parent.glob(f"{file.name}-*")):
            _make_private(each)


def _is_ours(directory: Path) -> bool:
    try:
        return (directory / ".gitignore").read_text(encoding="utf-8") == IGNORED
    except (OSError, UnicodeDecodeError):
        return False


def _make_private(path: Path) -> None:
    if os.name != "posix":
        return
    with suppress(OSError):
        mode = path.stat().st_mode
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS & 0o7777)


def foreign_objects(connection: "sqlite3.Connection", statements: Iterable[str]) -> list[str]:
    """Return what a SQLite file holds besides the tables that the statements make, by type and name.

    A view, a trigger or a column with an expression runs code when a table is read or written, and in CI cache
    folders come from elsewhere: call this before anything is read from the tables.
    """
    known = {_condensed(statement) for statement in statements}
    # SQLite's own objects have no statement, such as the index of a primary key.
    rows = connection.execute(
        "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master WHERE sql IS NOT NULL"
    )
    return [
        f"{kind.decode(errors='replace')} {name.decode(errors='replace')!r}"
        for kind, name, sql in rows
        if _condensed(sql.decode(errors="replace")) not in known
    ]


def _condensed(statement: str) -> str:
    """Return a statement as SQLite keeps it, without white space and quotes."""
    return "".join(statement.replace("IF NOT EXISTS", "").replace('"', "").split())


def write_whole(path: Path, content: Iterable[bytes]) -> None:
    """Replace the content of a file, all or nothing, by a temporary file in the same folder.

    A link is followed. An existing file keeps its permissions.

    Raises:
        OSError: the file cannot be written; the old one is unchanged.
    """
    target = path.resolve()
    if target.exists() and not (target.is_file() or target.is_dir()):
        # A pipe or a terminal has no content to lose, and cannot be replaced.
        with target.open("wb") as file:
            file.writelines(content)
        return
    # A short name: the target's may have the maximal length.
    temporary = target.with_name(f".rageval-{uuid4().hex[:12]}")
    try:
        with temporary.open("xb") as file:
            file.writelines(content)
            file.flush()
            # Some file systems report a full disk only here.
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file, all or nothing, by one write; what is in the file stays.

    A missing file is made. After a last line that was not ended, the new one begins a line of its own.

    Raises:
        OSError: the file cannot be written; it is unchanged.
    """
    if path.exists():
        refuse_special(path)
    binary: int = getattr(os, "O_BINARY", 0)  # Windows only
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | binary, 0o666)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        ended = True
        if size:
            os.lseek(descriptor, -1, os.SEEK_END)
            ended = os.read(descriptor, 1) == b"\n"
        try:
            _write(descriptor, b"".join([b"" if ended else b"\n", line, b"\n"]))
        except BaseException:
            # Unless another process has appended since.
            if os.lseek(descriptor, 0, os.SEEK_CUR) == os.fstat(descriptor).st_size:
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes) -> None:
    if os.write(descriptor, content) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    # Some file systems report a full disk only here.
    os.fsync(descriptor)


SPECIAL: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class SpecialFileError(OSError):
    """It is not a regular file; the message, for the user, says what it is."""


def refuse_special(path: Path) -> None:
    """Refuse a pipe, a socket or a device, which may have no end; a folder passes: opening it will fail."""
    kind = SPECIAL.get(stat.S_IFMT(path.stat().st_mode))
    if kind is not None:
        raise SpecialFileError(f"it is {kind}, and only a regular file is read")
