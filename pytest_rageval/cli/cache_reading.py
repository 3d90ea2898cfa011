"""`rageval cache info` and `export`, and how all commands open caches and cassettes and list their models."""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from pytest_rageval.cli.console import count, date, note, plain, say, size, table
from pytest_rageval.cli.plugin_stores import stores_for
from pytest_rageval.embeddings.store import EMBEDDINGS_FILE, Survey, survey
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.llm.cassette import read_cassette, write_cassette
from pytest_rageval.llm.maintenance import file_faults, inspect_entries, model_of, model_uses, schema_version
from pytest_rageval.llm.stores import Namespace
from pytest_rageval.llm.stores.factory import open_store
from pytest_rageval.llm.stores.interface import Damaged, Entry, ReplyStore
from pytest_rageval.llm.stores.sqlite_file import FILE, Database, ForeignSchemaError
from pytest_rageval.secret import CACHE_URL, StoreURL

__all__ = [
    "BrokenCacheError",
    "bytes_on_disk",
    "cassette_entries",
    "embeddings_survey",
    "export_command",
    "has_only_embeddings",
    "info_command",
    "known_models",
    "models_table",
    "open_cache",
    "open_shared",
    "split_damaged",
]

# How SQLite's error names begin for a damaged file; the last one is for missing tables.
CORRUPT = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")


class BrokenCacheError(StoreError):
    """SQLite cannot read the file, or cannot read on; `why` is its message."""

    advice = (
        "The file as a whole is damaged. Save what can be read of it with `rageval cache export FILE`, delete "
        f"{FILE}* in its folder, and restore the replies with `rageval cache import FILE`."
    )

    def __init__(self, directory: Path, why: str) -> None:
        self.why = why
        super().__init__(f"The reply cache in {directory} cannot be read: {why}.\n{self.advice}")


