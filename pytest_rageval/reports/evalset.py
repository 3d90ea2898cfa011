"""What the reports say of an eval set."""

from typing import Any

from pytest_rageval.evalsets.near_misses import near_misses
from pytest_rageval.model import EvalSet

__all__ = ["evalset_entry"]


def evalset_entry(evalset: EvalSet) -> dict[str, Any]:
    """Its part of a test's entry; with warnings where a key is not read that was probably meant to be."""
    warnings = [
        f'the key "{miss.key}" is not read (in {len(miss.ids)} of {len(evalset)} examples). Was "{miss.meant}" meant? '
        f'Rename it, or say fields={{"{miss.meant}": "{miss.key}"}}.'
        for miss in near_misses(evalset)
    ]
    return {
        "name": evalset.name,
        "size": len(evalset),
        "digest": evalset.digest,
        **({"warnings": warnings} if warnings else {}),
    }
