"""The encoder: each text once, and one a model."""

from typing import Any

import numpy as np
import pytest

from pytest_rageval.embeddings import encoder as module
from pytest_rageval.embeddings.encoder import SentenceEncoder, Vectors, shared_encoder


class _Counting(SentenceEncoder):
    """Encodes a text as its length, and remembers what it was asked."""

    def __init__(self, cache_bytes: int) -> None:
        super().__init__(cache_bytes=cache_bytes)
        self.asked: list[list[str]] = []

    def _load(self) -> "_Counting":
        return self

    def encode(self, texts: list[str], **_: object) -> list[Vectors]:
        """In place of the model."""
        self.asked.append(texts)
        return [np.array([len(text)], np.float32) for text in texts]


def test_a_text_is_encoded_once() -> None:
    """Also where it comes twice in a call, or with space around it."""
    encoder = _Counting(cache_bytes=400)
    assert [float(v[0]) for v in encoder.sentences(["bb", "a", " bb\n"])] == [2.0, 1.0, 2.0]
    encoder.sentences(["a", "ccc"])
    assert encoder.asked == [["a", "bb"], ["ccc"]]


def test_the_least_recently_used_is_evicted_first() -> None:
    """A vector here has 4 bytes, and two of them fit; one call may still need more."""
    encoder = _Counting(cache_bytes=8)
    encoder.sentences(["a", "b"])
    encoder.sentences(["a"])
    encoder.sentences(["c"])
    encoder.sentences(["a"])
    encoder.sentences(["b"])
    assert encoder.asked == [["a", "b"], ["c"], ["b"]]
    assert len(encoder.sentences(list("defg"))) == 4


def test_one_encoder_a_model() -> None:
    """It is shared by all who ask, and nothing is loaded by asking."""
    assert shared_encoder() is shared_encoder()
    assert shared_encoder("other") is not shared_encoder()


class _Model:
    """Of sentence-transformers, as far as it is called: a text's vector is the length of all that it reads."""

    def encode_query(self, texts: list[str], *, prompt: str | None, **_: Any) -> list[list[float]]:
        """With its own prompt where none is stated."""
        return self.encode([("its own: " if prompt is None else prompt) + text for text in texts])

    def encode_document(self, texts: list[str], *, prompt: str | None, **_: Any) -> list[list[float]]:
        """Likewise."""
        return self.encode([(prompt or "") + text for text in texts])

    def encode(self, texts: list[str], **_: Any) -> list[list[float]]:
        """One number per text."""
        return [[len(text)] for text in texts]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ({}, ["its own: cat", "cat", "cat"]),
        ({"query_prompt": "q: ", "passage_prompt": "passage: "}, ["q: cat", "passage: cat", "cat"]),
        ({"query_prompt": ""}, ["cat", "cat", "cat"]),
    ],
)
def test_questions_and_passages_have_prompts(
    monkeypatch: pytest.MonkeyPatch, prompts: dict[str, str], expected: list[str]
) -> None:
    """Those stated, or else the model's; each way of reading a text is kept apart in memory."""
    monkeypatch.setattr(module, "_load_model", lambda *_: _Model())
    encoder = SentenceEncoder("m", **prompts)
    for _ in range(2):
        found = [ask(["cat"])[0] for ask in (encoder.queries, encoder.passages, encoder.sentences)]
        assert [int(vector[0]) for vector in found] == [len(text) for text in expected]


def test_prompts_are_part_of_the_fingerprint() -> None:
    """So none is found that was made with others; without any it is what it was."""
    made = [{}, {"query_prompt": "q"}, {"passage_prompt": "q"}, {"query_prompt": "q", "passage_prompt": ""}]
    prints = [SentenceEncoder("m", **prompts).fingerprint for prompts in made]
    assert len(set(prints)) == len(made)
    assert prints[0] == "m"
