"""Properties of eRAG's measures, for any ranking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.core.errors import InputError
from pytest_rageval.scores.measures import LABEL_MEASURES, usefulness

pytestmark = pytest.mark.slow

BINARY = st.lists(st.integers(0, 1).map(float), max_size=30)
SHARES = st.lists(st.floats(0, 1, allow_subnormal=False), max_size=30)
CUTS = st.one_of(st.none(), st.integers(1, 40))
GRADED = ("p", "ndcg", "hit")


def _score(name: str, labels: list[float], k: int | None, **how) -> float:
    return usefulness(name, {"q": {str(n): label for n, label in enumerate(labels)}}, k, **how)[0]


@pytest.mark.parametrize("name", LABEL_MEASURES)
@given(labels=BINARY, k=CUTS)
def test_scores_of_binary_labels_are_between_0_and_1(name: str, labels: list[float], k: int | None) -> None:
    score = _score(name, labels, k)
    assert 0 <= score <= 1
    assert any(labels) or score == 0


@pytest.mark.parametrize("name", GRADED)
@given(labels=SHARES, k=CUTS)
def test_scores_of_graded_labels_are_between_0_and_1(name: str, labels: list[float], k: int | None) -> None:
    assert 0 <= _score(name, labels, k, graded=True) <= 1 + 1e-12


@given(labels=SHARES.filter(bool))
def test_precision_and_hit_of_graded_labels(labels: list[float]) -> None:
    for k in range(1, len(labels) + 1):
        assert _score("p", labels, k, graded=True) == pytest.approx(sum(labels[:k]) / k, abs=1e-12)
        assert _score("hit", labels, k, graded=True) == max(labels[:k])
    assert _score("p", labels, None, graded=True) == pytest.approx(sum(labels) / len(labels), abs=1e-12)


@pytest.mark.parametrize("name", LABEL_MEASURES)
@given(labels=BINARY, k=CUTS, data=st.data())
def test_promoting_a_useful_passage_never_lowers_a_score(
    name: str, labels: list[float], k: int | None, data: st.DataObject
) -> None:
    _promoted(name, labels, k, data)


@pytest.mark.parametrize("name", GRADED)
@given(labels=SHARES, k=CUTS, data=st.data())
def test_promoting_a_better_passage_never_lowers_a_graded_score(
    name: str, labels: list[float], k: int | None, data: st.DataObject
) -> None:
    _promoted(name, labels, k, data, graded=True)


def _promoted(name: str, labels: list[float], k: int | None, data: st.DataObject, **how) -> None:
    pairs = [(i, j) for j in range(len(labels)) for i in range(j) if labels[i] < labels[j]]
    if pairs:
        i, j = data.draw(st.sampled_from(pairs))
        better = labels.copy()
        better[i], better[j] = labels[j], labels[i]
        assert _score(name, better, k, **how) >= _score(name, labels, k, **how) - 1e-12


@pytest.mark.parametrize("name", GRADED)
@given(labels=BINARY, k=CUTS)
def test_graded_and_binary_agree_on_labels_of_0_and_1(name: str, labels: list[float], k: int | None) -> None:
    assert _score(name, labels, k, graded=True) == _score(name, labels, k)


@given(labels=BINARY)
def test_recall_at_full_depth_is_hit(labels: list[float]) -> None:
    """At full depth recall equals hit, since only retrieved passages have labels."""
    assert _score("recall", labels, None) == pytest.approx(_score("hit", labels, None), abs=1e-12)


@pytest.mark.parametrize("name", LABEL_MEASURES)
@given(rows=st.lists(BINARY, max_size=6), k=CUTS)
def test_queries_do_not_touch_each_other(name: str, rows: list[list[float]], k: int | None) -> None:
    labels = {str(q): {str(n): label for n, label in enumerate(row)} for q, row in enumerate(rows)}
    together = usefulness(name, labels, k)
    assert together == pytest.approx([_score(name, row, k) for row in rows], abs=1e-12)


@given(labels=SHARES, data=st.data())
def test_a_label_that_is_none_is_named(labels: list[float], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(labels)))
    bad = data.draw(st.floats().filter(lambda x: not 0 <= x <= 1))
    with pytest.raises(InputError, match=f"query 'q': the label of passage '{place}' is"):
        _score("p", [*labels[:place], bad, *labels[place:]], 5, graded=True)
