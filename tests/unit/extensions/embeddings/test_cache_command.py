"""The commands of `rageval cache` on a folder that holds embeddings."""

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_rageval.extensions.embeddings.store import EmbeddingStore
from tests.unit.cli.folders import CacheFolder, Done

Run = Callable[..., Done]

FILE = Path("cache/embeddings.sqlite")
ALL = {"k0", "k1", "k2", "k3"}


@pytest.fixture
def embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Store four embeddings, one a day, the last one now; return a function that runs SQL to damage the file."""
    store = EmbeddingStore(tmp_path / "cache")
    now = time.time()
    for days in range(4):
        with monkeypatch.context() as patch:
            patch.setattr("time.time", lambda days=days: now - 86_400 * (3 - days))
            store.put_many({f"k{days}": np.array([days, 1], np.float32)})
    store.close()

    def change(statement: str) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as connection, connection:
            connection.execute(statement)

    return change


def _left(directory: Path) -> set[str]:
    return set(EmbeddingStore(directory / "cache").get_many(f"k{days}" for days in range(4)))


@pytest.mark.usefixtures("embeddings")
def test_info_tells_of_embeddings_without_replies(rageval: Run) -> None:
    done = rageval("info")
    assert (done.status, done.err) == (0, "")
    size = FILE.stat().st_size / 1000
    assert done.out.startswith(f"cache: 4 embeddings, {size:.1f} kB on disk; the oldest kept 20")
    info = json.loads(rageval("info", "--json").out)
    assert (info["replies"], info["embeddings"]["embeddings"], info["embeddings"]["damaged"]) == (0, 4, 0)
    assert info["embeddings"]["oldest"] < info["embeddings"]["newest"]


@pytest.mark.usefixtures("cache", "embeddings")
def test_info_tells_of_both(rageval: Run) -> None:
    first, *_, last = rageval("info").out.splitlines()
    assert first.startswith("cache: 4 replies, ")
    assert last.startswith("cache: 4 embeddings, ")


@pytest.mark.parametrize(("days", "left"), [("2.5", {"k1", "k2", "k3"}), ("0", set()), ("30", ALL)])
@pytest.mark.usefixtures("embeddings")
def test_prune_deletes_by_age(rageval: Run, tmp_path: Path, days: str, left: set[str]) -> None:
    summary = f"cache: {4 - len(left)} of 4 embeddings"
    assert rageval("prune", "--older-than", days, "--dry-run") == Done(0, f"{summary} would be deleted\n", "")
    assert len(_left(tmp_path)) == 4
    assert rageval("prune", "--older-than", days) == Done(0, f"{summary} deleted\n", "")
    assert _left(tmp_path) == left


@pytest.mark.usefixtures("embeddings")
def test_other_conditions_leave_them(rageval: Run, cache: CacheFolder, tmp_path: Path) -> None:
    """`--cut` and `--model` apply to replies only: no embedding meets them, so no embedding is deleted."""
    for condition in (["--cut"], ["--model", "m"]):
        assert "embedding" not in rageval("prune", "--older-than", "0", *condition).out
    assert len(_left(tmp_path)) == 4
    assert len(cache.entries()) < 4


def test_prune_makes_the_file_smaller(rageval: Run, tmp_path: Path) -> None:
    store = EmbeddingStore(tmp_path / "cache")
    store.put_many({f"k{n}": np.zeros(384, np.float32) for n in range(500)})
    store.close()
    before = (tmp_path / FILE).stat().st_size
    rageval("prune", "--older-than", "0")
    assert (tmp_path / FILE).stat().st_size < before / 10


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE embeddings SET checksum = checksum + 1 WHERE key = 'k2'",
        "UPDATE embeddings SET vector = 'text' WHERE key = 'k2'",
        "UPDATE embeddings SET written = 'today' WHERE key = 'k2'",
        "UPDATE embeddings SET key = x'80' WHERE key = 'k2'",
    ],
)
def test_verify_finds_and_deletes_damaged_ones(rageval, tmp_path, embeddings, damage):
    assert rageval("verify") == Done(0, f"{FILE}: 4 good embeddings, 0 damaged entries\n", "")
    embeddings(damage)
    assert "1 damaged embedding not counted" in rageval("info").err
    result = rageval("verify")
    assert (result.status, result.out) == (1, f"{FILE}: 3 good embeddings, 1 damaged entry\n")
    assert "--repair" in result.err
    assert rageval("verify", "--repair").out.endswith("deleted: 1 damaged embedding\n")
    assert rageval("verify").out == f"{FILE}: 3 good embeddings, 0 damaged entries\n"
    assert _left(tmp_path) == {"k0", "k1", "k3"}


@pytest.mark.parametrize("how", ["no database", "other columns"])
def test_a_file_that_cannot_be_used_is_reported(rageval, cache, embeddings, tmp_path, how):
    if how == "no database":
        (tmp_path / FILE).write_bytes(b"x" * 5000)
    else:
        embeddings("ALTER TABLE embeddings DROP COLUMN written")
    info = rageval("info")
    assert info.out.startswith("cache: 4 replies, ")
    assert "embeddings.sqlite cannot be used: " in info.err
    checked = rageval("verify")
    assert checked.status == 1
    assert "4 good replies" in checked.out
    assert f"{FILE}: damaged: " in checked.out
    assert rageval("prune", "--older-than", "0").status == 0
    assert not cache.entries()
