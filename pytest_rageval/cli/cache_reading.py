"""The commands that only read the cache: `info` and `export`."""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from pytest_rageval.cli import cache_embeddings
from pytest_rageval.cli.cache_folder import BrokenCacheError, bytes_on_disk, opened
from pytest_rageval.cli.salvage import salvage
from pytest_rageval.cli.show import count, date, note, plain, say, size, table
from pytest_rageval.errors import InputError
from pytest_rageval.llm.cassette import write_cassette
from pytest_rageval.llm.database import FILE
from pytest_rageval.llm.store import Entry
from pytest_rageval.llm.upkeep import Damaged, ModelUse, file_faults, inspect, model_of, schema, uses

__all__ = ["export", "info", "known_models", "models_table"]


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
