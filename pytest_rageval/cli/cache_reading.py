"""`rageval cache info`, `export` and `verify`: what is kept, and what of it is damaged."""

import argparse
import contextlib
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pytest_rageval.cli import cache_folder as cache_embeddings
from pytest_rageval.cli.cache_folder import BrokenCacheError, bytes_on_disk, opened
from pytest_rageval.cli.output import count, date, note, plain, say, size, table
from pytest_rageval.cli.salvage import salvage
from pytest_rageval.errors import InputError
from pytest_rageval.llm.cassette import LaterVersionError, cassette_lines, read_entry, write_cassette
from pytest_rageval.llm.leases import LEASE_S
from pytest_rageval.llm.maintenance import (
    Damaged,
    ModelUse,
    file_faults,
    inspect,
    leases,
    model_of,
    repair,
    schema,
    uses,
)
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.store import FILE, Database, Entry

__all__ = ["Check", "check_cassette", "export", "info", "known_models", "models_table", "verify"]


@dataclass(slots=True)
class Check:
    """What was found.

    Attributes:
        replies: how many good ones are there, one a key.
        damage: each line that is no reply, with its number and why; and where the file breaks off.
        notices: what does no harm: other replies under one key (the first counts), repeated lines,
            lines out of order.
    """

    replies: int = 0
    damage: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def check_cassette(path: Path) -> Check:
    """Look at every line. One that is not UTF-8 does not hide the others.

    Raises:
        InputError: the file is not there, or may not be read.
        StoreError: it is larger than any recording.
    """
    check = Check()
    seen: dict[str, tuple[int, Reply]] = {}
    repeated, unsorted, before = 0, [], ""
    for number, entry in _cassette_entries(path, check):
        first, reply = seen.setdefault(entry.key, (number, entry.reply))
        if reply != entry.reply:
            check.notices.append(
                f"line {number} has another reply to the request of line {first}; the first one counts"
            )
        elif first != number:
            repeated += 1
        if entry.key < before:
            unsorted.append(number)
        before = max(before, entry.key)
    if repeated:
        check.notices.append(
            "1 line repeats another" if repeated == 1 else f"{repeated:,} lines repeat others"
        )
    if unsorted:
        check.notices.append(f"{count(len(unsorted), 'line')} out of order, the first is line {unsorted[0]}")
    check.replies = len(seen)
    return check


def _cassette_entries(path: Path, check: Check) -> Iterator[tuple[int, Entry]]:
    """The good lines with their numbers; the others go to the check."""
    number = 0
    try:
        for number, line in enumerate(cassette_lines(path, "surrogateescape"), 1):
            if line.strip():
                try:
                    entry = _entry(line)
                except LaterVersionError as error:
                    check.damage.append(f"line {number}: {error}")
                except ValueError as error:
                    check.damage.append(f"line {number} is no recorded reply: {error}")
                else:
                    yield number, entry
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        check.damage.append(f"it breaks off after line {number}: {error}")
    except OSError as error:
        raise InputError(f"The cassette {path} cannot be read: {error}.\nCheck the name.") from error


def _entry(line: str) -> Entry:
    if not line.isascii():
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("it is not UTF-8") from None
    return read_entry(line)


def verify(options: argparse.Namespace) -> int:
    """Look for damage in the cache, or in the cassettes that are named.

    Returns:
        0; 1 where damage was found, also where it was repaired.

    Raises:
        InputError: there is no cache or cassette, it cannot be used, or a cassette is to be repaired.
    """
    if not options.files:
        directory = options.cache_dir
        replies = 0 if cache_embeddings.alone(directory) else _cache(directory, mend=options.repair)
        faults = cache_embeddings.verify(directory, mend=options.repair)
        return 1 if faults else replies
    if options.repair:
        raise InputError(
            "--repair is for the cache alone: what to do with a line of a cassette, its history in git knows "
            "best.\nTake --repair away, and edit the file."
        )
    checks = [(path, check_cassette(path)) for path in options.files]
    for path, check in checks:
        for line in check.damage:
            say(f"{path}: damaged: {line}")
        for line in check.notices:
            say(f"{path}: notice: {line}")
        say(f"{path}: {count(check.replies, 'good reply')}, {count(len(check.damage), 'fault')}")
    return 1 if any(check.damage for _, check in checks) else 0