@contextmanager
def open_cache(
    directory: Path, *, make: bool = False, write: bool = False, replies_only: bool = False
) -> Iterator[Database]:
    """Open the reply cache of a folder; `replies_only` reads these alone, beside which foreign objects may be.

    InputError if it is missing or cannot be used; BrokenCacheError if SQLite cannot read it, now or within the block.
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
        with closing(Database(directory, replies_only=replies_only)) as database:
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


@contextmanager
def open_shared(
    url: StoreURL, namespace: Namespace = "replies", *, make: bool = False
) -> Iterator[ReplyStore]:
    """Open the store at a URL; InputError if it is missing or cannot be used."""
    if url.folder is not None and not make and not url.folder.exists():
        raise InputError(
            f"There is no cache {url}.\n"
            f"Check the folder in --cache or {CACHE_URL}; a run of pytest with --rageval-cache makes one."
        )
    try:
        with closing(open_store(url, namespace=namespace, stores=stores_for(url))) as store:
            yield store
    except StoreError as error:
        raise InputError(str(error)) from None


def bytes_on_disk(directory: Path) -> int:
    """Return the size of the reply cache with the files that SQLite adds to it."""
    files = (directory / f"{FILE}{ending}" for ending in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.is_file())


def has_only_embeddings(directory: Path) -> bool:
    """Return True if a folder has embeddings and no replies, as in a project that uses no model."""
    return (directory / EMBEDDINGS_FILE).is_file() and not (directory / FILE).exists()


def embeddings_survey(directory: Path) -> Survey | None:
    """Count the embeddings of a folder; None without a file, or, with a note, if it cannot be read."""
    try:
        return survey(directory)
    except StoreError as error:
        note(str(error))
        return None


def cassette_entries(path: Path) -> dict[str, Entry]:
    """Read the replies of a cassette by key; InputError if the file cannot be read, or a line is no reply."""
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
    both = list(entries)
    good = [entry for entry in both if not isinstance(entry, Damaged)]
    return good, [entry for entry in both if isinstance(entry, Damaged)]


def models_table(entries: Iterable[Entry]) -> str:
    """Return a table with the replies and tokens of each model."""
    rows = []
    for use in model_uses(entries):
        name = plain(f"{use.model} at {use.base_url}" if use.base_url else use.model or "(no name)")
        rows.append([name, *(f"{n:,}" for n in (use.replies, use.tokens_in, use.tokens_out, use.cut))])
    return table(["model", "replies", "tokens in", "tokens out", "cut"], rows)


def known_models(entries: Iterable[Entry]) -> str:
    """Return the names that `--model` knows, for a message."""
    return ", ".join(sorted({plain(model_of(entry)[0]) for entry in entries})) or "none"


def info_command(options: argparse.Namespace) -> int:
    """Print replies and tokens by model, and the number of embeddings; damaged entries are counted separately."""
    if options.cache is not None:
        return _shared_info(options.cache, options)
    directory = options.cache_dir
    # Measured first: SQLite adds files while it is open.
    total, version = bytes_on_disk(directory), None
    good: list[Entry] = []
    damaged: list[Damaged] = []
    if not has_only_embeddings(directory):
        with open_cache(directory) as database:
            version = schema_version(database)
            good, damaged = split_damaged(inspect_entries(database))
    dates = [entry.written for entry in good]
    kept = embeddings_survey(directory)
    if options.json:
        document = {
            "directory": str(directory),
            "schema": version,
            "bytes": total,
            "replies": len(good),
            "damaged": len(damaged),
            **_oldest_and_newest(dates),
            "models": [asdict(use) for use in model_uses(good)],
            "embeddings": kept
            and {
                **{name: getattr(kept, name) for name in ("bytes", "embeddings", "damaged")},
                **_oldest_and_newest(kept.written),
            },
        }
        say(json.dumps(document, indent=2))
        return 0
    if version is not None:
        say(f"{directory}: {count(len(good), 'reply')}, {size(total)} on disk, schema {version}")
    if good:
        say(f"{_span(dates)}\n\n{models_table(good)}")
    if damaged:
        note(f"{count(len(damaged), 'entry')} not counted: damaged. `rageval cache verify` lists them.")
    if kept is not None:
        shown = _span(kept.written)
        on_disk = f"{size(kept.bytes)} on disk{shown and f'; {shown}'}"
        say(f"{directory}: {count(kept.embeddings, 'embedding')}, {on_disk}")
        if kept.damaged:
            note(
                f"{count(kept.damaged, 'damaged embedding')} not counted. "
                "`rageval cache verify --repair` deletes damaged embeddings."
            )
    return 0


def _shared_info(url: StoreURL, options: argparse.Namespace) -> int:
    with open_shared(url) as store:
        good, damaged = split_damaged(store.entries())
    with open_shared(url, "embeddings") as store:
        vectors, damaged_vectors = split_damaged(store.entries())
    dates, written = [entry.written for entry in good], [entry.written for entry in vectors]
    if options.json:
        kept = {"embeddings": len(vectors), "damaged": len(damaged_vectors), **_oldest_and_newest(written)}
        document = {
            "store": url.public,
            "replies": len(good),
            "damaged": len(damaged),
            **_oldest_and_newest(dates),
            "models": [asdict(use) for use in model_uses(good)],
            "embeddings": kept if vectors or damaged_vectors else None,
        }
        say(json.dumps(document, indent=2))
        return 0
    say(f"{url}: {count(len(good), 'reply')}")
    if good:
        say(f"{_span(dates)}\n\n{models_table(good)}")
    if vectors:
        say(f"{url}: {count(len(vectors), 'embedding')}; {_span(written)}")
    if damaged or damaged_vectors:
        found = count(len(damaged) + len(damaged_vectors), "entry")
        note(f"{found} not counted: damaged. `rageval cache verify` lists them.")
    return 0


def _span(dates: Sequence[float]) -> str:
    return f"the oldest kept {date(min(dates))}, the newest {date(max(dates))}" if dates else ""


def _oldest_and_newest(dates: Sequence[float]) -> dict[str, str | None]:
    return {"oldest": date(min(dates)) if dates else None, "newest": date(max(dates)) if dates else None}


def export_command(options: argparse.Namespace) -> int:
    """Write the replies to a cassette, of a damaged file those that SQLite reads; 1 if something cannot be read."""
    file, directory = options.file, options.cache or options.cache_dir
    if file.exists() and not options.force:
        raise InputError(f"{file} exists already, nothing was written.\nName another file, or add --force.")
    entries, failure = (
        _readable_entries(directory) if options.cache is None else (_shared_entries(directory), "")
    )
    good, damaged = split_damaged(entries)
    for entry in damaged:
        note(f"{'only in part' if entry.rest else 'left out'}: {plain(entry.key)}: {'; '.join(entry.why)}")
    good += [entry.rest for entry in damaged if entry.rest]
    if failure:
        note(
            f"{directory / FILE} is damaged: {failure}.\n"
            f"{count(len(good), 'reply')} could be read; others may be lost. "
            "`rageval cache verify` shows what SQLite's integrity_check finds.\n"
            f"Delete {FILE}* in that folder"
            + (f", and restore the replies with `rageval cache import {file}`." if good else ".")
        )
    if (damaged or failure) and not good:
        note(f"No reply could be read, {file} was not written.")
        return 1
    silent = sum(entry.reply.silent for entry in good)
    if silent:
        note(f"left out: {count(silent, 'empty reply')}, which a run asks for again")
        good = [entry for entry in good if not entry.reply.silent]
    for name in options.model or ():
        if name not in {model_of(entry)[0] for entry in good}:
            raise InputError(
                f"{directory} has no reply of model {plain(name)}, nothing was written; "
                f"it has replies of: {known_models(good)}.\nNames are as `rageval cache info` shows them."
            )
    good = [entry for entry in good if not options.model or model_of(entry)[0] in options.model]
    write_cassette(file, good)
    omitted = sum(entry.rest is None for entry in damaged)
    say(
        f"{file}: {count(len(good), 'reply')} written"
        + (f", {count(omitted, 'damaged entry')} left out" if omitted else "")
    )
    return 1 if damaged or failure else 0


def _shared_entries(url: StoreURL) -> list[Entry | Damaged]:
    with open_shared(url) as store:
        return list(store.entries())


def _readable_entries(directory: Path) -> tuple[list[Entry | Damaged], str]:
    """The entries that SQLite reads, and the damage to the file as a whole; empty if it is sound."""
    entries: list[Entry | Damaged] = []
    try:
        with open_cache(directory, replies_only=True) as database:
            entries.extend(inspect_entries(database))
            # Entries can be missing without an error, if a page has lost count of them.
            return entries, "; ".join(map(plain, file_faults(database)))
    except BrokenCacheError as error:
        return entries, error.why
