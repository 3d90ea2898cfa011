"""Ranking measures equal trec_eval's on random graded rankings."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import pytrec_eval

from pytest_rageval.measures.labels import gold_labels, ideal_labels
from pytest_rageval.measures.ranking import MEASURES
from pytest_rageval.model import Document, Gold, Ranking

RANKINGS = 2000
CUTS = (1, 2, 3, 5, 10, 20, 50)
TREC = {"recall": "recall", "precision": "P", "map": "map_cut", "ndcg": "ndcg_cut", "hit": "success"}


def _random_queries() -> list[tuple[list[str], dict[str, int]]]:
    """Rankings of 0 to 60 documents and judgements of grades 0 to 3, at least one above 0."""
    rng = random.Random(0)
    queries = []
    while len(queries) < RANKINGS:
        pool = [f"d{n}" for n in range(80)]
        ranking = rng.sample(pool, rng.choice([0, 1, 2, 5, 10, 30, 60]))
        judged = rng.sample(pool, rng.choice([1, 2, 5, 20, 60]))
        grades = {name: rng.choice([0, 0, 1, 1, 2, 3]) for name in judged}
        if any(grades.values()):
            queries.append((ranking, grades))
    return queries


QUERIES = _random_queries()


def _trec(measure: str, ranking: Sequence[str], grades: dict[str, int]) -> float:
    """What trec_eval says; it scores no query without documents, for which it has 0 in the mean."""
    run = {name: float(-rank) for rank, name in enumerate(ranking)}
    found = pytrec_eval.RelevanceEvaluator({"q": grades}, {measure}).evaluate({"q": run})
    return next(iter(found["q"].values())) if "q" in found and run else 0.0


def _ours(name: str, k: int) -> list[float]:
    labels, ideal = np.zeros((RANKINGS, 60)), np.zeros((RANKINGS, 80))
    for row, (names, grades) in enumerate(QUERIES):
        gold = [Gold(name, grade=grade) for name, grade in grades.items()]
        found = gold_labels(Ranking.of("q", [Document("", name) for name in names]), gold)
        labels[row, : len(found)] = found
        best = ideal_labels(gold)
        ideal[row, : len(best)] = best
    return list(MEASURES[name](labels, ideal, k))


@pytest.mark.parametrize("k", CUTS)
@pytest.mark.parametrize("name", TREC)
def test_cut_measures_equal_trec_eval(name: str, k: int) -> None:
    """2,000 rankings, every cut-off, to 1e-12."""
    theirs = [_trec(f"{TREC[name]}.{k}", names, grades) for names, grades in QUERIES]
    assert _ours(name, k) == pytest.approx(theirs, abs=1e-12, rel=0)


@pytest.mark.parametrize("k", CUTS)
def test_mrr_equals_trec_eval_on_the_truncated_run(k: int) -> None:
    """trec_eval has no cut-off for it: the run is cut before."""
    theirs = [_trec("recip_rank", names[:k], grades) for names, grades in QUERIES]
    assert _ours("mrr", k) == pytest.approx(theirs, abs=1e-12, rel=0)


@pytest.mark.parametrize("k", CUTS)
def test_f1_is_that_of_trec_evals_precision_and_recall(k: int) -> None:
    """Their harmonic mean."""
    theirs = []
    for names, grades in QUERIES:
        p, r = _trec(f"P.{k}", names, grades), _trec(f"recall.{k}", names, grades)
        theirs.append(2 * p * r / (p + r) if p + r else 0.0)
    assert _ours("f1", k) == pytest.approx(theirs, abs=1e-12, rel=0)
