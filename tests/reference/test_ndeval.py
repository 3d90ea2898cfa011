"""alpha-nDCG equals that of NIST's ndeval, run by the package pyndeval."""

import random

import pyndeval
import pytest

from pytest_rageval.scores.nuggets import alpha_ndcg

CUTS = (1, 2, 3, 5, 10, 20)
Labels = list[tuple[float, ...]]


def _theirs(ranking: Labels, missed: Labels, names: list[str]) -> dict[str, float]:
    """Return ndeval's result; it breaks ties of the ideal ranking by the highest name."""
    pool = ranking + missed
    qrels = [
        pyndeval.SubtopicQrel("1", str(nugget), name, int(label == 1))
        for name, labels in zip(names, pool, strict=True)
        for nugget, label in enumerate(labels)
    ]
    run = [pyndeval.ScoredDoc("1", name, -place) for place, name in enumerate(names[: len(ranking)])]
    scores: dict[str, float] = pyndeval.ndeval(qrels, run, measures=[f"alpha-nDCG@{k}" for k in CUTS])["1"]
    return scores


@pytest.mark.parametrize("density", [0.1, 0.3, 0.7])
def test_random_rankings(density: float) -> None:
    """Scores agree at every cut-off, with missed passages and ties.

    If ndeval's greedy ideal order is not the best, its score exceeds 1 and is compared as 1.
    """
    chance = random.Random(density)
    compared = beyond = 0
    for _ in range(200):
        n, nuggets = chance.randint(1, 20), chance.randint(1, 8)
        pool = [
            tuple(chance.choices((1.0, 0.5, 0.0), (density, 0.1, 1 - density), k=nuggets)) for _ in range(n)
        ]
        cut = chance.randint(1, n)
        ranking, missed = pool[:cut], pool[cut:]
        names = chance.sample([f"d{number:03d}" for number in range(n)], n)
        theirs = _theirs(ranking, missed, names)
        for k in CUTS:
            value = theirs[f"alpha-nDCG@{k}"]
            beyond += value > 1 + 1e-9
            assert alpha_ndcg(ranking, missed, k, names=names) == pytest.approx(min(value, 1.0), abs=1e-9)
            compared += 1
    assert compared == 200 * len(CUTS)
    assert beyond < compared / 20
