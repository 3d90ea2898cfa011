"""The sentence encoder: each text is encoded once, and there is one encoder per model."""

from typing import Any

import numpy as np
import pytest

from pytest_rageval.extensions.embeddings import encoder as module
from pytest_rageval.extensions.embeddings.encoder import SentenceEncoder, Vectors, shared_encoder


class _Counting(SentenceEncoder):
    def __init__(self, cache_bytes: int) -> None:
        super().__init__(cache_bytes=cache_bytes)
        self.asked: list[list[str]] = []

    def _load(self) -> "_Counting":
        return self

    def encode(self, texts: list[str], **_: object) -> list[Vectors]:
        self.asked.append(texts)
        return [np.array([len(text)], np.float32) for text in texts]


def test_a_text_is_encoded_once() -> None:
    encoder = _Counting(cache_bytes=400)
    assert [float(v[0]) for v in encoder.sentences(["bb", "a", " bb\n"])] == [2.0, 1.0, 2.0]
    encoder.sentences(["a", "ccc"])
    assert encoder.asked == [["a", "bb"], ["ccc"]]


def test_the_least_recently_used_is_evicted_first() -> None:
    encoder = _Counting(cache_bytes=8)
    encoder.sentences(["a", "b"])
    encoder.sentences(["a"])
    encoder.sentences(["c"])
    encoder.sentences(["a"])
    encoder.sentences(["b"])
    assert encoder.asked == [["a", "b"], ["c"], ["b"]]
    assert len(encoder.sentences(list("defg"))) == 4


def test_one_encoder_a_model() -> None:
    assert shared_encoder() is shared_encoder()
    assert shared_encoder("other") is not shared_encoder()


class _Model:
    def encode_query(self, texts: list[str], *, prompt: str | None, **_: Any) -> list[list[float]]:
        return self.encode([("its own: " if prompt is None else prompt) + text for text in texts])

    def encode_document(self, texts: list[str], *, prompt: str | None, **_: Any) -> list[list[float]]:
        return self.encode([(prompt or "") + text for text in texts])

    def encode(self, texts: list[str], **_: Any) -> list[list[float]]:
        return [[len(text)] for text in texts]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ({}, ["its own: cat", "cat", "cat"]),
        ({"query_prompt": "q: ", "passage_prompt": "passage: "}, ["q: cat", "passage: cat", "cat"]),
        ({"query_prompt": ""}, ["cat", "cat", "cat"]),
    ],
)
def test_questions_and_passages_have_prompts(monkeypatch, prompts, expected):
    monkeypatch.setattr(module, "_load_model", lambda *_: _Model())
    encoder = SentenceEncoder("m", **prompts)
    for _ in range(2):
        vectors = [encode(["cat"])[0] for encode in (encoder.queries, encoder.passages, encoder.sentences)]
        assert [int(vector[0]) for vector in vectors] == [len(text) for text in expected]


def test_prompts_are_part_of_the_fingerprint() -> None:
    variants = [
        {},
        {"query_prompt": "q"},
        {"passage_prompt": "q"},
        {"query_prompt": "q", "passage_prompt": ""},
    ]
    fingerprints = [SentenceEncoder("m", **prompts).fingerprint for prompts in variants]
    assert len(set(fingerprints)) == len(variants)
    assert fingerprints[0] == "m"
