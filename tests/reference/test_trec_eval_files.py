"""Ranking measures equal what trec_eval's own test files expect, per topic and over all."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.measures import MEASURES, Labelled, ideal_labels

pytestmark = pytest.mark.slow

Data = Callable[[str], Path]
Expected = dict[tuple[str, str], float]

CUT = {"P": "precision", "recall": "recall", "map_cut": "map", "ndcg_cut": "ndcg", "success": "hit"}
WHOLE = {
    "map": "map",
    "ndcg": "ndcg",
    "recip_rank": "mrr",
    "set_P": "precision",
    "set_recall": "recall",
    "set_F": "f1",
}
DIGITS = 5e-5 + 1e-9
"""Tolerance: the files have four decimals."""


def _expected(path: Path) -> Expected:
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {(topic, name): float(value) for name, topic, value in lines if _ours_is(name)}


def _ours_is(name: str) -> tuple[str, int | None] | None:
    if name in WHOLE:
        return WHOLE[name], None
    family, _, k = name.rpartition("_")
    return (CUT[family], int(k)) if family in CUT else None


def _qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return grades by topic and document; grades below 0 count as not relevant."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        topic, _, name, grade = line.split()
        found[topic][name] = max(0, int(grade))
    return found


def _rankings(path: Path, most: int | None) -> dict[str, Ranking]:
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        topic, _, name, _, score = line.split()[:5]
        found[topic].append((float(np.float32(score)), name))
    return {
        topic: Ranking.of(topic, [Document("", name) for _, name in sorted(scored, reverse=True)], most)
        for topic, scored in found.items()
    }


def _labels(ranking: Ranking, grades: dict[str, int], level: int) -> tuple[list[int], list[int]]:
    """Return labels of the ranking and of the ideal one; grades below the level are not relevant."""
    gold = [Gold(name, grade=grade if grade >= level else 0) for name, grade in grades.items()]
    return GoldMatch(ranking, gold).labels, ideal_labels(gold)


def _score(name: str, k: int | None, labels: list[int], ideal: list[int]) -> float:
    whole = max(len(labels), 1) if name in {"precision", "f1"} else max(len(ideal), len(labels))
    return MEASURES[name](Labelled.of(labels, ideal, k or whole))


CASES = [
    pytest.param("out.test", "results.test", "qrels.test", 1, None, 11, id="default"),
    pytest.param("out.test.a", "results.test", "qrels.test", 1, None, 45, id="all measures"),
    pytest.param("out.test.aq", "results.test", "qrels.test", 1, None, 180, id="each topic"),
    pytest.param("out.test.aqc", "results.trunc", "qrels.test", 1, None, 135, id="a topic is missing"),
    pytest.param("out.test.aqcM", "results.trunc", "qrels.test", 1, 100, 135, id="the first 100"),
    pytest.param("out.test.aql", "results.test", "qrels.rel_level", 2, None, 180, id="relevant from grade 2"),
    pytest.param("out.test.meas_params", "results.test", "qrels.test", 1, None, 44, id="other cut-offs"),
]


@pytest.mark.parametrize(("expected", "results", "qrels", "level", "most", "values"), CASES)
def test_every_measure_we_have_equals_the_file(  # noqa: PLR0913, PLR0917 - the columns of the table above
    data: Data, expected: str, results: str, qrels: str, level: int, most: int | None, values: int
) -> None:
    """All values agree to the four decimals printed, in the number that the table states.

    The files are those of version 9.0.8 with its inputs, which are those of 10.0. A topic without a ranking
    scores 0 and stays in the mean. With a level, lower grades are not relevant, but NDCG still gains by them.
    """
    folder = data("trec_eval")
    wanted = _expected(folder / "v9.0.8" / expected)
    judged = _qrels(folder / "v10.0" / qrels)
    rankings = _rankings(folder / "v10.0" / results, most)
    assert len(wanted) == values
    missing = Ranking("", ())
    labels = {
        (topic, each): _labels(rankings.get(topic, missing), grades, each)
        for topic, grades in judged.items()
        for each in {level, 1}
    }
    for (topic, trec_name), value in wanted.items():
        ours = _ours_is(trec_name)
        assert ours is not None
        name, k = ours
        applied = 1 if name == "ndcg" else level
        topics = judged if topic == "all" else [topic]
        mean = fmean(_score(name, k, *labels[each, applied]) for each in topics)
        assert mean == pytest.approx(value, abs=DIGITS), (topic, trec_name)
