"""Time of the ranking measures, compared with pytrec_eval: `python tests/benchmarks/measures.py [ROUNDS]`.

6 measures at k = 10 are computed for 10,000 queries, each with 100 documents and 20 judged documents. Both libraries
take turns in one process, with the same rankings. The script prints the medians and their ratio, and checks that the
scores are equal.

1. from ids: this package starts with `Ranking` and `Gold` objects, matches documents with gold passages,
   and computes the measures. pytrec_eval starts with dicts of ids, creates its evaluator and evaluates.
2. evaluation alone: this package starts with labels. pytrec_eval starts with an evaluator that has the
   judgements, and matches the documents of each ranking.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import pytrec_eval

from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.scores.gold_matching import GoldMatch, ideal_labels
from pytest_rageval.scores.measures import Labelled, compute_measure

QUERIES, DEPTH, JUDGED, K = 10_000, 100, 20, 10
TREC = {
    "recall": "recall_10",
    "precision": "P_10",
    "map": "map_cut_10",
    "ndcg": "ndcg_cut_10",
    "hit": "success_10",
    "mrr": "recip_rank",
}
Scores = dict[str, list[float]]


def labelled(rankings: list[Ranking], gold: list[list[Gold]]) -> list[Labelled]:
    return [
        Labelled.of(GoldMatch(ranking, passages).labels, ideal_labels(passages), K)
        for ranking, passages in zip(rankings, gold, strict=True)
    ]


def ours(rankings: list[Labelled]) -> Scores:
    """Return all measures of this package by name, each with one score per query."""
    return {name: compute_measure(name, rankings) for name in TREC}


def theirs(evaluator: pytrec_eval.RelevanceEvaluator, run: dict[str, dict[str, float]]) -> Scores:
    scores = evaluator.evaluate(run)
    return {name: [scores[query][key] for query in run] for name, key in TREC.items()}


def in_turn(title: str, rounds: int, first: Callable[[], Scores], second: Callable[[], Scores]) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    scores: list[Scores] = [{}, {}]
    for _ in range(rounds):
        for side, call in enumerate((first, second)):
            began = time.perf_counter()
            scores[side] = call()
            times[side].append(time.perf_counter() - began)
    for name in TREC:
        if name != "mrr":  # pytrec_eval has no cut-off for this measure
            np.testing.assert_allclose(scores[0][name], scores[1][name], rtol=0, atol=1e-12)
    a, b = map(statistics.median, times)
    print(f"{title:18}ours {a:.3f} s; pytrec_eval {b:.3f} s; ratio {a / b:.3f} (n = {rounds})")  # noqa: T201


def main(rounds: int) -> None:
    rng = random.Random(0)
    pool = [f"passage-{n}" for n in range(2000)]
    gold, rankings, qrels, run = [], [], {}, {}
    for query in range(QUERIES):
        retrieved = rng.sample(pool, DEPTH)
        judged = [*rng.sample(retrieved, JUDGED // 2), *rng.sample(pool, JUDGED // 2)]
        grades = {name: rng.choice([0, 1, 1, 2]) for name in judged} | {judged[0]: 1}
        rankings.append(Ranking.of("q", [Document("", name) for name in retrieved]))
        gold.append([Gold(name, grade=grade) for name, grade in grades.items()])
        qrels[str(query)] = grades
        run[str(query)] = {name: float(DEPTH - rank) for rank, name in enumerate(retrieved)}
    measures = {key.replace("_10", ".10") for key in TREC.values()}
    rows = labelled(rankings, gold)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, measures)
    in_turn(
        "from ids",
        rounds,
        lambda: ours(labelled(rankings, gold)),
        lambda: theirs(pytrec_eval.RelevanceEvaluator(qrels, measures), run),
    )
    in_turn("evaluation alone", rounds, lambda: ours(rows), lambda: theirs(evaluator, run))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
