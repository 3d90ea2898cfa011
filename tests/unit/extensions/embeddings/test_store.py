"""The embeddings file: stored vectors are found again, and a damaged file does not stop a run."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest

from pytest_rageval.core.errors import StoreError
from pytest_rageval.extensions.embeddings.store import FILE, EmbeddingStore, survey

VECTOR = np.array([0.6, -0.8, 1e-30], np.float32)


def _kept(directory: Path, key: str = "a") -> list[float] | None:
    found = EmbeddingStore(directory).get_many([key]).get(key)
    return None if found is None else found.tolist()


def _opened(directory: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(directory / FILE, isolation_level=None))


def test_cached_vectors_are_found_bit_for_bit(tmp_path) -> None:
    EmbeddingStore(tmp_path).put_many({"a": VECTOR, "b": -VECTOR})
    vectors = EmbeddingStore(tmp_path).get_many(["b", "a", "c"])
    assert vectors.keys() == {"a", "b"}
    assert vectors["a"].dtype == np.float32
    assert vectors["a"].tobytes() == VECTOR.tobytes()


def test_the_folder_is_made_and_kept_from_git(tmp_path) -> None:
    EmbeddingStore(tmp_path / "new" / "cache").put_many({"a": VECTOR})
    assert (tmp_path / "new" / "cache" / ".gitignore").read_text() == "*\n"


def test_a_file_that_is_not_a_database_is_replaced_by_an_empty_one(tmp_path) -> None:
    (tmp_path / FILE).write_bytes(b"restored by a cache that was cut off" * 1000)
    (tmp_path / f"{FILE}-journal").write_bytes(b"of the old file")
    store = EmbeddingStore(tmp_path)
    assert store.get_many(["a"]) == {}
    store.put_many({"a": VECTOR})
    assert _kept(tmp_path) == VECTOR.tolist()


def test_damaged_pages_never_give_a_vector(tmp_path) -> None:
    vectors = {f"k{n}": np.full(300, n, np.float32) for n in range(200)}
    EmbeddingStore(tmp_path).put_many(vectors)
    whole = (tmp_path / FILE).read_bytes()
    lost = 0
    for start in range(0, len(whole), len(whole) // 7):
        (tmp_path / FILE).write_bytes(whole[:start] + b"\x5a" * 900 + whole[start + 900 :])
        store = EmbeddingStore(tmp_path)
        vectors_read = store.get_many(vectors)
        assert all(np.array_equal(vectors_read[key], vectors[key]) for key in vectors_read)
        lost += len(vectors) - len(vectors_read)
        for _ in range(2):
            # Some damage is detected only on writing.
            store.put_many(vectors)
        assert store.get_many(vectors).keys() == vectors.keys()
        store.close()
    assert lost


def test_a_vector_that_has_changed_is_not_there(tmp_path) -> None:
    EmbeddingStore(tmp_path).put_many({"a": VECTOR, "b": -VECTOR})
    with _opened(tmp_path) as connection:
        connection.execute("UPDATE embeddings SET key = 'c' WHERE key = 'b'")
        connection.execute("UPDATE embeddings SET vector = ? WHERE key = 'a'", [VECTOR[::-1].tobytes()])
    assert EmbeddingStore(tmp_path).get_many(["a", "c"]) == {}


def test_without_a_usable_folder_nothing_is_cached(tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = EmbeddingStore(tmp_path / "file" / "cache")
    store.put_many({"a": VECTOR})
    assert store.get_many(["a"]) == {}


def test_a_table_of_another_form_is_an_error(tmp_path) -> None:
    with _opened(tmp_path) as connection:
        connection.execute("CREATE TABLE embeddings (other TEXT)")
    store = EmbeddingStore(tmp_path)
    for use in (lambda: store.put_many({"a": VECTOR}), lambda: store.get_many(["a"])):
        with pytest.raises(StoreError, match="tables that pytest-rageval did not create: table 'embeddings'"):
            use()
    store.close()
    with _opened(tmp_path) as connection:
        assert connection.execute("SELECT * FROM embeddings").description[0][0] == "other"


def test_a_file_whose_maker_was_killed_is_completed(tmp_path) -> None:
    EmbeddingStore(tmp_path).put_many({"a": VECTOR})
    with _opened(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 0")
    assert _kept(tmp_path) == VECTOR.tolist()
    with _opened(tmp_path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_file_of_a_later_version_is_an_error(tmp_path) -> None:
    EmbeddingStore(tmp_path).put_many({"a": VECTOR})
    with _opened(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 2")
    before = (tmp_path / FILE).read_bytes()
    for use in (lambda: _kept(tmp_path), lambda: survey(tmp_path)):
        with pytest.raises(StoreError, match=r"2, written by a later version .* reads version 1\.\nUpdate"):
            use()
    assert (tmp_path / FILE).read_bytes() == before


def test_a_file_that_is_removed_while_it_is_open_is_made_again(tmp_path) -> None:
    store = EmbeddingStore(tmp_path / "cache")
    store.put_many({"a": VECTOR})
    shutil.rmtree(tmp_path / "cache")
    store.put_many({"b": VECTOR})
    store.close()
    assert _kept(tmp_path / "cache", "b") == VECTOR.tolist()


WRITER = """
import sys
from pathlib import Path
import numpy as np
from pytest_rageval.extensions.embeddings.store import EmbeddingStore
store = EmbeddingStore(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for n in range(40):
    store.put_many({f"{sys.argv[2]} {n}": np.full(8, n, np.float32), f"both {n}": np.full(8, n, np.float32)})
"""


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_processes_share_the_file(tmp_path, *, killed: bool) -> None:
    """Processes write concurrently, even if one is killed, and each finds the vectors of all."""
    command, pipes = [sys.executable, "-c", WRITER, str(tmp_path)], {"stdin": PIPE, "stdout": PIPE}
    writers = [subprocess.Popen([*command, name], text=True, **pipes) for name in "xyz"]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    if killed:
        writers[0].kill()
    for writer in writers:
        writer.communicate(timeout=60)
    store = EmbeddingStore(tmp_path)
    for name in ("y", "z", "both") if killed else ("x", "y", "z", "both"):
        vectors = store.get_many(f"{name} {n}" for n in range(40))
        assert [vectors[f"{name} {n}"].tolist() for n in range(40)] == [[float(n)] * 8 for n in range(40)]
    store.put_many({"after": VECTOR})
    assert _kept(tmp_path, "after") == VECTOR.tolist()
