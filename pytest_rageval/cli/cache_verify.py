"""`rageval cache verify`: damage in the cache and in cassettes."""

import argparse
import contextlib
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_rageval.cli.cache_folder import BrokenCacheError, has_only_embeddings, open_cache
from pytest_rageval.cli.output import count, note, plain, say
from pytest_rageval.embeddings.store import EMBEDDINGS_FILE, delete_damaged, survey
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.llm.cache import LEASE_S
from pytest_rageval.llm.cassette import LaterVersionError, cassette_lines, read_entry
from pytest_rageval.llm.maintenance import Damaged, file_faults, inspect, leases, repair, schema
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.store import FILE, Database, Entry

__all__ = ["check_cassette", "verify_command"]


def verify_command(options: argparse.Namespace) -> int:
    """Look for damage in the cache, or in the named cassettes.

    Returns:
        0; 1 if damage was found, even if it was repaired.
    """
    if not options.files:
        directory = options.cache_dir
        sound = has_only_embeddings(directory) or _verify_replies(directory, mend=options.repair)
        return 0 if _verify_embeddings(directory, mend=options.repair) and sound else 1
    if options.repair:
        raise InputError(
            "--repair is for the cache alone; a cassette is restored best from its history in git.\n"
            "Take --repair away, and edit the file."
        )
    checks = [(path, check_cassette(path)) for path in options.files]
    for path, check in checks:
        for line in check.damage:
            say(f"{path}: damaged: {line}")
        for line in check.notices:
            say(f"{path}: notice: {line}")
        say(f"{path}: {count(check.replies, 'good reply')}, {count(len(check.damage), 'fault')}")
    return 1 if any(check.damage for _, check in checks) else 0


def _verify_replies(directory: Path, *, mend: bool) -> bool:
    file = directory / FILE
    try:
        with open_cache(directory, write=mend) as database:
            return _verify_database(file, database, mend=mend)
    except BrokenCacheError as error:
        say(f"{file}: damaged: {error.why}")
        note(error.advice)
        return False


def _verify_database(file: Path, database: Database, *, mend: bool) -> bool:
    # One transaction: no other process writes what would then be deleted.
    with database.transaction() if mend else contextlib.nullcontext():
        faults = file_faults(database)
        for fault in faults:
            say(f"{file}: damaged: {plain(fault)}")
        good, damaged = 0, []
        # Each damaged entry is named at once: reading may fail at the next.
        for entry in inspect(database):
            if isinstance(entry, Damaged):
                damaged.append(entry)
                say(f"{file}: damaged: entry {plain(entry.key)}: {'; '.join(entry.why)}")
            else:
                good += 1
        # Writing to a file that is damaged as a whole may make it worse.
        if mend and not faults:
            repair(database, damaged)
    pending = leases(database)
    if pending:
        say(
            f"{file}: notice: {count(pending, 'lease')} of running or killed runs; a killed run's lease blocks others "
            f"for {LEASE_S:g} s"
        )
    say(
        f"{file}: {count(good, 'good reply')}, {count(len(damaged), 'damaged entry')}, schema {schema(database)}"
    )
    if faults:
        note(BrokenCacheError.advice)
    elif mend:
        for entry in damaged:
            say(f"{'mended, its reply is kept' if entry.rest else 'deleted'}: {plain(entry.key)}")
    elif damaged:
        note("`rageval cache verify --repair` deletes the damaged entries; then they are asked for again.")
    return not faults and not damaged


def _verify_embeddings(directory: Path, *, mend: bool) -> bool:
    file = directory / EMBEDDINGS_FILE
    try:
        kept = survey(directory)
    except StoreError as error:
        say(f"{file}: damaged: {error}")
        return False
    if kept is None:
        return True
    say(f"{file}: {count(kept.embeddings, 'good embedding')}, {count(kept.damaged, 'damaged entry')}")
    if kept.damaged and mend:
        delete_damaged(directory)
        say(f"deleted: {count(kept.damaged, 'damaged embedding')}")
    elif kept.damaged:
        note("`rageval cache verify --repair` deletes them; runs ignore them and encode their texts again.")
    return not kept.damaged


@dataclass(slots=True)
class CassetteCheck:
    """The number of good replies of a cassette, its damage, and harmless findings."""

    replies: int = 0
    damage: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def check_cassette(path: Path) -> CassetteCheck:
    """Check every line of a cassette.

    Raises:
        InputError: the file cannot be read.
        StoreError: it is larger than any recording.
    """
    check = CassetteCheck()
    seen: dict[str, tuple[int, Reply]] = {}
    repeated, unsorted, highest = 0, [], ""
    for number, entry in _cassette_entries(path, check):
        first, reply = seen.setdefault(entry.key, (number, entry.reply))
        if reply != entry.reply:
            check.notices.append(
                f"line {number} has another reply to the request of line {first}; the first one counts"
            )
        elif first != number:
            repeated += 1
        if entry.key < highest:
            unsorted.append(number)
        highest = max(highest, entry.key)
    if repeated:
        check.notices.append(
            "1 line repeats another" if repeated == 1 else f"{repeated:,} lines repeat others"
        )
    if unsorted:
        check.notices.append(f"{count(len(unsorted), 'line')} out of order, the first is line {unsorted[0]}")
    check.replies = len(seen)
    return check


def _cassette_entries(path: Path, check: CassetteCheck) -> Iterator[tuple[int, Entry]]:
    """Yield the good lines with their numbers; add the others to the check."""
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
