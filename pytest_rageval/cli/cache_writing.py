"""`rageval cache import`, `prune` and `verify`: the commands that change or repair the cache or a cassette."""

import argparse
import gzip
import math
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from pytest_rageval.cli.cache_reading import (
    BrokenCacheError,
    bytes_on_disk,
    cassette_entries,
    embeddings_survey,
    has_only_embeddings,
    known_models,
    models_table,
    open_cache,
    open_shared,
    split_damaged,
)
from pytest_rageval.cli.console import count, note, plain, say, size
from pytest_rageval.embeddings.store import EMBEDDINGS_FILE, delete_damaged, delete_older, survey
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.llm.cassette import LaterVersionError, cassette_lines, parse_entry, write_cassette
from pytest_rageval.llm.maintenance import (
    count_claims,
    existing_keys,
    file_faults,
    inspect_entries,
    model_of,
    repair,
    schema_version,
)
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.stores import Namespace
from pytest_rageval.llm.stores.interface import CLAIM_TTL_S, Damaged, Entry
from pytest_rageval.llm.stores.sqlite_file import FILE, Database, ReplyTable
from pytest_rageval.secret import StoreURL

__all__ = ["import_command", "prune_command", "verify_command"]

DAY_S = 86_400.0

NOT_LOOKED_AT: Final = (
    "{} not looked at; `rageval cache verify` lists such entries, and with --repair deletes them."
)


def import_command(options: argparse.Namespace) -> int:
    """Add the replies of cassettes to the cache: of all the files, or of none.

    A cached reply stays, unless `--replace` is set or its entry is damaged.
    """
    entries: dict[str, Entry] = {}
    # The first reply to a request counts, as within a file.
    for path in options.files:
        entries = {**cassette_entries(path), **entries}
    place = options.cache or options.cache_dir
    existing, cached, other = (_imported if options.cache is None else _imported_shared)(
        place, entries, replace=options.replace
    )
    summary = f"{count(len(entries) - len(existing), 'new reply')}, {len(cached):,} there already"
    if other:
        fate = "replaced" if options.replace else "kept as they were"
        summary += f", of these {len(other):,} with another text, {fate}"
    if len(existing) > len(cached):
        summary += f", {count(len(existing) - len(cached), 'damaged entry')} replaced"
    say(f"{place}: {summary}")
    return 0


def _imported(
    directory: Path, entries: Mapping[str, Entry], *, replace: bool
) -> tuple[set[str], dict[str, Reply], list[str]]:
    """Add entries; return the keys that had one, the replies that were good, and the keys with another reply."""
    with open_cache(directory, make=True, write=True) as database, database.transaction():
        existing = existing_keys(database, list(entries))
        cached = ReplyTable(database).get_many(list(existing))
        other = [key for key in cached if cached[key] != entries[key].reply]
        written = (entries.keys() - cached.keys()) | set(other if replace else ())
        ReplyTable(database).put_many(entry for key, entry in entries.items() if key in written)
    return existing, cached, other


def _imported_shared(
    url: StoreURL, entries: Mapping[str, Entry], *, replace: bool
) -> tuple[set[str], dict[str, Reply], list[str]]:
    with open_shared(url, make=True) as store:
        existing = {str(entry.key) for entry in store.entries(list(entries))}
        cached = store.get_many(list(existing))
        other = [key for key in cached if cached[key] != entries[key].reply]
        if replace:
            store.delete_many(other)
        store.keep(entries.values())
    return existing, cached, other


def prune_command(options: argparse.Namespace) -> int:
    """Delete the replies that meet all conditions, and embeddings by age alone; damaged entries stay."""
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
    if options.cache is not None:
        _prune_shared(options, options.cache)
        return 0
    if not has_only_embeddings(options.cache_dir):
        _prune_replies(options, options.cache_dir)
    # No embedding is of a chat model, and none is cut.
    by_age_alone = options.older_than is not None and not options.model and not options.cut
    if by_age_alone and (kept := embeddings_survey(options.cache_dir)) is not None:
        limit, dry = _limit(options), options.dry_run
        old = sum(at < limit for at in kept.written) if dry else delete_older(options.cache_dir, limit)
        say(f"{options.cache_dir}: {old:,} of {count(kept.embeddings, 'embedding')} {_deleted(options)}")
    return 0


def _prune_replies(options: argparse.Namespace, directory: Path) -> None:
    before, dry = bytes_on_disk(directory), options.dry_run
    with open_cache(directory, write=not dry) as database:
        # One transaction: a reply that another process writes meanwhile is not deleted unseen.
        with nullcontext() if dry else database.transaction():
            good, damaged = split_damaged(inspect_entries(database))
            if damaged:
                note(NOT_LOOKED_AT.format(count(len(damaged), "damaged entry")))
            selected = _selected(good, options)
            if not dry:
                ReplyTable(database).delete_many([entry.key for entry in selected])
        _say_deleted(good, selected, options, directory)
        if dry or not selected:
            return
        try:
            database.execute("VACUUM")
        except StoreError as error:
            note(f"The file could not be made smaller: {error.__cause__}. Its free space will be used again.")
    if (directory / f"{FILE}-wal").exists():
        say("The file becomes smaller when the runs that use the cache now have ended.")
    else:
        say(f"{size(bytes_on_disk(directory))} on disk, before {size(before)}")


def _prune_shared(options: argparse.Namespace, url: StoreURL) -> None:
    with open_shared(url) as store:
        good, damaged = split_damaged(store.entries())
        if damaged:
            note(NOT_LOOKED_AT.format(count(len(damaged), "damaged entry")))
        selected = _selected(good, options)
        if not options.dry_run:
            store.delete_many([entry.key for entry in selected])
    _say_deleted(good, selected, options, url)
    if options.older_than is not None and not options.model and not options.cut:
        with open_shared(url, "embeddings") as store:
            vectors, _ = split_damaged(store.entries())
            old = [entry.key for entry in vectors if entry.written < _limit(options)]
            if not options.dry_run:
                store.delete_many(old)
        if vectors:
            say(f"{url}: {len(old):,} of {count(len(vectors), 'embedding')} {_deleted(options)}")


