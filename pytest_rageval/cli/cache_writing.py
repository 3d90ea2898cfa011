"""The commands that may change the cache or a cassette: `import` and `prune`."""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pytest_rageval.cli import cache_folder as cache_embeddings
from pytest_rageval.cli.cache_folder import bytes_on_disk, cassette, opened
from pytest_rageval.cli.cache_reading import check_cassette, known_models, models_table
from pytest_rageval.cli.output import count, note, plain, say, size
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.llm.cassette import write_cassette
from pytest_rageval.llm.maintenance import Damaged, inspect, model_of, present, uses
from pytest_rageval.llm.store import FILE, Database, Entry, Store

__all__ = ["import_", "prune"]

DAY_S = 86_400.0

CHUNK = 1000
"""Replies compared with the cache together."""


def import_(options: argparse.Namespace) -> int:
    """Take replies of cassettes into the cache: of all the files, or of none.

    A reply that is kept already stays, unless `--replace` is given or its entry is damaged.

    Returns:
        0.

    Raises:
        InputError: a file cannot be read, or the cache cannot be used.
        BrokenCacheError: SQLite cannot read the cache.
    """
    entries: dict[str, Entry] = {}
    # The first reply to a request counts, as within a file.
    for path in options.files:
        for key, entry in cassette(path).items():
            entries.setdefault(key, entry)
    with opened(options.cache_dir, make=True, write=True) as database, database.transaction():
        wanted, told = _compared(database, list(entries.values()), replace=options.replace)
        Store(database).put_many(wanted)
    say(f"{options.cache_dir}: {told}")
    return 0


def prune(options: argparse.Namespace) -> int:
    """Delete the replies for which all conditions hold, and by age alone embeddings too; damaged entries stay.

    Returns:
        0, even where there is nothing to delete.

    Raises:
        InputError: no condition is given, or the cache or the cassette cannot be used.
        BrokenCacheError: SQLite cannot read the cache.
        StoreError: the cassette cannot be written.
    """
    if options.older_than is None and not options.model and not options.cut:
        raise InputError(
            "No condition says what to delete, and nothing was.\n"
            "Give one or more of --older-than DAYS, --model NAME and --cut; all of them must hold."
        )
    if options.cassette is None:
        if not cache_embeddings.alone(options.cache_dir):
            _prune_cache(options, options.cache_dir)
        until = _until(options)
        # Embeddings are of no model that answers, and are never cut.
        if until is not None and not options.model and not options.cut:
            cache_embeddings.prune(options.cache_dir, until, dry=options.dry_run)
    elif options.older_than is not None:
        raise InputError(
            "--older-than cannot be used with --cassette: a cassette does not say when its replies were written.\n"
            "Take --older-than away."
        )
    else:
        _prune_cassette(options, options.cassette)
    return 0


def _compared(database: Database, entries: Sequence[Entry], *, replace: bool) -> tuple[list[Entry], str]:
    """Those to write, and in words what is new and what was there."""
    wanted: list[Entry] = []
    new = mended = same = other = 0
    for start in range(0, len(entries), CHUNK):
        chunk = entries[start : start + CHUNK]
        keys = [entry.key for entry in chunk]
        there = present(database, keys)
        whole = Store(database).get_many(sorted(there))
        for entry in chunk:
            kept = whole.get(entry.key)
            new += entry.key not in there
            mended += entry.key in there and kept is None
            same += kept == entry.reply
            other += kept is not None and kept != entry.reply
            if kept is None or (replace and kept != entry.reply):
                wanted.append(entry)
    told = [f"{count(new, 'new reply')}", f"{same + other:,} there already"]
    if other:
        told.append(f"of these {other:,} with another text, {'replaced' if replace else 'kept as they were'}")
    if mended:
        told.append(f"{count(mended, 'damaged entry')} replaced")
    return wanted, ", ".join(told)


def _prune_cache(options: argparse.Namespace, directory: Path) -> None:
    before = bytes_on_disk(directory)
    chosen = _condition(options)
    if options.dry_run:
        with opened(directory) as database:
            good = _good(inspect(database))
        _tell(good, [entry for entry in good if chosen(entry)], options, directory)
        return
    with opened(directory, write=True) as database:
        # One transaction: what another process writes meanwhile is not deleted unseen.
        with database.transaction():
            good = _good(inspect(database))
            going = [entry for entry in good if chosen(entry)]
            Store(database).delete_many([entry.key for entry in going])
        _tell(good, going, options, directory)
        if not going:
            return
        try:
            database.execute("VACUUM")
        except StoreError as error:
            note(f"The file could not be made smaller: {error.__cause__}. Its free space will be used again.")
    if (directory / f"{FILE}-wal").exists():
        say("The file becomes smaller when the runs that use the cache now have ended.")
    else:
        say(f"{size(bytes_on_disk(directory))} on disk, before {size(before)}")


def _prune_cassette(options: argparse.Namespace, path: Path) -> None:
    entries = list(cassette(path).values())
    chosen = _condition(options)
    going = [entry for entry in entries if chosen(entry)]
    _tell(entries, going, options, path)
    if going and not options.dry_run:
        for notice in check_cassette(path).notices:
            note(f"{path}: {notice}; it is written anew, one line a request, in order")
        write_cassette(path, [entry for entry in entries if not chosen(entry)])


def _until(options: argparse.Namespace) -> float | None:
    return None if options.older_than is None else time.time() - options.older_than * DAY_S


def _condition(options: argparse.Namespace) -> Callable[[Entry], bool]:
    until = _until(options)

    def chosen(entry: Entry) -> bool:
        return (
            (until is None or entry.written < until)
            and (not options.model or model_of(entry)[0] in options.model)
            and (not options.cut or entry.reply.cut)
        )

    return chosen


def _tell(entries: Sequence[Entry], going: Sequence[Entry], options: argparse.Namespace, where: Path) -> None:
    there = {model_of(entry)[0] for entry in entries}
    for name in options.model or ():
        if name not in there:
            note(f"{where} has no reply of model {plain(name)}; it has replies of: {known_models(entries)}.")
    verb = "would be deleted" if options.dry_run else "deleted"
    say(f"{where}: {len(going):,} of {count(len(entries), 'reply')} {verb}")
    if going:
        say(f"\n{models_table(uses(going))}\n")


def _good(found: Iterable[Entry | Damaged]) -> list[Entry]:
    good, damaged = [], 0
    for entry in found:
        if isinstance(entry, Damaged):
            damaged += 1
        else:
            good.append(entry)
    if damaged:
        note(
            f"{count(damaged, 'damaged entry')} not looked at; `rageval cache verify` lists such entries, and "
            "with --repair deletes them."
        )
    return good
