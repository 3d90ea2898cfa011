"""Parts of an eval set: a random sample, and a sample or a shard that is the same in every run.

A random sample is drawn while the eval set is read, so that only the sample is in memory. The others are selected by a
hash of the examples' ids.
"""

import hashlib
import heapq
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example, ExampleSubset, SubsetInfo
from pytest_rageval.evalsets.records import checked_evalset, example_from, no_examples_error, same_id_error
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import plain_number
from pytest_rageval.lib.text import counted

RANK_BYTES: Final = 8
HASH_DIGITS = 16  # hex digits of a digest that are used as a number

RecordReader = Callable[[], Iterable[tuple[str, Any]]]
"""Returns the place and the value of each record; each call starts at the first record."""

Entry = tuple[int, int, Example]  # the negated rank, the negated number of the record, and the example
T = TypeVar("T", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """The specification of a random sample; all examples are drawn if there are fewer than `size`.

    The combined values of the tags `stratify` are the strata. None: of all tags, if they have at most `size` different
    combinations of values; otherwise the sample is not stratified. (): it is not stratified.
    """

    size: int
    seed: int = 0
    stratify: tuple[str, ...] | None = None


def parse_sample(size: object, seed: object = 0, stratify: object = None) -> SampleSpec:
    size, seed = plain_number(size), plain_number(seed)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InputError(
            f"sample={size!r} is not a number of examples.\nGive an integer, at least 1: sample=200."
        )
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise InputError(f"seed={seed!r} is not an integer.")
    if stratify is None:
        return SampleSpec(size, seed)
    tags = [stratify] if isinstance(stratify, str) else [] if stratify is False else stratify
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise InputError(
            f"stratify={stratify!r} is neither the name of a tag nor a list of such names.\n"
            'Write stratify="topic", or False for none.'
        )
    return SampleSpec(size, seed, tuple(tags))


def draw_sample(read: RecordReader, spec: SampleSpec, *, name: str) -> EvalSet:
    """Draw a sample of the records, and return it as an eval set in the order of the records.

    The examples with the smallest ranks are drawn. A rank depends only on the seed and the example's id, so the sample
    is the same on every machine and for every order of the file. Without stratification, a larger sample contains
    every smaller one. In a stratified sample, the size of each group is proportional to its size in the whole,
    rounded by largest remainders. For examples that are not drawn, only the rank is held in memory: the records are
    read a second time to stratify, and to compare the ids of equal ranks.
    """
    whole: list[Entry] = []
    ranks = array("Q")
    groups: Counter[str] | None = None if spec.stratify == () else Counter()
    unseen = set(spec.stratify or ())
    for number, (place, record) in enumerate(read()):
        example = example_from(record, place=place)
        ranks.append(rank(spec.seed, example.id))
        keep_smallest(whole, spec.size, (-ranks[-1], -number, example))
        unseen.difference_update(example.tags)
        if groups is not None:
            groups[_group(example, spec)] += 1
            if len(groups) > spec.size:
                if spec.stratify is not None:
                    raise InputError(
                        f"stratify: the values of {', '.join(spec.stratify)} make more groups than the {spec.size} "
                        "examples to draw.\nTake a larger sample, or a tag with fewer values."
                    )
                groups = None
    if not ranks:
        raise no_examples_error(name)
    _refuse_same_ids(read, ranks, spec.seed)
    if unseen:
        tags = "the tag" if len(unseen) == 1 else "one of the tags"
        raise InputError(f"stratify: no example of {name} has {tags} {', '.join(sorted(unseen))}.")
    drawn = whole
    if groups is not None and len(groups) > 1 and len(ranks) > spec.size:
        sizes = allocate(groups, spec)
        by_group: dict[str, list[Entry]] = {group: [] for group in groups}
        for number, (place, record) in enumerate(read()):
            example = example_from(record, place=place)
            group = _group(example, spec)
            keep_smallest(by_group[group], sizes[group], (-ranks[number], -number, example))
        drawn = [entry for entries in by_group.values() for entry in entries]
    return checked_evalset(name, (example for *_, example in sorted(drawn, key=lambda entry: -entry[1])))


def keep_smallest(heap: list[T], size: int, entry: T) -> None:
    """Add an entry, which begins with its negated rank, to a heap of the `size` entries with the smallest ranks."""
    if len(heap) < size:
        heapq.heappush(heap, entry)
    elif heap:
        heapq.heappushpop(heap, entry)


def rank(seed: int, text: str) -> int:
    """Return a pseudorandom number below 2**64 for a text; the texts with the smallest numbers are a random sample."""
    # The built-in `hash` differs between processes.
    hashed = hashlib.blake2b(f"{seed} {text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return int.from_bytes(hashed[:RANK_BYTES], "big")


def allocate(groups: Counter[str], spec: SampleSpec) -> dict[str, int]:
    """Return the number of examples to draw from each group: proportional to its size, by largest remainders."""
    total = groups.total()
    shares = {group: spec.size * count // total for group, count in groups.items()}
    # Equal remainders are ordered by a random rank, so that no group is preferred for its name.
    by_remainder = sorted(
        groups, key=lambda group: (-(spec.size * groups[group] % total), rank(spec.seed, group))
    )
    for group in by_remainder[: spec.size - sum(shares.values())]:
        shares[group] += 1
    return shares


def _group(example: Example, spec: SampleSpec) -> str:
    tags = example.tags
    if spec.stratify is not None:
        tags = {tag: tags.get(tag) for tag in spec.stratify}
    return _ENCODER.encode(tags) if tags else ""


_ENCODER: Final = json.JSONEncoder(sort_keys=True)


def _refuse_same_ids(read: RecordReader, ranks: "array[int]", seed: int) -> None:
    """Raise InputError if two records have the same id, also if they are not drawn."""
    import numpy as np  # noqa: PLC0415 - sorts in a tenth of the memory of a set

    ordered = np.sort(np.frombuffer(ranks, np.uint64))
    repeated = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    places: dict[str, str] = {}
    for place, record in read() if repeated else ():
        identifier = example_from(record, place=place).id
        if rank(seed, identifier) in repeated:
            if identifier in places:
                raise same_id_error(identifier, place, places[identifier])
            places[identifier] = place


def in_sample(name: str, share: float) -> bool:
    """Return True if the example with this id is in the sample of this share, which contains every smaller one."""
    return share >= 1 or int(digest(["part", name])[:HASH_DIGITS], 16) < share * 16**HASH_DIGITS


def select_subset(evalset: EvalSet, *, sample: float = 1.0, shard: tuple[int, int] | None = None) -> EvalSet:
    """Return the eval set with only the examples of a sample (a share), or of a shard of it (its number, of how many).

    A shard may be empty, a sample may not.
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
        # Other digits of the hash than those of the sample.
        hashes = (int(digest(["part", example.id])[-HASH_DIGITS:], 16) for example in selected)
        selected = [
            each for each, hashed in zip(selected, hashes, strict=True) if hashed % number + 1 == index
        ]
    examples = ExampleSubset(selected)
    examples.ids = tuple(example.id for example in evalset.examples)
    name = "" if shard is None else f"{shard[0]}/{shard[1]}"
    return EvalSet(evalset.name, examples, SubsetInfo(len(evalset), sample, name))
