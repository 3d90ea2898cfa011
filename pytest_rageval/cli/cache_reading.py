"""`rageval cache info` and `export`: what the cache holds, and its replies as a cassette."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytest_rageval.cli.cache_folder import (
    BrokenCacheError,
    bytes_on_disk,
    embeddings_survey,
    has_only_embeddings,
    known_models,
    models_table,
    open_cache,
    split_damaged,
)
from pytest_rageval.cli.output import count, date, note, plain, say, size
from pytest_rageval.errors import InputError
from pytest_rageval.llm.cassette import write_cassette
from pytest_rageval.llm.maintenance import Damaged, file_faults, inspect, model_of, schema, uses
from pytest_rageval.llm.store import FILE, Entry

__all__ = ["export_command", "info_command"]


def info_command(options: argparse.Namespace) -> int:
    """Print replies and tokens by model, and the number of embeddings.

    Returns:
        0, even if entries are damaged: they are counted separately.
    """
    directory = options.cache_dir
    contents = _Contents() if has_only_embeddings(directory) else _contents(directory)
    if options.json:
        say(json.dumps(_info_document(directory, contents), indent=2))
        return 0
    if contents.schema is not None:
        _say_replies(directory, contents)
    kept = embeddings_survey(directory)
    if kept is not None:
        dates = _span(kept.written)
        say(
            f"{directory}: {count(kept.embeddings, 'embedding')}, {size(kept.bytes)} on disk{dates and f'; {dates}'}"
        )
        if kept.damaged:
            note(
                f"{count(kept.damaged, 'damaged embedding')} not counted. "
                "`rageval cache verify --repair` deletes damaged embeddings."
            )
    return 0


@dataclass(frozen=True, slots=True)
class _Contents:
    """A reply cache: bytes on disk, version of the schema (None: there is no cache), and entries."""

    total: int = 0
    schema: int | None = None
    good: list[Entry] = field(default_factory=list)
    damaged: list[Damaged] = field(default_factory=list)


def _contents(directory: Path) -> _Contents:
    # Measured first: SQLite adds files while it is open.
    total = bytes_on_disk(directory)
    with open_cache(directory) as database:
        return _Contents(total, schema(database), *split_damaged(inspect(database)))


def _say_replies(directory: Path, contents: _Contents) -> None:
    good, damaged = contents.good, contents.damaged
    say(f"{directory}: {count(len(good), 'reply')}, {size(contents.total)} on disk, schema {contents.schema}")
    if good:
        say(f"{_span([entry.written for entry in good])}\n\n{models_table(good)}")
    if damaged:
        note(f"{count(len(damaged), 'entry')} not counted: damaged. `rageval cache verify` lists them.")


def _span(dates: Sequence[float]) -> str:
    return f"the oldest kept {date(min(dates))}, the newest {date(max(dates))}" if dates else ""


def _info_document(directory: Path, contents: _Contents) -> dict[str, Any]:
    kept = embeddings_survey(directory)
    return {
        "directory": str(directory),
        "schema": contents.schema,
        "bytes": contents.total,
        "replies": len(contents.good),
        "damaged": len(contents.damaged),
        **_oldest_and_newest([entry.written for entry in contents.good]),
        "models": [asdict(use) for use in uses(contents.good)],
        "embeddings": None
        if kept is None
        else {
            "bytes": kept.bytes,
            "embeddings": kept.embeddings,
            "damaged": kept.damaged,
            **_oldest_and_newest(kept.written),
        },
    }


def _oldest_and_newest(dates: Sequence[float]) -> dict[str, str | None]:
    return {"oldest": date(min(dates)) if dates else None, "newest": date(max(dates)) if dates else None}


def export_command(options: argparse.Namespace) -> int:
    """Write the replies to a cassette. Of a damaged file, write what SQLite reads before it fails.

    Returns:
        0; 1 if something in the cache could not be read.
    """
    file, directory = options.file, options.cache_dir
    if file.exists() and not options.force:
        raise InputError(f"{file} exists already, nothing was written.\nName another file, or add --force.")
    entries, failure = _readable_entries(directory)
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
            + (f", and bring the replies back with `rageval cache import {file}`." if good else ".")
        )
    if (damaged or failure) and not good:
        note(f"No reply could be read, {file} was not written.")
        return 1
    silent = sum(entry.reply.silent for entry in good)
    if silent:
        note(f"left out: {count(silent, 'empty reply')}, which a run asks for again")
        good = [entry for entry in good if not entry.reply.silent]
    written = _of_models(good, options.model, directory)
    write_cassette(file, written)
    omitted = sum(entry.rest is None for entry in damaged)
    say(
        f"{file}: {count(len(written), 'reply')} written"
        + (f", {count(omitted, 'damaged entry')} left out" if omitted else "")
    )
    return 1 if damaged or failure else 0


def _readable_entries(directory: Path) -> tuple[list[Entry | Damaged], str]:
    """The entries that SQLite reads, and the damage to the file as a whole; empty if it is sound."""
    entries: list[Entry | Damaged] = []
    try:
        with open_cache(directory, replies_only=True) as database:
            entries.extend(inspect(database))
            # Entries can be missing without an error, if a page has lost count of them.
            return entries, "; ".join(map(plain, file_faults(database)))
    except BrokenCacheError as error:
        return entries, error.why


def _of_models(entries: list[Entry], models: Sequence[str] | None, directory: Path) -> list[Entry]:
    if not models:
        return entries
    known = {model_of(entry)[0] for entry in entries}
    for name in models:
        if name not in known:
            raise InputError(
                f"{directory} has no reply of model {plain(name)}, nothing was written; "
                f"it has replies of: {known_models(entries)}.\nNames are as `rageval cache info` shows them."
            )
    return [entry for entry in entries if model_of(entry)[0] in models]
