"""`rageval cache verify`: what is damaged in the cache or in cassettes, and its repair."""

import argparse
import contextlib
from pathlib import Path

from pytest_rageval.cli import cache_embeddings
from pytest_rageval.cli.cache_folder import BrokenCacheError, opened
from pytest_rageval.cli.cassettes import check_cassette
from pytest_rageval.cli.show import count, note, plain, say
from pytest_rageval.errors import InputError
from pytest_rageval.llm.database import FILE, Database
from pytest_rageval.llm.leases import LEASE_S
from pytest_rageval.llm.upkeep import Damaged, file_faults, inspect, leases, repair, schema

__all__ = ["verify"]


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
