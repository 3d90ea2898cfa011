"""`rageval cache export`."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.models.cassette import read_cassette
from tests.unit.cli.folders import CacheFolder, Done, entry, key

Run = Callable[..., Done]


@pytest.mark.parametrize("name", ["replies.jsonl", "evals/replies.jsonl.gz"])
def test_all_replies_are_written(rageval: Run, cache: CacheFolder, tmp_path: Path, name: str) -> None:
    done = rageval("export", name)
    assert done == Done(0, f"{name}: 4 replies written\n", "")
    written = read_cassette(tmp_path / name)
    assert {key: recorded.reply for key, recorded in written.items()} == {
        e.key: e.reply for e in cache.entries()
    }
    assert written[key(0)].summary == entry(0).summary


@pytest.mark.parametrize(
    ("models", "keys"), [(["m"], [0, 1, 2]), (["alt"], [3]), (["m", "alt"], [0, 1, 2, 3])]
)
@pytest.mark.usefixtures("cache")
def test_models_can_be_chosen(rageval: Run, tmp_path: Path, models: list[str], keys: list[int]) -> None:
    assert rageval("export", "x.jsonl", *(f"--model={name}" for name in models)).status == 0
    assert read_cassette(tmp_path / "x.jsonl").keys() == {key(number) for number in keys}


@pytest.mark.usefixtures("cache")
def test_a_model_without_replies_is_an_error(rageval: Run, tmp_path: Path) -> None:
    done = rageval("export", "x.jsonl", "--model", "m", "--model", "M")
    assert done.status == 2
    assert "cache has no reply of model M, nothing was written; it has replies of: alt, m.\n" in done.err
    assert not (tmp_path / "x.jsonl").exists()


@pytest.mark.usefixtures("cache")
def test_a_file_is_replaced_only_by_force(rageval: Run, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("mine", encoding="utf-8")
    done = rageval("export", "x.jsonl")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("x.jsonl exists already, nothing was written.\n")
    assert (tmp_path / "x.jsonl").read_text(encoding="utf-8") == "mine"
    assert rageval("export", "x.jsonl", "--force").status == 0
    assert len(read_cassette(tmp_path / "x.jsonl")) == 4


def test_damaged_entries_are_left_out_and_named(rageval: Run, cache: CacheFolder, tmp_path: Path) -> None:
    cache.sql("UPDATE replies SET text = 'forged' WHERE key = ?", key(0))
    cache.sql("UPDATE replies SET text = CAST(x'ff41' AS TEXT) WHERE key = ?", key(1))
    cache.sql("UPDATE replies SET outline = '{' WHERE key = ?", key(2))
    done = rageval("export", "x.jsonl")
    assert (done.status, done.out) == (1, "x.jsonl: 2 replies written, 2 damaged entries left out\n")
    assert f"left out: {key(0)}: the checksum is not that of the contents\n" in done.err
    assert f"left out: {key(1)}: text is not UTF-8\n" in done.err
    assert f"only in part: {key(2)}: outline is not a JSON object\n" in done.err
    assert read_cassette(tmp_path / "x.jsonl").keys() == {key(2), key(3)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_damaged_file_is_read_until_sqlite_fails(rageval, cache, tmp_path, seed):
    cache.put([entry(number, text="x" * 500) for number in range(4, 1300)])
    entries = {stored.key: stored for stored in cache.entries()}
    content = bytearray(cache.file.read_bytes())
    page = _leaf_of(content, sorted(entries)[800 + 80 * seed])
    content[page : page + 4096] = random.Random(seed).randbytes(4096)
    cache.file.write_bytes(content)
    done = rageval("export", "x.jsonl")
    cassette = read_cassette(tmp_path / "x.jsonl")
    assert (done.status, done.out) == (1, f"x.jsonl: {len(cassette):,} replies written\n")
    assert 700 < len(cassette) < len(entries)
    for name, stored in cassette.items():
        assert (stored.reply, stored.summary) == (entries[name].reply, entries[name].summary)
    assert "replies.sqlite is damaged: database disk image is malformed.\n" in done.err
    assert (
        f"\n{len(cassette):,} replies could be read; others may be lost. `rageval cache verify` shows"
        in done.err
    )
    assert "SQLite's integrity_check" in done.err
    assert done.err.endswith(
        "Delete replies.sqlite* in that folder, and restore the replies with `rageval cache import x.jsonl`.\n"
    )
    for file in cache.directory.glob("replies.sqlite*"):
        file.unlink()
    assert rageval("import", "x.jsonl").status == 0
    assert {stored.key for stored in cache.entries()} == cassette.keys()


def test_entries_that_vanish_without_an_error_are_missed(rageval, cache, tmp_path):
    """If a page has a wrong cell count, SQLite skips entries without an error; its integrity check finds the damage."""
    cache.put([entry(number, text="x" * 500) for number in range(4, 200)])
    content = bytearray(cache.file.read_bytes())
    leaf = next(
        offset
        for offset in range(4096 * 5, len(content), 4096)
        if content[offset] == 0x0A and content[offset + 4] > 3
    )
    content[leaf + 4] -= 2
    cache.file.write_bytes(content)
    assert len(cache.entries()) == 198
    done = rageval("export", "x.jsonl")
    assert (done.status, done.out) == (1, "x.jsonl: 198 replies written\n")
    assert len(read_cassette(tmp_path / "x.jsonl")) == 198
    assert "replies.sqlite is damaged: *** in database main" in done.err
    assert "198 replies could be read; others may be lost." in done.err
    assert rageval("verify").status == 1


def test_where_nothing_can_be_read_nothing_is_written(rageval, cache, tmp_path):
    (tmp_path / "x.jsonl").write_text("mine", encoding="utf-8")
    good = cache.file.read_bytes()
    for content in (b"", b"SQLite", b"not a database" * 1000, good[:-5000], bytes(4096) + good[4096:]):
        cache.file.write_bytes(content)
        done = rageval("export", "x.jsonl", "--force")
        assert (done.status, done.out) == (1, "")
        assert "0 replies could be read; " in done.err
        assert "\nDelete replies.sqlite* in that folder.\n" in done.err
        assert done.err.endswith("No reply could be read, x.jsonl was not written.\n")
    assert (tmp_path / "x.jsonl").read_text(encoding="utf-8") == "mine"


def test_an_empty_cache_makes_an_empty_cassette(rageval: Run, cache: CacheFolder, tmp_path: Path) -> None:
    cache.sql("DELETE FROM replies")
    assert rageval("export", "x.jsonl") == Done(0, "x.jsonl: 0 replies written\n", "")
    assert not read_cassette(tmp_path / "x.jsonl")


@pytest.mark.usefixtures("cache")
def test_a_file_that_cannot_be_written_is_named(rageval: Run, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("", encoding="utf-8")
    done = rageval("export", "blocked/x.jsonl")
    assert done.status == 2
    assert "The cassette blocked/x.jsonl cannot be written: " in done.err


def test_empty_replies_are_written_as_a_recording_run_writes_them(rageval, cache, tmp_path):
    """`export` writes empty replies too, so that a replay finds them, and says which option requests them again."""
    cache.put(
        [entry(7, text=" \n"), entry(8, text="", finish_reason="length"), entry(9, text="", refusal="no")]
    )
    done = rageval("export", "x.jsonl")
    assert (done.status, done.out) == (0, "x.jsonl: 7 replies written\n")
    assert done.err == "without an answer: 3 of them, which a run with --rageval-record requests again\n"
    assert {key(7), key(8), key(9)} <= read_cassette(tmp_path / "x.jsonl").keys()


def _leaf_of(content: bytes, name: str) -> int:
    offset = content.index(name.encode())
    return offset - offset % 4096
