"""`rageval cache import`, `prune` and `verify`: the commands that change or repair the cache or a cassette."""

import argparse
import gzip
import math
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from pytest_rageval.cli.cache_reading import (
    BROKEN,
    BrokenCacheError,
    Place,
    bytes_on_disk,
    cache_files,
    cassette_entries,
    has_no_replies,
    model_names,
    model_of,
    models_table,
    open_folder,
    open_place,
    open_shared,
    place_of,
    split_damaged,
    survey,
    transaction,
)
from pytest_rageval.cli.console import echo, echo_err, format_bytes, format_count, to_one_line
from pytest_rageval.core.errors import InputError, StoreError
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.cassette import LaterVersionError, cassette_lines, parse_entry, write_cassette
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import CLAIM_TTL_S, Damaged, Entry, Namespace
from pytest_rageval.models.stores.sqlite import SqliteStore
from pytest_rageval.models.stores.sqlite_file import FILE
from pytest_rageval.options.command import CacheFile, Survey

DAY_S: Final = 86_400.0
NOT_LOOKED_AT: Final = (
    "{} not looked at; `rageval cache verify` lists such entries, and with --repair deletes them."
)
REPAIR: Final = "`rageval cache verify --repair` deletes the damaged entries; then they are requested again."


def import_command(options: argparse.Namespace) -> int:
    """Add the replies of cassettes to the cache; if a file cannot be read, no reply is added.

    A cached reply is not replaced, unless `--replace` is set or its entry is damaged.
    """
    entries: dict[str, Entry] = {}
    # If several files have a reply to the same request, the first is used, as within a file.
    for path in options.files:
        entries = {**cassette_entries(path), **entries}
    place = place_of(options)
    with open_place(place, create=True, write=True) as store, transaction(store):
        existing = {str(entry.key) for entry in store.entries(list(entries))}
        cached = store.get_many(list(existing))
        other = [key for key in cached if cached[key] != entries[key].reply]
        if options.replace:
            store.delete_many(other)
        store.keep(entries.values())
    summary = f"{format_count(len(entries) - len(existing), 'new reply')}, {len(cached):,} there already"
    if other:
        fate = "replaced" if options.replace else "kept as they were"
        summary += f", of these {len(other):,} with another text, {fate}"
    if len(existing) > len(cached):
        summary += f", {format_count(len(existing) - len(cached), 'damaged entry')} replaced"
    echo(f"{place}: {summary}")
    return 0


def prune_command(options: argparse.Namespace) -> int:
    """Delete the replies that meet all conditions; embeddings only if the only condition is age.

    Damaged entries are not deleted.
    """
    if options.older_than is None and not options.model and not options.cut:
        raise InputError(
            "No condition was given, so nothing was deleted.\n"
            "Give one or more of --older-than DAYS, --model NAME and --cut; all of them must hold."
        )
    if options.cassette is not None:
        if options.older_than is not None:
            raise InputError(
                "--older-than cannot be used with --cassette: a cassette has no dates.\nTake --older-than away."
            )
        _prune_cassette(options, options.cassette)
        return 0
    place, cutoff = place_of(options), _cutoff_time(options)
    if not has_no_replies(place):
        _prune_replies(options, place)
    # Other conditions cannot hold for an entry that is no reply: it has no model, and is not cut off.
    for file in () if options.model or options.cut else cache_files():
        found = survey(file, place)
        if found is not None and (found.good or isinstance(place, Path)):
            dry = options.dry_run
            old = sum(t < cutoff for t in found.written) if dry else _delete_older(file, place, cutoff)
            echo(f"{place}: {old:,} of {format_count(found.good, file.noun)} {_deletion_text(options)}")
    return 0


def _prune_replies(options: argparse.Namespace, place: Place) -> None:
    dry, before = options.dry_run, bytes_on_disk(place) if isinstance(place, Path) else 0
    with open_place(place, write=not dry) as store:
        # One transaction, so that a reply that another process writes meanwhile is not deleted unchecked.
        with nullcontext() if dry else transaction(store):
            good, damaged = split_damaged(store.entries())
            if damaged:
                echo_err(NOT_LOOKED_AT.format(format_count(len(damaged), "damaged entry")))
            selected = _select_entries(good, options)
            if not dry:
                store.delete_many([entry.key for entry in selected])
        _echo_deleted(good, selected, options, place)
        if dry or not selected or not isinstance(store, SqliteStore):
            return
        try:
            store.database.execute("VACUUM")
        except StoreError as error:
            echo_err(
                f"The file could not be made smaller: {error.__cause__}. Its free space will be used again."
            )
        directory = store.database.directory
    if (directory / f"{FILE}-wal").exists():
        echo("The file becomes smaller when the runs that use the cache now have ended.")
    else:
        echo(f"{format_bytes(bytes_on_disk(directory))} on disk, before {format_bytes(before)}")


