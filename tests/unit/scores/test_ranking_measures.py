"""The ranking measures, on numbers that can be checked by hand."""

from math import log2

import pytest

from pytest_rageval.scores.measures import LABEL_MEASURES, MEASURES, Labelled, compute_measure, usefulness


def _score(name: str, labels: list[float], ideal: list[float], k: int) -> float:
    return MEASURES[name](Labelled.of(labels, ideal, k))


# The documents at ranks 1 and 3 are relevant; one more relevant document was not retrieved.
LABELS, IDEAL = [1, 0, 1, 0, 0], [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "k", "expected"),
    [
        ("precision", 1, 1.0),
        ("precision", 3, 2 / 3),
        ("precision", 5, 2 / 5),
        ("precision", 10, 2 / 10),
        ("recall", 1, 1 / 3),
        ("recall", 3, 2 / 3),
        ("recall", 10, 2 / 3),
        ("f1", 3, 2 / 3),
        ("f1", 5, 2 * 0.4 * (2 / 3) / (0.4 + 2 / 3)),
        ("map", 1, 1 / 3),
        ("map", 5, (1 / 1 + 2 / 3) / 3),
        ("mrr", 5, 1.0),
        ("ndcg", 1, 1.0),
        ("ndcg", 2, 1 / (1 + 1 / log2(3))),
        ("ndcg", 5, (1 + 1 / 2) / (1 + 1 / log2(3) + 1 / 2)),
        ("hit", 1, 1.0),
        ("dcg", 5, 1 + 1 / 2),
        ("r_precision", 5, 2 / 3),
        ("r_precision", 2, 1 / 3),
        ("set.precision", 3, 2 / 3),
        ("set.precision", 10, 2 / 5),
        ("set.f1", 10, 2 * 0.4 * (2 / 3) / (0.4 + 2 / 3)),
        ("ndcg.exp", 5, (1 + 1 / 2) / (1 + 1 / log2(3) + 1 / 2)),
    ],
)
def test_a_worked_example(name: str, k: int, expected: float) -> None:
    """Two of three relevant documents are retrieved, at ranks 1 and 3."""
    assert _score(name, LABELS, IDEAL, k) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("name", "labels", "ideal", "k", "expected"),
    [
        # The first relevant document is at rank 3; documents after the cut-off do not count.
        ("mrr", [0, 0, 1], [1], 1, 0.0),
        ("mrr", [0, 0, 1], [1], 2, 0.0),
        ("mrr", [0, 0, 1], [1], 3, 1 / 3),
        ("hit", [0, 0, 1], [1], 2, 0.0),
        ("hit", [0, 0, 1], [1], 3, 1.0),
        ("f1", [0, 0, 1], [1], 2, 0.0),
        # Only NDCG is below 1 if documents of grades 1 and 3 are retrieved in the wrong order.
        *((name, [1, 3], [3, 1], 2, 1.0) for name in ("precision", "recall", "map", "hit", "mrr")),
        ("ndcg", [1, 3], [3, 1], 2, (1 + 3 / log2(3)) / (3 + 1 / log2(3))),
        ("ndcg.exp", [1, 3], [3, 1], 2, (1 + 7 / log2(3)) / (7 + 1 / log2(3))),
        ("dcg", [1, 3], [3, 1], 2, 1 + 3 / log2(3)),
        # Labels between 0 and 1 count in part: P is the mean label of the top k, Hit the highest.
        ("precision", [0.5, 0.1], [0.5, 0.5, 0.1], 2, 0.3),
        ("hit", [0.5, 0.1], [0.5, 0.5, 0.1], 2, 0.5),
        ("recall", [0.5, 0.1], [0.5, 0.5, 0.1], 2, 0.6 / 1.1),
    ],
)
def test_late_graded_and_partial_labels(name, labels, ideal, k, expected):
    assert _score(name, labels, ideal, k) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("labels", [[], [0, 0, 0]])
def test_nothing_relevant_retrieved_scores_0(name: str, labels: list[float]) -> None:
    """A ranking that is empty or has no relevant document scores 0 without an error."""
    assert _score(name, labels, [1, 1], 3) == 0.0


@pytest.mark.parametrize("name", MEASURES)
def test_equal_rankings_have_equal_values(name: str) -> None:
    rankings = [Labelled.of(labels, [2, 1, 1], 2) for labels in ([1, 0, 2], [0, 1, 0], [1, 0, 2])]
    values = compute_measure(name, rankings)
    assert values == [MEASURES[name](ranking) for ranking in rankings]
    assert values[0] == values[2]
    assert compute_measure(name, []) == []


@pytest.mark.parametrize(
    ("name", "k", "expected"),
    [
        ("p", 2, (0.5 + 0.8) / 2),
        ("p", 5, (0.5 + 0.8 + 0.2) / 5),
        ("p", None, 0.5),
        ("recall", None, 1.0),
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
