"""Subsets of an eval set, selected by a hash of the examples' ids: a sample, the same in every run, and its shards."""

from pytest_rageval.datatypes import EvalSet, ExampleSubset, SubsetInfo
from pytest_rageval.digests import digest
from pytest_rageval.errors import InputError
from pytest_rageval.plural import counted

__all__ = ["in_sample", "select_subset"]

HASH_DIGITS = 16  # hex digits of a digest that are used as a number


def in_sample(name: str, share: float) -> bool:
    """Return True if the example with this id is in the sample; `share` is the sample's share of all examples.

    A sample contains every smaller sample.
    """
    return share >= 1 or int(_digest(name)[:HASH_DIGITS], 16) < share * 16**HASH_DIGITS


def select_subset(evalset: EvalSet, *, sample: float = 1.0, shard: tuple[int, int] | None = None) -> EvalSet:
    """Return the eval set with only the examples of a sample, or of one shard of it.

    Args:
        evalset: the whole eval set.
        sample: the share of the examples that is selected, from 0 to 1.
        shard: the number of the shard, from 1, and the number of shards; None: no sharding. A shard may be empty.

    Raises:
        InputError: the sample is empty.
    """
    if sample >= 1 and shard is None:
        return evalset
    selected = [example for example in evalset.examples if in_sample(example.id, sample)]
    if not selected and evalset.examples:
        raise InputError(
            f"--rageval-sample {sample:g} leaves none of the {counted(len(evalset), 'example')} of {evalset.name}.\n"
            "Give a larger share."
        )
    if shard is not None:
        index, number = shard
        selected = [example for example in selected if _shard(example.id, number) == index]
    examples = ExampleSubset(selected)
    examples.ids = tuple(example.id for example in evalset.examples)
    name = "" if shard is None else f"{shard[0]}/{shard[1]}"
    return EvalSet(evalset.name, examples, SubsetInfo(len(evalset), sample, name))


def _shard(name: str, number: int) -> int:
    """Return the shard of an example, from 1 to `number`, by other digits of the hash than those of the sample."""
    return int(_digest(name)[-HASH_DIGITS:], 16) % number + 1


def _digest(name: str) -> str:
    return digest(["part", name])
