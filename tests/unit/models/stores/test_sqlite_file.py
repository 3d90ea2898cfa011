"""The file of the reply cache: how it is opened, and invalid files in its place."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.core.errors import StoreError
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores import sqlite_file
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.stores.sqlite_file import FILE, Database, ReplyTable

Open = Callable[..., Database]
Start = Callable[..., subprocess.Popen[str]]

PUT = """
import sys
from pathlib import Path
from pytest_rageval.models.stores.sqlite_file import Database
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores import sqlite_file
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.stores.sqlite_file import ReplyTable
"""


def _kept(database: Database, *keys: str) -> None:
    with database.transaction():
        ReplyTable(database).put_many(Entry(key, Reply(key)) for key in keys)


def _found(database: Database, *keys: str) -> set[str]:
    return set(ReplyTable(database).get_many(keys))


def _changed(folder: Path, sql: str) -> None:
    connection = sqlite3.connect(folder / FILE, isolation_level=None)
    connection.execute(sql)
    connection.close()


def _readonly_mounts() -> bool:
    tool = shutil.which("unshare")
    if tool is None:
        return False
    script = "mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp"
    return subprocess.run([tool, "-rm", "sh", "-c", script], capture_output=True, check=False).returncode == 0


def test_a_new_folder_is_made_with_its_tables(databases: Open, tmp_path: Path) -> None:
    folder = tmp_path / "above" / "cache"
    tables = databases(folder).rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    assert {name for (name,) in tables} == {"replies", "leases", "spending"}
    assert (folder / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_a_folder_of_the_users_stays_visible_to_git(databases: Open, tmp_path: Path) -> None:
    databases(tmp_path)
    assert not (tmp_path / ".gitignore").exists()


def test_the_folders_own_gitignore_is_left_as_it_is(databases: Open, tmp_path: Path) -> None:
    databases()
    ignore = tmp_path / "cache" / ".gitignore"
    ignore.write_text("!kept\n", encoding="utf-8")
    databases()
    assert ignore.read_text(encoding="utf-8") == "!kept\n"


def test_a_closed_database_is_one_file(databases: Open, tmp_path: Path) -> None:
    database = databases()
    _kept(database, "k")
    database.close()
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {FILE, ".gitignore"}


def test_a_folder_with_odd_characters_in_its_name(databases: Open, tmp_path: Path) -> None:
    """Characters of the path that are special in a URI, such as `%` and `?`, are not interpreted."""
    folder = tmp_path / "50% off? yes #1 – ü"
    _kept(databases(folder), "k")
    assert _found(databases(folder), "k") == {"k"}
    assert (folder / FILE).is_file()


def test_a_transaction_is_whole_or_not_at_all(database: Database) -> None:
    def fail() -> None:
        with database.transaction():
            ReplyTable(database).put_many([Entry("gone", Reply("x"))])
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    _kept(database, "k")
    assert _found(database, "gone", "k") == {"k"}


def test_others_see_a_transaction_when_it_has_ended(databases: Open) -> None:
    one, other = databases(), databases()
    with one.transaction():
        ReplyTable(one).put_many([Entry("k", Reply("x"))])
        assert _found(other, "k") == set()
    assert _found(other, "k") == {"k"}


def test_statements_that_are_wrong_are_store_errors(database: Database) -> None:
    for run in (database.execute, database.rows, lambda sql: database.execute_many(sql, [()])):
        with pytest.raises(StoreError, match="OperationalError"):
            run("SELECT nothing FROM nowhere")


@pytest.mark.parametrize("below", ["", "cache"])
def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("a file", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        Database(file / below)
    assert str(caught.value) == (
        f"The reply cache in {file / below} cannot be used: {file} is a file, not a folder.\n"
        "Name another folder with --rageval-cache DIR; or remove this file."
    )


def test_a_folder_that_cannot_be_created_has_no_replies_to_save(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"OSError: .*too long") as caught:
        Database(tmp_path / ("long" * 100))
    assert str(caught.value).endswith("\nName another folder with --rageval-cache DIR.")


def test_a_folder_in_the_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(StoreError, match="OperationalError: unable to open"):
        Database(tmp_path)


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    garbage = b"not a database, but long enough to look at" * 100
    (tmp_path / FILE).write_bytes(garbage)
    with pytest.raises(StoreError, match="DatabaseError: file is not a database"):
        Database(tmp_path)
    assert (tmp_path / FILE).read_bytes() == garbage


def test_an_empty_file_is_a_new_database(databases: Open, tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    _kept(databases(tmp_path), "k")
    assert _found(databases(tmp_path), "k") == {"k"}


@pytest.mark.parametrize("left", [0.3, 0.6, 0.9])
def test_a_truncated_file_is_an_error(databases: Open, tmp_path: Path, left: float) -> None:
    keys = [f"{number:064x}" for number in range(500)]
    database = databases()
    _kept(database, *keys)
    database.close()
    file = tmp_path / "cache" / FILE
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * left)])
    with pytest.raises(StoreError, match="DatabaseError: database disk image is malformed"):
        _found(databases(), *keys)


@pytest.mark.parametrize(
    "sql", ["CREATE TABLE mine (x)", "PRAGMA user_version = 7", "PRAGMA application_id = 7"]
)
def test_a_database_of_somebody_else_is_refused_and_left_alone(tmp_path: Path, sql: str) -> None:
    _changed(tmp_path, sql)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreError, match=f"its file {FILE} was not written by pytest-rageval"):
        Database(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_database_of_a_later_version_is_refused(databases: Open, tmp_path: Path) -> None:
    databases().close()
    _changed(tmp_path / "cache", "PRAGMA user_version = 2")
    with pytest.raises(StoreError, match=r"has schema 2, .* knows schema 1\.\n.*; or update"):
        databases()


def _folder_removed(folder: Path) -> None:
    # A running process may create the folder again during the removal.
    shutil.rmtree(folder, ignore_errors=True)


def _file_removed(folder: Path) -> None:
    (folder / FILE).unlink()


def _log_removed(folder: Path) -> None:
    (folder / f"{FILE}-wal").unlink(missing_ok=True)


def _index_removed(folder: Path) -> None:
    (folder / f"{FILE}-shm").unlink(missing_ok=True)


def _folder_moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def _file_replaced(folder: Path) -> None:
    shutil.rmtree(folder)
    with contextlib.closing(Database(folder)) as database:
        _kept(database, "theirs")


@pytest.mark.parametrize(
    "harm", [_folder_removed, _file_removed, _log_removed, _index_removed, _folder_moved, _file_replaced]
)
@pytest.mark.parametrize("use", ["read", "write", "close"])
def test_a_deleted_file_is_created_again_with_all_its_entries(databases, tmp_path, harm, use):
    folder = tmp_path / "cache"
    restored: list[None] = []
    database = Database(folder, restored=lambda: restored.append(None))
    _kept(database, "a", "b", "bad")
    database.execute("UPDATE replies SET text = CAST(x'ff' AS TEXT) WHERE key = 'bad'")
    database.execute("INSERT INTO leases VALUES ('l', 'o', 1)")
    database.execute("INSERT INTO spending VALUES ('r', 1, 2, 3, 4, 5)")
    harm(folder)
    for _ in range(2):
        if use == "read":
            assert _found(database, "a", "b", "bad") == {"a", "b"}
        elif use == "write":
            _kept(database, "c")
    database.close()
    assert len(restored) == 1
    now = databases()
    there = {"c"} if use == "write" else set()
    there |= {"theirs"} if harm is _file_replaced else set()
    assert _found(now, "a", "b", "bad", "c", "theirs") == {"a", "b"} | there
    assert now.rows("SELECT key FROM replies WHERE key = 'bad'") == [("bad",)]
    assert now.rows("SELECT * FROM leases") == [("l", "o", 1.0)]
    assert now.rows("SELECT * FROM spending") == [("r", 1, 2.0, 3.0, 4, 5.0)]


@pytest.mark.parametrize("harm", [_folder_removed, _file_removed])
def test_a_late_renewal_does_not_restore_a_released_lease(databases, tmp_path, harm):
    """If the file is removed, a lease that was released meanwhile is not restored, since nobody would release it."""
    first, second, third = databases(), databases(), databases()
    first.execute("INSERT INTO leases VALUES ('l', 'o', 1)")
    harm(tmp_path / "cache")
    with first.transaction():
        first.execute("DELETE FROM leases")
        ReplyTable(first).put_many([Entry("l", Reply("x"))])
    for database in (second, third):
        assert database.rows("SELECT * FROM leases") == []
        assert _found(database, "l") == {"l"}
    _kept(third, "new")
    assert _found(first, "new") == _found(second, "new") == {"new"}


@pytest.mark.slow
@pytest.mark.parametrize("harm", [_folder_removed, _file_removed, _log_removed])
def test_processes_that_write_while_the_file_is_removed_lose_nothing(start, databases, tmp_path, harm):
    code = f"""{PUT}
