"""Embeddings on disk, by key, for many processes, and an encoder that uses them.

Embeddings cost time only, so nothing here stops a run: what cannot be read counts as missing, what cannot be
written is not kept, and a damaged file is started again.
"""

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from pytest_rageval.embeddings.encoder import Encoder, RetrievalEncoder, Tokens, Vectors
from pytest_rageval.embeddings.file import (
    COLUMNS,
    EMBEDDINGS_FILE,
    TABLE,
    TIMES,
    VERSION,
    check,
    checksum,
    columns,
    refuse_irregular,
    version,
)
from pytest_rageval.files import make_cache_folder, make_private_file
from pytest_rageval.fingerprint import digest

__all__ = ["CachedEncoder", "EmbeddingStore", "NamedEncoder"]

T = TypeVar("T")

WAIT_S: Final = 60.0
"""How long a statement waits for other processes' transactions."""

MOVED: Final = "SQLITE_READONLY_DBMOVED"
"""How SQLite names it when the file that is open does not have its name any more."""

FORM: Final = np.dtype("<f4")
"""Of a number in the file, on every machine."""


class EmbeddingStore:
    """One SQLite file in a cache folder; from any thread.

    Args:
        directory: the folder, made at the first use.

    Raises:
        StoreError: from any method, when the file is of a later version, or holds what this package did not make.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._connection: sqlite3.Connection | None = None
        self._lock = RLock()

    def get_many(self, keys: Iterable[str]) -> dict[str, Vectors]:
        """The vectors kept under these keys; a key without one, or with a damaged one, is not in the result."""
        wanted = json.dumps(sorted(keys))

        def read(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(
                "SELECT key, vector, checksum FROM embeddings WHERE key IN (SELECT value FROM json_each(?))",
                (wanted,),
            ).fetchall()

        rows = self._attempt(read) or []
        return {
            key: np.frombuffer(blob, FORM).astype(np.float32, copy=False)
            for key, blob, told in rows
            if isinstance(blob, bytes) and told == checksum(key, blob)
        }

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors, all or none; then other processes see them, and this one may be killed."""
        blobs = {key: vector.astype(FORM, copy=False).tobytes() for key, vector in vectors.items()}
        rows = [(key, blob, checksum(key, blob), time.time()) for key, blob in blobs.items()]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?)", rows)

        self._attempt(write)

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What the work gives; None where the file does not let it."""
        with self._lock:
            try:
                try:
                    return work(self._opened())
                except sqlite3.OperationalError as error:
                    if getattr(error, "sqlite_errorname", "") != MOVED:
                        raise
                    # The folder was removed meanwhile: what comes is kept in a new one.
                    self.close()
                    return work(self._opened())
            except (sqlite3.OperationalError, OSError):
                # It may not be written, it is full, another holds it too long.
                return None
            except sqlite3.DatabaseError:
                self._begin_anew()
                return None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            make_cache_folder(self._directory)
            file = self._directory / EMBEDDINGS_FILE
            refuse_irregular(file)
            make_private_file(file)
            # Not the write-ahead log: one file can be read where nothing may be written, and thrown away whole.
            connection = sqlite3.connect(file, timeout=WAIT_S, check_same_thread=False)
            try:
                check(connection, file)
                # Nothing is lost when a process is killed; when the power fails, a damaged file is begun anew.
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(TABLE)
                if columns(connection) == COLUMNS[:-1]:
                    connection.execute(TIMES)
                if version(connection) < VERSION:
                    with contextlib.suppress(sqlite3.OperationalError):
                        # A file that may only be read stays as it is.
                        connection.execute(f"PRAGMA user_version = {VERSION}")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _begin_anew(self) -> None:
        self.close()
        with contextlib.suppress(OSError):
            # The journal first: it would be played back into the new file.
            (self._directory / f"{EMBEDDINGS_FILE}-journal").unlink(missing_ok=True)
            (self._directory / EMBEDDINGS_FILE).unlink(missing_ok=True)


CHUNK: Final = 1024
"""So many texts are encoded before they are kept: what a killed run may lose, a minute of a slow machine."""


class NamedEncoder(Encoder, Protocol):
    """An encoder that can be told from others, in every process."""

    @property
    def fingerprint(self) -> str:
        """Differs where embeddings differ."""


class CachedEncoder:
    """An encoder with its embeddings of texts in a folder; those of tokens are not kept.

    Kept by the exact text and the encoder's fingerprint. Where all texts are
    known, the encoder is not asked, and no model is loaded.

    Args:
        encoder: such as a `SentenceEncoder`.
        directory: a cache folder, that of the replies or another; encoders and processes may share it.
    """

    def __init__(self, encoder: NamedEncoder, directory: Path | str) -> None:
        self._encoder = encoder
        self._store = EmbeddingStore(Path(directory))

    @property
    def fingerprint(self) -> str:
        """That of the encoder."""
        return self._encoder.fingerprint

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        """See `pytest_rageval.embeddings.encoder.TextEncoder`."""
        return self._kept([], self._encoder.sentences, texts)

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """See `pytest_rageval.embeddings.encoder.RetrievalEncoder`; of an encoder that is none, `sentences`."""
        if not isinstance(self._encoder, RetrievalEncoder):
            return self.sentences(texts)
        return self._kept(["query"], self._encoder.queries, texts)

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        """See `pytest_rageval.embeddings.encoder.RetrievalEncoder`; of an encoder that is none, `sentences`."""
        if not isinstance(self._encoder, RetrievalEncoder):
            return self.sentences(texts)
        return self._kept(["passage"], self._encoder.passages, texts)

    def _kept(
        self, read_as: list[str], encode: Callable[[Sequence[str]], list[Vectors]], texts: Sequence[str]
    ) -> list[Vectors]:
        """What the file has, and what is encoded for it now."""
        keys = {text: digest([self.fingerprint, *read_as, text]) for text in texts}
        found = self._store.get_many(keys.values())
        # Texts of one length are encoded together: less padding.
        missing = sorted((text for text, key in keys.items() if key not in found), key=len)
        for start in range(0, len(missing), CHUNK):
            chunk = missing[start : start + CHUNK]
            encoded = zip(chunk, encode(chunk), strict=True)
            new = {keys[text]: vector for text, vector in encoded}
            self._store.put_many(new)
            found |= new
        return [found[keys[text]] for text in texts]

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """See `pytest_rageval.embeddings.encoder.Encoder`."""
        return self._encoder.tokens(texts)

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()
