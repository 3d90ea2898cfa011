"""`SharedEmbeddings`: embeddings in the reply store that several machines share, in a namespace of their own.

An embedding can be computed again, so a store that fails is no error: a vector that cannot be read counts as missing,
and a vector that cannot be written is not stored. The same applies to embeddings in a cache folder.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from pytest_rageval.core.errors import StoreError
from pytest_rageval.extensions.embeddings.encoder import CachedEncoder, shared_encoder
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores import open_store
from pytest_rageval.models.stores.interface import Entry, ReplyStore
from pytest_rageval.run.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

VECTOR_TYPE: Final = "<f4"
"""The numpy type of stored vectors, little-endian float32, as in a cache folder."""

T = TypeVar("T")


class SharedEmbeddings:
    """The interface of `EmbeddingStore` over a reply store. Each vector is the text of a reply, in base64.

    Args:
        open_store: function that opens the reply store; it is called at the first use.
    """

    def __init__(self, open_store: Callable[[], ReplyStore]) -> None:
        self._open_store = open_store
        self._store: ReplyStore | None = None
        self._unusable = False
        self._lock = Lock()

    def get_many(self, keys: Iterable[str]) -> "dict[str, NDArray[np.float32]]":
        """Return the vectors stored under these keys, without missing and damaged ones."""
        keys = list(keys)
        vectors = {}
        for key, reply in (self._attempt(lambda store: store.get_many(keys)) or {}).items():
            with suppress(binascii.Error, ValueError):
                vector = np.frombuffer(base64.b64decode(reply.text, validate=True), VECTOR_TYPE)
                vectors[key] = vector.astype(np.float32, copy=False)
        return vectors

    def put_many(self, vectors: "Mapping[str, NDArray[np.float32]]") -> None:
        """Store vectors, all or none."""
        entries = [
            Entry(key, Reply(base64.b64encode(vector.astype(VECTOR_TYPE, copy=False).tobytes()).decode()))
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

    def _attempt(self, operation: Callable[[ReplyStore], T]) -> T | None:
        """Return the result of an operation on the store; None after the first error, for all further operations."""
        with self._lock:
            if self._unusable:
                return None
            try:
                self._store = self._store or self._open_store()
                return operation(self._store)
            except StoreError:
                self._unusable = True
                return None


def session_encoder(session: Session) -> CachedEncoder:
    """Return the packaged encoder for the package's retrievers; the cache of the session stores its embeddings."""
    place = session.settings.cache_location
    if isinstance(place, Path):
        return CachedEncoder(shared_encoder(), place)
    stores = session.registry.stores
    shared = SharedEmbeddings(partial(open_store, place, stores, namespace="embeddings"))
    return CachedEncoder(shared_encoder(), shared)
