"""`rageval cache info`."""

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.cli.cache_reading import cache_files
from pytest_rageval.models.stores import sqlite_file as database_module
from tests.unit.cli.folders import CacheFolder, Done, entry, key

Run = Callable[..., Done]


def test_it_reports_what_is_cached(rageval: Run, cache: CacheFolder) -> None:
    size = cache.file.stat().st_size
    done = rageval("info")
    assert done == Done(
        0,
        f"cache: 4 replies, {size / 1000:.1f} kB on disk, schema 1\n"
        "the oldest kept 2024-01-01T12:00:00+00:00, the newest 2024-01-04T12:00:00+00:00\n\n"
        "model                replies  tokens in  tokens out  cut\n"
        "alt                        1         10           2    0\n"
        "m at http://host/v1        3         30           6    1\n",
        "",
    )


def test_programs_get_json(rageval: Run, cache: CacheFolder) -> None:
    size = cache.file.stat().st_size
    info = json.loads(rageval("info", "--json").out)
    assert info == {
        "directory": "cache",
        "schema": 1,
        "bytes": size,
        "replies": 4,
        "damaged": 0,
        "oldest": "2024-01-01T12:00:00+00:00",
        "newest": "2024-01-04T12:00:00+00:00",
        "models": [
            {"model": "alt", "base_url": "", "replies": 1, "tokens_in": 10, "tokens_out": 2, "cut": 0},
            {
                "model": "m",
                "base_url": "http://host/v1",
                "replies": 3,
                "tokens_in": 30,
                "tokens_out": 6,
                "cut": 1,
            },
        ],
        **{file.namespace: None for file in cache_files()},
    }


def test_an_empty_cache_has_no_dates(rageval: Run, cache: CacheFolder) -> None:
    cache.sql("DELETE FROM replies")
    assert rageval("info").out.count("\n") == 1
    info = json.loads(rageval("info", "--json").out)
    assert (info["replies"], info["oldest"], info["newest"], info["models"]) == (0, None, None, [])


def test_damaged_entries_are_counted_apart(rageval: Run, cache: CacheFolder) -> None:
    cache.sql("UPDATE replies SET tokens_in = 1000000 WHERE key = ?", key(0))
    done = rageval("info")
    assert done.status == 0
    assert done.out.startswith("cache: 3 replies, ")
    assert "1 entry not counted: damaged. `rageval cache verify` lists them.\n" in done.err
    assert json.loads(rageval("info", "--json").out)["damaged"] == 1


@pytest.mark.parametrize(
    "command", [["info"], ["export", "x.jsonl"], ["prune", "--cut"], ["verify"], ["verify", "--repair"]]
)
def test_a_missing_cache_is_an_error_and_is_not_made(rageval, tmp_path, command):
    done = rageval(*command)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("There is no reply cache in cache: no file replies.sqlite is there.\nName the")
    (tmp_path / "cache").mkdir()
    assert rageval(*command).status == 2
    assert not list((tmp_path / "cache").iterdir())


def test_another_programs_file_is_left_alone(rageval: Run, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    file = tmp_path / "cache" / "replies.sqlite"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE replies (key TEXT)")
    connection.commit()
    connection.close()
    before = file.read_bytes()
    for command in (["info"], ["verify", "--repair"], ["export", "x.jsonl"], ["prune", "--cut"]):
        done = rageval(*command)
        assert done.status == 2
        assert "its file replies.sqlite was not written by pytest-rageval.\nName another folder" in done.err
    assert file.read_bytes() == before
    assert not (tmp_path / "x.jsonl").exists()


def test_a_later_schema_is_left_alone(rageval: Run, cache: CacheFolder) -> None:
    cache.sql("PRAGMA user_version = 99")
    for command in (["info"], ["verify"], ["export", "x.jsonl"], ["prune", "--cut"]):
        done = rageval(*command)
        assert done.status == 2
        assert (
            "has schema 99, written by a later version of pytest-rageval; this one knows schema 1" in done.err
        )
        assert "--rageval cache_dir=DIR" not in done.err


def test_the_folder_may_be_named_after_the_command(rageval: Run, cache: CacheFolder, tmp_path: Path) -> None:
    shutil.move(cache.directory, tmp_path / "elsewhere")
    assert rageval("info").status == 2
    assert rageval("info", "--cache-dir", tmp_path / "elsewhere").status == 0


@pytest.mark.parametrize(
    "command", [["info"], ["export", "x.jsonl"], ["verify"], ["prune", "--cut", "--dry-run"]]
)
def test_reading_needs_no_leave_to_write(rageval, cache, monkeypatch, command):
    """Commands that only read work on a read-only cache, such as one that CI mounts read-only."""
    _forbid_writing(monkeypatch, cache)
    done = rageval(*command)
    assert (done.status, done.err) == (0, "")
    assert {file.name for file in cache.directory.iterdir()} == {".gitignore", "replies.sqlite"}


def test_replies_that_a_killed_run_left_in_the_log_are_read(rageval, cache, monkeypatch):
    with contextlib.closing(sqlite3.connect(cache.file)) as other:
        other.execute("DELETE FROM replies")
        other.commit()
        _forbid_writing(monkeypatch, cache)
        done = rageval("info")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("cache: 0 replies, ")


@pytest.mark.parametrize("command", [["prune", "--cut"], ["verify", "--repair"], ["import", "x.jsonl"]])
def test_changing_needs_leave_to_write(rageval, cache, monkeypatch, command):
    rageval("export", "x.jsonl")
    _forbid_writing(monkeypatch, cache)
    done = rageval(*command)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("The reply cache in cache may only be read.\n")


def test_a_name_cannot_command_the_terminal(rageval: Run, cache: CacheFolder) -> None:
    cache.put([entry(9, summary={}, model="\x1b[2Jmodèle\n")])
    assert "\\u001b[2Jmodèle\\n " in rageval("info").out


def _forbid_writing(monkeypatch: pytest.MonkeyPatch, cache: CacheFolder) -> None:
    """Make the cache read-only by permissions, and patch the store to refuse too, because root ignores permissions."""
    cache.file.chmod(0o444)
    cache.directory.chmod(0o555)
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorname = "SQLITE_READONLY"

    def refuse(_: object) -> None:
        raise error

    monkeypatch.setattr(database_module, "_prepare", refuse)
