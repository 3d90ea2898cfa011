"""eRAG's measures, on numbers that can be checked by hand."""

from math import log2

import pytest

from pytest_rageval.scores.measures import LABEL_MEASURES, usefulness

# The passages at ranks 1 and 3 are useful, the others are not.
BINARY = [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("name", "k", "expected"),
    [
        ("p", 1, 1.0),
        ("p", 3, 2 / 3),
        ("p", 10, 2 / 10),
        ("p", None, 2 / 4),
        ("recall", 1, 1 / 2),
        ("recall", 3, 1.0),
        ("recall", None, 1.0),
        ("map", 1, 1 / 2),
        ("map", 4, (1 / 1 + 2 / 3) / 2),
        ("mrr", 4, 1.0),
        ("ndcg", 2, 1 / (1 + 1 / log2(3))),
        ("ndcg", 4, (1 + 1 / 2) / (1 + 1 / log2(3))),
        ("hit", 1, 1.0),
    ],
)
def test_a_worked_example(name: str, k: int | None, expected: float) -> None:
    """Two useful passages of four: the ideal ranking has them at ranks 1 and 2."""
    assert usefulness(name, BINARY, k) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("name", "k", "expected"),
    [
        ("p", 2, (0.5 + 0.8) / 2),
        ("p", 5, (0.5 + 0.8 + 0.2) / 5),
        ("p", None, 0.5),
        ("hit", 1, 0.5),
        ("hit", 3, 0.8),
        ("ndcg", 2, (0.5 + 0.8 / log2(3)) / (0.8 + 0.5 / log2(3))),
    ],
)
def test_graded_labels_are_taken_as_they_are(name: str, k: int | None, expected: float) -> None:
    assert usefulness(name, [0.5, 0.8, 0.2], k) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", LABEL_MEASURES)
@pytest.mark.parametrize("k", [1, 5, None])
def test_empty_and_useless_rankings_score_0(name: str, k: int | None) -> None:
    assert [usefulness(name, labels, k) for labels in ([], [0, 0])] == [0.0, 0.0]
    assert usefulness(name, [True], k) == (0.2 if (name, k) == ("p", 5) else 1.0)
