"""`rageval cache import`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.models.cassette import read_cassette, write_cassette
from tests.unit.cli.folders import CacheFolder, Done, entry, key

Run = Callable[..., Done]


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_a_cassette_becomes_a_cache(rageval: Run, tmp_path: Path, name: str) -> None:
    write_cassette(tmp_path / name, [entry(n) for n in range(3)])
    assert rageval("import", name) == Done(0, "cache: 3 new replies, 0 there already\n", "")
    entries = CacheFolder(tmp_path / "cache").entries()
    assert {e.key: (e.reply, e.summary) for e in entries} == {
        entry(n).key: (entry(n).reply, entry(n).summary) for n in range(3)
    }
    assert (tmp_path / "cache" / ".gitignore").exists()


@pytest.mark.slow
def test_five_thousand_replies_go_there_and_back(rageval: Run, tmp_path: Path) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(n) for n in range(5000)])
    assert rageval("import", "x.jsonl").out == "cache: 5,000 new replies, 0 there already\n"
    assert rageval("info").out.startswith("cache: 5,000 replies, ")
    assert rageval("verify").out == "cache/replies.sqlite: 5,000 good replies, 0 damaged entries, schema 1\n"
    assert rageval("export", "y.jsonl").status == 0
    assert (tmp_path / "y.jsonl").read_bytes() == (tmp_path / "x.jsonl").read_bytes()


def test_what_is_there_stays(rageval: Run, cache: CacheFolder, tmp_path: Path) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(0), entry(1, text="other"), entry(7)])
    done = rageval("import", "x.jsonl")
    assert (
        done.out == "cache: 1 new reply, 2 there already, of these 1 with another text, kept as they were\n"
    )
    assert {e.key: e.reply for e in cache.entries()}[key(1)] == entry(1).reply


def test_it_is_replaced_on_demand(rageval: Run, cache: CacheFolder, tmp_path: Path) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(0), entry(1, text="other")])
    done = rageval("import", "x.jsonl", "--replace")
    assert done.out == "cache: 0 new replies, 2 there already, of these 1 with another text, replaced\n"
    entries = {e.key: e for e in cache.entries()}
    assert entries[key(1)].reply.text == "other"
    assert entries[key(0)].written == entry(0).written


def test_a_damaged_entry_is_replaced_by_a_good_one(rageval: Run, cache: CacheFolder, tmp_path: Path) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(0)])
    cache.sql("UPDATE replies SET text = x'80' WHERE key = ?", key(0))
    done = rageval("import", "x.jsonl")
    assert done.out == "cache: 0 new replies, 0 there already, 1 damaged entry replaced\n"
    assert {e.key: e.reply for e in cache.entries()}[key(0)] == entry(0).reply


def test_the_first_of_two_files_counts(rageval: Run, tmp_path: Path) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(0)])
    write_cassette(tmp_path / "y.jsonl", [entry(0, text="other"), entry(1)])
    assert rageval("import", "x.jsonl", "y.jsonl").out == "cache: 2 new replies, 0 there already\n"
    assert {e.key: e.reply for e in CacheFolder(tmp_path / "cache").entries()}[key(0)] == entry(0).reply


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<<<<<<< HEAD", "x.jsonl line 2 is not a recorded reply: Expecting value"),
        (
            json.dumps(json.loads(entry(1).reply.dumps(key="k")) | {"tokens_in": 2**63}),
            "line 2 is not a recorded reply: 'tokens_in'",
        ),
        (
            entry(1).reply.dumps(key="k").replace('"k"', '"\\ud83d"'),
            "line 2 is not a recorded reply: the key",
        ),
        ("[" * 100_000, "line 2 is not a recorded reply: it is nested too deeply"),
    ],
)
def test_a_bad_line_prevents_the_whole_import(rageval: Run, tmp_path: Path, line: str, message: str) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(0)])
    text = (tmp_path / "x.jsonl").read_text(encoding="utf-8")
    (tmp_path / "x.jsonl").write_text(f"{text}{line}\n", encoding="utf-8")
    done = rageval("import", "x.jsonl")
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert not (tmp_path / "cache").exists()


def test_a_missing_file_is_an_error(rageval: Run, tmp_path: Path) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(0)])
    done = rageval("import", "x.jsonl", "none.jsonl")
    assert done.status == 2
    assert done.err.startswith("The cassette none.jsonl does not exist.")
    assert "Check the name" in done.err
    assert not (tmp_path / "cache").exists()


def test_a_damaged_cache_is_not_written(rageval: Run, cache: CacheFolder, tmp_path: Path) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(0)])
    cache.file.write_bytes(cache.file.read_bytes()[:8192])
    done = rageval("import", "x.jsonl")
    assert done.status == 2
    assert "`rageval cache export FILE`, delete replies.sqlite*" in done.err
    assert read_cassette(tmp_path / "x.jsonl")
