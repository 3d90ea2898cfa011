"""The reply cache on disk."""

import pickle
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from diskcache import Cache
from diskcache.core import MODE_BINARY, MODE_PICKLE, MODE_RAW, MODE_TEXT

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.reply import Reply
from pytest_rageval.llm.store import Store

REPLY = Reply("c7 – „ja“\n\x00", "m", "stop", 12, 3)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens stores on one folder, and closes them."""
    stores: list[Store] = []

    def open_store() -> Store:
        stores.append(Store(tmp_path / "cache"))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def _plant(folder: Path, mode: int, value: object, filename: str | None = None) -> None:
    """Write an entry into the database, as someone who can write to the folder could."""
    with sqlite3.connect(folder / "cache.db") as database:
        database.execute(
            "INSERT INTO Cache (key, raw, store_time, expire_time, access_time, access_count, tag, size, mode,"
            " filename, value) VALUES ('k', 1, 0, NULL, 0, 0, NULL, 0, ?, ?, ?)",
            (mode, filename, value),
        )
    database.close()


class _Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def test_a_reply_is_found_again(opened: Callable[[], Store]) -> None:
    """In this process and, on the same folder, in the next."""
    store = opened()
    assert store.get("k") is None
    store.put("k", REPLY)
    assert store.get("k") == REPLY
    store.close()
    assert opened().get("k") == REPLY


def test_a_later_reply_replaces_the_former(opened: Callable[[], Store]) -> None:
    """One reply a key."""
    store = opened()
    store.put("k", REPLY)
    store.put("k", Reply("other"))
    assert store.get("k") == Reply("other")


def test_a_large_reply_stays_in_the_database(opened: Callable[[], Store], tmp_path: Path) -> None:
    """No files of their own, whatever the size."""
    opened().put("k", Reply("x" * 1_000_000))
    names = {path.name for path in (tmp_path / "cache").rglob("*")}
    assert names <= {".gitignore", "cache.db", "cache.db-wal", "cache.db-shm"}
    assert opened().get("k") == Reply("x" * 1_000_000)


def test_the_folder_keeps_itself_out_of_git(opened: Callable[[], Store], tmp_path: Path) -> None:
    """An existing .gitignore is left as it is."""
    opened()
    ignore = tmp_path / "cache" / ".gitignore"
    assert ignore.read_text(encoding="utf-8") == "*\n"
    ignore.write_text("!kept\n", encoding="utf-8")
    opened()
    assert ignore.read_text(encoding="utf-8") == "!kept\n"


def test_a_planted_pickle_is_refused_and_not_run(opened: Callable[[], Store], tmp_path: Path) -> None:
    """Cache folders are restored from elsewhere; reading one must run no code of theirs."""
    opened().close()
    mark = tmp_path / "it ran"
    bomb = pickle.dumps(_Bomb(mark))
    _plant(tmp_path / "cache", MODE_PICKLE, bomb)
    with pytest.raises(StoreError, match="not plain text"):
        opened().get("k")
    assert not mark.exists()
    pickle.loads(bomb)  # noqa: S301 - the bomb is a real one
    assert mark.exists()


@pytest.mark.parametrize(
    ("mode", "value", "filename"),
    [
        (MODE_RAW, b"bytes", None),
        (MODE_RAW, 7, None),
        (MODE_BINARY, None, "../secret"),
        (MODE_TEXT, None, "../secret"),
        (MODE_PICKLE, None, "../secret"),
        (MODE_RAW, REPLY.dumps(), "../secret"),
    ],
)
def test_entries_in_any_other_form_are_refused(
    opened: Callable[[], Store], tmp_path: Path, mode: int, value: object, filename: str | None
) -> None:
    """Bytes, numbers and files named by an entry are not read."""
    opened().close()
    (tmp_path / "secret").write_text(REPLY.dumps(), encoding="utf-8")
    _plant(tmp_path / "cache", mode, value, filename)
    with pytest.raises(StoreError, match="not plain text") as caught:
        opened().get("k")
    assert "--rageval-cache-dir" in str(caught.value)


def test_a_text_that_is_no_reply_is_refused(opened: Callable[[], Store], tmp_path: Path) -> None:
    """The error names the folder."""
    opened().close()
    _plant(tmp_path / "cache", MODE_RAW, '{"text": 5}')
    with pytest.raises(StoreError, match="'text' is 5, expected str") as caught:
        opened().get("k")
    assert str(tmp_path / "cache") in str(caught.value)


def test_nothing_is_ever_evicted(opened: Callable[[], Store], tmp_path: Path) -> None:
    """A reply was paid for: it stays, whatever size limit the folder had before."""
    before = Cache(
        str(tmp_path / "cache"), size_limit=1, cull_limit=100, eviction_policy="least-recently-stored"
    )
    before.close()
    store = opened()
    for number in range(50):
        store.put(str(number), REPLY)
    assert all(store.get(str(number)) == REPLY for number in range(50))


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    """The message names the folder and what to do."""
    place = tmp_path / "cache"
    place.write_text("a file", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        Store(place)
    assert str(caught.value).startswith(f"The reply cache in {place} cannot be used: FileExistsError")
    assert "--rageval-cache-dir" in str(caught.value)


def test_a_folder_below_a_file_is_an_error(tmp_path: Path) -> None:
    """It can never be made."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="NotADirectoryError"):
        Store(tmp_path / "file" / "cache")


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    """A broken download does not end in a traceback of SQLite's."""
    (tmp_path / "cache.db").write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(StoreError, match="DatabaseError"):
        Store(tmp_path)


def test_a_text_that_utf_8_cannot_hold_does_not_end_the_run(opened: Callable[[], Store]) -> None:
    """A server may send half a surrogate pair; it is kept, or refused as a StoreError, never a traceback."""
    store = opened()
    reply = Reply("\ud83d")
    try:
        store.put("k", reply)
    except StoreError as error:
        assert str(store.directory) in str(error)  # noqa: PT017 - either is right
    else:
        assert store.get("k") == reply
