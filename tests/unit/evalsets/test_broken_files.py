"""Broken eval sets of every format: an error with a place, or an eval set; nothing else."""

from pathlib import Path

import pytest

from tests.benchmarks.fuzz_evalsets import mutated, verdict

SEEDS = 2_000
PARTS = 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_broken_file_is_refused_with_its_place(part: int, tmp_path: Path) -> None:
    """The benchmark of that name does this 100,000 times, with lines of 50 MB among them."""
    found = {seed: verdict(mutated(seed), tmp_path) for seed in range(part, SEEDS, PARTS)}
    assert {seed: said for seed, said in found.items() if said not in ("loaded", "refused")} == {}
    assert {"loaded", "refused"} <= set(found.values())
