"""A small version of the simulation that measures the gate's error rates."""

import math
import re

import numpy as np
import pytest

from pytest_rageval.stats.mcnemar import mid_p
from tests.benchmarks import variants
from tests.benchmarks.false_alarms import (
    SCORES,
    TABLES,
    bootstrap,
    gate,
    mid_p_size,
    rare_gains,
    rarer_gains,
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
    n, alpha = 12, 0.05

    def size(share: float) -> float:
        return sum(
            math.comb(n, b) * math.comb(n - b, c) * (share / 2) ** (b + c) * (1 - share) ** (n - b - c)
            for b in range(n + 1)
            for c in range(n + 1 - b)
            if b + c and mid_p(b, c) <= alpha
        )

    assert mid_p_size(n, alpha) == pytest.approx(max(size(step / 200) for step in range(1, 201)), abs=1e-12)
    assert mid_p_size(n, alpha, max_changed=0.5) == pytest.approx(
        max(size(step / 400) for step in range(1, 201)), abs=1e-12
    )


@pytest.mark.parametrize("n", [8, 12, 17, 30, 61, 68, 200])
def test_the_size_is_near_the_level(n: int) -> None:
    """The size is at most 5.02% if at most half of the questions change, and at most 7.3% if all may change."""
    assert mid_p_size(n, max_changed=0.5) <= 0.0502
    assert mid_p_size(n) <= 0.073
    assert mid_p_size(n, 0.01, max_changed=0.5) <= 0.0101


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_table_prints_without_data(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    """Two runs print the same aligned rows; without the data, the rows of real differences are omitted."""
    monkeypatch.setattr(variants, "DATA", tmp_path)
    for _ in range(2):
        show(name, 3, sizes=(50,))
    first_output, second_output = capsys.readouterr().out.split(f"\n{name}, 3 runs: ")[1:]
    assert first_output == second_output
    rows = re.findall(r"^\S.{19} +50(?: +\d+\.\d%)+$", first_output, re.MULTILINE)
    assert bool(rows) == (name != "family")
    assert "real" not in "".join(rows)