def _cache(directory: Path, *, mend: bool) -> int:
    file = directory / FILE
    try:
        with opened(directory, write=mend) as database:
            return _database(file, database, mend=mend)
    except BrokenCacheError as error:
        say(f"{file}: damaged: {error.why}")
        note(error.advice)
        return 1


def _database(file: Path, database: Database, *, mend: bool) -> int:
    # One transaction: no other process writes what would then be deleted.
    with database.transaction() if mend else contextlib.nullcontext():
        faults = file_faults(database)
        for fault in faults:
            say(f"{file}: damaged: {plain(fault)}")
        good, damaged = _entries(file, database)
        # A file that is damaged as a whole may be harmed more by writing to it.
        if mend and not faults:
            repair(database, damaged)
    _say_leases(file, database)
    say(
        f"{file}: {count(good, 'good reply')}, {count(len(damaged), 'damaged entry')}, schema {schema(database)}"
    )
    if faults:
        note(BrokenCacheError.advice)
        return 1
    if mend:
        for entry in damaged:
            say(f"{'mended, its reply is kept' if entry.rest else 'deleted'}: {plain(entry.key)}")
    elif damaged:
        note("`rageval cache verify --repair` deletes the damaged entries; then they are asked for again.")
    return 1 if damaged else 0


def _entries(file: Path, database: Database) -> tuple[int, list[Damaged]]:
    """How many are good, and the damaged ones; those are named at once: reading may end at the next."""
    good, damaged = 0, []
    for entry in inspect(database):
        if isinstance(entry, Damaged):
            damaged.append(entry)
            say(f"{file}: damaged: entry {plain(entry.key)}: {'; '.join(entry.why)}")
        else:
            good += 1
    return good, damaged


def _say_leases(file: Path, database: Database) -> None:
    there = leases(database)
    if there:
        say(
            f"{file}: notice: {count(there, 'lease')} of runs that go on, or were killed; those of a killed run hold "
            f"up others for {LEASE_S:g} s"
        )


def info(options: argparse.Namespace) -> int:
    """Say how much of which model is kept, and how many embeddings.

    Returns:
        0, even where entries are damaged: they are counted apart.

    Raises:
        InputError: there is no cache, or it cannot be used.
        BrokenCacheError: SQLite cannot read it.
    """
    directory = options.cache_dir
    if options.json:
        say(json.dumps(_as_json(directory), indent=2))
        return 0
    if not cache_embeddings.alone(directory):
        _info(directory)
    cache_embeddings.info(directory)
    return 0


def _info(directory: Path) -> None:
    contents = _contents(directory)
    good, damaged = contents.good, contents.damaged
    say(f"{directory}: {count(len(good), 'reply')}, {size(contents.total)} on disk, schema {contents.schema}")
    if good:
        dates = [entry.written for entry in good]
        table = models_table(uses(good))
        say(f"the oldest kept {date(min(dates))}, the newest {date(max(dates))}\n\n{table}")
    if damaged:
        note(f"{count(len(damaged), 'entry')} not counted: damaged. `rageval cache verify` lists them.")


def _as_json(directory: Path) -> dict[str, Any]:
    none = _Contents(0, None, [], [])
    contents = none if cache_embeddings.alone(directory) else _contents(directory)
    dates = [entry.written for entry in contents.good]
    return {
        "directory": str(directory),
        "schema": contents.schema,
        "bytes": contents.total,
        "replies": len(contents.good),
        "damaged": len(contents.damaged),
        "oldest": date(min(dates)) if dates else None,
        "newest": date(max(dates)) if dates else None,
        "models": [asdict(use) for use in uses(contents.good)],
        "embeddings": cache_embeddings.as_json(directory),
    }


class _Contents(NamedTuple):
    """What a reply cache holds: bytes on disk, the version of its tables, and its entries."""

    total: int
    schema: int | None
    good: list[Entry]
    damaged: list[Damaged]


