"""`rageval cache import` and `prune`: the commands that change the cache or a cassette."""

import argparse
import contextlib
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_rageval.cli.cache_folder import (
    bytes_on_disk,
    cassette_entries,
    embeddings_survey,
    has_only_embeddings,
    known_models,
    models_table,
    open_cache,
    split_damaged,
)
from pytest_rageval.cli.cache_verify import check_cassette
from pytest_rageval.cli.output import count, note, plain, say, size
from pytest_rageval.embeddings.store import delete_older
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.llm.cassette import write_cassette
from pytest_rageval.llm.maintenance import Damaged, inspect, model_of, present
from pytest_rageval.llm.store import FILE, Database, Entry, Store

__all__ = ["import_command", "prune_command"]

DAY_S = 86_400.0

CHUNK = 1000
"""Replies compared with the cache in one query."""


def import_command(options: argparse.Namespace) -> int:
    """Add the replies of cassettes to the cache: of all the files, or of none.

    A cached reply stays, unless `--replace` is set or its entry is damaged.
    """
    entries: dict[str, Entry] = {}
    # The first reply to a request counts, as within a file.
    for path in options.files:
        entries = {**cassette_entries(path), **entries}
    with open_cache(options.cache_dir, make=True, write=True) as database, database.transaction():
        changed, summary = _compare(database, list(entries.values()), replace=options.replace)
        Store(database).put_many(changed)
    say(f"{options.cache_dir}: {summary}")
    return 0


def _compare(database: Database, entries: Sequence[Entry], *, replace: bool) -> tuple[list[Entry], str]:
    """Return the entries to write, and a summary of new and existing ones."""
    changed: list[Entry] = []
    new = mended = same = other = 0
    for start in range(0, len(entries), CHUNK):
        chunk = entries[start : start + CHUNK]
        existing = present(database, [entry.key for entry in chunk])
        replies = Store(database).get_many(sorted(existing))
        for entry in chunk:
            cached = replies.get(entry.key)
            new += entry.key not in existing
            mended += entry.key in existing and cached is None
            same += cached == entry.reply
            other += cached is not None and cached != entry.reply
            if cached is None or (replace and cached != entry.reply):
                changed.append(entry)
    summary = [count(new, "new reply"), f"{same + other:,} there already"]
    if other:
        summary.append(
            f"of these {other:,} with another text, {'replaced' if replace else 'kept as they were'}"
        )
    if mended:
        summary.append(f"{count(mended, 'damaged entry')} replaced")
    return changed, ", ".join(summary)


def prune_command(options: argparse.Namespace) -> int:
    """Delete the replies that meet all conditions, and embeddings by age alone; damaged entries stay.

    Returns:
        0, even if there is nothing to delete.
    """
    if options.older_than is None and not options.model and not options.cut:
        raise InputError(
            "No condition says what to delete, and nothing was.\n"
            "Give one or more of --older-than DAYS, --model NAME and --cut; all of them must hold."
        )
    if options.cassette is not None:
        if options.older_than is not None:
            raise InputError(
                "--older-than cannot be used with --cassette: a cassette has no dates.\nTake --older-than away."
            )
        _prune_cassette(options, options.cassette)
        return 0
    if not has_only_embeddings(options.cache_dir):
        _prune_replies(options, options.cache_dir)
    # No embedding is of a chat model, and none is cut.
    if options.older_than is not None and not options.model and not options.cut:
        _prune_embeddings(options, options.cache_dir)
    return 0


def _prune_replies(options: argparse.Namespace, directory: Path) -> None:
    before, dry = bytes_on_disk(directory), options.dry_run
    with open_cache(directory, write=not dry) as database:
        # One transaction: a reply that another process writes meanwhile is not deleted unseen.
        with contextlib.nullcontext() if dry else database.transaction():
            good = _good(inspect(database))
            selected = _selected(good, options)
            if not dry:
                Store(database).delete_many([entry.key for entry in selected])
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


def _prune_cassette(options: argparse.Namespace, path: Path) -> None:
    entries = list(cassette_entries(path).values())
    selected = _selected(entries, options)
    _say_deleted(entries, selected, options, path)
    if selected and not options.dry_run:
        for notice in check_cassette(path).notices:
            note(f"{path}: {notice}; the file is rewritten, one line a request, in order")
        deleted = {entry.key for entry in selected}
        write_cassette(path, [entry for entry in entries if entry.key not in deleted])


def _prune_embeddings(options: argparse.Namespace, directory: Path) -> None:
    kept = embeddings_survey(directory)
    if kept is None:
        return
    limit = _limit(options)
    dry = options.dry_run
    old = sum(written < limit for written in kept.written) if dry else delete_older(directory, limit)
    say(f"{directory}: {old:,} of {count(kept.embeddings, 'embedding')} {_deleted(options)}")


def _limit(options: argparse.Namespace) -> float:
    """The date before which entries are old; infinity without a condition on age."""
    return math.inf if options.older_than is None else time.time() - options.older_than * DAY_S


def _selected(entries: Sequence[Entry], options: argparse.Namespace) -> list[Entry]:
    """The entries that meet all conditions."""
    limit = _limit(options)
    return [
        entry
        for entry in entries
        if entry.written < limit
        and (not options.model or model_of(entry)[0] in options.model)
        and (not options.cut or entry.reply.cut)
    ]


def _say_deleted(
    entries: Sequence[Entry], selected: Sequence[Entry], options: argparse.Namespace, place: Path
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


def _good(entries: Iterable[Entry | Damaged]) -> list[Entry]:
    good, damaged = split_damaged(entries)
    if damaged:
        note(
            f"{count(len(damaged), 'damaged entry')} not looked at; `rageval cache verify` lists such entries, and "
            "with --repair deletes them."
        )
    return good
