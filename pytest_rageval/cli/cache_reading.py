"""`rageval cache info` and `export`; and functions that open caches and cassettes, for all `rageval cache` commands."""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

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
from pytest_rageval.core.command import CacheFile, Survey
from pytest_rageval.core.errors import InputError, StoreError
from pytest_rageval.core.extensions import installed
from pytest_rageval.lib.secret import CACHE_URL, StoreURL
from pytest_rageval.models.cassette import read_cassette, write_cassette
from pytest_rageval.models.stores import Namespace, open_store
from pytest_rageval.models.stores.interface import Damaged, Entry, ReplyStore, mapped_errors
from pytest_rageval.models.stores.sqlite_file import (
    FILE,
    Database,
    ForeignSchemaError,
    file_faults,
    inspect_entries,
    schema_version,
)

# Prefixes of SQLite's error names for a damaged file; the last is for missing tables.
CORRUPT_FILE_ERRORS = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")


class BrokenCacheError(StoreError):
    """SQLite cannot read the cache's file, or a part of it.

    Attributes:
        why: SQLite's message.
        advice: what the user can do.
    """

    advice: ClassVar[str] = (
        "The file as a whole is damaged. Save what can be read of it with `rageval cache export FILE`, delete "
        f"{FILE}* in its folder, and restore the replies with `rageval cache import FILE`."
    )

    def __init__(self, directory: Path, why: str) -> None:
        self.why = why
        super().__init__(f"The reply cache in {directory} cannot be read: {why}.\n{self.advice}")


@contextmanager
def open_cache(
    directory: Path, *, create: bool = False, write: bool = False, replies_only: bool = False
) -> Iterator[Database]:
    """Open the reply cache of a folder.

    Args:
        directory: the folder.
        create: True to create the cache if it is missing.
        write: True if the caller will change the cache; a read-only cache is then an error.
        replies_only: True to accept a file with foreign tables, and to read only the table of replies.

    Raises:
        InputError: the cache is missing or cannot be used.
        BrokenCacheError: SQLite cannot read the file, on opening it or within the `with` block.
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
            # SQLite's message would contain the bytes of the name.
            raise BrokenCacheError(directory, "the names of its tables are not UTF-8") from error
        if str(getattr(error.__cause__, "sqlite_errorname", "")).startswith(CORRUPT_FILE_ERRORS):
            raise BrokenCacheError(directory, str(error.__cause__)) from error
        raise InputError(f"{_first_line(error)}\nName another folder with --cache-dir.") from error


@contextmanager
def open_shared_store(
    url: StoreURL, namespace: Namespace = "replies", *, create: bool = False
) -> Iterator[ReplyStore]:
    """Open the shared store at a URL.

    Raises:
        InputError: the store is missing (unless `create` is True), or cannot be used.
    """
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


def bytes_on_disk(directory: Path) -> int:
    """Return the size of the reply cache in bytes, with the files that SQLite adds to it."""
    files = (directory / f"{FILE}{ending}" for ending in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.is_file())


def cache_files() -> list[CacheFile]:
    """Return the files of extensions in a cache folder."""
    return [file for extension in installed().values() for file in getattr(extension, "CACHE_FILES", ())]


def has_no_replies(directory: Path) -> bool:
    """Return True if a folder has a file of an extension and no reply cache, as if a project uses no chat model."""
    return (
        any((directory / file.name).is_file() for file in cache_files()) and not (directory / FILE).exists()
    )


def survey(file: CacheFile, directory: Path) -> Survey | None:
    """Count the entries of a file.

    Return None if the folder has no such file, or, after printing the error, if it cannot be read.
    """
    try:
        found: Survey | None = file.functions.survey(directory)
    except StoreError as error:
        echo_err(str(error))
        return None
    return found


def cassette_entries(path: Path) -> dict[str, Entry]:
    """Return the entries of a cassette by key.

    Raises:
        InputError: the file cannot be read, or a line is not a recorded reply.
    """
    try:
        return read_cassette(path)
    except StoreError as error:
        raise InputError(
            f"{_first_line(error)}\nCheck the name; `rageval cache verify {path}` lists all that is wrong."
        ) from error


def _first_line(error: StoreError) -> str:
    """Return the first line of a message, without the advice after it, which is for runs of pytest."""
    return str(error).partition("\n")[0]


def split_damaged(entries: Iterable[Entry | Damaged]) -> tuple[list[Entry], list[Damaged]]:
    """Split entries into good and damaged ones."""
    all_entries = list(entries)
    good = [entry for entry in all_entries if not isinstance(entry, Damaged)]
    return good, [entry for entry in all_entries if isinstance(entry, Damaged)]


@dataclass(slots=True)
class ModelUse:
    """The number of replies of one model (see `model_of`) in a cache, and their tokens."""

    model: str
    base_url: str
    replies: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cut: int = 0  # replies that the token limit cut


def model_of(entry: Entry) -> tuple[str, str]:
    """Return model and base URL of a request; if they are not stored, the server's name for the model and ""."""
    model, base_url = entry.summary.get("model"), entry.summary.get("base_url")
    return (entry.reply.model, "") if model is None else (model, base_url or "")


