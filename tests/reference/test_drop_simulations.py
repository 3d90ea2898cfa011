"""The simulation of the tests of drops, in small, on real differences."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import drop_tests, variants


@pytest.fixture(autouse=True)
def _one_small_set(monkeypatch: pytest.MonkeyPatch, data: Callable[[str], Path]) -> None:
    """A few pairs of variants, on MS MARCO alone."""
    monkeypatch.setattr(variants, "DATA", data("ms_marco_400").parent)
    monkeypatch.setattr(drop_tests, "SETS", ("MS MARCO",))
    monkeypatch.setattr(drop_tests, "PAIRS", 4)
    for kept in (drop_tests.pairs, drop_tests.populations):
        kept.cache_clear()


@pytest.mark.parametrize("drop", [0.0, 0.1])
def test_the_true_drop_is_the_one_asked_for(drop: float) -> None:
    """Of every measure of a family at once, so that a false alarm is one."""
    found = drop_tests.populations(drop_tests.FAMILY, drop)
    assert len(found) >= 3
    for differences, weight in found:
        assert weight @ differences == pytest.approx(np.full(6, drop), abs=1e-8)
        assert weight.sum() == pytest.approx(1)


def test_variants_are_versions_of_one_retriever() -> None:
    """31 of them, which agree on most questions."""
    hits = variants.scores("MS MARCO")["hit@5"]
    assert hits.shape == (397, 31)
    assert hits.mean(axis=0).min() > 0.7
    assert np.mean(hits[:, :1] != hits[:, 1:]) < 0.2


def test_every_table_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of shares in aligned columns; the early stop's table has numbers of its own."""
    for table in (drop_tests.single, drop_tests.family, drop_tests.shifted, drop_tests.intervals):
        table(4, sizes=(30,))
    drop_tests.skewed(4, sizes=(30,))
    drop_tests.noticed(4, sizes=(60,))
    for table in (drop_tests.small_scale, drop_tests.clustered, drop_tests.repeats, drop_tests.anchored):
        table(2)
    drop_tests.stopped_early(2)
    printed = capsys.readouterr().out
    assert (
        len(re.findall(r"^\S.{17}\s*\d+(?: +\d+\.\d%)+$", printed, re.MULTILINE))
        == 3 * 4 + 2 + 2 + 2 + 2 + 3 + 1 + 2
    )
    assert len(re.findall(r"^ +(?:300|2000) 0\.\d{3}(?: +\d+\.\d+%?){5}$", printed, re.MULTILINE)) == 10
