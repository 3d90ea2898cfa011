"""Parts of an eval set that a hash of the examples' ids chooses: a sample, the same in every run, or a shard of it."""

from pytest_rageval.datatypes import EvalSet, ExampleSubset, SubsetInfo
from pytest_rageval.digests import digest
from pytest_rageval.errors import InputError
from pytest_rageval.plural import counted

__all__ = ["in_sample", "subset_of"]

DIGITS = 16  # hex digits of a digest that make a number


def in_sample(name: str, share: float) -> bool:
    """Whether the example of this id is in the sample. A sample is a part of every larger one."""
    return share >= 1 or int(_digest(name)[:DIGITS], 16) < share * 16**DIGITS


def subset_of(evalset: EvalSet, *, sample: float = 1.0, shard: tuple[int, int] | None = None) -> EvalSet:
    """The examples of a set that are in the sample, and of these in the shard "I of N", which may have none.

    Raises:
        InputError: the sample has none.
    """
    if sample >= 1 and shard is None:
        return evalset
    chosen = [example for example in evalset.examples if in_sample(example.id, sample)]
    if not chosen and evalset.examples:
        raise InputError(
            f"--rageval-sample {sample:g} leaves none of the {counted(len(evalset), 'example')} of {evalset.name}.\n"
            "Give a larger share."
        )
    if shard is not None:
        index, number = shard
        chosen = [example for example in chosen if _shard(example.id, number) == index]
    examples = ExampleSubset(chosen)
    examples.ids = tuple(example.id for example in evalset.examples)
    name = "" if shard is None else f"{shard[0]}/{shard[1]}"
    return EvalSet(evalset.name, examples, SubsetInfo(len(evalset), sample, name))


def _shard(name: str, number: int) -> int:
    """The shard of an example, from 1 on: by other digits than those of the sample."""
    return int(_digest(name)[-DIGITS:], 16) % number + 1


def _digest(name: str) -> str:
    return digest(["part", name])
