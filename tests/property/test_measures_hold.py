"""Properties of ranking and answer measures, for any input."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_rageval.answers.overlap import exact_match, token_f1
from pytest_rageval.scores.measures import MEASURES, Labelled
from pytest_rageval.stats.intervals import mean_interval

pytestmark = pytest.mark.slow

SHARES_OF_1 = [name for name in MEASURES if name != "dcg"]
OF_SHARES = [name for name in SHARES_OF_1 if name != "ndcg.exp"]
GRADES = st.integers(0, 3).map(float)
SHARES = st.floats(0, 1, allow_subnormal=False)


@st.composite
def rankings(draw: st.DrawFn, labels: st.SearchStrategy[float] = GRADES) -> tuple[list[float], list[float]]:
    """Draw labels in rank order, and the ideal labels of all relevant documents, retrieved or missed."""
    retrieved = draw(st.lists(labels, max_size=30))
    missed = draw(st.lists(labels, max_size=10))
    ideal = sorted((label for label in [*retrieved, *missed] if label > 0), reverse=True)
    return retrieved, ideal or [1.0]


def _score(name: str, labels: list[float], ideal: list[float], k: int) -> float:
    return MEASURES[name](Labelled.of(labels, ideal, k))


@pytest.mark.parametrize("name", SHARES_OF_1)
@given(ranking=rankings(), k=st.integers(1, 40))
def test_scores_of_grades_are_between_0_and_1(name: str, ranking, k: int) -> None:
    assert 0 <= _score(name, *ranking, k) <= 1


@pytest.mark.parametrize("name", OF_SHARES)
@given(ranking=rankings(SHARES), k=st.integers(1, 40))
@example(ranking=([1.0, 2.0**-52, 0.664624266449383], [1.0, 0.664624266449383, 2.0**-52]), k=3)
def test_scores_of_shares_are_between_0_and_1(name: str, ranking, k: int) -> None:
    assert 0 <= _score(name, *ranking, k) <= 1


@pytest.mark.parametrize("name", [name for name in MEASURES if not name.startswith("set.")])
@given(ranking=rankings(), tail=st.lists(GRADES, max_size=10), k=st.integers(1, 40))
def test_documents_below_k_do_not_matter(name: str, ranking, tail: list[float], k: int) -> None:
    labels, ideal = ranking
    top = [*labels, *[0.0] * k][:k]
    assert _score(name, [*top, *tail], ideal, k) == _score(name, top, ideal, k)


@pytest.mark.parametrize("name", MEASURES)
@given(ranking=rankings(), k=st.integers(1, 40), data=st.data())
def test_promoting_a_relevant_document_never_lowers_a_score(
    name: str, ranking, k: int, data: st.DataObject
) -> None:
    labels, ideal = ranking
    pairs = [(i, j) for j in range(len(labels)) for i in range(j) if labels[i] < labels[j]]
    if not pairs:
        return
    i, j = data.draw(st.sampled_from(pairs))
    better = labels.copy()
    better[i], better[j] = labels[j], labels[i]
    assert _score(name, better, ideal, k) >= _score(name, labels, ideal, k) - 1e-12


@pytest.mark.parametrize("name", ["recall", "map", "mrr", "ndcg", "hit"])
@given(ideal=st.lists(st.integers(1, 3).map(float), min_size=1, max_size=30), extra=st.integers(0, 20))
def test_an_ideal_ranking_scores_1(name: str, ideal: list[float], extra: int) -> None:
    """A ranking of all relevant documents in order of relevance scores 1 at full depth."""
    ideal.sort(reverse=True)
    assert _score(name, [*ideal, *[0.0] * extra], ideal, len(ideal) + extra) == pytest.approx(1.0, abs=1e-12)


@given(values=st.lists(st.floats(0, 1), max_size=30), seed=st.integers(0, 3))
@example(values=[0.0, 1e-300], seed=0)
def test_an_interval_lies_within_0_and_1(values: list[float], seed: int) -> None:
    interval = mean_interval(values, seed=seed)
    assert (interval is None) == (not values or (len(values) == 1 and values[0] not in {0.0, 1.0}))
    if interval is not None:
        low, high = interval
        assert 0 <= low <= high <= 1


@given(prediction=st.text(), references=st.lists(st.text(), max_size=4))
def test_exact_match_implies_full_f1(prediction: str, references: list[str]) -> None:
    f1 = token_f1(prediction, references)
    assert 0 <= f1 <= 1
    if prediction.strip() and exact_match(prediction, references):
        assert f1 == 1