def _prune_cassette(options: argparse.Namespace, path: Path) -> None:
    entries = list(cassette_entries(path).values())
    selected = _selected(entries, options)
    _say_deleted(entries, selected, options, path)
    if selected and not options.dry_run:
        _, _, notices = check_cassette(path)
        for notice in notices:
            note(f"{path}: {notice}; the file is rewritten, one line a request, in order")
        deleted = {entry.key for entry in selected}
        write_cassette(path, [entry for entry in entries if entry.key not in deleted])


def _limit(options: argparse.Namespace) -> float:
    """The date before which entries are old; infinity without a condition on age."""
    return math.inf if options.older_than is None else time.time() - options.older_than * DAY_S


def _selected(entries: Sequence[Entry], options: argparse.Namespace) -> list[Entry]:
    limit = _limit(options)
    return [
        entry
        for entry in entries
        if entry.written < limit
        and (not options.model or model_of(entry)[0] in options.model)
        and (not options.cut or entry.reply.cut)
    ]


def _say_deleted(
    entries: Sequence[Entry], selected: Sequence[Entry], options: argparse.Namespace, place: Path | StoreURL
) -> None:
    models = {model_of(entry)[0] for entry in entries}
    for name in options.model or ():
        if name not in models:
            note(f"{place} has no reply of model {plain(name)}; it has replies of: {known_models(entries)}.")
    say(f"{place}: {len(selected):,} of {count(len(entries), 'reply')} {_deleted(options)}")
    if selected:
        say(f"\n{models_table(selected)}\n")


def _deleted(options: argparse.Namespace) -> str:
    return "would be deleted" if options.dry_run else "deleted"


def verify_command(options: argparse.Namespace) -> int:
    """Look for damage in the cache, or in the named cassettes; 1 if there was any, even if it was repaired."""
    if not options.files and options.cache is not None:
        whole = _verify_shared(options.cache, "replies", mend=options.repair)
        return 0 if _verify_shared(options.cache, "embeddings", mend=options.repair) and whole else 1
    if not options.files:
        directory = options.cache_dir
        sound = has_only_embeddings(directory) or _verify_replies(directory, mend=options.repair)
        return 0 if _verify_embeddings(directory, mend=options.repair) and sound else 1
    if options.repair:
        raise InputError(
            "--repair works on the cache only. Restore a cassette from its history in git.\n"
            "Take --repair away, and edit the file."
        )
    checks = [(path, *check_cassette(path)) for path in options.files]
    for path, replies, damage, notices in checks:
        for kind, lines in (("damaged", damage), ("notice", notices)):
            for line in lines:
                say(f"{path}: {kind}: {line}")
        say(f"{path}: {count(replies, 'good reply')}, {count(len(damage), 'fault')}")
    return 1 if any(damage for _, _, damage, _ in checks) else 0


def _verify_shared(url: StoreURL, namespace: Namespace, *, mend: bool) -> bool:
    with open_shared(url, namespace) as store:
        good, damaged = split_damaged(store.entries())
        for entry in damaged:
            say(f"{url}: damaged: entry {plain(entry.key)}: {'; '.join(entry.why)}")
        if good or damaged or namespace == "replies":
            kind = "good reply" if namespace == "replies" else "good embedding"
            say(f"{url}: {count(len(good), kind)}, {count(len(damaged), 'damaged entry')}")
        if damaged and mend:
            # A reply that another process keeps in its place meanwhile is asked for again.
            store.delete_many([str(entry.key) for entry in damaged])
            say(f"deleted: {count(len(damaged), 'damaged entry')}")
        elif damaged:
            note(
                "`rageval cache verify --repair` deletes the damaged entries; then they are asked for again."
            )
    return not damaged


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
    with database.transaction() if mend else nullcontext():
        faults = file_faults(database)
        for fault in faults:
            say(f"{file}: damaged: {plain(fault)}")
        good, damaged = 0, []
        # Each damaged entry is named at once: reading may fail at the next.
        for entry in inspect_entries(database):
            if isinstance(entry, Damaged):
                damaged.append(entry)
                say(f"{file}: damaged: entry {plain(entry.key)}: {'; '.join(entry.why)}")
            else:
                good += 1
        # Writing to a file that is damaged as a whole may make it worse.
        if mend and not faults:
            repair(database, damaged)
    pending = count_claims(database)
    if pending:
        say(
            f"{file}: notice: {count(pending, 'claim')} of running or killed runs; a killed run's claim blocks others "
            f"for {CLAIM_TTL_S:g} s"
        )
    version = schema_version(database)
    say(f"{file}: {count(good, 'good reply')}, {count(len(damaged), 'damaged entry')}, schema {version}")
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


def check_cassette(path: Path) -> tuple[int, list[str], list[str]]:
    """Check every line of a cassette; return the number of good replies, the damage, and harmless findings."""
    damage: list[str] = []
    notices: list[str] = []
    seen: dict[str, tuple[int, Reply]] = {}
    repeated, unsorted, highest = 0, [], ""
    for number, entry in _cassette_entries(path, damage):
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
        notices.append(f"{count(len(unsorted), 'line')} out of order, the first is line {unsorted[0]}")
    return len(seen), damage, notices


def _cassette_entries(path: Path, damage: list[str]) -> Iterator[tuple[int, Entry]]:
    """Yield the good lines with their numbers; describe the others in `damage`."""
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
