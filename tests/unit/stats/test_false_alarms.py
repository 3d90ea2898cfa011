"""A small version of the simulation that measures the gate's error rates."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from pytest_rageval.stats.mcnemar import mcnemar_p_value
from pytest_rageval.stats.paired_tests import PairedDrops, drop_p_values
from pytest_rageval.stats.sign_flips import sign_flip_test
from tests.benchmarks import variants
from tests.benchmarks.false_alarms import (
    SCORES,
    TABLES,
    binary_size,
    bootstrap,
    gate,
    mid_p,
    p_values,
    rare_gains,
    rarer_gains,
    rejection_probabilities,
    show,
    strict_passes,
    student,
    synthetic,
)

RUNS = 200


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCORES)
def test_few_false_alarms_and_some_power(kind: str) -> None:
    """In 200 runs of 60 examples, false alarms stay near 5% (standard error 1.5 points) and power is above one half."""
    rng = np.random.default_rng(1)
    none, ten = (synthetic(rng, kind, (RUNS, 60), drop) for drop in (0.0, 0.1))
    assert gate(none).mean() <= 0.05 + 3 * 0.0155
    power = gate(ten).mean()
    assert student(ten).mean() - 0.1 <= power <= bootstrap(rng, ten).mean() + 0.1
    assert power > 0.5
    assert strict_passes(synthetic(rng, kind, (RUNS, 60), 0.05), 0.05).mean() <= 0.05 + 3 * 0.0155


@pytest.mark.parametrize(("kind", "n"), [("0/1", 100), ("graded", 30), ("graded", 100)])
def test_shared_draws_lead_to_the_verdicts_of_the_gate(kind: str, n: int) -> None:
    """Where a p-value is not near 5%, runs that share their draws are called worse as each is on its own."""
    differences = synthetic(np.random.default_rng(5), kind, (60, n), 0.06)
    called, shared = gate(differences), p_values(differences)
    assert 10 < called.sum() < 50
    for run, p_value, is_called in zip(differences, shared, called, strict=True):
        [alone] = drop_p_values([PairedDrops(run.tolist())], alpha=0.05).p_values
        if p_value < 1:
            flips = sign_flip_test(run[:, None], alpha=0.05).p_values[0]
            assert p_value == pytest.approx(flips, abs=5 * np.sqrt(p_value / 5000) + 1e-4)
        if abs(alone - 0.05) > 0.01:
            assert (alone <= 0.05) == is_called


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("drop", [0.0, 0.1])
def test_the_true_drop_is_the_one_asked_for(kind: str, drop: float) -> None:
    """The mean of 200,000 synthetic differences is within five standard errors of the requested drop."""
    differences = synthetic(np.random.default_rng(2), kind, (RUNS, 1000), drop)
    assert differences.mean() == pytest.approx(drop, abs=5 * differences.std() / np.sqrt(differences.size))


@pytest.mark.parametrize("draw", [rare_gains, rarer_gains])
def test_the_skewed_differences_have_no_drop(draw) -> None:
    """The skewed distributions have a mean of 0: their many small losses and few large gains cancel."""
    differences = draw(np.random.default_rng(3), RUNS, 1000)
    assert differences.mean() == pytest.approx(0, abs=5 * differences.std() / np.sqrt(differences.size))
    assert np.sum(differences > 0) > 7 * np.sum(differences < 0)


def test_the_size_is_that_of_all_tables() -> None:
    """The size equals the sum over all tables of 12 questions, maximized over the shares on the function's grid."""
    n = 12
    significant = {
        (lost, gained)
        for lost in range(n + 1)
        for gained in range(n + 1 - lost)
        if mcnemar_p_value(lost, gained, n) <= 0.05
    }

    def size(share: float) -> float:
        return sum(
            math.comb(n, b) * math.comb(n - b, c) * (share / 2) ** (b + c) * (1 - share) ** (n - b - c)
            for b, c in significant
        )

    expected = max(size(step / 200) for step in range(1, 201))
    assert binary_size(rejection_probabilities(n, mcnemar_p_value)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [8, 12, 17, 30, 61, 68, 200])
def test_the_size_is_near_the_level(n: int) -> None:
    """Over samples of questions, the size is at most 5.3%, whatever share of the questions changes."""
    assert binary_size(rejection_probabilities(n, mcnemar_p_value)) <= 0.053
    assert binary_size(rejection_probabilities(n, mcnemar_p_value, 0.025)) <= 0.0265
    assert binary_size(rejection_probabilities(n, mid_p)) <= 0.073


@pytest.mark.parametrize("n", [30, 60, 100])
def test_the_test_finds_more_than_mid_p(n: int) -> None:
    for drop in (0.05, 0.1, 0.2):
        for noise in (0.0, 0.02, 0.08):
            found = [_power(n, noise + drop, noise, test) for test in (mcnemar_p_value, mid_p)]
            assert found[0] >= found[1] - 0.005


def _power(n: int, losses: float, gains: float, p_value: Callable[[int, int, int], float]) -> float:
    """The probability of a significant result, with these probabilities of a loss and of a gain."""
    changed = losses + gains
    total, lost = 0.0, 1
    for k in range(1, n + 1):
        while lost <= k and p_value(lost, k - lost, n) > 0.05:
            lost += 1
        total += stats.binom.pmf(k, n, changed) * stats.binom.sf(lost - 1, k, losses / changed)
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in {"suite", "year"} else []) for name in TABLES],
)
def test_every_table_prints_without_data(name, monkeypatch, capsys, tmp_path):
    """Two runs print the same aligned rows; without the data, the rows of real differences are omitted."""
    monkeypatch.setattr(variants, "DATA", tmp_path)
    for _ in range(2):
        show(name, 3, sizes=(50,))
    first_output, second_output = capsys.readouterr().out.split(f"\n{name}, 3 runs: ")[1:]
    assert first_output == second_output
    rows = re.findall(r"^\S.{19} +50(?: +\d+\.\d%)+$", first_output, re.MULTILINE)
    assert bool(rows) == (name != "family")
    assert "real" not in "".join(rows)
