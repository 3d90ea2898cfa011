"""An existing cache folder as the commands open it, and the embeddings beside the replies."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rageval.cli.output import count, date, note, say, size
from pytest_rageval.embeddings.store import EMBEDDINGS_FILE, Survey, delete_damaged, delete_older, survey
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.llm.cassette import read_cassette
from pytest_rageval.llm.store import FILE, Database, Entry, ForeignSchemaError
from pytest_rageval.llm.store import FILE as REPLIES

__all__ = [
    "BrokenCacheError",
    "alone",
    "as_json",
    "bytes_on_disk",
    "cassette",
    "info",
    "opened",
    "prune",
    "verify",
]

BROKEN = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")
"""How SQLite's names begin for a file that is damaged as a whole; the last is for tables that are gone."""


class BrokenCacheError(StoreError):
    """SQLite cannot read the file, or cannot read on; `why` is its word."""

    advice = (
        "The file as a whole is damaged. Save what can be read of it with `rageval cache export FILE`, delete "
        f"{FILE}* in its folder, and bring the replies back with `rageval cache import FILE`."
    )

    def __init__(self, directory: Path, why: str) -> None:
        self.why = why
        super().__init__(f"The reply cache in {directory} cannot be read: {why}.\n{self.advice}")


@contextlib.contextmanager
def opened(directory: Path, *, make: bool = False, write: bool = False) -> Iterator[Database]:
    """The cache of a folder.

    Args:
        directory: the folder.
        make: whether it is made if missing.
        write: whether it is to be written.

    Raises:
        InputError: it is not there, cannot be used, or may only be read; what to do.
        BrokenCacheError: SQLite cannot read it, now or while it is used.
    """
    file = directory / FILE
    if not file.is_file():
        if not make:
            raise InputError(
                f"There is no reply cache in {directory}: no file {FILE} is there.\n"
                "Name the folder with --cache-dir; a run of pytest makes one in the project's root directory."
            )
    elif not file.stat().st_size:
        # SQLite would take it for a new cache, and the replies that were in it would not be missed.
        raise BrokenCacheError(directory, f"its file {FILE} is empty, 0 bytes")
    try:
        with contextlib.closing(Database(directory)) as database:
            if write and database.read_only:
                raise InputError(
                    f"The reply cache in {directory} may only be read.\n"
                    "Change the permissions of the folder and the files in it."
                )
            yield database
    except ForeignSchemaError as error:
        # The replies are read without SQLite, which would run what is there.
        raise BrokenCacheError(directory, _first_line(error).partition(" used: ")[2].rstrip(".")) from error
    except StoreError as error:
        if isinstance(error.__cause__, UnicodeDecodeError):
            # In SQLite's message, which quotes from the file.
            raise BrokenCacheError(directory, "the names of its tables are not UTF-8") from error
        why = str(getattr(error.__cause__, "sqlite_errorname", ""))
        if why.startswith(BROKEN):
            raise BrokenCacheError(directory, str(error.__cause__)) from error
        raise InputError(f"{_first_line(error)}\nName another folder with --cache-dir.") from error


def bytes_on_disk(directory: Path) -> int:
    """Of the file and those that SQLite keeps beside it."""
    files = (directory / f"{FILE}{ending}" for ending in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.is_file())


def cassette(path: Path) -> dict[str, Entry]:
    """The replies of a cassette.

    Raises:
        InputError: the file is not there, or not all of it is replies.
    """
    advice = f"Check the name; `rageval cache verify {path}` lists all that is wrong."
    try:
        return read_cassette(path)
    except StoreError as error:
        raise InputError(f"{_first_line(error)}\n{advice}") from error


def _first_line(error: StoreError) -> str:
    """What was found; the advice after it is for runs of pytest."""
    return str(error).partition("\n")[0]


def alone(directory: Path) -> bool:
    """Whether a folder has embeddings and no replies, as a project that asks no model has."""
    return (directory / EMBEDDINGS_FILE).is_file() and not (directory / REPLIES).exists()


def info(directory: Path) -> None:
    """Say how many are kept, where there is a file of them."""
    kept = _survey(directory)
    if kept is None:
        return
    span = (
        f"; the oldest kept {date(kept.written[0])}, the newest {date(kept.written[-1])}"
        if kept.written
        else ""
    )
    say(f"{directory}: {count(kept.embeddings, 'embedding')}, {size(kept.bytes)} on disk{span}")
    if kept.damaged:
        note(
            f"{count(kept.damaged, 'damaged embedding')} not counted. `rageval cache verify --repair` deletes such."
        )


def as_json(directory: Path) -> dict[str, Any] | None:
    """The same for programs; None where there is no file that can be read."""
    kept = _survey(directory)
    if kept is None:
        return None
    return {
        "bytes": kept.bytes,
        "embeddings": kept.embeddings,
        "damaged": kept.damaged,
        "oldest": date(kept.written[0]) if kept.written else None,
        "newest": date(kept.written[-1]) if kept.written else None,
    }


def prune(directory: Path, until: float, *, dry: bool) -> None:
    """Delete those kept before a time, where there is a file of them.

    Raises:
        StoreError: it cannot be written.
    """
    kept = _survey(directory)
    if kept is None:
        return
    old = sum(at < until for at in kept.written) if dry else delete_older(directory, until)
    verb = "would be deleted" if dry else "deleted"
    say(f"{directory}: {old:,} of {count(kept.embeddings, 'embedding')} {verb}")


def verify(directory: Path, *, mend: bool) -> int:
    """Look for damage, where there is a file of them.

    Returns:
        How many faults were found, also where they were repaired.

    Raises:
        StoreError: it is to be repaired and cannot be written.
    """
    file = directory / EMBEDDINGS_FILE
    try:
        kept = survey(directory)
    except StoreError as error:
        say(f"{file}: damaged: {error}")
        return 1
    if kept is None:
        return 0
    say(f"{file}: {count(kept.embeddings, 'good embedding')}, {count(kept.damaged, 'damaged entry')}")
    if kept.damaged and mend:
        delete_damaged(directory)
        say(f"deleted: {count(kept.damaged, 'damaged embedding')}")
    elif kept.damaged:
        note(
            "`rageval cache verify --repair` deletes them; runs pass over them and encode their texts again."
        )
    return kept.damaged


def _survey(directory: Path) -> Survey | None:
    """None, with a note, where the file cannot be read: the replies are told all the same."""
    try:
        return survey(directory)
    except StoreError as error:
        note(str(error))
        return None