def model_uses(entries: Iterable[Entry]) -> list[ModelUse]:
    """Return the totals of each model, sorted by model and base URL."""
    by_name: dict[tuple[str, str], ModelUse] = {}
    for entry in entries:
        name = model_of(entry)
        use = by_name.setdefault(name, ModelUse(*name))
        use.replies += 1
        use.tokens_in += entry.reply.tokens_in
        use.tokens_out += entry.reply.tokens_out
        use.cut += entry.reply.cut
    return [by_name[name] for name in sorted(by_name)]


def models_table(entries: Iterable[Entry]) -> str:
    """Return a table with the number of replies and tokens of each model."""
    rows = []
    for use in model_uses(entries):
        name = to_one_line(f"{use.model} at {use.base_url}" if use.base_url else use.model or "(no name)")
        rows.append([name, *(f"{n:,}" for n in (use.replies, use.tokens_in, use.tokens_out, use.cut))])
    return format_table(["model", "replies", "tokens in", "tokens out", "cut"], rows)


def model_names(entries: Iterable[Entry]) -> str:
    """Return the names of the models, as `--model` accepts them, for a message."""
    return ", ".join(sorted({to_one_line(model_of(entry)[0]) for entry in entries})) or "none"


def info_command(options: argparse.Namespace) -> int:
    """Print the replies and tokens of each model, and the number of embeddings; damaged entries are not included."""
    if options.cache is not None:
        return _shared_store_info(options.cache, options)
    directory = options.cache_dir
    # Measure the size before opening the cache, since SQLite then adds files.
    total, version = bytes_on_disk(directory), None
    good: list[Entry] = []
    damaged: list[Damaged] = []
    if not has_no_replies(directory):
        with open_cache(directory) as database:
            version = schema_version(database)
            good, damaged = split_damaged(inspect_entries(database))
    dates = [entry.written for entry in good]
    surveys = {file: survey(file, directory) for file in cache_files()}
    if options.json:
        document = {
            "directory": str(directory),
            "schema": version,
            "bytes": total,
            "replies": len(good),
            "damaged": len(damaged),
            **_oldest_and_newest(dates),
            "models": [asdict(use) for use in model_uses(good)],
            **{
                file.namespace: found
                and {
                    "bytes": found.bytes,
                    file.namespace: found.good,
                    "damaged": found.damaged,
                    **_oldest_and_newest(found.written),
                }
                for file, found in surveys.items()
            },
        }
        echo(json.dumps(document, indent=2))
        return 0
    if version is not None:
        echo(
            f"{directory}: {format_count(len(good), 'reply')}, {format_bytes(total)} on disk, schema {version}"
        )
    if good:
        echo(f"{_date_range(dates)}\n\n{models_table(good)}")
    if damaged:
        echo_err(
            f"{format_count(len(damaged), 'entry')} not counted: damaged. `rageval cache verify` lists them."
        )
    for file, found in surveys.items():
        if found is not None:
            date_range = _date_range(found.written)
            on_disk = f"{format_bytes(found.bytes)} on disk{date_range and f'; {date_range}'}"
            echo(f"{directory}: {format_count(found.good, file.noun)}, {on_disk}")
            if found.damaged:
                echo_err(
                    f"{format_count(found.damaged, f'damaged {file.noun}')} not counted. "
                    f"`rageval cache verify --repair` deletes damaged {file.namespace}."
                )
    return 0