import time
database = Database(Path(sys.argv[1]))
for number in range(300):
    with database.transaction():
        ReplyTable(database).put_many([Entry(f"{{sys.argv[2]}}.{{number}}", Reply("x"))])
    if number % 50 == 0:
        print(number, flush=True)
    time.sleep(0.002)
database.close()
"""
    folder = tmp_path / "cache"
    processes = [start(code, folder, name) for name in "xyz"]
    for _ in range(4):
        for process in processes:
            process.stdout.readline()
        harm(folder)
    assert [process.communicate(timeout=120)[1] for process in processes] == [""] * 3
    wanted = {f"{name}.{number}" for name in "xyz" for number in range(300)}
    database = databases()
    assert _found(database, *wanted) == wanted
    assert database.rows("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.slow
def test_processes_that_open_a_new_folder_at_once(start: Start, tmp_path: Path) -> None:
    code = f"""{PUT}
folder, name = Path(sys.argv[1]), sys.argv[2]
print("here", flush=True)
import time
while not folder.with_name("go").exists():
    time.sleep(0.001)
database = Database(folder)
with database.transaction():
    ReplyTable(database).put_many([Entry(name, Reply(name))])
database.close()
"""
    folder = tmp_path / "cache"
    processes = [start(code, folder, number) for number in range(12)]
    for process in processes:
        assert process.stdout.readline() == "here\n"
    (tmp_path / "go").touch()
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    assert ends == [("", 0)] * 12
    database = Database(folder)
    assert _found(database, *map(str, range(12))) == {str(number) for number in range(12)}
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 4, 9, 20])
def test_a_killed_process_loses_nothing_that_it_had_committed(start, databases, tmp_path, after):
    code = f"""{PUT}
