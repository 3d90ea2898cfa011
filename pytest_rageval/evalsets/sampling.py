"""A sample of an eval set, drawn while it is read: only what is drawn is held."""

import hashlib
import heapq
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.records import example_from, no_examples, same_id
from pytest_rageval.model import EvalSet, Example

__all__ = ["Draw", "rank", "sampled", "shares"]

EIGHT_BYTES: Final = 2**64 - 1

Records = Iterable[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Draw:
    """How many examples are drawn, and how.

    Attributes:
        size: how many, at least 1; all where there are fewer.
        seed: another one draws others.
        stratify: tags by whose values together the sample is divided as the whole is; None: by all
            tags, where their values make no more groups than there are examples to draw; (): not at all.
    """

    size: int
    seed: int = 0
    stratify: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, size: object, seed: object = 0, stratify: object = None) -> "Draw":
        """From a marker's words `sample`, `seed` and `stratify` (a tag, a list of tags, False for none).

        Raises:
            InputError: a word makes no sense.
        """
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            message = f"sample={size!r} is no number of examples.\nGive an integer, at least 1: sample=200."
            raise InputError(message)
        if not isinstance(seed, int) or isinstance(seed, bool):
            message = f"seed={seed!r} is no integer."
            raise InputError(message)
        if stratify is None:
            return cls(size, seed)
        tags = [stratify] if isinstance(stratify, str) else [] if stratify is False else stratify
        if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
            message = (
                f"stratify={stratify!r} is no name of a tag, nor a list of such.\n"
                'Write stratify="topic", or False for none.'
            )
            raise InputError(message)
        return cls(size, seed, tuple(tags))


def sampled(read: Callable[[], Records], draw: Draw, *, name: str) -> EvalSet:
    """The examples drawn from records, in their order.

    Each example has a number that follows from the seed and its id alone; the smallest are drawn. So
    the same are drawn on every machine and in every order of the file, and a larger sample contains
    a smaller one where neither is stratified. A stratified sample has of each group its share of the
    whole, rounded by largest remainders; the records are then read twice.

    Only the examples drawn are held, and of every other one eight bytes of its number, by which two of
    one id are found. Where these are equal, the records are read again for the ids themselves.

    Args:
        read: gives the records from the start, each time it is called.
        draw: how many, and how.
        name: of the eval set.

    Raises:
        InputError: a record cannot be used, two have one id, there are none, a tag to stratify by is
            nowhere, or has more values than there are examples to draw.
    """
    lot = _Lot(draw.size)
    seen = array("Q")
    groups: Counter[str] | None = None if draw.stratify == () else Counter()
    unseen = set(draw.stratify or ())
    for number, (place, record) in enumerate(read()):
        example = example_from(record, place=place)
        drawn = rank(draw.seed, example.id)
        seen.append(drawn & EIGHT_BYTES)
        lot.offer(drawn, number, place, example)
        unseen.difference_update(example.tags)
        if groups is not None:
            groups[_group(example.tags, draw.stratify)] += 1
            if len(groups) > draw.size:
                if draw.stratify is not None:
                    raise _too_many(draw)
                groups = None
    if not lot.tickets:
        raise no_examples(name)
    _refuse_same_ids(read, seen, draw.seed)
    if unseen:
        tags = "the tag" if len(unseen) == 1 else "one of the tags"
        message = f"stratify: no example of {name} has {tags} {', '.join(sorted(unseen))}."
        raise InputError(message)
    if groups is None or len(groups) == 1 or groups.total() <= draw.size:
        return _drawn(lot.tickets, name)
    lots = {group: _Lot(size) for group, size in shares(groups, draw).items()}
    for number, (place, record) in enumerate(read()):
        example = example_from(record, place=place)
        lots[_group(example.tags, draw.stratify)].offer(rank(draw.seed, example.id), number, place, example)
    return _drawn([ticket for each in lots.values() for ticket in each.tickets], name)


def _refuse_same_ids(read: Callable[[], Records], seen: "array[int]", seed: int) -> None:
    """Let no id come twice, be it drawn or not.

    Args:
        read: gives the records.
        seen: eight bytes of the rank of each.
        seed: of the ranks.
    """
    twice = _repeated(seen)
    places: dict[str, str] = {}
    for place, record in read() if twice else ():
        identifier = example_from(record, place=place).id
        if rank(seed, identifier) & EIGHT_BYTES in twice:
            if identifier in places:
                raise same_id(identifier, place, places[identifier])
            places[identifier] = place


def _repeated(numbers: "array[int]") -> set[int]:
    """Those that are there more than once."""
    import numpy as np  # noqa: PLC0415 - sorts in place, where a set would take ten times the memory

    ordered = np.frombuffer(numbers, np.uint64)
    ordered.sort()
    return set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())


_Ticket = tuple[int, int, str, Example]
"""The negative rank, the negative number in the file, the place, and the example that takes part."""


class _Lot:
    """The tickets of the smallest ranks, `size` of them at most; the first goes when a better comes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.tickets: list[_Ticket] = []

    def offer(self, rank: int, number: int, place: str, example: Example) -> None:
        if len(self.tickets) < self.size:
            heapq.heappush(self.tickets, (-rank, -number, place, example))
        elif self.tickets and -rank > self.tickets[0][0]:
            heapq.heapreplace(self.tickets, (-rank, -number, place, example))


def rank(seed: int, text: str) -> int:
    """A number that follows from the seed and a text alone: those of the smallest are a random sample."""
    # Not `hash`, which Python salts anew in every process.
    made = hashlib.blake2b(f"{seed} {text}".encode("utf-8", "surrogatepass"), digest_size=16)
    return int.from_bytes(made.digest(), "big")


def _group(tags: Mapping[str, Any], stratify: tuple[str, ...] | None) -> str:
    if stratify is not None:
        tags = {tag: tags.get(tag) for tag in stratify}
    return _ENCODER.encode(tags) if tags else ""


_ENCODER: Final = json.JSONEncoder(sort_keys=True)


def shares(groups: Counter[str], draw: Draw) -> dict[str, int]:
    """How many of each group: whole parts first, then one each by the largest remainder."""
    total = groups.total()
    shares = {group: draw.size * count // total for group, count in groups.items()}
    # Equal remainders are drawn for as well, so that no group is preferred for its name.
    by_remainder = sorted(
        groups, key=lambda group: (-(draw.size * groups[group] % total), rank(draw.seed, group))
    )
    for group in by_remainder[: draw.size - sum(shares.values())]:
        shares[group] += 1
    return shares


def _drawn(tickets: list[_Ticket], name: str) -> EvalSet:
    ordered = sorted(tickets, key=lambda ticket: -ticket[1])
    return EvalSet(name, tuple(example for *_, example in ordered))


def _too_many(draw: Draw) -> InputError:
    tags = ", ".join(draw.stratify or ())
    return InputError(
        f"stratify: the values of {tags} make more groups than the {draw.size} examples to draw.\n"
        "Take a larger sample, or a tag with fewer values."
    )
