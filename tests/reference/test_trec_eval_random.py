"""Ranking measures equal trec_eval's on random graded rankings, with tied scores and repeated documents."""

import random
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
import pytrec_eval

from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.measures import MEASURES, Labelled, ideal_labels

pytestmark = pytest.mark.slow

RANKINGS, DEPTH = 10_000, 60
CUTS = (1, 2, 3, 5, 10, 20, 50)
TREC = {"recall": "recall", "precision": "P", "map": "map_cut", "ndcg": "ndcg_cut", "hit": "success"}

Query = tuple[list[Document], dict[str, int]]


@cache
def _queries() -> list[Query]:
    """Return random rankings, with judgements of grades 0 to 3, at least one above 0.

    A ranking has 0 to 60 different documents, half the time with tied scores. Tied documents are in
    trec_eval's order, by descending name, since ours keeps the given order. A third of the rankings repeat
    documents further down with a lower score, as a retriever over pieces of documents does.
    """
    rng = random.Random(0)
    pool = [f"d{n}" for n in range(80)]
    queries: list[Query] = []
    while len(queries) < RANKINGS:
        names = rng.sample(pool, rng.choice([0, 1, 2, 5, 10, 30, 60]))
        levels = rng.choice([5, 10_000])
        scores = {name: rng.randrange(levels) for name in names}
        documents = [Document("", name, float(scores[name])) for name in sorted(names, reverse=True)]
        documents.sort(key=lambda document: document.score or 0.0, reverse=True)
        if rng.random() < 1 / 3:
            for again in rng.sample(documents, len(documents) // 2):
                place = rng.randint(documents.index(again) + 1, len(documents))
                documents.insert(place, Document("", again.id, (again.score or 0.0) - 0.5))
        judged = rng.sample(pool, rng.choice([1, 2, 5, 20, 60]))
        grades = {name: rng.choice([0, 0, 1, 1, 2, 3]) for name in judged}
        if any(grades.values()):
            queries.append((documents, grades))
    return queries


@cache
def _trec(measures: str, depth: int) -> Mapping[str, list[float]]:
    """Return trec_eval's scores of the first documents; an empty query scores 0, as in its mean over all.

    A run contains each document once, with its best score.
    """
    runs: dict[str, dict[str, float]] = {}
    for n, (documents, _) in enumerate(_queries()):
        best: dict[str, float] = {}
        for document in documents:
            best.setdefault(str(document.id), document.score or 0.0)
        runs[str(n)] = dict(list(best.items())[:depth])
    qrels = {str(n): grades for n, (_, grades) in enumerate(_queries())}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {measures})
    found = evaluator.evaluate({name: run for name, run in runs.items() if run})
    keys = next(iter(found.values())).keys()
    return {key: [found[name][key] if run else 0.0 for name, run in runs.items()] for key in keys}


def _cut(name: str, k: int) -> list[float]:
    return _trec(f"{name}.{','.join(map(str, CUTS))}", DEPTH)[f"{name}_{k}"]


def _ours(name: str, k: int) -> list[float]:
    return [MEASURES[name](Labelled.of(labels, ideal, k)) for labels, ideal in _labels()]


@cache
def _labels() -> list[tuple[list[int], list[int]]]:
    labels = []
    for documents, grades in _queries():
        gold = [Gold(name, grade=grade) for name, grade in grades.items()]
        labels.append((GoldMatch(Ranking.of("q", documents), gold).labels, ideal_labels(gold)))
    return labels


@pytest.mark.parametrize("k", CUTS)
@pytest.mark.parametrize("name", TREC)
def test_cut_measures_equal_trec_eval(name: str, k: int) -> None:
    """10,000 rankings agree to 1e-12 at every cut-off."""
    np.testing.assert_allclose(_ours(name, k), _cut(TREC[name], k), rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", CUTS)
def test_mrr_equals_trec_eval_on_the_truncated_run(k: int) -> None:
    """MRR agrees with trec_eval on a run cut at k, since trec_eval's has no cut-off."""
    np.testing.assert_allclose(_ours("mrr", k), _trec("recip_rank", k)["recip_rank"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", CUTS)
def test_f1_is_that_of_trec_evals_precision_and_recall(k: int) -> None:
    both = zip(_cut("P", k), _cut("recall", k), strict=True)
    theirs = [2 * p * r / (p + r) if p + r else 0.0 for p, r in both]
    np.testing.assert_allclose(_ours("f1", k), theirs, rtol=0, atol=1e-12)


def test_the_rankings_have_what_they_are_for() -> None:
    """More than 1,000 rankings have repeated documents, and as many have tied documents of different grades."""
    repeats = sum(len({document.id for document in found}) < len(found) for found, _ in _queries())
    ties = 0
    for found, grades in _queries():
        scored = {(document.score, grades.get(str(document.id), 0)) for document in found}
        ties += len({score for score, _ in scored}) < len(scored)
    assert repeats > 1000
    assert ties > 1000
