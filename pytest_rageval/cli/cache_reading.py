"""`rageval cache info` and `export`; and how all commands of `rageval cache` open a place.

A place is the folder of a cache, or the URL of a shared store.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from pytest_rageval.cli.console import (
    echo,
    echo_err,
    format_bytes,
    format_count,
    format_table,
    format_timestamp,
    to_one_line,
)
from pytest_rageval.cli.plugin_stores import stores_for
from pytest_rageval.core.errors import InputError, StoreError
from pytest_rageval.core.extensions import installed
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.cassette import read_cassette, write_cassette
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.fallback import open_store
from pytest_rageval.models.stores.interface import Damaged, Entry, Namespace, ReplyStore, mapped_errors
from pytest_rageval.models.stores.sqlite import SqliteStore
from pytest_rageval.models.stores.sqlite_file import FILE, ForeignSchemaError
from pytest_rageval.options.command import CacheFile, Survey
from pytest_rageval.options.parsers import CACHE_URL

Place = Path | StoreURL

# Prefixes of SQLite's error names for a damaged file; the last is for missing tables.
CORRUPT_FILE_ERRORS: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")

BROKEN: Final = (
    "The file as a whole is damaged. Save what can be read of it with `rageval cache export FILE`, delete "
    f"{FILE}* in its folder, and restore the replies with `rageval cache import FILE`."
)


class BrokenCacheError(StoreError):
    """SQLite cannot read the cache's file, or a part of it; `why` is its message."""

    def __init__(self, directory: Path, why: str) -> None:
        self.why = why
        super().__init__(f"The reply cache in {directory} cannot be read: {why}.\n{BROKEN}")


def place_of(options: argparse.Namespace) -> Place:
    place: Place = options.cache or options.cache_dir
    return place


@contextmanager
def open_folder(
    directory: Path, *, create: bool = False, write: bool = False, replies_only: bool = False
) -> Iterator[SqliteStore]:
    """Open the reply cache of a folder.

    With `write`, a read-only cache is an error. With `replies_only`, the file may have foreign tables, and only the
    table of replies is read. BrokenCacheError, also within the `with` block, if SQLite cannot read the file.
    """
    file = directory / FILE
    if not file.is_file():
        if not create:
            raise InputError(
                f"There is no reply cache in {directory}: no file {FILE} is there.\n"
                "Name the folder with --cache-dir; a run of pytest makes one in the project's root directory."
            )
    elif not file.stat().st_size:
        # SQLite would use an empty file as a new cache.
        raise BrokenCacheError(directory, f"its file {FILE} is empty, 0 bytes")
    try:
        with closing(SqliteStore(directory, replies_only=replies_only)) as store:
            if write and store.database.read_only:
                raise InputError(
                    f"The reply cache in {directory} may only be read.\n"
                    "Change the permissions of the folder and the files in it."
                )
            yield store
    except ForeignSchemaError as error:
        raise BrokenCacheError(directory, _first_line(error).partition(" used: ")[2].rstrip(".")) from error
    except StoreError as error:
        if isinstance(error.__cause__, UnicodeDecodeError):
            # SQLite's message would contain the bytes of the name.
            raise BrokenCacheError(directory, "the names of its tables are not UTF-8") from error
        if str(getattr(error.__cause__, "sqlite_errorname", "")).startswith(CORRUPT_FILE_ERRORS):
            raise BrokenCacheError(directory, str(error.__cause__)) from error
        raise InputError(f"{_first_line(error)}\nName another folder with --cache-dir.") from error


@contextmanager
def open_shared(
    url: StoreURL, namespace: Namespace = "replies", *, create: bool = False
) -> Iterator[ReplyStore]:
    if url.folder is not None and not create and not url.folder.exists():
        raise InputError(
            f"There is no cache {url}.\n"
            f"Check the folder in --cache or {CACHE_URL}; a run of pytest with --rageval-cache makes one."
        )
    try:
        with (
            mapped_errors(url),
            closing(open_store(url, stores_for(url), namespace=namespace)) as store,
        ):
            yield store
    except StoreError as error:
        raise InputError(str(error)) from None


def open_place(
    place: Place, *, create: bool = False, write: bool = False, replies_only: bool = False
) -> AbstractContextManager[ReplyStore]:
    if isinstance(place, Path):
        return open_folder(place, create=create, write=write, replies_only=replies_only)
    return open_shared(place, create=create)


def transaction(store: ReplyStore) -> AbstractContextManager[None]:
    """Return a block in which no other process writes to the cache of a folder; a shared store has none."""
    return store.database.transaction() if isinstance(store, SqliteStore) else nullcontext()


