"""Permissions of cache files: replies quote the user's passages."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_rageval.extensions.embeddings.store import EmbeddingStore
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.stores.sqlite_file import Database, ReplyTable

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")

VECTOR = np.array([0.6, -0.8], np.float32)


@pytest.fixture(autouse=True)
def _open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _modes(folder: Path) -> dict[str, str]:
    files = (path for path in folder.iterdir() if path.name != ".gitignore")
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in [folder, *files]}


@contextlib.contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    with (
        contextlib.closing(Database(folder)) as database,
        contextlib.closing(EmbeddingStore(folder)) as store,
    ):
        with database.transaction():
            ReplyTable(database).put_many([Entry("k", Reply("text"))])
        store.put_many({"a": VECTOR})
        yield


def test_what_we_make_is_for_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    files = {"replies.sqlite", "replies.sqlite-wal", "replies.sqlite-shm", "embeddings.sqlite"}
    with _in_use(folder):
        assert _modes(folder) == {"cache": "0o700", **dict.fromkeys(files, "0o600")}
    assert _modes(tmp_path / "new")["new"] == "0o777", "the folder above is not the cache"


def test_what_an_earlier_version_made_is_closed(tmp_path: Path) -> None:
    """A folder of an earlier version, recognized by its `.gitignore`, is restricted; read-only files stay read-only."""
    folder = tmp_path / "cache"
    with _in_use(folder):
        for path in [folder, *folder.iterdir()]:
            path.chmod(0o775 if path.is_dir() else 0o666)
        with contextlib.closing(Database(folder)), contextlib.closing(EmbeddingStore(folder)) as store:
            assert store.get_many(["a"])
            assert set(_modes(folder).values()) == {"0o700", "0o600"}
    (folder / "embeddings.sqlite").chmod(0o444)
    with contextlib.closing(EmbeddingStore(folder)) as store:
        assert store.get_many(["a"])
    assert _modes(folder)["embeddings.sqlite"] == "0o400"


@pytest.mark.parametrize("ignored", [None, "# mine\n*\n"])
def test_in_a_folder_of_the_users_others_may_read_what_they_may(tmp_path: Path, ignored: str | None) -> None:
    """In a folder that the user created, new files are private, but permissions that the user sets later are kept."""
    tmp_path.chmod(0o2775)
    if ignored is not None:
        (tmp_path / ".gitignore").write_text(ignored, encoding="utf-8")
    with _in_use(tmp_path):
        assert _modes(tmp_path)["replies.sqlite"] == "0o600"
    for path in tmp_path.iterdir():
        path.chmod(0o660)
    with _in_use(tmp_path):
        modes = _modes(tmp_path)
    assert modes.pop(tmp_path.name) == "0o2775"
    assert set(modes.values()) == {"0o660"}


def test_a_replaced_embeddings_file_is_private_too(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with contextlib.closing(EmbeddingStore(folder)) as store:
        store.put_many({"a": VECTOR})
        store.close()
        (folder / "embeddings.sqlite").write_bytes(b"no database" * 1000)
        assert store.get_many(["a"]) == {}
        store.put_many({"a": VECTOR})
        assert store.get_many(["a"])
    assert _modes(folder)["embeddings.sqlite"] == "0o600"
