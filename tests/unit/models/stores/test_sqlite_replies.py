"""Replies in SQLite: stored replies are found, and changed or damaged entries are refused."""

import pickle
import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_rageval.core.errors import StoreError
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.stores.sqlite_file import FILE, Database, ReplyTable
from tests.store_kinds import stored_entries

REPLY = Reply("c7 – „ja“\n\x00 \U0001f600", "m", "stop", 12, 3, "no", '[{"id": 1}]', "seed stop")
OUTLINE = {"model": "m", "parts": {"question": "ab"}}

Open = Callable[..., Database]


@pytest.fixture
def store(database: Database) -> ReplyTable:
    return ReplyTable(database)


def _put(store: ReplyTable, *entries: Entry, run: str = "") -> None:
    with store._database.transaction():
        store.put_many(entries, run=run)


def _planted(folder: Path, sql: str, *values: object) -> None:
    """Change the file, as anyone who can write to the folder could."""
    connection = sqlite3.connect(folder / FILE, isolation_level=None)
    assert connection.execute(sql, values).rowcount == 1
    connection.close()


class _Bomb:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def test_many_keys_are_one_question(store: ReplyTable) -> None:
    """A look-up may have more keys than SQLite has variables; missing and repeated keys are allowed."""
    keys = [f"{number:064x}" for number in range(40_000)]
    _put(store, *(Entry(key, Reply(key)) for key in keys[::10]))
    replies = store.get_many([*keys, *keys[:10]])
    assert replies == {key: Reply(key) for key in keys[::10]}
    assert store.get_many([]) == {}


def test_a_later_reply_replaces_the_former(store: ReplyTable) -> None:
    _put(store, Entry("k", REPLY, OUTLINE))
    _put(store, Entry("k", Reply("other"), {"model": "n"}))
    assert store.get_many(["k"]) == {"k": Reply("other")}
    assert [(entry.key, entry.summary) for entry in stored_entries(store._database)] == [
        ("k", {"model": "n"})
    ]


def test_replies_of_other_runs_do_not_count_where_all_is_asked_again(store: ReplyTable) -> None:
    """With `only_run`, only replies of that run are found, whatever their time."""
    _put(store, Entry("old", REPLY, written=1e12), run="1")
    _put(store, Entry("older", REPLY, written=1e12))
    _put(store, Entry("new", REPLY, {"model": "m"}, written=1.0), run="2")
    keys = ["old", "older", "new"]
    assert set(store.get_many(keys)) == set(store.get_many(keys, run="2")) == set(keys)
    assert set(store.get_many(keys, run="2", only_run=True)) == {"new"}
    assert store.get_many(keys, run="3", only_run=True) == {}
    # The name of the run is not in the summary.
    assert [entry.summary for entry in stored_entries(store._database)] == [{"model": "m"}, {}, {}]


@pytest.mark.parametrize("text", ["", " ", "\n", " \r\n\t "])
def test_an_empty_reply_counts_in_its_run(store: ReplyTable, text: str) -> None:
    _put(store, Entry("k", Reply(text)), run="1")
    _put(
        store,
        Entry("no", Reply(text, refusal="no")),
        Entry("cut", Reply(text, finish_reason="length")),
        run="1",
    )
    _put(store, Entry("calls", Reply(text, tool_calls="[]")), run="1")
    assert set(store.get_many(["k", "no", "cut", "calls"], run="1")) == {"k", "no", "cut", "calls"}
    assert set(store.get_many(["k", "no", "cut", "calls"], run="2")) == {"calls"}


def test_a_large_reply_stays_in_the_database(store: ReplyTable, tmp_path: Path) -> None:
    _put(store, Entry("k", Reply("x" * 1_000_000)))
    names = {path.name for path in (tmp_path / "cache").rglob("*")}
    assert names <= {".gitignore", FILE, f"{FILE}-wal", f"{FILE}-shm"}


@pytest.mark.parametrize("column", ["text", "model", "tool_calls", "tokens_in"])
def test_a_planted_pickle_is_refused_and_not_run(store: ReplyTable, tmp_path: Path, column: str) -> None:
    _put(store, Entry("k", REPLY))
    mark = tmp_path / "it ran"
    bomb = pickle.dumps(_Bomb(mark))
    _planted(tmp_path / "cache", f"UPDATE replies SET {column} = ?", bomb)  # noqa: S608 - from the list above
    assert store.get_many(["k"]) == {}
    assert stored_entries(store._database) == []
    assert store.damaged == {"k"}
    assert not mark.exists()
    pickle.loads(bomb)  # noqa: S301 - shows that the pickle does run code
    assert mark.exists()


