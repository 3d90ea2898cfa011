"""Broken eval sets of every format: loading gives an eval set, or an error with its place, and nothing else."""

from pathlib import Path

import pytest

from tests.benchmarks.fuzz_evalsets import mutated, verdict

SEEDS = 2_000
PARTS = 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_broken_file_is_refused_with_its_place(part: int, tmp_path: Path) -> None:
    """Each of 2,000 mutated files is loaded or refused with its place.

    The benchmark fuzz_evalsets does this 100,000 times, with lines of 50 MB among them.
    """
    verdicts = {seed: verdict(mutated(seed), tmp_path) for seed in range(part, SEEDS, PARTS)}
    assert {seed: outcome for seed, outcome in verdicts.items() if outcome not in ("loaded", "refused")} == {}
    assert {"loaded", "refused"} <= set(verdicts.values())
