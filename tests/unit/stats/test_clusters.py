"""Questions that go together."""

import math

import numpy as np
import pytest

from pytest_rageval.stats.clusters import design_effect, intraclass_correlation


@pytest.mark.parametrize(
    ("sizes", "correlation", "effect"),
    [
        ([1] * 50, 1.0, 1.0),
        ([], 1.0, 1.0),
        ([25] * 8, 1.0, 25.0),
        ([25] * 8, 0.0, 1.0),
        ([10] * 8, 0.5, 5.5),
        ([1, 3], 1.0, 10 / 4),
    ],
)
def test_by_hand(sizes: list[int], correlation: float, effect: float) -> None:
    """Of clusters of one nothing, of full correlation their size."""
    assert design_effect(sizes, correlation) == pytest.approx(effect)


def test_it_is_how_much_more_a_mean_varies() -> None:
    """5,000 means of six unequal clusters with a correlation of 0.4 against independent ones."""
    rng = np.random.default_rng(1)
    sizes = [2, 4, 8, 8, 16, 22]
    shared = np.repeat(rng.normal(size=(5000, 6)), sizes, axis=1) * np.sqrt(0.4)
    values = shared + rng.normal(size=(5000, 60)) * np.sqrt(0.6)
    found = values.mean(axis=1).var() / (1 / 60)
    assert design_effect(sizes, 0.4) == pytest.approx(found, rel=0.1)


def test_the_correlation_is_found() -> None:
    """Of 400 clusters of unequal sizes, within a few standard errors; NaN is left out."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 12, 400)
    clusters = np.repeat(np.arange(400), sizes)
    for true in (0.0, 0.3, 0.8):
        values = rng.normal(size=400)[clusters] * np.sqrt(true)
        values += rng.normal(size=len(clusters)) * np.sqrt(1 - true)
        values[::17] = math.nan
        found = intraclass_correlation(values.tolist(), clusters.tolist())
        assert found == pytest.approx(true, abs=0.07)


def test_it_is_negative_where_clusters_are_alike() -> None:
    """Each holds one of both: between them there is less than chance."""
    assert intraclass_correlation([1, 0, 1, 0, 1, 0], "aabbcc") == -1.0


@pytest.mark.parametrize(
    ("values", "clusters"),
    [([], []), ([1.0], "a"), ([1.0, 0.0], "aa"), ([1.0, 0.0], "ab"), ([1.0, 1.0, 1.0], "aab")],
)
def test_where_it_cannot_be_told(values: list[float], clusters: str) -> None:
    """One cluster, no cluster of two, or nothing that varies."""
    assert intraclass_correlation(values, clusters) is None


def test_values_and_clusters_are_of_the_same_questions() -> None:
    """Or it is refused."""
    with pytest.raises(ValueError, match="argument 2"):
        intraclass_correlation([1.0, 0.0], "a")
