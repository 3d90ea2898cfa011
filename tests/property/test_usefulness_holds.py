"""Properties of eRAG's measures, for any ranking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.scores.measures import LABEL_MEASURES, usefulness

pytestmark = pytest.mark.slow

BINARY = st.lists(st.integers(0, 1).map(float), max_size=30)
SHARES = st.lists(st.floats(0, 1, allow_subnormal=False), max_size=30)
CUTS = st.one_of(st.none(), st.integers(1, 40))
GRADED = ("p", "ndcg", "hit")


@pytest.mark.parametrize("name", LABEL_MEASURES)
@given(labels=BINARY, k=CUTS)
def test_scores_of_binary_labels_are_between_0_and_1(name: str, labels: list[float], k: int | None) -> None:
    score = usefulness(name, labels, k)
    assert 0 <= score <= 1
    assert any(labels) or score == 0


@pytest.mark.parametrize("name", GRADED)
@given(labels=SHARES, k=CUTS)
def test_scores_of_graded_labels_are_between_0_and_1(name: str, labels: list[float], k: int | None) -> None:
    assert 0 <= usefulness(name, labels, k) <= 1 + 1e-12


@given(labels=SHARES.filter(bool))
def test_precision_and_hit_of_graded_labels(labels: list[float]) -> None:
    for k in range(1, len(labels) + 1):
        assert usefulness("p", labels, k) == pytest.approx(sum(labels[:k]) / k, abs=1e-12)
        assert usefulness("hit", labels, k) == max(labels[:k])
    assert usefulness("p", labels, None) == pytest.approx(sum(labels) / len(labels), abs=1e-12)


@pytest.mark.parametrize("name", LABEL_MEASURES)
@given(labels=BINARY, k=CUTS, data=st.data())
def test_promoting_a_useful_passage_never_lowers_ausefulness(
    name: str, labels: list[float], k: int | None, data: st.DataObject
) -> None:
    _promoted(name, labels, k, data)


@pytest.mark.parametrize("name", GRADED)
@given(labels=SHARES, k=CUTS, data=st.data())
def test_promoting_a_better_passage_never_lowers_a_gradedusefulness(
    name: str, labels: list[float], k: int | None, data: st.DataObject
) -> None:
    _promoted(name, labels, k, data)


def _promoted(name: str, labels: list[float], k: int | None, data: st.DataObject) -> None:
    pairs = [(i, j) for j in range(len(labels)) for i in range(j) if labels[i] < labels[j]]
    if pairs:
        i, j = data.draw(st.sampled_from(pairs))
        better = labels.copy()
        better[i], better[j] = labels[j], labels[i]
        assert usefulness(name, better, k) >= usefulness(name, labels, k) - 1e-12


@given(labels=BINARY)
def test_recall_at_full_depth_is_hit(labels: list[float]) -> None:
    """At full depth recall equals hit, since only retrieved passages have labels."""
    assert usefulness("recall", labels, None) == pytest.approx(usefulness("hit", labels, None), abs=1e-12)
