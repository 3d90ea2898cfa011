"""A small version of the simulation that measures the gate's error rates, on real differences."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import false_alarms, variants

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _one_small_set(monkeypatch: pytest.MonkeyPatch, data: Callable[[str], Path]) -> None:
    monkeypatch.setattr(variants, "DATA", data("ms_marco_400").parent)
    monkeypatch.setattr(false_alarms, "SETS", ("MS MARCO",))
    monkeypatch.setattr(false_alarms, "PAIRS", 4)
    for cached in (false_alarms.pairs, false_alarms.populations):
        cached.cache_clear()


@pytest.mark.parametrize("drop", [0.0, 0.1])
def test_the_true_drop_is_the_one_asked_for(drop: float) -> None:
    populations = false_alarms.populations(false_alarms.FAMILY, drop)
    assert len(populations) >= 3
    for differences, weight in populations:
        assert weight @ differences == pytest.approx(np.full(6, drop), abs=1e-8)
        assert weight.sum() == pytest.approx(1)


def test_variants_are_versions_of_one_retriever() -> None:
    hits = variants.scores("MS MARCO")["hit@5"]
    assert hits.shape == (397, 31)
    assert hits.mean(axis=0).min() > 0.7
    assert np.mean(hits[:, :1] != hits[:, 1:]) < 0.2


@pytest.mark.parametrize("name", ["single", "family", "allowed", "intervals"])
def test_real_differences_have_rows(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    false_alarms.show(name, 4, sizes=(30,))
    rows = re.findall(r"^real.{16} +\d+(?: +\d+\.\d%)+$", capsys.readouterr().out, re.MULTILINE)
    assert len(rows) == 2
