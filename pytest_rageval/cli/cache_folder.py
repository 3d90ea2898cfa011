"""Cache folders and cassettes as the commands open them, and their entries by model."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_rageval.cli.output import note, plain, table
from pytest_rageval.embeddings.store import EMBEDDINGS_FILE, Survey, survey
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.llm.cassette import read_cassette
from pytest_rageval.llm.maintenance import Damaged, model_of, uses
from pytest_rageval.llm.store import FILE, Database, Entry, ForeignSchemaError

__all__ = [
    "BrokenCacheError",
    "bytes_on_disk",
    "cassette_entries",
    "embeddings_survey",
    "has_only_embeddings",
    "known_models",
    "models_table",
    "open_cache",
    "split_damaged",
]

CORRUPT = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")
"""How SQLite's error names begin for a damaged file; the last one is for missing tables."""


class BrokenCacheError(StoreError):
    """SQLite cannot read the file, or cannot read on; `why` is its message."""

    advice = (
        "The file as a whole is damaged. Save what can be read of it with `rageval cache export FILE`, delete "
        f"{FILE}* in its folder, and bring the replies back with `rageval cache import FILE`."
    )

    def __init__(self, directory: Path, why: str) -> None:
        self.why = why
        super().__init__(f"The reply cache in {directory} cannot be read: {why}.\n{self.advice}")


@contextlib.contextmanager
def open_cache(
    directory: Path, *, make: bool = False, write: bool = False, replies_only: bool = False
) -> Iterator[Database]:
    """Open the reply cache of a folder; make it if it is missing; require that it can be written.

    With `replies_only` it is opened to read the replies alone, beside which foreign objects may be.

    Raises:
        InputError: it is missing, cannot be used, or is read-only.
        BrokenCacheError: SQLite cannot read it, now or within the block.
    """
    file = directory / FILE
    if not file.is_file():
        if not make:
            raise InputError(
                f"There is no reply cache in {directory}: no file {FILE} is there.\n"
                "Name the folder with --cache-dir; a run of pytest makes one in the project's root directory."
            )
    elif not file.stat().st_size:
        # SQLite would take it for a new cache.
        raise BrokenCacheError(directory, f"its file {FILE} is empty, 0 bytes")
    try:
        with contextlib.closing(Database(directory, replies_only=replies_only)) as database:
            if write and database.read_only:
                raise InputError(
                    f"The reply cache in {directory} may only be read.\n"
                    "Change the permissions of the folder and the files in it."
                )
            yield database
    except ForeignSchemaError as error:
        raise BrokenCacheError(directory, _first_line(error).partition(" used: ")[2].rstrip(".")) from error
    except StoreError as error:
        if isinstance(error.__cause__, UnicodeDecodeError):
            # SQLite's message quotes the file.
            raise BrokenCacheError(directory, "the names of its tables are not UTF-8") from error
        if str(getattr(error.__cause__, "sqlite_errorname", "")).startswith(CORRUPT):
            raise BrokenCacheError(directory, str(error.__cause__)) from error
        raise InputError(f"{_first_line(error)}\nName another folder with --cache-dir.") from error


def bytes_on_disk(directory: Path) -> int:
    """Return the size of the reply cache with the files that SQLite adds to it."""
    files = (directory / f"{FILE}{ending}" for ending in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.is_file())


def has_only_embeddings(directory: Path) -> bool:
    """Whether a folder has embeddings and no replies, as in a project that asks no model."""
    return (directory / EMBEDDINGS_FILE).is_file() and not (directory / FILE).exists()


def embeddings_survey(directory: Path) -> Survey | None:
    """Count the embeddings of a folder; None without a file, or, with a note, if it cannot be read."""
    try:
        return survey(directory)
    except StoreError as error:
        note(str(error))
        return None


def cassette_entries(path: Path) -> dict[str, Entry]:
    """Read the replies of a cassette by key.

    Raises:
        InputError: the file cannot be read, or a line is no reply.
    """
    try:
        return read_cassette(path)
    except StoreError as error:
        raise InputError(
            f"{_first_line(error)}\nCheck the name; `rageval cache verify {path}` lists all that is wrong."
        ) from error


def _first_line(error: StoreError) -> str:
    """The finding, without the advice, which is for runs of pytest."""
    return str(error).partition("\n")[0]


def split_damaged(entries: Iterable[Entry | Damaged]) -> tuple[list[Entry], list[Damaged]]:
    """Split entries into good and damaged ones."""
    good: list[Entry] = []
    damaged: list[Damaged] = []
    for entry in entries:
        if isinstance(entry, Damaged):
            damaged.append(entry)
        else:
            good.append(entry)
    return good, damaged


def models_table(entries: Iterable[Entry]) -> str:
    """Return a table with the replies and tokens of each model."""
    return table(
        ["model", "replies", "tokens in", "tokens out", "cut"],
        [
            [
                plain(f"{use.model} at {use.base_url}" if use.base_url else use.model or "(no name)"),
                *(f"{number:,}" for number in (use.replies, use.tokens_in, use.tokens_out, use.cut)),
            ]
            for use in uses(entries)
        ],
    )


def known_models(entries: Iterable[Entry]) -> str:
    """Return the names that `--model` knows, for a message."""
    return ", ".join(sorted({plain(model_of(entry)[0]) for entry in entries})) or "none"
