"""Agreement measures equal those of nltk and scipy on random labels."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import pearsonr

from pytest_rageval.stats.agreement import accuracy, cohen_kappa, pearson

if TYPE_CHECKING:
    from nltk.metrics.agreement import AnnotationTask

pytestmark = pytest.mark.slow

LABELS = {"verdicts": [0, 1], "preferences": [-1, 0, 1], "grades": [1, 2, 3, 4, 5]}


def _labels(name: str, raters: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    first, *others = rng.choice(LABELS[name], size=(raters, 60))
    return [first.tolist(), *(np.where(rng.random(60) < 0.5, first, other).tolist() for other in others)]


def _task(raters: list[list[int]]) -> "AnnotationTask":
    # Import here: the import takes a second, even if these tests are not selected.
    from nltk.metrics.agreement import AnnotationTask

    return AnnotationTask(
        [(who, item, label) for who, labels in enumerate(raters) for item, label in enumerate(labels)]
    )


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("seed", range(5))
def test_two_raters(name: str, seed: int) -> None:
    raters = _labels(name, 2, seed)
    task = _task(raters)
    for ours, theirs in (
        (accuracy(*raters), task.avg_Ao()),
        (cohen_kappa(*raters), task.kappa()),
        (pearson(*raters), pearsonr(*raters).statistic),
    ):
        assert ours is not None
        assert ours.value == pytest.approx(theirs, abs=1e-12, rel=0)


@pytest.mark.parametrize("seed", range(3))
def test_kappa_is_what_its_definition_says(seed: int) -> None:
    a, b = _labels("preferences", 2, seed)
    table, n = Counter(zip(a, b, strict=True)), len(a)
    observed = sum(table[label, label] for label in (-1, 0, 1)) / n
    expected = sum(a.count(label) * b.count(label) for label in (-1, 0, 1)) / n**2
    kappa = cohen_kappa(a, b)
    assert kappa is not None
    assert kappa.value == pytest.approx((observed - expected) / (1 - expected), abs=1e-12)