def _contents(directory: Path) -> _Contents:
    # Before it is opened: SQLite makes files beside it while it is.
    total = bytes_on_disk(directory)
    with opened(directory) as database:
        return _Contents(total, schema(database), *_parted(inspect(database)))


def export(options: argparse.Namespace) -> int:
    """Write the replies to a cassette: all that can be read, whatever is damaged.

    Returns:
        0; 1 where something of the cache could not be read.

    Raises:
        InputError: there is no cache, the file exists already, or a model has no replies.
        StoreError: the file cannot be written.
    """
    file, directory = options.file, options.cache_dir
    if file.exists() and not options.force:
        raise InputError(f"{file} exists already, nothing was written.\nName another file, or add --force.")
    found, broken = _all_that_can_be_read(directory)
    good, damaged = _parted(found)
    for entry in damaged:
        note(f"{'only in part' if entry.rest else 'left out'}: {plain(entry.key)}: {'; '.join(entry.why)}")
    good += [entry.rest for entry in damaged if entry.rest]
    if broken:
        note(
            f"{directory / FILE} is damaged: {broken}. {count(len(good), 'reply')} found by looking at each "
            "page of it; some may be lost, and some may be back that had been deleted."
        )
    if (damaged or broken) and not good:
        note(f"No reply could be read, {file} was not written.")
        return 1
    silent = [entry for entry in good if entry.reply.silent]
    if silent:
        note(f"left out: {count(len(silent), 'empty reply')}, which a run asks for again")
        good = [entry for entry in good if not entry.reply.silent]
    wanted = _of_models(good, options.model, directory)
    write_cassette(file, wanted)
    left_out = sum(entry.rest is None for entry in damaged)
    say(
        f"{file}: {count(len(wanted), 'reply')} written"
        + (f", {count(left_out, 'damaged entry')} left out" if left_out else "")
    )
    return 1 if damaged or broken else 0


def models_table(models: Iterable[ModelUse]) -> str:
    """What each model has, a line each."""
    return table(
        ["model", "replies", "tokens in", "tokens out", "cut"],
        [
            [
                plain(f"{use.model} at {use.base_url}" if use.base_url else use.model or "(no name)"),
                *(f"{number:,}" for number in (use.replies, use.tokens_in, use.tokens_out, use.cut)),
            ]
            for use in models
        ],
    )


def known_models(entries: Iterable[Entry]) -> str:
    """The names that `--model` knows, for a message."""
    return ", ".join(sorted({plain(model_of(entry)[0]) for entry in entries})) or "none"


def _all_that_can_be_read(directory: Path) -> tuple[list[Entry | Damaged], str]:
    """What SQLite reads, and where it fails what else is in the file; and why it fails, if it does."""
    found: dict[str | bytes, Entry | Damaged] = {}
    try:
        with opened(directory) as database:
            found.update((entry.key, entry) for entry in inspect(database))
            # Entries can be missing with nothing said: where a page has lost count of them.
            broken = "; ".join(map(plain, file_faults(database)))
    except BrokenCacheError as error:
        broken = error.why
    if broken:
        for entry in salvage(directory / FILE):
            if isinstance(found.get(entry.key, entry), Damaged) or entry.key not in found:
                found[entry.key] = entry
    return list(found.values()), broken


def _of_models(entries: list[Entry], models: Sequence[str] | None, where: object) -> list[Entry]:
    if not models:
        return entries
    there = {model_of(entry)[0] for entry in entries}
    for name in models:
        if name not in there:
            raise InputError(
                f"{where} has no reply of model {plain(name)}, nothing was written; "
                f"it has replies of: {known_models(entries)}.\nNames are as `rageval cache info` shows them."
            )
    return [entry for entry in entries if model_of(entry)[0] in models]


def _parted(found: Iterable[Entry | Damaged]) -> tuple[list[Entry], list[Damaged]]:
    good: list[Entry] = []
    damaged: list[Damaged] = []
    for entry in found:
        if isinstance(entry, Damaged):
            damaged.append(entry)
        else:
            good.append(entry)
    return good, damaged
