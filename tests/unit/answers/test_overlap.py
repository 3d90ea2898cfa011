"""ROUGE, BLEU and METEOR, computed by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.answers.overlap import bleu, meteor, rouge1, rouge2, rouge_l

ALL = (rouge1, rouge2, rouge_l, bleu, meteor)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        # prediction: the cat sat on mat (5 words), reference: the cat on the mat sat (6 words)
        (rouge1, 2 * 5 / (5 + 6)),
        (rouge2, 2 * 1 / (4 + 5)),  # the cat
        (rouge_l, 2 * 4 / (5 + 6)),  # the cat on mat
    ],
)
def test_rouge_by_hand(measure, expected: float) -> None:
    """2PR / (P + R) is twice the number of shared units over the sum of the lengths."""
    assert measure("the cat sat on mat", ["the cat on the mat sat"]) == pytest.approx(expected, abs=1e-15)


def test_bleu_by_hand() -> None:
    """Precisions are 4/4, 2/3, 1/2 and 0 of 1, which smoothing counts as half a match of one."""
    expected = math.exp(1 - 5 / 4) * (1 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4)
    assert bleu("a b c e", ["a b c d e"]) == pytest.approx(expected, abs=1e-12)


def test_bleu_of_a_short_text_looks_at_the_orders_it_has() -> None:
    assert bleu("red cat", ["red cat"]) == 1.0
    assert bleu("red cat", ["red dog"]) == pytest.approx(math.sqrt(1 / 2 * 1 / 2), abs=1e-12)


def test_bleu_without_smoothing_needs_four_words_in_a_row() -> None:
    assert bleu("a b c e", ["a b c d e"], smoothing="none") == 0.0
    assert bleu("red cat", ["red cat"], smoothing="none") == 0.0
    expected = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert bleu("a b c d x", ["a b c d e"], smoothing="none") == pytest.approx(expected, abs=1e-12)


def test_meteor_by_hand() -> None:
    """Exact words and one stem, in three chunks.

    prediction: the cats | sat | on the mat      reference: on the mat the cat sat here

    "the" and "mat" are in both; "cats" and "cat" share a stem: 6 aligned of 6 and of 7.
    nltk aligns from the right, each word with its last free twin: the second
    "the" with the one before "cat", the first with the one before "mat". In the
    order of the prediction the places in the reference are 1 4 5 0 3 2: the
    only neighbours are 4 and 5, so 5 chunks.
    """
    p, r = 6 / 6, 6 / 7
    expected = p * r / (0.9 * p + 0.1 * r) * (1 - 0.5 * (5 / 6) ** 3)
    score = meteor("the cats sat on the mat", ["On the mat the cat sat here."])
    assert score == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("words", "expected"), [(1, 0.5), (2, 0.9375), (10, 0.9995)])
def test_meteor_of_equal_texts_keeps_a_penalty(words: int, expected: float) -> None:
    text = " ".join("abcdefghij"[:words])
    assert meteor(text, [text]) == pytest.approx(expected, abs=1e-15)


def test_meteor_matches_no_synonyms() -> None:
    assert meteor("big", ["large"]) == 0.0


@pytest.mark.parametrize("measure", ALL)
def test_the_best_reference_counts(measure) -> None:
    near, far = "the cat sat on the mat", "dogs bark"
    alone = measure("the cat sat on a mat", [near])
    assert alone > 0
    assert (
        measure("the cat sat on a mat", [far, near]) == measure("the cat sat on a mat", [near, far]) == alone
    )


@pytest.mark.parametrize("measure", ALL)
def test_nothing_in_common_or_nothing_at_all_is_0(measure) -> None:
    assert measure("cat", ["dog"]) == measure("", ["dog"]) == measure("cat", [""]) == measure("", [""]) == 0.0
    assert measure("cat", []) == 0.0


@pytest.mark.parametrize(
    ("prediction", "reference"),
    [
        (
            "\u041c\u043e\u0441\u043a\u0432\u0430 \u0440\u0435\u043a\u0430",
            "\u043c\u043e\u0441\u043a\u0432\u0430 \u0433\u043e\u0440\u043e\u0434",
        ),
        ("\u6771\u4eac", "\u4eac\u90fd"),
        ("\u0e44\u0e17\u0e22", "\u0e44\u0e17"),
    ],
)
def test_other_scripts_have_words(prediction: str, reference: str) -> None:
    for measure in (rouge1, rouge_l, meteor):
        assert 0 < measure(prediction, [reference]) < 1


def test_characters_of_scripts_without_spaces_have_bigrams() -> None:
    assert rouge2("\u6771\u4eac\u90fd", ["\u6771\u4eac"]) == pytest.approx(2 / 3, abs=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ALL)
@given(prediction=st.text(max_size=30), references=st.lists(st.text(max_size=30), max_size=3))
def test_scores_are_between_0_and_1(measure, prediction: str, references: list[str]) -> None:
    assert 0.0 <= measure(prediction, references) <= 1.0
