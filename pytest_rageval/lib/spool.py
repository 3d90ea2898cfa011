"""`Spool`: a temporary file for data that is read again only in part, such as the passages of 100,000 questions.

`rare_collection` is for code that creates many objects.

A record is plain data: texts, numbers, None, and lists, tuples and dicts of these, each of exactly this type. A record
that is read equals the record that was written. Any other value, such as an object in the metadata of a passage, stays
in memory.
"""

import gc
import marshal
import operator
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from threading import Lock
from types import NoneType
from typing import IO, Any, Final, Self, SupportsIndex, TypeVar, cast, overload

T = TypeVar("T")
U = TypeVar("U")

WRITE_BUFFER_BYTES: Final = 1_000_000  # the size of the write buffer. A spool with less data writes no file
NOT_COMPUTED: Final = -(2**63)  # the place of a list item that has not been computed yet
SCALARS: Final = frozenset({str, float, int, bool, NoneType})  # the plain types that contain no other values

COLLECTION_THRESHOLDS: Final = (10_000, 20, 20)


@contextmanager
def rare_collection() -> Iterator[None]:
    """Let Python look for unreachable cycles less often than after every 700 new objects.

    A run with 10,000 questions keeps nearly all its objects, and spent a fifth of its time in looking.
    """
    before = gc.get_threshold()
    if 0 < before[0] < COLLECTION_THRESHOLDS[0]:  # 0: somebody has turned it off
        gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Spool:
    """A list of records: in memory up to `WRITE_BUFFER_BYTES`, then in an unnamed temporary file.

    A place is the number of a record in the file, or a negative number for a value that stays in memory. If the file
    cannot be written, because the disk is full for example, later records stay in memory.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        # A record ends where the next one begins, so that a record takes a single read.
        self._offsets = array("q", [0])
        self._written = 0
        self._buffer = bytearray()
        self._buffer_bytes: float = WRITE_BUFFER_BYTES
        self._unspooled: list[Any] = []
        # Questions are evaluated in one thread, and reports are written in another one.
        self._lock = Lock()

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, value: Any, *, plain: bool = False) -> int:
        """Store a record and return its place; a `plain` record is not checked."""
        try:
            data = marshal.dumps(value) if plain or _is_plain(value) else None
        except (ValueError, RecursionError):
            # The record is nested too deeply, or is too large.
            data = None
        with self._lock:
            if data is None:
                self._unspooled.append(value)
                return -len(self._unspooled)
            place = len(self._offsets) - 1
            self._buffer += data
            self._offsets.append(self._written + len(self._buffer))
            if len(self._buffer) > self._buffer_bytes:
                self._write()
        return place

    def get(self, place: int) -> Any:
        with self._lock:
            if place < 0:
                return self._unspooled[-place - 1]
            data = self._read(self._offsets[place], self._offsets[place + 1])
        return marshal.loads(data)  # noqa: S302 - written by this process  # nosec B302

    def _write(self) -> None:
        from tempfile import TemporaryFile  # noqa: PLC0415 - only large runs write

        try:
            if self._file is None:
                self._file = TemporaryFile(prefix="rageval-", buffering=0)  # noqa: SIM115 - closed in __del__
            self._file.seek(self._written)
            count = self._file.write(self._buffer)
        except OSError:
            self._buffer_bytes = inf
            return
        del self._buffer[:count]
        self._written += count

    def _read(self, start: int, end: int) -> bytes:
        data = b""
        if self._file is not None and start < self._written:
            self._file.seek(start)
            missing = min(end, self._written) - start
            while missing > 0 and (chunk := self._file.read(missing)):
                data += chunk
                missing -= len(chunk)
        if end > self._written:
            # A write to a full disk may have ended in the middle of a record: its rest is in the buffer.
            data += self._buffer[max(start - self._written, 0) : end - self._written]
        return data


def _on_items(function: Callable[..., Any]) -> Any:
    """Return a method of `SpooledList` that calls a function with its items as a list, and the other arguments."""

    def method(self: list[Any], *args: Any) -> Any:
        return function([*self], *args)

    return method


class SpooledList(list[T]):
    """A read-only list whose items are read from a spool at each use.

    It is a subclass of list, since `json` and the reports accept only lists. The list itself is empty, so each method
    of list has to be overridden. Code in C that reads the items of a list without these methods finds none. `compute`
    computes an item whose place is `NOT_COMPUTED` from its index, at its first use; the item is then stored, or without
    a spool computed at each use.
    """

    def __init__(
        self, spool: Spool | None, places: Iterable[int], compute: Callable[[int], T] | None = None
    ) -> None:
        super().__init__()
        self._spool = spool
        self._places = array("q", places)
        self._compute = compute

    def _item(self, index: int) -> T:
        place = self._places[index]
        if place == NOT_COMPUTED and self._compute is not None:
            computed = self._compute(index)
            if self._spool is not None:
                self._places[index] = self._spool.put(computed)
            return computed
        item: T = cast("Spool", self._spool).get(place)
        return item

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
        return any(item == other for other in self)

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

    __lt__, __le__ = _on_items(operator.lt), _on_items(operator.le)
    __gt__, __ge__ = _on_items(operator.gt), _on_items(operator.ge)
    __mul__ = __rmul__ = _on_items(operator.mul)
    index, count, copy = _on_items(list.index), _on_items(list.count), _on_items(list)

    def __copy__(self) -> Self:
        return self

    def __reduce_ex__(self, _: SupportsIndex) -> tuple[type, tuple[list[T]]]:
        return list, ([*self],)

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("a list of a report cannot be changed: change a copy of it")

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


def spooled_list(items: Iterable[T], spool: Spool) -> list[T]:
    return SpooledList(spool, map(spool.put, items))


def spooled_map(function: Callable[[U], T], items: Sequence[U], spool: Spool | None = None) -> list[T]:
    """Return the results of a function for each item, as a list; each is computed and stored at its first use.

    Without a spool, each is computed at each use.
    """
    return SpooledList(spool, [NOT_COMPUTED] * len(items), lambda index: function(items[index]))


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        value = (*value, *value.values())
    elif kind is not list and kind is not tuple:
        return kind in SCALARS
    return SCALARS.issuperset(map(type, value)) or all(
        _is_plain(each) for each in value if type(each) not in SCALARS
    )
