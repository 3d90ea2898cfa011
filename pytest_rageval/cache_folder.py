"""The folder in which replies and embeddings are kept, and what may be in its SQLite files."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

__all__ = ["make_cache_folder", "planted"]


def make_cache_folder(directory: Path) -> None:
    """Make it if it is missing, with a `.gitignore` in it, as pytest does with its own.

    Only then: in a folder of the user's the file would hide others from git.
    """
    if directory.is_dir():
        return
    directory.mkdir(parents=True, exist_ok=True)
    (directory / ".gitignore").write_text("*\n", encoding="utf-8")


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
