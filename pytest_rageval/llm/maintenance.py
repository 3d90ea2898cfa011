"""Maintenance of the reply cache: its contents by model, and entries that are damaged.

A run stops at a damaged entry; maintenance names it and goes on to the next.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_rageval.llm.messages import Reply, read_outline
from pytest_rageval.llm.store import Database, Entry, Store

__all__ = [
    "COLUMNS",
    "Damaged",
    "ModelUse",
    "file_faults",
    "inspect",
    "leases",
    "model_of",
    "present",
    "repair",
    "schema",
    "uses",
]

COLUMNS: Final = {
    "key": "text",
    "text": "text",
    "model": "text",
    "finish_reason": "text",
    "tokens_in": "integer",
    "tokens_out": "integer",
    "refusal": "text",
    "tool_calls": "text",
    "without": "text",
    "checksum": "integer",
    "outline": "text",
    "written": "real",
}
"""Of the table of replies, in order, with the only kind of value that each may hold."""

BESIDE: Final = {"outline", "written"}
"""Columns that say something of a reply, and are no part of it."""

YEAR_10000: Final = 253_402_300_800
"""In seconds since 1970: no date from there on can be written down."""

CHUNK: Final = 256
"""Entries looked at together."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """An entry that is not as it was written.

    Attributes:
        key: as it stands in the file; bytes where it is no text.
        why: what is wrong, one item a fault.
        rest: the entry without what is damaged, where its reply is whole; None where it is not.
    """

    key: str | bytes
    why: tuple[str, ...]
    rest: Entry | None = None


@dataclass(slots=True)
class ModelUse:
    """What one model has in a cache.

    Attributes:
        model: as it was asked for; as the server names it where that is not known.
        base_url: of its server; empty where it is not known.
        replies: how many.
        tokens_in: of their prompts together.
        tokens_out: of them together.
        cut: how many of them the token limit ended.
    """

    model: str
    base_url: str
    replies: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cut: int = 0


def inspect(database: Database) -> Iterator[Entry | Damaged]:
    """Every entry by key, good or damaged.

    Raises:
        StoreError: SQLite itself cannot read on; what came before is right.
    """
    # As bytes: Python would refuse a whole row for one text that is not UTF-8.
    columns = ", ".join(
        f"typeof({name}), CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END"
        for name in COLUMNS
    )
    cursor = database.execute(f"SELECT {columns} FROM replies ORDER BY key")  # noqa: S608 - our own names
    store = Store(database)
    while True:
        with database.mapped():
            rows = cursor.fetchmany(CHUNK)
        if not rows:
            return
        read = [_read(row) for row in rows]
        kept = store.get_many([values["key"] for values, faults in read if not faults.keys() - BESIDE])
        yield from (_judged(values, faults, kept) for values, faults in read)


def present(database: Database, keys: Sequence[str]) -> set[str]:
    """Those of the keys that have an entry, good or damaged."""
    rows = database.rows(
        "SELECT key FROM replies WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),)
    )
    return {key for (key,) in rows}


def repair(database: Database, damaged: Iterable[Damaged]) -> None:
    """Delete damaged entries; one whose reply is whole keeps that. Call it in a transaction."""
    for entry in damaged:
        if entry.rest is not None:
            Store(database).put_many([entry.rest])
        elif isinstance(entry.key, str):
            database.execute("DELETE FROM replies WHERE key = ?", (entry.key,))
        else:
            # Bytes in the file, or a text that is not UTF-8 and so came as bytes.
            database.execute(
                "DELETE FROM replies WHERE key = ? OR key = CAST(? AS TEXT)", (entry.key, entry.key)
            )


def file_faults(database: Database) -> list[str]:
    """What SQLite finds wrong with the file, beyond single entries; empty when all is well.

    Raises:
        StoreError: so much is wrong that it cannot even look.
    """
    found = [str(line) for (line,) in database.rows("PRAGMA integrity_check")]
    return [] if found == ["ok"] else found


def schema(database: Database) -> int:
    """The number of the tables' form."""
    return int(database.rows("PRAGMA user_version")[0][0])


def leases(database: Database) -> int:
    """How many requests are under way by runs that go on, or were when their run was killed."""
    return int(database.rows("SELECT count(*) FROM leases")[0][0])


def model_of(entry: Entry) -> tuple[str, str]:
    """Model and base_url of a request; where they are not known, the server's own name and nothing."""
    model, base_url = entry.outline.get("model"), entry.outline.get("base_url")
    if not isinstance(model, str):
        return entry.reply.model, ""
    return model, base_url if isinstance(base_url, str) else ""


def uses(entries: Iterable[Entry]) -> list[ModelUse]:
    """What each model has in these entries, by name."""
    found: dict[tuple[str, str], ModelUse] = {}
    for entry in entries:
        name = model_of(entry)
        use = found.setdefault(name, ModelUse(*name))
        use.replies += 1
        use.tokens_in += entry.reply.tokens_in
        use.tokens_out += entry.reply.tokens_out
        use.cut += entry.reply.cut
    return [found[name] for name in sorted(found)]


def _read(row: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of a row by column, and the faults of those that are not as they must be."""
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for (name, expected), kind, value in zip(COLUMNS.items(), row[::2], row[1::2], strict=True):
        values[name] = value
        if kind != expected:
            faults[name] = f"{name} is {kind}, expected {expected}"
        elif expected == "text":
            try:
                values[name] = value.decode("utf-8")
            except UnicodeDecodeError:
                faults[name] = f"{name} is not UTF-8"
    if "written" not in faults and not 0 <= values["written"] < YEAR_10000:
        faults["written"] = f"written is {values['written']}, expected seconds since 1970"
    if "outline" not in faults:
        values["outline"] = _object(values["outline"])
        if values["outline"] is None:
            faults["outline"] = "outline is no JSON object"
    return values, faults


def _judged(
    values: Mapping[str, Any], faults: Mapping[str, str], kept: Mapping[str, Reply]
) -> Entry | Damaged:
    why = tuple(faults.values())
    if faults.keys() - BESIDE:
        return Damaged(values["key"], why)
    key: str = values["key"]
    if key not in kept:
        return Damaged(key, (*why, "the checksum is not that of the contents"))
    outline = {} if "outline" in faults else read_outline(values["outline"])
    entry = Entry(key, kept[key], outline, 0.0 if "written" in faults else values["written"])
    return Damaged(key, why, entry) if why else entry


def _object(text: str) -> dict[str, Any] | None:
    try:
        outline = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return outline if isinstance(outline, dict) else None
