"""The cost of ranking measures, next to pytrec_eval: `python tests/benchmarks/measures.py [ROUNDS]`.

10,000 queries × 100 documents × 6 measures at k = 10, with 20 judged documents a query. The two take
turns in one process, on the same rankings; medians, and the ratio of medians. The scores must agree.

1. from ids: ours begins at `Ranking` and `Gold` objects, matches documents with gold passages, makes
   arrays and computes; theirs begins at dictionaries of ids, and builds its evaluator and evaluates;
2. evaluation alone: ours begins at arrays of labels; theirs at an evaluator that holds the judgements,
   and matches the documents of each ranking.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import pytrec_eval

from pytest_rageval.datatypes import Document, Gold, Ranking
from pytest_rageval.measures.gold_matching import GoldMatch, ideal_labels
from pytest_rageval.measures.ranking import MEASURES, Labels

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


def arrays(rankings: list[Ranking], gold: list[list[Gold]]) -> tuple[Labels, Labels]:
    """Labels of the rankings and of ideal ones, as an evaluation makes them."""
    labels, ideal = np.zeros((len(rankings), DEPTH)), np.zeros((len(rankings), JUDGED))
    for row, (ranking, passages) in enumerate(zip(rankings, gold, strict=True)):
        labels[row, : len(ranking)] = GoldMatch(ranking, passages).labels
        best = ideal_labels(passages)
        ideal[row, : len(best)] = best
    return labels, ideal


def ours(labels: Labels, ideal: Labels) -> Scores:
    """All six, a score per query."""
    return {name: MEASURES[name](labels, ideal, K).tolist() for name in TREC}


def theirs(evaluator: pytrec_eval.RelevanceEvaluator, run: dict[str, dict[str, float]]) -> Scores:
    """All six, a score per query."""
    found = evaluator.evaluate(run)
    return {name: [found[query][key] for query in run] for name, key in TREC.items()}


def in_turn(what: str, rounds: int, first: Callable[[], Scores], second: Callable[[], Scores]) -> None:
    """Time both by turns, compare their scores, and print medians."""
    times: tuple[list[float], list[float]] = ([], [])
    scores: list[Scores] = [{}, {}]
    for _ in range(rounds):
        for side, call in enumerate((first, second)):
            began = time.perf_counter()
            scores[side] = call()
            times[side].append(time.perf_counter() - began)
    for name in TREC:
        if name != "mrr":  # theirs knows no cut-off for it
            np.testing.assert_allclose(scores[0][name], scores[1][name], rtol=0, atol=1e-12)
    a, b = map(statistics.median, times)
    print(f"{what:18}ours {a:.3f} s; pytrec_eval {b:.3f} s; ratio {a / b:.3f} (n = {rounds})")  # noqa: T201


def main(rounds: int) -> None:
    """Make the rankings, then time both ways of beginning."""
    rng = random.Random(0)
    pool = [f"passage-{n}" for n in range(2000)]
    gold, rankings, qrels, run = [], [], {}, {}
    for query in range(QUERIES):
        found = rng.sample(pool, DEPTH)
        judged = [*rng.sample(found, JUDGED // 2), *rng.sample(pool, JUDGED // 2)]
        grades = {name: rng.choice([0, 1, 1, 2]) for name in judged} | {judged[0]: 1}
        rankings.append(Ranking.of("q", [Document("", name) for name in found]))
        gold.append([Gold(name, grade=grade) for name, grade in grades.items()])
        qrels[str(query)] = grades
        run[str(query)] = {name: float(DEPTH - rank) for rank, name in enumerate(found)}
    measures = {key.replace("_10", ".10") for key in TREC.values()}
    labels, ideal = arrays(rankings, gold)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, measures)
    in_turn(
        "from ids",
        rounds,
        lambda: ours(*arrays(rankings, gold)),
        lambda: theirs(pytrec_eval.RelevanceEvaluator(qrels, measures), run),
    )
    in_turn("evaluation alone", rounds, lambda: ours(labels, ideal), lambda: theirs(evaluator, run))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
