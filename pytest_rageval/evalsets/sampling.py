"""A sample of an eval set, drawn while it is read: only what is drawn is held."""

import hashlib
import heapq
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.records import example_from, no_examples, same_id
from pytest_rageval.model import EvalSet, Example

__all__ = ["Draw", "rank", "sampled", "shares"]

RANK_BYTES: Final = 8
T = TypeVar("T")

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

    Only the examples drawn are held, and of every other one the number and the group, twelve bytes.
    Two of one id have one number; where that is, the records are read again for the ids themselves.

    Args:
        read: gives the records from the start, each time it is called.
        draw: how many, and how.
        name: of the eval set.

    Raises:
        InputError: a record cannot be used, two have one id, there are none, a tag to stratify by is
            nowhere, or has more values than there are examples to draw.
    """
    lot: _Lot[Example] = _Lot(draw.size)
    ranks = array("Q")
    groups: _Groups | None = None if draw.stratify == () else _Groups()
    unseen = set(draw.stratify or ())
    for number, (place, record) in enumerate(read()):
        example = example_from(record, place=place)
        drawn = rank(draw.seed, example.id)
        ranks.append(drawn)
        lot.offer(drawn, number, example)
        unseen.difference_update(example.tags)
        if groups is not None:
            groups.add(_group(example.tags, draw.stratify))
            if len(groups.counts) > draw.size:
                if draw.stratify is not None:
                    raise _too_many(draw)
                groups = None
    if not lot.tickets:
        raise no_examples(name)
    _refuse_same_ids(read, ranks, draw.seed)
    if unseen:
        tags = "the tag" if len(unseen) == 1 else "one of the tags"
        message = f"stratify: no example of {name} has {tags} {', '.join(sorted(unseen))}."
        raise InputError(message)
    if groups is None or len(groups.counts) == 1 or len(ranks) <= draw.size:
        return EvalSet(name, lot.drawn())
    chosen = groups.smallest(ranks, shares(groups.counts, draw))
    return EvalSet(
        name,
        tuple(
            example_from(record, place=place)
            for number, (place, record) in enumerate(read())
            if number in chosen
        ),
    )


class _Groups:
    """In which group each record is: four bytes a record."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._of = array("I")
        self._numbers: dict[str, int] = {}

    def add(self, group: str) -> None:
        """The next record is in this group."""
        self.counts[group] += 1
        self._of.append(self._numbers.setdefault(group, len(self._numbers)))

    def smallest(self, ranks: "array[int]", sizes: Mapping[str, int]) -> set[int]:
        """The numbers, from 0, of the records that have the smallest ranks in their group, so many of each."""
        lots: list[_Lot[int]] = [_Lot(sizes[group]) for group in self._numbers]
        for number, (group, drawn) in enumerate(zip(self._of, ranks, strict=True)):
            lots[group].offer(drawn, number, number)
        return {number for lot in lots for number in lot.drawn()}


def _refuse_same_ids(read: Callable[[], Records], ranks: "array[int]", seed: int) -> None:
    """Let no id come twice, be it drawn or not.

    Args:
        read: gives the records.
        ranks: of all of them.
        seed: of the ranks.
    """
    twice = _repeated(ranks)
    places: dict[str, str] = {}
    for place, record in read() if twice else ():
        identifier = example_from(record, place=place).id
        if rank(seed, identifier) in twice:
            if identifier in places:
                raise same_id(identifier, place, places[identifier])
            places[identifier] = place


def _repeated(numbers: "array[int]") -> set[int]:
    """Those that are there more than once."""
    import numpy as np  # noqa: PLC0415 - sorts where a set would take ten times the memory

    ordered = np.sort(np.frombuffer(numbers, np.uint64))
    return set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())


class _Lot(Generic[T]):
    """Whatever has the smallest ranks, `size` at most; the first goes when a better comes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.tickets: list[tuple[int, int, T]] = []

    def offer(self, rank: int, number: int, item: T) -> None:
        """Take it in if it is among the smallest; of equal ranks the smaller number."""
        if len(self.tickets) < self.size:
            heapq.heappush(self.tickets, (-rank, -number, item))
        elif self.tickets and -rank > self.tickets[0][0]:
            heapq.heapreplace(self.tickets, (-rank, -number, item))

    def drawn(self) -> tuple[T, ...]:
        """What is in it, by number."""
        return tuple(item for _, _, item in sorted(self.tickets, key=lambda ticket: -ticket[1]))


def rank(seed: int, text: str) -> int:
    """A number that follows from the seed and a text alone: those of the smallest are a random sample."""
    # Not `hash`, which Python salts anew in every process.
    made = hashlib.blake2b(f"{seed} {text}".encode("utf-8", "surrogatepass"), digest_size=16)
    return int.from_bytes(made.digest()[:RANK_BYTES], "big")


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


def _too_many(draw: Draw) -> InputError:
    tags = ", ".join(draw.stratify or ())
    return InputError(
        f"stratify: the values of {tags} make more groups than the {draw.size} examples to draw.\n"
        "Take a larger sample, or a tag with fewer values."
    )
