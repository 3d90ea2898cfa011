"""Replies on disk, by key: what a project's reply cache holds.

Plain columns in SQLite: nothing is unpickled (cache folders are restored from
elsewhere in CI, and unpickling runs code), and nothing is evicted (a reply was
paid for).
"""

import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_rageval.llm.database import Database
from pytest_rageval.llm.outline import RUN, read_outline
from pytest_rageval.llm.reply import Reply

__all__ = ["Entry", "Store"]

COLUMNS: Final = "key, text, model, finish_reason, tokens_in, tokens_out, refusal, tool_calls, without"

KINDS: Final = (str, str, str, str, int, int, str, str, str, int)
"""Of these columns and the checksum, as SQLite gives them."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A reply as it is kept.

    Attributes:
        key: of the request.
        reply: to it.
        outline: of the request, as far as it is known; see `pytest_rageval.llm.outline`.
        written: when it was kept, in seconds since 1970.
    """

    key: str
    reply: Reply
    outline: Mapping[str, Any] = field(default_factory=dict)
    written: float = 0.0


class Store:
    """The table of replies.

    An entry that is not as it was written is passed over, as if it were not there.

    Attributes:
        damaged: keys of the entries that were passed over.

    Raises:
        StoreError: from any method, when the file cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.damaged: set[str] = set()

    def get_many(self, keys: Sequence[str], *, run: str = "", asked_in_run: bool = False) -> dict[str, Reply]:
        """The replies kept under these keys; a key without one is not in the result.

        Args:
            keys: any number.
            run: of the silent replies, only those that this run asked for count; empty for those of all runs.
            asked_in_run: whether that holds for every reply.
        """
        rows = self._database.rows(
            # In order, neighbours are on the same page of the file. The outline is read where it decides.
            f"SELECT {COLUMNS}, checksum, CASE WHEN ? OR text < '!' THEN outline END FROM replies "  # noqa: S608 - our own names
            "WHERE key IN (SELECT value FROM json_each(?))",
            (asked_in_run, json.dumps(sorted(keys))),
        )
        found = {}
        for row in rows:
            reply = self._reply(row)
            if reply is None or ((asked_in_run or (run and reply.silent)) and _run(row[10]) != run):
                continue
            found[row[0]] = reply
        return found

    def put_many(self, entries: Iterable[Entry], *, run: str = "") -> None:
        """Keep replies; call it in a transaction.

        When that has ended other processes see them, and this one may be killed.

        Args:
            entries: any number.
            run: that asked for them; empty where that is not known.
        """
        now, asked = time.time(), {RUN: run} if run else {}
        rows = [
            (*row, _checksum(row), json.dumps({**entry.outline, **asked}), entry.written or now)
            for entry in entries
            for row in [_row(entry)]
        ]
        self._database.execute_many(
            f"INSERT OR REPLACE INTO replies ({COLUMNS}, checksum, outline, written) "  # noqa: S608 - our own names
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def entries(self) -> Iterator[Entry]:
        """Everything that is kept, by key."""
        self._database.read_any_text()
        rows = self._database.execute(
            f"SELECT {COLUMNS}, checksum, outline, written FROM replies ORDER BY key"  # noqa: S608 - our own names
        )
        with self._database.mapped():
            for row in rows:
                reply = self._reply(row)
                if reply is not None:
                    yield Entry(row[0], reply, _outline(row[10]), row[11])

    def delete_many(self, keys: Iterable[str]) -> None:
        """Forget replies; call it in a transaction."""
        self._database.execute_many("DELETE FROM replies WHERE key = ?", [(key,) for key in keys])

    def _reply(self, row: tuple[Any, ...]) -> Reply | None:
        """The reply in a row; None where it is damaged: a pickle that was planted, a byte that has turned."""
        kinds = tuple(map(type, row[:10])) == KINDS
        if kinds and row[9] == _checksum(row) and row[4] >= 0 <= row[5]:
            return Reply(*row[1:9])
        self.damaged.add(str(row[0]))
        return None


def _row(entry: Entry) -> tuple[str | int, ...]:
    reply = entry.reply
    return (
        entry.key,
        reply.text,
        reply.model,
        reply.finish_reason,
        reply.tokens_in,
        reply.tokens_out,
        reply.refusal,
        reply.tool_calls,
        reply.without,
    )


def _checksum(row: tuple[Any, ...]) -> int:
    """Over kinds and contents of the columns; against accidents, not against forgery."""
    return zlib.crc32(repr(row[:9]).encode("utf-8", "surrogatepass"))


def _outline(text: object) -> Mapping[str, Any]:
    """What a row says of its request; nothing where that is unreadable: it only explains."""
    return read_outline(_parsed(text))


def _run(text: object) -> object:
    """The run that asked, as far as a row says."""
    outline = _parsed(text)
    return outline.get(RUN) if isinstance(outline, dict) else None


def _parsed(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