database = Database(Path(sys.argv[1]))
for number in range(1_000_000):
    with database.transaction():
        ReplyTable(database).put_many([Entry(f"{{number}}.{{part}}", Reply("x" * 5000)) for part in range(5)])
    print(number, flush=True)
"""
    process = start(code, tmp_path / "cache")
    printed_lines = [process.stdout.readline() for _ in range(after)]
    process.kill()
    printed_lines += process.stdout.read().splitlines()
    committed = [int(line) for line in printed_lines if line.strip()]
    stored_keys = _found(databases(), *(f"{n}.{part}" for n in range(committed[-1] + 3) for part in range(5)))
    assert stored_keys >= {f"{number}.{part}" for number in committed for part in range(5)}
    # A transaction, which has 5 replies, is stored as a whole or not at all.
    assert len(stored_keys) % 5 == 0


def test_a_full_disk_is_an_error_and_harms_nothing(start: Start, databases: Open, tmp_path: Path) -> None:
    _kept(databases(), "before")
    code = f"""{PUT}
import resource
from pytest_rageval.core.errors import StoreError
database = Database(Path(sys.argv[1]))
store = ReplyTable(database)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    with database.transaction():
        store.put_many([Entry("large", Reply("x" * 1_000_000))])
except StoreError as error:
    print(error)