def _first_line(error: StoreError) -> str:
    """Return the first line of a message, without the advice after it, which is for runs of pytest."""
    return str(error).partition("\n")[0]


def bytes_on_disk(directory: Path) -> int:
    """Return the size of the reply cache in bytes, with the files that SQLite adds to it."""
    files = (directory / f"{FILE}{ending}" for ending in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.is_file())


def cache_files() -> list[CacheFile]:
    """Return the files of extensions in a cache folder; a shared store has their entries in namespaces."""
    return [file for extension in installed().values() for file in getattr(extension, "CACHE_FILES", ())]


def has_no_replies(place: Place) -> bool:
    """Whether a folder has a file of an extension and no reply cache, as if a project uses no chat model."""
    return (
        isinstance(place, Path)
        and any((place / file.name).is_file() for file in cache_files())
        and not (place / FILE).exists()
    )


def survey(file: CacheFile, place: Place) -> Survey | None:
    """Count the entries of an extension; None if there is none, or if its file cannot be read: the error is printed."""
    if not isinstance(place, Path):
        with open_shared(place, file.namespace) as store:
            good, damaged = split_damaged(store.entries())
        written = sorted(entry.written for entry in good)
        return Survey(len(good), len(damaged), written, None) if good or damaged else None
    try:
        found: Survey | None = file.functions.survey(place)
    except StoreError as error:
        echo_err(str(error))
        return None
    return found


def cassette_entries(path: Path) -> dict[str, Entry]:
    try:
        return read_cassette(path)
    except StoreError as error:
        raise InputError(
            f"{_first_line(error)}\nCheck the name; `rageval cache verify {path}` lists all that is wrong."
        ) from error


def split_damaged(entries: Iterable[Entry | Damaged]) -> tuple[list[Entry], list[Damaged]]:
    good: list[Entry] = []
    damaged: list[Damaged] = []
    for entry in entries:
        if isinstance(entry, Damaged):
            damaged.append(entry)
        else:
            good.append(entry)
    return good, damaged


def model_of(entry: Entry) -> tuple[str, str]:
    """Return model and base URL of a request; if they are not stored, the server's name for the model and ""."""
    model, base_url = entry.summary.get("model"), entry.summary.get("base_url")
    return (entry.reply.model, "") if model is None else (model, base_url or "")