def _delete_older(file: CacheFile, place: Place, cutoff: float) -> int:
    if isinstance(place, Path):
        return int(file.functions.delete_older(place, cutoff))
    with open_shared(place, file.namespace) as store:
        good, _ = split_damaged(store.entries())
        old = [entry.key for entry in good if entry.written < cutoff]
        store.delete_many(old)
    return len(old)


def _prune_cassette(options: argparse.Namespace, path: Path) -> None:
    entries = list(cassette_entries(path).values())
    selected = _select_entries(entries, options)
    _echo_deleted(entries, selected, options, path)
    if selected and not options.dry_run:
        _, _, notices = _check_cassette(path)
        for notice in notices:
            echo_err(f"{path}: {notice}; the file is rewritten, one line a request, in order")
        deleted = {entry.key for entry in selected}
        write_cassette(path, [entry for entry in entries if entry.key not in deleted])


def _cutoff_time(options: argparse.Namespace) -> float:
    """Return the time before which entries are old, in seconds since 1970; infinity without a condition on age."""
    return math.inf if options.older_than is None else time.time() - options.older_than * DAY_S


def _select_entries(entries: Sequence[Entry], options: argparse.Namespace) -> list[Entry]:
    cutoff = _cutoff_time(options)
    return [
        entry
        for entry in entries
        if entry.written < cutoff
        and (not options.model or model_of(entry)[0] in options.model)
        and (not options.cut or entry.reply.cut)
    ]


def _echo_deleted(
    entries: Sequence[Entry], selected: Sequence[Entry], options: argparse.Namespace, place: Place
) -> None:
    models = {model_of(entry)[0] for entry in entries}
    for name in options.model or ():
        if name not in models:
            echo_err(
                f"{place} has no reply of model {to_one_line(name)}; it has replies of: {model_names(entries)}."
            )
    echo(f"{place}: {len(selected):,} of {format_count(len(entries), 'reply')} {_deletion_text(options)}")
    if selected:
        echo(f"\n{models_table(selected)}\n")


def _deletion_text(options: argparse.Namespace) -> str:
    return "would be deleted" if options.dry_run else "deleted"


def verify_command(options: argparse.Namespace) -> int:
    """Look for damage in the cache or in cassettes; return 1 if there is any, even if it is repaired."""
    place, fix = place_of(options), options.repair
    if not options.files:
        if isinstance(place, Path):
            sound = [has_no_replies(place) or _verify_replies(place, fix=fix)]
            sound += [_verify_file(file, place, fix=fix) for file in cache_files()]
        else:
            names = ("replies", *(file.namespace for file in cache_files()))
            sound = [_verify_shared_store(place, name, fix=fix) for name in names]
        return 0 if all(sound) else 1
    if fix:
        raise InputError(
            "--repair works on the cache only. Restore a cassette from its history in git.\n"
            "Take --repair away, and edit the file."
        )
    checks = [(path, *_check_cassette(path)) for path in options.files]
    for path, replies, damage, notices in checks:
        for kind, lines in (("damaged", damage), ("notice", notices)):
            for line in lines:
                echo(f"{path}: {kind}: {line}")
        echo(f"{path}: {format_count(replies, 'good reply')}, {format_count(len(damage), 'fault')}")
    return 1 if any(damage for _, _, damage, _ in checks) else 0


def _print_damaged(place: object, entries: Iterable[Entry | Damaged]) -> tuple[int, list[Damaged]]:
    """Print the damaged entries; return them, and the number of the good ones."""
    good, damaged = 0, []
    # Each is printed immediately, since reading may fail at the next one.
    for entry in entries:
        if isinstance(entry, Damaged):
            damaged.append(entry)
            echo(f"{place}: damaged: entry {to_one_line(entry.key)}: {'; '.join(entry.why)}")
        else:
            good += 1
    return good, damaged


def _verify_shared_store(url: StoreURL, namespace: Namespace, *, fix: bool) -> bool:
    """Print the damaged entries of a shared store, and delete them if `fix` is True; return True if there are none."""
    with open_shared(url, namespace) as store:
        good, damaged = _print_damaged(url, store.entries())
        if good or damaged or namespace == "replies":
            kind = "good reply" if namespace == "replies" else "good embedding"
            echo(f"{url}: {format_count(good, kind)}, {format_count(len(damaged), 'damaged entry')}")
        if damaged and fix:
            # If another process has replaced a damaged entry meanwhile, the new reply is deleted and requested again.
            store.delete_many([str(entry.key) for entry in damaged])
            echo(f"deleted: {format_count(len(damaged), 'damaged entry')}")
        elif damaged:
            echo_err(REPAIR)
    return not damaged


