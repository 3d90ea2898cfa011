"""Embeddings in a store that machines share, beside the replies, in a namespace of their own.

As in a cache folder they cost only time: what cannot be read counts as missing, what cannot be written is not kept.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.stores.interface import Entry, ReplyStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SharedEmbeddings"]

NUMBER: Final = "<f4"  # as in the file of a folder
T = TypeVar("T")


class SharedEmbeddings:
    """The interface of `EmbeddingStore` over a store of replies; a vector is the text of an entry, in base64."""

    def __init__(self, opened: Callable[[], ReplyStore]) -> None:
        self._open = opened
        self._store: ReplyStore | None = None
        self._unusable = False
        self._lock = Lock()

    def get_many(self, keys: Iterable[str]) -> "dict[str, NDArray[np.float32]]":
        """Return the vectors kept under these keys; missing and damaged ones are left out."""
        wanted = list(keys)
        found = {}
        for key, reply in (self._attempt(lambda store: store.get_many(wanted)) or {}).items():
            with suppress(binascii.Error, ValueError):
                vector = np.frombuffer(base64.b64decode(reply.text, validate=True), NUMBER)
                found[key] = vector.astype(np.float32, copy=False)
        return found

    def put_many(self, vectors: "Mapping[str, NDArray[np.float32]]") -> None:
        """Keep vectors, all or none."""
        entries = [
            Entry(key, Reply(base64.b64encode(vector.astype(NUMBER, copy=False).tobytes()).decode()))
            for key, vector in vectors.items()
        ]
        self._attempt(lambda store: store.keep(entries))

    def close(self) -> None:
        """Close the store; the next use opens it again."""
        with self._lock:
            store, self._store = self._store, None
            if store is not None:
                with suppress(StoreError):
                    store.close()

    def _attempt(self, work: Callable[[ReplyStore], T]) -> T | None:
        """Return the result of the work; None where the store cannot be used, which is then not tried again."""
        with self._lock:
            if self._unusable:
                return None
            try:
                self._store = self._store or self._open()
                return work(self._store)
            except StoreError:
                self._unusable = True
                return None