def _model_uses(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return by model the number of replies, their tokens, and the number of those that the token limit cut."""
    by_model: dict[tuple[str, str], list[Reply]] = {}
    for entry in entries:
        by_model.setdefault(model_of(entry), []).append(entry.reply)
    return [
        {
            "model": model,
            "base_url": base_url,
            "replies": len(replies),
            **{
                name: sum(getattr(reply, name) for reply in replies)
                for name in ("tokens_in", "tokens_out", "cut")
            },
        }
        for (model, base_url), replies in sorted(by_model.items())
    ]


def models_table(entries: Iterable[Entry]) -> str:
    rows = []
    for model, base_url, *numbers in (use.values() for use in _model_uses(entries)):
        name = to_one_line(f"{model} at {base_url}" if base_url else model or "(no name)")
        rows.append([name, *(f"{n:,}" for n in numbers)])
    return format_table(["model", "replies", "tokens in", "tokens out", "cut"], rows)


def model_names(entries: Iterable[Entry]) -> str:
    """Return the names of the models, as `--model` accepts them, for a message."""
    return ", ".join(sorted({to_one_line(model_of(entry)[0]) for entry in entries})) or "none"


def info_command(options: argparse.Namespace) -> int:
    """Print the replies and tokens of each model, and the number of embeddings; damaged entries are not included."""
    place, good, damaged = place_of(options), list[Entry](), list[Damaged]()
    details: dict[str, Any] = {"store": str(place)}
    if isinstance(place, Path):
        # The size is measured before the cache is opened, since SQLite then adds files.
        details = {"directory": str(place), "schema": None, "bytes": bytes_on_disk(place)}
    if not has_no_replies(place):
        with open_place(place) as store:
            if isinstance(store, SqliteStore):
                details["schema"] = store.database.schema_version
            good, damaged = split_damaged(store.entries())
    dates = [entry.written for entry in good]
    surveys = {file: survey(file, place) for file in cache_files()}
    if options.json:
        counts = {"replies": len(good), "damaged": len(damaged), **_oldest_and_newest(dates)}
        others = {file.namespace: found and _other_counts(file, found) for file, found in surveys.items()}
        echo(json.dumps({**details, **counts, "models": _model_uses(good), **others}, indent=2))
        return 0
    if not isinstance(place, Path):
        echo(f"{place}: {format_count(len(good), 'reply')}")
    elif details["schema"] is not None:
        on_disk = f"{format_bytes(details['bytes'])} on disk, schema {details['schema']}"
        echo(f"{place}: {format_count(len(good), 'reply')}, {on_disk}")
    if good:
        echo(f"{_date_range(dates)}\n\n{models_table(good)}")
    _print_damaged_and_others(place, len(damaged), surveys)
    return 0


def _print_damaged_and_others(place: Place, damaged: int, surveys: Mapping[CacheFile, Survey | None]) -> None:
    for file, found in surveys.items():
        if found is None:
            continue
        what, dates = f"{place}: {format_count(found.good, file.noun)}", _date_range(found.written)
        if found.bytes is None:
            damaged += found.damaged
            if found.good:
                echo(f"{what}; {dates}")
            continue
        echo(f"{what}, {format_bytes(found.bytes)} on disk{dates and f'; {dates}'}")
        if found.damaged:
            echo_err(
                f"{format_count(found.damaged, f'damaged {file.noun}')} not counted. "
                f"`rageval cache verify --repair` deletes damaged {file.namespace}."
            )
    if damaged:
        echo_err(f"{format_count(damaged, 'entry')} not counted: damaged. `rageval cache verify` lists them.")


def _other_counts(file: CacheFile, found: Survey) -> dict[str, object]:
    size = {} if found.bytes is None else {"bytes": found.bytes}
    counts = {file.namespace: found.good, "damaged": found.damaged}
    return {**size, **counts, **_oldest_and_newest(found.written)}


def _date_range(dates: Sequence[float]) -> str:
    ends = _oldest_and_newest(dates)
    return f"the oldest kept {ends['oldest']}, the newest {ends['newest']}" if dates else ""


def _oldest_and_newest(dates: Sequence[float]) -> dict[str, str | None]:
    return {
        "oldest": format_timestamp(min(dates)) if dates else None,
        "newest": format_timestamp(max(dates)) if dates else None,
    }


def export_command(options: argparse.Namespace) -> int:
    """Write the replies of the cache to a cassette; return 1 if the cache is damaged.

    If the file of the cache is damaged as a whole, the replies that SQLite can read are written.
    """
    file, place = options.file, place_of(options)
    if file.exists() and not options.force:
        raise InputError(f"{file} exists already, nothing was written.\nName another file, or add --force.")
    entries, failure = _readable_entries(place)
    good, damaged = split_damaged(entries)
    for entry in damaged:
        echo_err(
            f"{'only in part' if entry.rest else 'left out'}: {to_one_line(entry.key)}: {'; '.join(entry.why)}"
        )
    good += [entry.rest for entry in damaged if entry.rest]
    if failure:
        echo_err(
            f"{options.cache_dir / FILE} is damaged: {failure}.\n"
            f"{format_count(len(good), 'reply')} could be read; others may be lost. "
            "`rageval cache verify` shows what SQLite's integrity_check finds.\n"
            f"Delete {FILE}* in that folder"
            + (f", and restore the replies with `rageval cache import {file}`." if good else ".")
        )
    if (damaged or failure) and not good:
        echo_err(f"No reply could be read, {file} was not written.")
        return 1
    for name in options.model or ():
        if name not in {model_of(entry)[0] for entry in good}:
            raise InputError(
                f"{place} has no reply of model {to_one_line(name)}, nothing was written; "
                f"it has replies of: {model_names(good)}.\nNames are as `rageval cache info` shows them."
            )
    good = [entry for entry in good if not options.model or model_of(entry)[0] in options.model]
    write_cassette(file, good)
    if silent := sum(entry.reply.silent for entry in good):
        echo_err(f"without an answer: {silent} of them, which a run with --rageval-record requests again")
    omitted = sum(entry.rest is None for entry in damaged)
    echo(
        f"{file}: {format_count(len(good), 'reply')} written"
        + (f", {format_count(omitted, 'damaged entry')} left out" if omitted else "")
    )
    return 1 if damaged or failure else 0


def _readable_entries(place: Place) -> tuple[list[Entry | Damaged], str]:
    """Return the entries that can be read, and the damage to the file as a whole, empty if there is none."""
    entries: list[Entry | Damaged] = []
    try:
        with open_place(place, replies_only=True) as store:
            entries.extend(store.entries())
            # A damaged page may lose entries without an error: run SQLite's integrity check too.
            faults = store.database.faults() if isinstance(store, SqliteStore) else []
            return entries, "; ".join(map(to_one_line, faults))
    except BrokenCacheError as error:
        return entries, error.why
