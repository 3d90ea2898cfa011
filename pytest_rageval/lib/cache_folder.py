"""Private cache folders, and checks of what other users may have written to them."""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

GITIGNORE: Final = "*\n"
"""The content of `.gitignore` in a cache folder. It shows that this package created the folder."""

GROUP_AND_OTHERS: Final = 0o077  # the permission bits of all users except the owner

EVERYBODY_WRITES: Final = 0o002
SYSTEM_OWNER: Final = 0  # the user id of root


class UntrustedFolderError(OSError):
    """Another user may have written to a cache folder; the reason, and what to do (`remedy`)."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.remedy = remedy


def make_cache_folder(directory: Path) -> None:
    """Create a private folder with a `.gitignore`, or make an existing cache folder of this package private.

    A folder that the user created is left unchanged. UntrustedFolderError if another user may have written to it.
    """
    _refuse_untrusted(directory)
    if directory.is_dir():
        if _is_cache_folder(directory):
            _make_private(directory)
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / ".gitignore").write_text(GITIGNORE, encoding="utf-8")


def _refuse_untrusted(directory: Path) -> None:
    """Raise UntrustedFolderError for a link, and for a folder to which another user can write.

    The owner of the current folder is trusted, since its tests are about to run: in a container, the project may belong
    to another user than root.
    """
    if os.name != "posix" or not os.path.lexists(directory):
        return
    found = directory.lstat()
    if stat.S_ISLNK(found.st_mode):
        target = directory.resolve()
        raise UntrustedFolderError(f"it is a symbolic link to {target}", f"name {target} itself")
    if found.st_uid not in {os.geteuid(), SYSTEM_OWNER, Path.cwd().stat().st_uid}:
        raise UntrustedFolderError(
            f"it belongs to another user (id {found.st_uid}), who may have written replies to it",
            "if you trust its contents, change its owner with chown",
        )
    if found.st_mode & EVERYBODY_WRITES and _has_permissions(directory, found.st_mode):
        raise UntrustedFolderError(
            f"every user of this machine can write replies to it (its mode is {stat.S_IMODE(found.st_mode):o})",
            f"if you trust its contents, chmod o-w '{directory}'",
        )


def _has_permissions(directory: Path, mode: int) -> bool:
    """Whether the file system stores permissions; on others, such as a Windows drive in WSL, all folders look alike."""
    try:
        directory.chmod(stat.S_IMODE(mode) & ~EVERYBODY_WRITES)
        is_changed = not directory.stat().st_mode & EVERYBODY_WRITES
        directory.chmod(stat.S_IMODE(mode))
    except OSError:
        return True
    return is_changed


def make_private_file(file: Path) -> None:
    """Create an empty file that only its owner may read, if the file does not exist.

    If the folder is a cache folder of this package, an existing file is made private, with the files that SQLite
    creates next to it (`-wal`, `-shm`, `-journal`).
    """
    if not file.exists():
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    elif _is_cache_folder(file.parent):
        for path in (file, *file.parent.glob(f"{file.name}-*")):
            _make_private(path)


def _is_cache_folder(directory: Path) -> bool:
    try:
        return (directory / ".gitignore").read_text(encoding="utf-8") == GITIGNORE
    except (OSError, UnicodeDecodeError):
        return False


def _make_private(path: Path) -> None:
    if os.name != "posix":
        return
    with suppress(OSError):
        mode = path.stat().st_mode
        if mode & GROUP_AND_OTHERS:
            path.chmod(mode & ~GROUP_AND_OTHERS & 0o7777)


def foreign_objects(connection: "sqlite3.Connection", statements: Iterable[str]) -> list[str]:
    """Return type and name of each object in a SQLite file that none of the statements creates.

    A view, a trigger or a column with an expression runs code when a table is read or written, and in CI a cache
    folder comes from another machine: call this function before reading any table.
    """
    known = {_normalize_sql(statement) for statement in statements}
    # Objects that SQLite creates itself, such as the index of a primary key, have no statement.
    rows = connection.execute(
        "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master WHERE sql IS NOT NULL"
    )
    return [
        f"{kind.decode(errors='replace')} {name.decode(errors='replace')!r}"
        for kind, name, sql in rows
        if _normalize_sql(sql.decode(errors="replace")) not in known
    ]


def _normalize_sql(statement: str) -> str:
    """Return a CREATE statement in the form in which SQLite stores it, without white space and quotes."""
    return "".join(statement.replace("IF NOT EXISTS", "").replace('"', "").split())