print(sorted(store.get_many(["before", "large"])))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("go", flush=True)
import time
while not Path(sys.argv[2]).exists():
    time.sleep(0.01)
with database.transaction():
    store.put_many([Entry("after", Reply("x"))])
database.close()
"""
    process = start(code, tmp_path / "cache", tmp_path / "go")
    assert process.stdout is not None
    printed_lines = []
    for line in process.stdout:
        if line == "go\n":
            break
        printed_lines.append(line)
    assert printed_lines, process.communicate()[1]
    assert printed_lines[0].startswith(
        f"The reply cache in {tmp_path / 'cache'} cannot be used: OperationalError"
    )
    assert printed_lines[-1] == "['before']\n"
    # Other processes can write while that process is running.
    _kept(databases(), "meanwhile")
    (tmp_path / "go").touch()
    assert process.communicate(timeout=60)[1] == ""
    stored_keys = _found(databases(), "before", "meanwhile", "after", "large")
    assert stored_keys == {"before", "meanwhile", "after"}


READ_ONLY = f"""{PUT}
import os, subprocess, sys
from pytest_rageval.core.errors import StoreError
folder = sys.argv[1]
subprocess.run(["mount", "--bind", folder, folder], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
database = Database(Path(folder))
store = ReplyTable(database)
print(database.read_only, sorted(store.get_many(["a", "b"])))
try:
    with database.transaction():
        store.put_many([Entry("c", Reply("c"))])
except StoreError as error:
    print(error)
database.close()
"""


@pytest.mark.skipif(not _readonly_mounts(), reason="no folder can be mounted read-only here")
def test_a_read_only_folder_is_read(start: Start, databases: Open, tmp_path: Path) -> None:
    database = databases()
    _kept(database, "a")
    database.close()
    out, err = start(READ_ONLY, tmp_path / "cache", before=("unshare", "-rm")).communicate(timeout=60)
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "True ['a']"
    assert lines[1].startswith(
        f"The reply cache in {tmp_path / 'cache'} cannot be used: it cannot be written"
    )


@pytest.mark.skipif(not _readonly_mounts(), reason="no folder can be mounted read-only here")
def test_a_read_only_cache_is_complete_after_a_killed_run(start: Start, tmp_path: Path) -> None:
    """Committed replies that a killed process left in the log are read, even if the folder is read-only."""
    code = f"""{PUT}
database = Database(Path(sys.argv[1]))
for key in "ab":
    with database.transaction():
        ReplyTable(database).put_many([Entry(key, Reply(key))])
print("done", flush=True)
__import__("time").sleep(60)
"""
    writer = start(code, tmp_path / "cache")
    assert writer.stdout.readline() == "done\n"
    writer.kill()
    writer.wait()
    out, err = start(READ_ONLY, tmp_path / "cache", before=("unshare", "-rm")).communicate(timeout=60)
    assert err == ""
    assert out.splitlines()[0] == "True ['a', 'b']"


LOCK_HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
"""


def test_a_long_lock_is_not_taken_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "WAIT_S", 0.1)
    database = Database(tmp_path)
    command = [sys.executable, "-c", LOCK_HOLDER, str(tmp_path / FILE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(
            StoreError, match=r"another process.* has locked its file .* for more than 0\.1 s"
        ) as caught:
            database.execute("BEGIN IMMEDIATE")
        assert "delete" not in str(caught.value)
        if Path("/proc/self/fd").is_dir():
            assert f"({holder.pid})" in str(caught.value)
        holder.communicate()
    database.close()