def test_a_planted_row_is_passed_over(store: ReplyTable, tmp_path: Path) -> None:
    """A row with a pickle instead of a text, and an invented checksum, counts as damaged."""
    mark = tmp_path / "it ran"
    _planted(
        tmp_path / "cache",
        "INSERT INTO replies VALUES ('k', ?, 'm', 'stop', 1, 1, '', '', '', 7, '{}', 0)",
        pickle.dumps(_Bomb(mark)),
    )
    assert store.get_many(["k"]) == {}
    assert store.damaged == {"k"}
    assert not mark.exists()


@pytest.mark.parametrize(
    "change",
    [
        "text = 'c8'",
        "text = CAST(text AS BLOB)",
        "text = text || ' '",
        "model = 'M'",
        "finish_reason = 'length'",
        "tokens_in = 13",
        "tokens_out = 'three'",
        "refusal = ''",
        "tool_calls = '[]'",
        "without = ''",
        "checksum = checksum + 1",
        "key = 'j'",
    ],
)
def test_a_changed_entry_is_refused(store: ReplyTable, tmp_path: Path, change: str) -> None:
    _put(store, Entry("k", replace(REPLY, text="c7")))
    _planted(tmp_path / "cache", f"UPDATE replies SET {change}")  # noqa: S608 - from the list above
    assert store.get_many(["k", "j"]) == {}
    assert len(store.damaged) == 1
    _put(store, Entry("k", REPLY), Entry("j", REPLY))
    assert store.get_many(["k", "j"]) == {"k": REPLY, "j": REPLY}


@pytest.mark.parametrize(
    "row",
    [
        ("k", "x", "m", "stop", -1, 1, "", "", ""),
        ("k", "x", "m", "stop", 1, -1, "", "", ""),
        ("k", "x", "m", "stop", 1.5, 1, "", "", ""),
        ("k", "x", "m", "stop", "one", 1, "", "", ""),
        ("k", b"x", "m", "stop", 1, 1, "", "", ""),
        ("k", "x", 7, "stop", 1, 1, "", "", ""),
        ("k", "x", "m", "stop", 1, 1, "", b"[]", ""),
    ],
    ids=str,
)
def test_an_entry_of_wrong_kinds_is_passed_over_whatever_its_checksum(store, tmp_path, row):
    """The checksum protects from accidents; forging one only leads to a new request."""
    _planted(
        tmp_path / "cache",
        "INSERT INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '{}', 0)",
        *row,
        zlib.crc32(repr(row).encode()),
    )
    assert store.get_many(["k"]) == {}
    assert store.damaged == {"k"}


def test_a_byte_that_turned_on_the_disk_is_noticed(databases: Open, tmp_path: Path) -> None:
    database = databases()
    _put(ReplyTable(database), Entry("k", Reply("the answer is forty-two")))
    database.close()
    file = tmp_path / "cache" / FILE
    content = file.read_bytes()
    assert content.count(b"forty-two") == 1
    file.write_bytes(content.replace(b"forty-two", b"forty-tvo"))
    store = ReplyTable(databases())
    assert store.get_many(["k"]) == {}
    assert store.damaged == {"k"}


@pytest.mark.parametrize(
    "outline",
    ["", "{", "[]", "7", b"\x80\x04N.", '{"model": ["m"]}', '{"parts": "all"}', "[" * 100_000],
    ids=lambda outline: str(outline)[:20],
)
def test_an_unreadable_outline_is_none(store: ReplyTable, tmp_path: Path, outline: object) -> None:
    _put(store, Entry("k", REPLY, OUTLINE))
    _planted(tmp_path / "cache", "UPDATE replies SET outline = ?", outline)
    assert store.get_many(["k"]) == {"k": REPLY}
    assert [entry.summary for entry in stored_entries(store._database)] == [{}]


@pytest.mark.parametrize("entry", [Entry("k", Reply("\ud83d")), Entry("k", Reply("x", tokens_in=2**63))])
def test_what_sqlite_cannot_hold_is_a_store_error(store: ReplyTable, entry: Entry) -> None:
    with pytest.raises(StoreError):
        _put(store, Entry("j", REPLY), entry)
    assert store.get_many(["j", "k"]) == {}
