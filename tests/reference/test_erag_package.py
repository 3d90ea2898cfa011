"""Scores equal those of the package erag, except for its defects.

The package requires pytrec_eval, which has no wheels: install it with `pip install --no-deps erag` next to
pytrec_eval-terrier, which has the same import name.
"""

import random
from statistics import fmean
from typing import Any

import pytest

from pytest_rageval.scores.measures import usefulness

pytestmark = pytest.mark.slow

erag = pytest.importorskip("erag", reason="the package erag is not installed (pip install --no-deps erag)")

CUTS = (1, 2, 5, 10, 20, 50)
THEIRS = {"p": "P", "recall": "recall", "map": "map_cut", "ndcg": "ndcg_cut", "hit": "success"}
Labels = dict[str, list[float]]


def _theirs(labels: Labels, *measures: str) -> dict[str, Any]:
    found: dict[str, Any] = erag.eval(
        retrieval_results={query: [str(label) for label in row] for query, row in labels.items()},
        expected_outputs={query: [] for query in labels},
        text_generator=lambda batch: {query: passages[0] for query, passages in batch.items()},
        downstream_metric=lambda outputs, _: {query: float(output) for query, output in outputs.items()},
        retrieval_metrics=set(measures),
    )
    return found


def _ours(name: str, labels: Labels, k: int | None) -> list[float]:
    return [usefulness(name, row, k) for row in labels.values()]


def _random_labels(shares: tuple[float, ...], shortest: int) -> Labels:
    rng = random.Random(0)
    return {f"q{n}": rng.choices(shares, k=rng.randint(shortest, 50)) for n in range(1000)}


@pytest.mark.parametrize("chance", [0.02, 0.2, 0.7])
def test_binary_labels_score_the_same(chance: float) -> None:
    """1,000 rankings of 1 to 50 passages agree to 1e-12 for every measure and cut-off; mrr has no cut-off."""
    rng = random.Random(0)
    labels: Labels = {
        f"q{n}": [float(rng.random() < chance) for _ in range(rng.randint(1, 50))] for n in range(1000)
    }
    measures = {(name, k): f"{theirs}_{k}" for name, theirs in THEIRS.items() for k in CUTS}
    result = _theirs(labels, *measures.values(), "recip_rank", "map", "ndcg")
    for (name, k), measure in [
        *measures.items(),
        (("mrr", None), "recip_rank"),
        (("map", None), "map"),
        (("ndcg", None), "ndcg"),
    ]:
        theirs = [result["per_input"][query][measure] for query in labels]
        ours = _ours(name, labels, k)
        assert ours == pytest.approx(theirs, abs=1e-12, rel=0), measure
        assert fmean(ours) == pytest.approx(result["aggregated"][measure], abs=1e-12, rel=0)


@pytest.mark.parametrize(("name", "measure"), [("p", "P"), ("hit", "success")])
@pytest.mark.parametrize("k", [1, 3, None])
def test_graded_labels_score_the_same(name: str, measure: str, k: int | None) -> None:
    """1,000 rankings with at least as many passages as the cut-off have the same scores."""
    labels = _random_labels((0.0, 0.25, 0.5, 0.9, 1.0), shortest=3)
    measure = measure if k is None else f"{measure}_{k}"
    result = _theirs(labels, measure)["per_input"]
    theirs = [result[query][measure] for query in labels]
    assert _ours(name, labels, k) == pytest.approx(theirs, abs=1e-12, rel=0)


def test_there_an_empty_ranking_leaves_the_mean() -> None:
    labels: Labels = {"q1": [1.0], "q2": []}
    assert _theirs(labels, "P_1")["aggregated"]["P_1"] == 1.0
    assert fmean(_ours("p", labels, 1)) == 0.5


@pytest.mark.parametrize(("name", "measure"), [("p", "P"), ("recall", "recall"), ("hit", "success")])
def test_there_a_measure_without_a_cut_off_breaks(name: str, measure: str) -> None:
    labels: Labels = {"q1": [1.0, 0.0]}
    with pytest.raises(KeyError):
        _theirs(labels, measure)
    assert _ours(name, labels, None) == [0.5 if name == "p" else 1.0]


def test_there_one_fractional_label_changes_what_all_may_ask() -> None:
    labels: Labels = {"q1": [1.0, 0.0], "q2": [0.0, 1.0]}
    mixed: Labels = {**labels, "q3": [0.5]}
    assert _theirs(labels, "map_cut_2")["aggregated"]["map_cut_2"] == 0.75
    with pytest.raises(RuntimeError, match="continuous"):
        _theirs(mixed, "map_cut_2")
    assert _ours("p", mixed, 2) == [*_ours("p", labels, 2), 0.25]


@pytest.mark.parametrize(("name", "measure", "expected"), [("p", "P_5", 1.5 / 5), ("hit", "success_5", 1.0)])
def test_there_a_cut_off_beyond_the_ranking_breaks_for_graded_labels(name, measure, expected):
    labels: Labels = {"q1": [0.5, 1.0]}
    with pytest.raises(KeyError):
        _theirs(labels, measure)
    assert _ours(name, labels, 5) == [expected]
