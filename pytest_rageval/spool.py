"""`Spool`: a temporary file for data that is read again only in part, such as the passages of 100,000 questions.

A record is plain data: texts, numbers, None, and lists, tuples and dicts of these, each of exactly this type. It comes
back as it was. Anything else, such as an object in the metadata of a passage, stays in memory.
"""

import marshal
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from threading import Lock
from types import NoneType
from typing import IO, Any, Final, Generic, Self, SupportsIndex, TypeVar, overload

__all__ = ["Spool", "SpooledList", "SpooledTuple", "listed", "made"]

T = TypeVar("T")
U = TypeVar("U")

AT_ONCE: Final = 1_000_000
"""So many bytes are written at once; a run with less writes no file."""

AHEAD: Final = 16_384
"""So many bytes are read at once: the records that follow are often the next ones."""

RECENT: Final = 4_000_000
"""So many bytes of the records that were used last stay in memory: several scores read those of a question."""

Make = Callable[[Any], Any]
"""Makes an object of a record."""

AROUND: Final = 1000
"""So many bytes an object of a record takes beside its texts: 4 MB of short records took 70 MB."""

HEAD: Final = 8
"""Bytes of a record's length, which precedes it."""

UNMADE: Final = -(2**63)
"""The place of a list item that was not read yet."""

SINGLE: Final = frozenset({str, float, int, bool, NoneType})


