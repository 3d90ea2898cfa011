"""`rageval cache prune`."""

import contextlib
import gzip
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.core.errors import StoreError
from pytest_rageval.models.cassette import read_cassette, write_cassette
from pytest_rageval.models.stores.sqlite_file import Database
from tests.unit.cli.folders import CacheFolder, Done, entry, key

Run = Callable[..., Done]


def _left(cache: CacheFolder) -> set[str]:
    return {stored.key for stored in cache.entries()}


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        (["--cut"], {0, 1, 3}),
        (["--model", "m"], {3}),
        (["--model", "alt"], {0, 1, 2}),
        (["--model", "m", "--model", "alt"], set()),
        (["--model", "m", "--cut"], {0, 1, 3}),
        (["--model", "alt", "--cut"], {0, 1, 2, 3}),
        (["--older-than", "0"], set()),
        (["--older-than", "100000"], {0, 1, 2, 3}),
    ],
)
def test_all_conditions_must_hold(rageval, cache, conditions, left):
    dry = rageval("prune", "--dry-run", *conditions)
    assert dry.out.startswith(f"cache: {4 - len(left)} of 4 replies would be deleted\n")
    assert len(_left(cache)) == 4
    done = rageval("prune", *conditions)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"cache: {4 - len(left)} of 4 replies deleted\n")
    assert _left(cache) == {key(number) for number in left}


@pytest.mark.parametrize(("days", "left"), [("2", {0}), ("3.5", {0, 1}), ("0.5", set())])
def test_age_is_in_days(rageval: Run, cache: CacheFolder, days: str, left: set[int]) -> None:
    cache.sql("DELETE FROM replies")
    cache.put([entry(n, written=time.time() - age * 86_400) for n, age in enumerate([1, 3])])
    rageval("prune", "--older-than", days)
    assert _left(cache) == {key(number) for number in left}


@pytest.mark.usefixtures("cache")
def test_deleted_replies_are_counted_by_model(rageval: Run) -> None:
    assert "m at http://host/v1        1         10           2    1\n" in rageval("prune", "--cut").out


def test_the_file_becomes_smaller(rageval: Run, cache: CacheFolder) -> None:
    cache.put([entry(n, text="x" * 1000, summary={"model": "big"}) for n in range(10, 500)])
    before = cache.file.stat().st_size
    done = rageval("prune", "--model", "big")
    assert "on disk, before" in done.out
    assert cache.file.stat().st_size < before / 10
    assert len(_left(cache)) == 4


def test_a_cache_in_use_becomes_smaller_later(rageval: Run, cache: CacheFolder) -> None:
    with contextlib.closing(Database(cache.directory)):
        done = rageval("prune", "--cut")
    assert done.status == 0
    assert done.out.endswith("The file becomes smaller when the runs that use the cache now have ended.\n")


def test_a_disk_too_full_to_make_it_smaller_is_no_failure(rageval, cache, monkeypatch):
    """If VACUUM fails because the disk is full, the replies are still deleted and `prune` exits with status 0."""
    execute = Database.execute

    def full(self: Database, sql: str, *parameters: object) -> object:
        if sql == "VACUUM":
            raise self.unusable_error("full") from StoreError("database or disk is full")
        return execute(self, sql, *parameters)

    monkeypatch.setattr(Database, "execute", full)
    done = rageval("prune", "--cut")
    assert done.status == 0
    assert "could not be made smaller: database or disk is full" in done.err
    monkeypatch.undo()
    assert len(_left(cache)) == 3


def test_a_condition_is_needed(rageval: Run, cache: CacheFolder) -> None:
    done = rageval("prune")
    assert (done.status, done.out) == (2, "")
    assert "--older-than DAYS, --model NAME and --cut" in done.err
    assert len(_left(cache)) == 4


@pytest.mark.parametrize("days", ["-1", "nan", "inf", "soon", ""])
def test_days_are_a_number(rageval: Run, cache: CacheFolder, days: str) -> None:
    done = rageval("prune", f"--older-than={days}")
    assert done.status == 2
    assert "is not a number of days, expected 0 or more, such as 30 or 0.5" in done.err
    assert len(_left(cache)) == 4


@pytest.mark.usefixtures("cache")
def test_a_missing_model_is_reported(rageval: Run) -> None:
    done = rageval("prune", "--model", "gone")
    assert (done.status, done.out) == (0, "cache: 0 of 4 replies deleted\n")
    assert done.err == "cache has no reply of model gone; it has replies of: alt, m.\n"


def test_damaged_entries_stay(rageval: Run, cache: CacheFolder) -> None:
    """`prune` does not delete damaged entries, because their fields cannot be trusted."""
    cache.sql("UPDATE replies SET text = 'forged' WHERE key = ?", key(2))
    done = rageval("prune", "--cut")
    assert (done.status, done.out) == (0, "cache: 0 of 3 replies deleted\n")
    assert "1 damaged entry not looked at" in done.err
    assert cache.sql("SELECT count(*) FROM replies") == [(4,)]


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_a_cassette_can_be_pruned(rageval: Run, tmp_path: Path, name: str) -> None:
    write_cassette(
        tmp_path / name, [entry(0), entry(1, finish_reason="length"), entry(2, summary={"model": "n"})]
    )
    before = (tmp_path / name).read_bytes()
    assert rageval("prune", "--cassette", name, "--cut", "--dry-run").out.startswith(
        f"{name}: 1 of 3 replies would be deleted\n"
    )
    assert (tmp_path / name).read_bytes() == before
    assert rageval("prune", "--cassette", name, "--cut").status == 0
    assert rageval("prune", "--cassette", name, "--model", "n").status == 0
    assert read_cassette(tmp_path / name).keys() == {key(0)}
    if name.endswith(".gz"):
        gzip.decompress((tmp_path / name).read_bytes())


def test_a_cassette_without_such_replies_is_not_touched(rageval: Run, tmp_path: Path) -> None:
    lines = [entry(n).reply.dumps(key=str(9 - n)) for n in range(3)]
    (tmp_path / "x.jsonl").write_text("\n\n".join(lines), encoding="utf-8")
    before = (tmp_path / "x.jsonl").read_bytes()
    assert rageval("prune", "--cassette", "x.jsonl", "--cut").status == 0
    assert (tmp_path / "x.jsonl").read_bytes() == before


def test_a_cassette_has_no_dates(rageval: Run, tmp_path: Path) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(0)])
    done = rageval("prune", "--cassette", "x.jsonl", "--older-than", "1", "--cut")
    assert done.status == 2
    assert "--older-than cannot be used with --cassette" in done.err


def test_a_bad_cassette_is_not_rewritten(rageval: Run, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("<<<<<<< HEAD\n", encoding="utf-8")
    done = rageval("prune", "--cassette", "x.jsonl", "--cut")
    assert done.status == 2
    assert "x.jsonl line 1 is not a recorded reply" in done.err
    assert (tmp_path / "x.jsonl").read_text(encoding="utf-8") == "<<<<<<< HEAD\n"
