"""Embeddings cached between runs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_rageval.extensions.embeddings.encoder import CachedEncoder, SentenceEncoder, Tokens, Vectors
from pytest_rageval.extensions.embeddings.store import SharedEmbeddings
from pytest_rageval.models.stores.sqlite import SqliteStore


class Counting:
    def __init__(self, fingerprint: str = "one", number: float = 1.0) -> None:
        self.fingerprint = fingerprint
        self.number = number
        self.asked: list[list[str]] = []

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        self.asked.append(list(texts))
        return [np.array([len(text), self.number], np.float32) for text in texts]

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        return [Tokens(vector[None], np.array([True])) for vector in self.sentences(texts)]


@pytest.mark.parametrize("place", [Path, lambda folder: SharedEmbeddings(lambda: SqliteStore(folder))])
def test_a_text_is_encoded_once_for_all_runs(tmp_path, place) -> None:
    first, second = Counting(number=0.1), Counting(number=0.1)
    texts = ["ccc", "a", "bb", "a"]
    for encoder, more, lengths in ((first, [], [3, 1, 2, 1]), (second, ["dddd"], [3, 1, 2, 1, 4])):
        cached = CachedEncoder(encoder, place(tmp_path))
        vectors = cached.sentences([*texts, *more])
        assert [vector.dtype for vector in vectors] == [np.float32] * len(lengths)
        assert np.array(vectors).tolist() == [[length, float(np.float32(0.1))] for length in lengths]
        assert cached.sentences([]) == []
        cached.close()
    assert (first.asked, second.asked) == ([["a", "bb", "ccc"]], [["dddd"]])


def test_another_encoder_has_its_own(tmp_path) -> None:
    first, second = CachedEncoder(Counting("one", 1), tmp_path), CachedEncoder(Counting("two", 2), tmp_path)
    vectors = [encoder.sentences(["a"])[0].tolist() for encoder in (first, second, first)]
    assert vectors == [[1, 1], [1, 2], [1, 1]]


def test_texts_differ_by_every_character(tmp_path) -> None:
    model = Counting()
    CachedEncoder(model, tmp_path).sentences(["a", "a ", "\ud800", "é", "e\u0301", ""])
    assert len(model.asked[0]) == 6


def test_embeddings_computed_before_a_failure_are_cached(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("pytest_rageval.extensions.embeddings.encoder.CHUNK_SIZE", 2)

    class Failing(Counting):
        def sentences(self, texts: Sequence[str]) -> list[Vectors]:
            if "eeeee" in texts:
                raise KeyboardInterrupt
            return super().sentences(texts)

    texts, model = ["a", "bb", "ccc", "dddd", "eeeee"], Counting()
    with pytest.raises(KeyboardInterrupt):
        CachedEncoder(Failing(), tmp_path).sentences(texts)
    CachedEncoder(model, tmp_path).sentences(texts)
    assert model.asked == [["eeeee"]]


def test_tokens_are_those_of_the_encoder(tmp_path) -> None:
    model = Counting()
    for _ in range(2):
        assert CachedEncoder(model, tmp_path).tokens(["ab"])[0].vectors.tolist() == [[2, 1]]
    assert len(model.asked) == 2


def test_the_fingerprint_of_a_folder_is_that_of_its_files(tmp_path) -> None:
    def fingerprint(name: str, **files: str) -> str:
        folder = tmp_path / name / "model"
        for file, text in files.items():
            (folder / file).mkdir(parents=True)
            (folder / file / "part").write_text(text)
        return SentenceEncoder(str(folder)).fingerprint

    original = fingerprint("one", weights="w", config="c")
    assert fingerprint("two", config="c", weights="w") == original
    changed = [
        fingerprint("three", weights="w2", config="c"),
        fingerprint("four", weights2="w", config="c"),
        fingerprint("five", weights="w", config="c", more=""),
        SentenceEncoder("org/name").fingerprint,
    ]
    assert len({original, *changed}) == 5


class Apart(Counting):
    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        return [np.array([len(text), 2.0], np.float32) for text in texts]

    def passages(self, texts: Sequence[str]) -> list[Vectors]:
        return [np.array([len(text), 3.0], np.float32) for text in texts]


def test_questions_passages_and_sentences_are_delimited(tmp_path) -> None:
    for encoder in (CachedEncoder(Apart(), tmp_path), CachedEncoder(Apart(), tmp_path)):
        ways = (encoder.sentences, encoder.queries, encoder.passages)
        assert [encode(["a"])[0].tolist() for encode in ways] == [[1, 1], [1, 2], [1, 3]]
    plain = Counting("two")
    encoder = CachedEncoder(plain, tmp_path)
    assert encoder.queries(["a"])[0].tolist() == encoder.passages(["a"])[0].tolist() == [1, 1]
    assert plain.asked == [["a"]]
