"""Embeddings in a store of replies."""

from pathlib import Path

import numpy as np
import pytest

from pytest_rageval.embeddings.encoder import CachedEncoder
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.stores.interface import Entry, ReplyStore
from pytest_rageval.llm.stores.sqlite import SqliteStore
from pytest_rageval.session.shared_embeddings import SharedEmbeddings


class Encoder:
    """Counts the texts that it encodes."""

    fingerprint = "e"

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def sentences(self, texts: list[str]) -> list[np.ndarray]:
        """Their lengths."""
        self.encoded += texts
        return [np.array([len(text), 0.1], np.float32) for text in texts]

    tokens = sentences


def test_a_text_is_encoded_once_for_all(tmp_path: Path) -> None:
    """Another process has the same vector, to the last bit."""
    first, second = Encoder(), Encoder()
    for encoder in (first, second):
        cached = CachedEncoder(encoder, SharedEmbeddings(lambda: SqliteStore(tmp_path)))  # type: ignore[arg-type]
        found = cached.sentences(["aa", "b"])
        assert [vector.dtype for vector in found] == [np.float32] * 2
        assert [vector.tolist() for vector in found] == [
            [2.0, float(np.float32(0.1))],
            [1.0, float(np.float32(0.1))],
        ]
        cached.close()
    assert (first.encoded, second.encoded) == (["b", "aa"], [])


@pytest.mark.parametrize("text", ["no base64!", "AAA=", "YWI="])
def test_an_invalid_vector_counts_as_missing(tmp_path: Path, text: str) -> None:
    """Somebody else has written it."""
    store = SqliteStore(tmp_path)
    store.keep([Entry("a", Reply(text))])
    store.close()
    shared = SharedEmbeddings(lambda: SqliteStore(tmp_path))
    assert shared.get_many(["a"]) == {}
    shared.close()


def test_an_unusable_store_costs_only_time() -> None:
    """It is tried once; a package that is missing is an error."""
    tried = []

    def fail() -> ReplyStore:
        tried.append(1)
        raise StoreError("away")

    shared = SharedEmbeddings(fail)
    shared.put_many({"a": np.ones(2, np.float32)})
    assert shared.get_many(["a"]) == {}
    assert tried == [1]

    def missing() -> ReplyStore:
        raise InputError("install it")

    with pytest.raises(InputError):
        SharedEmbeddings(missing).get_many(["a"])