def _verify_replies(directory: Path, *, fix: bool) -> bool:
    """Print the damage of the reply cache in a folder, and repair it if `fix` is True; return True if there is none."""
    file = directory / FILE
    try:
        with open_folder(directory, write=fix) as store:
            return _verify_file_of_replies(file, store, fix=fix)
    except BrokenCacheError as error:
        echo(f"{file}: damaged: {error.why}")
        echo_err(BROKEN)
        return False


def _verify_file_of_replies(file: Path, store: SqliteStore, *, fix: bool) -> bool:
    # One transaction, so that no other process writes an entry that would then be deleted.
    with transaction(store) if fix else nullcontext():
        faults = store.database.faults()
        for fault in faults:
            echo(f"{file}: damaged: {to_one_line(fault)}")
        good, damaged = _print_damaged(file, store.entries())
        # Writing to a file that is damaged as a whole may damage it more.
        if fix and not faults:
            store.repair(damaged)
    ((claims,),) = store.database.rows("SELECT count(*) FROM leases")
    if claims:
        echo(
            f"{file}: notice: {format_count(claims, 'claim')} of running or killed runs; a killed run's claim blocks "
            f"others for {CLAIM_TTL_S:g} s"
        )
    echo(
        f"{file}: {format_count(good, 'good reply')}, {format_count(len(damaged), 'damaged entry')}, "
        f"schema {store.database.schema_version}"
    )
    if faults:
        echo_err(BROKEN)
    elif fix:
        for entry in damaged:
            echo(f"{'mended, its reply is kept' if entry.rest else 'deleted'}: {to_one_line(entry.key)}")
    elif damaged:
        echo_err(REPAIR)
    return not faults and not damaged


def _verify_file(file: CacheFile, directory: Path, *, fix: bool) -> bool:
    """Print the damage of a file of an extension, and repair it if `fix` is True; return True if there is none."""
    path, noun = directory / file.name, file.noun
    try:
        found: Survey | None = file.functions.survey(directory)
    except StoreError as error:
        echo(f"{path}: damaged: {error}")
        return False
    if found is None:
        return True
    echo(
        f"{path}: {format_count(found.good, f'good {noun}')}, {format_count(found.damaged, 'damaged entry')}"
    )
    if found.damaged and fix:
        file.functions.delete_damaged(directory)
        echo(f"deleted: {format_count(found.damaged, f'damaged {noun}')}")
    elif found.damaged:
        echo_err(f"`rageval cache verify --repair` deletes them; runs ignore them and {file.replacement}.")
    return not found.damaged


def _check_cassette(path: Path) -> tuple[int, list[str], list[str]]:
    """Return the number of good replies in a cassette, descriptions of damage, and notices of harmless findings."""
    damage: list[str] = []
    notices: list[str] = []
    seen: dict[str, tuple[int, Reply]] = {}
    repeated, unsorted, highest = 0, [], ""
    for number, entry in _check_lines(path, damage):
        first, reply = seen.setdefault(entry.key, (number, entry.reply))
        if reply != entry.reply:
            notices.append(
                f"line {number} has another reply to the request of line {first}; the first one counts"
            )
        elif first != number:
            repeated += 1
        if entry.key < highest:
            unsorted.append(number)
        highest = max(highest, entry.key)
    if repeated:
        notices.append("1 line repeats another" if repeated == 1 else f"{repeated:,} lines repeat others")
    if unsorted:
        notices.append(f"{format_count(len(unsorted), 'line')} out of order, the first is line {unsorted[0]}")
    return len(seen), damage, notices


def _check_lines(path: Path, damage: list[str]) -> Iterator[tuple[int, Entry]]:
    """Yield the number and the entry of each good line; append a description of each bad line to `damage`."""
    number = 0
    try:
        for number, line in enumerate(cassette_lines(path, "surrogateescape"), 1):
            if line.strip():
                try:
                    line.encode()
                    entry = parse_entry(line)
                except LaterVersionError as error:
                    damage.append(f"line {number}: {error}")
                except ValueError as error:
                    why = "it is not UTF-8" if isinstance(error, UnicodeEncodeError) else error
                    damage.append(f"line {number} is not a recorded reply: {why}")
                else:
                    yield number, entry
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        damage.append(f"it breaks off after line {number}: {error}")
    except OSError as error:
        raise InputError(f"The cassette {path} cannot be read: {error}.\nCheck the name.") from error
