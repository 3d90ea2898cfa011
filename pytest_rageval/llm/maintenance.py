"""Functions for `rageval cache`: the contents of the cache by model, and its damaged entries."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_rageval.llm.messages import Reply, read_summary
from pytest_rageval.llm.stores.interface import Damaged, Entry
from pytest_rageval.llm.stores.sqlite_file import COLUMNS, Database, ReplyTable, stored_summary

__all__ = [
    "ModelUse",
    "count_claims",
    "existing_keys",
    "file_faults",
    "inspect_entries",
    "model_of",
    "model_uses",
    "repair",
    "schema_version",
]
SQLITE_TYPES: Final = {str: "text", int: "integer", float: "real"}

METADATA: Final = {"outline", "written"}
"""Columns that only describe a reply; if no other column is damaged, the reply is still good."""

YEAR_10000: Final = 253_402_300_800  # in seconds since 1970; Python cannot format later dates
CHUNK: Final = 256  # how many entries are read at once


@dataclass(slots=True)
class ModelUse:
    """The number of replies of one model (see `model_of`) in a cache, and their tokens."""

    model: str
    base_url: str
    replies: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cut: int = 0  # replies that the token limit cut


def inspect_entries(database: Database, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
    """Yield all entries, or the entries with these keys, good or damaged, sorted by key.

    Raises:
        StoreError: the file is too damaged for SQLite.
    """
    # Text is read as bytes: Python would raise an error for a row with one text that is not UTF-8.
    columns = ", ".join(
        f"typeof({name}), CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END"
        for name in COLUMNS
    )
    condition, parameters = (
        ("", ())
        if keys is None
        else (" WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),))
    )
    sql = f"SELECT {columns} FROM replies{condition} ORDER BY key"  # noqa: S608 - our own names
    cursor = database.execute(sql, parameters)
    table = ReplyTable(database)
    while True:
        with database.map_errors():
            rows = cursor.fetchmany(CHUNK)
        if not rows:
            return
        checked = [_check_columns(row) for row in rows]
        replies = table.get_many(
            [values["key"] for values, faults in checked if not faults.keys() - METADATA]
        )
        yield from (_entry(values, faults, replies) for values, faults in checked)


def existing_keys(database: Database, keys: Sequence[str]) -> set[str]:
    """Return the keys with an entry, good or damaged."""
    rows = database.rows(
        "SELECT key FROM replies WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),)
    )
    return {key for (key,) in rows}


def repair(database: Database, damaged: Iterable[Damaged]) -> None:
    """Delete damaged entries, but keep their good replies; call this function in a transaction."""
    for entry in damaged:
        if entry.rest is not None:
            ReplyTable(database).put_many([entry.rest])
        elif isinstance(entry.key, str):
            database.execute("DELETE FROM replies WHERE key = ?", (entry.key,))
        else:
            # The key is a blob in the file, or text that is not UTF-8 and was read as bytes.
            database.execute(
                "DELETE FROM replies WHERE key = ? OR key = CAST(? AS TEXT)", (entry.key, entry.key)
            )


def file_faults(database: Database) -> list[str]:
    """Return the faults that SQLite's integrity check finds; StoreError if the file is too damaged for the check."""
    faults = [str(line) for (line,) in database.rows("PRAGMA integrity_check")]
    return [] if faults == ["ok"] else faults


def schema_version(database: Database) -> int:
    """Return the version of the database schema."""
    return int(database.rows("PRAGMA user_version")[0][0])


def count_claims(database: Database) -> int:
    """Return the number of claims of running and killed runs."""
    return int(database.rows("SELECT count(*) FROM leases")[0][0])


def model_of(entry: Entry) -> tuple[str, str]:
    """Return model and base URL of a request; if they are not stored, the server's name for the model and ""."""
    model, base_url = entry.summary.get("model"), entry.summary.get("base_url")
    return (entry.reply.model, "") if model is None else (model, base_url or "")


def model_uses(entries: Iterable[Entry]) -> list[ModelUse]:
    """Return the totals of each model, sorted by model and base URL."""
    by_name: dict[tuple[str, str], ModelUse] = {}
    for entry in entries:
        name = model_of(entry)
        use = by_name.setdefault(name, ModelUse(*name))
        use.replies += 1
        use.tokens_in += entry.reply.tokens_in
        use.tokens_out += entry.reply.tokens_out
        use.cut += entry.reply.cut
    return [by_name[name] for name in sorted(by_name)]


def _check_columns(row: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values in a row of `inspect_entries` and their faults, both by column."""
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for (name, expected), kind, value in zip(COLUMNS.items(), row[::2], row[1::2], strict=True):
        values[name] = value
        if kind != SQLITE_TYPES[expected]:
            faults[name] = f"{name} is {kind}, expected {SQLITE_TYPES[expected]}"
        elif kind == "text":
            try:
                values[name] = value.decode("utf-8")
            except UnicodeDecodeError:
                faults[name] = f"{name} is not UTF-8"
    if "written" not in faults and not 0 <= values["written"] < YEAR_10000:
        faults["written"] = f"written is {values['written']}, expected seconds since 1970"
    if "outline" not in faults:
        values["outline"] = stored_summary(values["outline"])
        if values["outline"] is None:
            faults["outline"] = "outline is not a JSON object"
    return values, faults


def _entry(
    values: Mapping[str, Any], faults: Mapping[str, str], replies: Mapping[str, Reply]
) -> Entry | Damaged:
    key, why = values["key"], tuple(faults.values())
    if faults.keys() - METADATA:
        return Damaged(key, why)
    if key not in replies:
        return Damaged(key, (*why, "the checksum is not that of the contents"))
    summary = {} if "outline" in faults else read_summary(values["outline"])
    entry = Entry(key, replies[key], summary, 0.0 if "written" in faults else values["written"])
    return Damaged(key, why, entry) if why else entry
