"""Ranking measures equal trec_eval's on random graded rankings."""

import random
from functools import cache

import numpy as np
import pytest
import pytrec_eval

from pytest_rageval.measures.labels import gold_labels, ideal_labels
from pytest_rageval.measures.ranking import MEASURES, Labels
from pytest_rageval.model import Document, Gold, Ranking

RANKINGS, DEPTH = 2000, 60
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


@cache
def _trec(measure: str, depth: int) -> list[float]:
    """What trec_eval says of the first documents; a query without any is 0, as in its mean over all."""
    runs = {str(n): {d: float(-rank) for rank, d in enumerate(q[0][:depth])} for n, q in enumerate(QUERIES)}
    qrels = {str(n): grades for n, (_, grades) in enumerate(QUERIES)}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {measure})
    found = evaluator.evaluate({name: run for name, run in runs.items() if run})
    return [next(iter(found[name].values())) if run else 0.0 for name, run in runs.items()]


def _ours(name: str, k: int) -> list[float]:
    labels, ideal = _arrays()
    return list(MEASURES[name](labels, ideal, k))


@cache
def _arrays() -> tuple[Labels, Labels]:
    """The labels of all rankings, and those of the ideal ones."""
    labels, ideal = np.zeros((RANKINGS, DEPTH)), np.zeros((RANKINGS, DEPTH))
    for row, (names, grades) in enumerate(QUERIES):
        gold = [Gold(name, grade=grade) for name, grade in grades.items()]
        found = gold_labels(Ranking.of("q", [Document("", name) for name in names]), gold)
        labels[row, : len(found)] = found
        best = ideal_labels(gold)
        ideal[row, : len(best)] = best
    return labels, ideal


@pytest.mark.parametrize("k", CUTS)
@pytest.mark.parametrize("name", TREC)
def test_cut_measures_equal_trec_eval(name: str, k: int) -> None:
    """2,000 rankings, every cut-off, to 1e-12."""
    assert _ours(name, k) == pytest.approx(_trec(f"{TREC[name]}.{k}", DEPTH), abs=1e-12, rel=0)


@pytest.mark.parametrize("k", CUTS)
def test_mrr_equals_trec_eval_on_the_truncated_run(k: int) -> None:
    """trec_eval has no cut-off for it: the run is cut before."""
    assert _ours("mrr", k) == pytest.approx(_trec("recip_rank", k), abs=1e-12, rel=0)


@pytest.mark.parametrize("k", CUTS)
def test_f1_is_that_of_trec_evals_precision_and_recall(k: int) -> None:
    """Their harmonic mean."""
    both = zip(_trec(f"P.{k}", DEPTH), _trec(f"recall.{k}", DEPTH), strict=True)
    theirs = [2 * p * r / (p + r) if p + r else 0.0 for p, r in both]
    assert _ours("f1", k) == pytest.approx(theirs, abs=1e-12, rel=0)