class Spool:
    """A list of records: in memory up to `AT_ONCE` bytes, then in an unnamed temporary file.

    Where the file cannot be written, as on a full disk, the rest stays in memory.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._written = 0
        self._tail = bytearray()
        self._most: float = AT_ONCE
        self._ahead = (0, b"")
        self._objects: list[Any] = []
        self._recent: dict[int, tuple[Any, Make | None, int]] = {}
        self._recent_bytes = 0
        # Reports are written in another thread than questions are evaluated in.
        self._lock = Lock()

    def __del__(self) -> None:
        """Close the file, which removes it."""
        if self._file is not None:
            self._file.close()

    def put(self, value: Any, *, plain: bool = False, made: "tuple[Any, Make] | None" = None) -> int:
        """Keep a record; return its place.

        Args:
            value: the record.
            plain: whether it is known to be plain data.
            made: what the record was made of, and the function that makes the same of it.
        """
        try:
            data = marshal.dumps(value) if plain or _is_plain(value) else None
        except (ValueError, RecursionError):
            # It nests too deeply, or is too large.
            data = None
        with self._lock:
            if data is None:
                self._objects.append(value)
                return -len(self._objects)
            place = self._written + len(self._tail)
            self._tail += len(data).to_bytes(HEAD, "little")
            self._tail += data
            if len(self._tail) > self._most:
                self._write()
            if made is not None:
                self._keep_recent(place, *made, len(data))
        return place

    def get(self, place: int, make: "Make | None" = None) -> Any:
        """The record at a place, or the object made from it."""
        recent = self._recent.get(place)
        if recent is not None and recent[1] == make:
            return recent[0]
        with self._lock:
            if place < 0:
                value = self._objects[-place - 1]
                return value if make is None else make(value)
            length = int.from_bytes(self._bytes(place, HEAD), "little")
            data = self._bytes(place + HEAD, length)
            value = marshal.loads(data)  # noqa: S302 - written by this process  # nosec B302
            if make is not None:
                value = make(value)
            self._keep_recent(place, value, make, length)
        return value

    def recent(self, place: int, make: "Make") -> Any:
        """What was made of a record, if it is in memory; else None."""
        recent = self._recent.get(place)
        return recent[0] if recent is not None and recent[1] == make else None

    def _keep_recent(self, place: int, value: Any, make: "Make | None", length: int) -> None:
        length += AROUND
        if place not in self._recent:
            self._recent_bytes += length
        # In its other form where it was in one.
        self._recent[place] = value, make, length
        while self._recent_bytes > RECENT:
            self._recent_bytes -= self._recent.pop(next(iter(self._recent)))[2]

    def _write(self) -> None:
        from tempfile import TemporaryFile  # noqa: PLC0415 - only large runs write

        try:
            if self._file is None:
                self._file = TemporaryFile(prefix="rageval-", buffering=0)  # noqa: SIM115 - closed in __del__
            self._file.seek(self._written)
            count = self._file.write(self._tail)
        except OSError:
            self._most = inf
            return
        del self._tail[:count]
        self._written += count

    def _bytes(self, start: int, length: int) -> bytes:
        if start >= self._written:
            start -= self._written
            return bytes(self._tail[start : start + length])
        first, ahead = self._ahead
        if not first <= start <= start + length <= first + len(ahead):
            first, ahead = self._ahead = start, self._read(start, max(length, AHEAD))
        return ahead[start - first : start - first + length]

    def _read(self, start: int, length: int) -> bytes:
        """So many bytes from here on, or all there are."""
        found, end = bytearray(), min(length, self._written - start)
        if self._file is not None:
            self._file.seek(start)
            while len(found) < end and (part := self._file.read(end - len(found))):
                found += part
        # A disk that was full took a part of a record.
        found += self._tail[: length - len(found)]
        return bytes(found)


class SpooledTuple(Sequence[T], Generic[T]):
    """A tuple in a spool, read at each use.

    `make` makes it of its record; `made` is the tuple, where it is at hand.
    """

    __slots__ = ("_length", "_place", "_spool")

    make: Callable[[Any], tuple[Any, ...]] = staticmethod(tuple)

    def __init__(self, spool: Spool, record: Any, length: int, *, made: tuple[T, ...] | None = None) -> None:
        self._spool, self._length = spool, length
        self._place = spool.put(record, made=None if made is None else (made, self.make))

    def _all(self) -> tuple[T, ...]:
        found: tuple[T, ...] = self._spool.get(self._place, self.make)
        return found

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, tuple | SpooledTuple) and self._all() == tuple(other))

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[type, tuple[tuple[T, ...]]]:
        return tuple, (self._all(),)


class SpooledList(list[T]):
    """A read-only list whose items are read from a spool when they are used.

    It is a list, since reports and `json` write only such. `make` makes an item, by its number, that is `UNMADE`.
    """

    def __init__(self, spool: Spool, places: Iterable[int], make: Callable[[int], T] | None = None) -> None:
        super().__init__()
        self._spool = spool
        self._places = array("q", places)
        self._make = make

    def _item(self, number: int) -> T:
        place = self._places[number]
        if place == UNMADE and self._make is not None:
            place = self._places[number] = self._spool.put(self._make(number))
        found: T = self._spool.get(place)
        return found

    def __len__(self) -> int:
        return len(self._places)

    def __bool__(self) -> bool:
        return bool(self._places)

    def __iter__(self) -> Iterator[T]:
        return map(self._item, range(len(self._places)))

    def __reversed__(self) -> Iterator[T]:
        return map(self._item, reversed(range(len(self._places))))

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._item(number) for number in range(len(self._places))[index]]
        return self._item(range(len(self._places))[index])

    def __contains__(self, item: object) -> bool:
        return any(item == each for each in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and list(self) == list(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __add__(self, other: list[Any]) -> list[Any]:
        return [*self, *other]

    def __radd__(self, other: list[Any]) -> list[Any]:
        return [*other, *self]

    def __repr__(self) -> str:
        return repr(list(self))

    def __copy__(self) -> Self:
        return self

    copy = __copy__

    def __reduce_ex__(self, _: SupportsIndex) -> tuple[type, tuple[list[T]]]:
        return list, ([*self],)

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("a list of a report cannot be changed: make another one of it")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


def listed(items: Iterable[T], spool: Spool) -> list[T]:
    """Store the items in a spool and return them as a list."""
    return SpooledList(spool, map(spool.put, items))


def made(items: Sequence[U], make: Callable[[U], T], spool: Spool) -> list[T]:
    """Return the results of `make` for the items as a list; each is computed and stored at its first use."""
    return SpooledList(spool, [UNMADE] * len(items), lambda number: make(items[number]))


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        value = (*value, *value.values())
    elif kind is not list and kind is not tuple:
        return kind in SINGLE
    return SINGLE.issuperset(map(type, value)) or all(map(_is_plain, value))
