"""The simulation of the gate's errors, in small."""

import re

import numpy as np
import pytest

from tests.benchmarks import false_alarms
from tests.benchmarks.false_alarms import (
    SCORES,
    bootstrap_fails,
    cells,
    drops,
    fails,
    lopsided,
    strict_passes,
)

RUNS = 200


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCORES)
def test_few_false_alarms_and_some_power(kind: str) -> None:
    """Over 200 runs of 60 examples; the bound of 5% has a standard error of 1.5 here."""
    rng = np.random.default_rng(1)
    none, ten = (drops(rng, kind, (RUNS, 60), drop) for drop in (0.0, 0.1))
    assert fails(none, 0.0).mean() <= 0.05 + 3 * 0.0155
    assert 0.3 < fails(ten, 0.0).mean() <= bootstrap_fails(rng, ten).mean() + 0.1
    assert strict_passes(drops(rng, kind, (RUNS, 60), 0.05), 0.05).mean() <= 0.05 + 3 * 0.0155


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("drop", [0.0, 0.1])
def test_the_true_drop_is_the_one_asked_for(kind: str, drop: float) -> None:
    """So that a false alarm is one; within five standard errors of 200,000 differences."""
    found = drops(np.random.default_rng(2), kind, (RUNS, 1000), drop)
    assert found.mean() == pytest.approx(drop, abs=5 * found.std() / np.sqrt(found.size))


def test_the_lopsided_pairs_have_no_drop() -> None:
    """Their many small losses and few large gains cancel."""
    found = lopsided(np.random.default_rng(3), RUNS, 1000)
    assert found.mean() == pytest.approx(0, abs=5 * found.std() / np.sqrt(found.size))
    assert np.sum(found > 0) > 10 * np.sum(found < 0)


def test_every_table_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a cell, in aligned columns, the same every time."""
    monkeypatch.setattr(false_alarms, "SIZES", (20,))
    tables = []
    for _ in range(2):
        for measure in (false_alarms.single, false_alarms.several, false_alarms.borders):
            measure(5)
        false_alarms.strict(5)
        false_alarms.intervals(5)
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]
    assert len(re.findall(r"^(?:0/1 |real) +20 (?: +\d+\.\d%)+$", tables[0], re.MULTILINE)) == 6 * 2
    assert len(list(cells(1))) == 2