def _shared_store_info(url: StoreURL, options: argparse.Namespace) -> int:
    with open_shared_store(url) as store:
        good, damaged = split_damaged(store.entries())
    others: dict[CacheFile, tuple[list[Entry], list[Damaged]]] = {}
    for file in cache_files():
        with open_shared_store(url, file.namespace) as store:
            others[file] = split_damaged(store.entries())
    dates = [entry.written for entry in good]
    if options.json:
        document = {
            "store": url.public,
            "replies": len(good),
            "damaged": len(damaged),
            **_oldest_and_newest(dates),
            "models": [asdict(use) for use in model_uses(good)],
            **{
                file.namespace: {
                    file.namespace: len(entries),
                    "damaged": len(broken),
                    **_oldest_and_newest([entry.written for entry in entries]),
                }
                if entries or broken
                else None
                for file, (entries, broken) in others.items()
            },
        }
        echo(json.dumps(document, indent=2))
        return 0
    echo(f"{url}: {format_count(len(good), 'reply')}")
    if good:
        echo(f"{_date_range(dates)}\n\n{models_table(good)}")
    for file, (entries, _) in others.items():
        if entries:
            written = _date_range([entry.written for entry in entries])
            echo(f"{url}: {format_count(len(entries), file.noun)}; {written}")
    if number := len(damaged) + sum(len(broken) for _, broken in others.values()):
        echo_err(f"{format_count(number, 'entry')} not counted: damaged. `rageval cache verify` lists them.")
    return 0


def _date_range(dates: Sequence[float]) -> str:
    return (
        f"the oldest kept {format_timestamp(min(dates))}, the newest {format_timestamp(max(dates))}"
        if dates
        else ""
    )


def _oldest_and_newest(dates: Sequence[float]) -> dict[str, str | None]:
    return {
        "oldest": format_timestamp(min(dates)) if dates else None,
        "newest": format_timestamp(max(dates)) if dates else None,
    }


def export_command(options: argparse.Namespace) -> int:
    """Write the replies of the cache to a cassette; return 1 if the cache is damaged.

    If the file of the cache is damaged as a whole, the replies that SQLite can read are written.
    """
    file, directory = options.file, options.cache or options.cache_dir
    if file.exists() and not options.force:
        raise InputError(f"{file} exists already, nothing was written.\nName another file, or add --force.")
    entries, failure = (
        _readable_entries(directory) if options.cache is None else (_shared_store_entries(directory), "")
    )
    good, damaged = split_damaged(entries)
    for entry in damaged:
        echo_err(
            f"{'only in part' if entry.rest else 'left out'}: {to_one_line(entry.key)}: {'; '.join(entry.why)}"
        )
    good += [entry.rest for entry in damaged if entry.rest]
    if failure:
        echo_err(
            f"{directory / FILE} is damaged: {failure}.\n"
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
                f"{directory} has no reply of model {to_one_line(name)}, nothing was written; "
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


def _shared_store_entries(url: StoreURL) -> list[Entry | Damaged]:
    with open_shared_store(url) as store:
        return list(store.entries())


def _readable_entries(directory: Path) -> tuple[list[Entry | Damaged], str]:
    """Return the entries that SQLite can read, and the damage to the file as a whole, empty if there is none."""
    entries: list[Entry | Damaged] = []
    try:
        with open_cache(directory, replies_only=True) as database:
            entries.extend(inspect_entries(database))
            # A damaged page may lose entries without an error: run SQLite's integrity check too.
            return entries, "; ".join(map(to_one_line, file_faults(database)))
    except BrokenCacheError as error:
        return entries, error.why
