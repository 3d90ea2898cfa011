"""A random sample of an eval set, drawn while it is read: only the sample is in memory."""

import hashlib
import heapq
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pytest_rageval.datatypes import EvalSet, Example
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.records import example_from, no_examples_error, same_id_error

__all__ = ["SampleSpec", "keep_smallest", "rank", "sampled", "shares"]

RANK_BYTES: Final = 8

Read = Callable[[], Iterable[tuple[str, Any]]]
"""Returns the records with their places, from the first one each time."""

Entry = tuple[int, int, Example]  # an example after its negated rank and its negated number
T = TypeVar("T", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """The size of a sample (all examples if there are fewer), and how it is drawn.

    It is stratified by the values of the tags together; None: of all tags, if these make no more groups than
    there are examples to draw; (): not.
    """

    size: int
    seed: int = 0
    stratify: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, size: object, seed: object = 0, stratify: object = None) -> "SampleSpec":
        """From a marker's arguments `sample`, `seed` and `stratify` (a tag, a list of tags, False for none)."""
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise InputError(
                f"sample={size!r} is not a number of examples.\nGive an integer, at least 1: sample=200."
            )
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise InputError(f"seed={seed!r} is not an integer.")
        if stratify is None:
            return cls(size, seed)
        tags = [stratify] if isinstance(stratify, str) else [] if stratify is False else stratify
        if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
            raise InputError(
                f"stratify={stratify!r} is neither the name of a tag nor a list of such names.\n"
                'Write stratify="topic", or False for none.'
            )
        return cls(size, seed, tuple(tags))


def sampled(read: Read, draw: SampleSpec, *, name: str) -> EvalSet:
    """Draw a sample of records, in their order.

    The examples with the smallest ranks are drawn; a rank depends only on the seed and the id. So the
    sample is the same on every machine and in every order of the file, and without stratification, a
    larger sample contains a smaller one. A stratified sample has each group's share of the whole,
    rounded by largest remainders. Of examples that are not drawn, only the rank is kept: records are read again
    to stratify, and to compare the ids of equal ranks.

    Raises:
        InputError: a record or the stratification cannot be used, two have one id, or there are none.
    """
    whole: list[Entry] = []
    ranks = array("Q")
    groups: Counter[str] | None = None if draw.stratify == () else Counter()
    unseen = set(draw.stratify or ())
    for number, (place, record) in enumerate(read()):
        example = example_from(record, place=place)
        ranks.append(rank(draw.seed, example.id))
        keep_smallest(whole, draw.size, (-ranks[-1], -number, example))
        unseen.difference_update(example.tags)
        if groups is not None:
            groups[_group(example, draw)] += 1
            if len(groups) > draw.size:
                if draw.stratify is not None:
                    raise InputError(
                        f"stratify: the values of {', '.join(draw.stratify)} make more groups than the {draw.size} "
                        "examples to draw.\nTake a larger sample, or a tag with fewer values."
                    )
                groups = None
    if not ranks:
        raise no_examples_error(name)
    _refuse_same_ids(read, ranks, draw.seed)
    if unseen:
        tags = "the tag" if len(unseen) == 1 else "one of the tags"
        raise InputError(f"stratify: no example of {name} has {tags} {', '.join(sorted(unseen))}.")
    drawn = whole
    if groups is not None and len(groups) > 1 and len(ranks) > draw.size:
        sizes = shares(groups, draw)
        by_group: dict[str, list[Entry]] = {group: [] for group in groups}
        for number, (place, record) in enumerate(read()):
            example = example_from(record, place=place)
            group = _group(example, draw)
            keep_smallest(by_group[group], sizes[group], (-ranks[number], -number, example))
        drawn = [entry for entries in by_group.values() for entry in entries]
    return EvalSet(name, tuple(example for *_, example in sorted(drawn, key=lambda entry: -entry[1])))


def keep_smallest(heap: list[T], size: int, entry: T) -> None:
    """Add an entry, which begins with its negated rank, to a heap of the `size` entries with the smallest ranks."""
    if len(heap) < size:
        heapq.heappush(heap, entry)
    elif heap:
        heapq.heappushpop(heap, entry)


def rank(seed: int, text: str) -> int:
    """Return a pseudorandom number below 2**64 of a seed and a text; those of the smallest are a random sample."""
    # Not `hash`, which differs between processes.
    digest = hashlib.blake2b(f"{seed} {text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return int.from_bytes(digest[:RANK_BYTES], "big")


def shares(groups: Counter[str], draw: SampleSpec) -> dict[str, int]:
    """Return each group's share of the sample: whole parts first, then one each by the largest remainder."""
    total = groups.total()
    shares = {group: draw.size * count // total for group, count in groups.items()}
    # Equal remainders are ordered at random, so that no group is preferred for its name.
    by_remainder = sorted(
        groups, key=lambda group: (-(draw.size * groups[group] % total), rank(draw.seed, group))
    )
    for group in by_remainder[: draw.size - sum(shares.values())]:
        shares[group] += 1
    return shares


def _group(example: Example, draw: SampleSpec) -> str:
    tags = example.tags
    if draw.stratify is not None:
        tags = {tag: tags.get(tag) for tag in draw.stratify}
    return _ENCODER.encode(tags) if tags else ""


_ENCODER: Final = json.JSONEncoder(sort_keys=True)


def _refuse_same_ids(read: Read, ranks: "array[int]", seed: int) -> None:
    """Refuse two records with one id, also among those that are not drawn."""
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
