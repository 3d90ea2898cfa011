"""eRAG's measures, on numbers that can be checked by hand."""

from math import log2, nan

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.scores.measures import LABEL_MEASURES, usefulness

# The passages at ranks 1 and 3 are useful, the others are not.
BINARY = {"q": {"a": 1, "b": 0, "c": 1, "d": 0}}
SHARES = {"q": {"a": 0.5, "b": 0.8, "c": 0.2}}


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
    assert usefulness(name, BINARY, k)[0] == pytest.approx(expected, abs=1e-15)


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
    """With graded labels, P is their mean, Hit the highest label, and NDCG uses the labels as gains."""
    assert usefulness(name, SHARES, k, graded=True)[0] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", ["recall", "map", "mrr"])
@pytest.mark.parametrize("labels", [SHARES, BINARY, {}])
def test_graded_labels_have_no_recall_map_or_mrr(name: str, labels) -> None:
    """`graded=True` raises InputError for these measures, whatever the labels; the message names a label that works."""
    with pytest.raises(
        InputError, match=rf"eRAG's {name} is defined for labels of 0 and 1 only(?s:.)*label=\"judge>=0.5\""
    ):
        usefulness(name, labels, 3, graded=True)


@pytest.mark.parametrize("name", LABEL_MEASURES)
def test_a_label_between_0_and_1_must_be_announced(name: str) -> None:
    with pytest.raises(
        InputError, match=r"query 'q2': the label of passage 'b' is 0\.5, and .* 0 or 1\.\nSay"
    ):
        usefulness(name, {**BINARY, "q2": {"a": 1, "b": 0.5}}, 3)


@pytest.mark.parametrize("label", [nan, -0.1, 1.0000001, float("inf"), 2])
@pytest.mark.parametrize("how", [{}, {"graded": True}])
def test_a_label_outside_0_and_1_is_refused_by_name(label: float, how: dict) -> None:
    with pytest.raises(
        InputError, match=r"query 'q2': the label of passage 'b' is .*; it must lie between 0 and 1"
    ):
        usefulness("p", {**BINARY, "q2": {"a": 1, "b": label, "c": 5}}, 3, **how)


@pytest.mark.parametrize("name", LABEL_MEASURES)
@pytest.mark.parametrize("k", [1, 5, None])
def test_empty_and_useless_rankings_score_0_and_stay(name: str, k: int | None) -> None:
    labels = {"nothing came back": {}, "nothing helps": {"a": 0, "b": 0}, "first": {"a": True}}
    assert usefulness(name, labels, k) == [0.0, 0.0, 0.2 if (name, k) == ("p", 5) else 1.0]


@pytest.mark.parametrize("name", LABEL_MEASURES)
def test_no_queries_have_no_scores(name: str) -> None:
    """Without queries, the result is an empty array."""
    assert usefulness(name, {}, 3) == []
    assert usefulness(name, {"q": {}}, None) == [0.0]
