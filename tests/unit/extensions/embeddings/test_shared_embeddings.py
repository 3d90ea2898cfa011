"""Caching embeddings in a reply store."""

from pathlib import Path

import numpy as np
import pytest

from pytest_rageval.core.errors import InputError, StoreError
from pytest_rageval.extensions.embeddings.store import SharedEmbeddings
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry, ReplyStore
from pytest_rageval.models.stores.sqlite import SqliteStore


@pytest.mark.parametrize("text", ["no base64!", "AAA=", "YWI="])
def test_an_invalid_vector_counts_as_missing(tmp_path: Path, text: str) -> None:
    store = SqliteStore(tmp_path)
    store.keep([Entry("a", Reply(text))])
    store.close()
    shared = SharedEmbeddings(lambda: SqliteStore(tmp_path))
    assert shared.get_many(["a"]) == {}
    shared.close()


def test_an_unusable_store_costs_only_time() -> None:
    """A store that fails to open is tried once and then ignored; a missing package raises InputError."""
    attempts = []

    def fail() -> ReplyStore:
        attempts.append(1)
        raise StoreError("away")

    shared = SharedEmbeddings(fail)
    shared.put_many({"a": np.ones(2, np.float32)})
    assert shared.get_many(["a"]) == {}
    assert attempts == [1]

    def missing() -> ReplyStore:
        raise InputError("install it")

    with pytest.raises(InputError):
        SharedEmbeddings(missing).get_many(["a"])
