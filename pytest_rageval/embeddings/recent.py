"""What was computed for texts, kept in memory while they are in use."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

__all__ = ["Recent"]


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


_Item = TypeVar("_Item", bound=_Sized)


class Recent(Generic[_Item]):
    """What was computed for the texts used most recently, up to a number of bytes.

    Space around a text is no part of it.

    Args:
        limit: in bytes; the least recently used go first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._items: OrderedDict[str, _Item] = OrderedDict()

    def get(self, texts: Sequence[str], compute: Callable[[list[str]], list[_Item]]) -> list[_Item]:
        """An item for each text; those that are not at hand are computed together."""
        wanted = [text.strip() for text in texts]
        # A dictionary of its own: one call may need more than is kept.
        found = {text: self._items[text] for text in wanted if text in self._items}
        missing = sorted(set(wanted) - found.keys())
        if missing:
            found.update(zip(missing, compute(missing), strict=True))
        for text in dict.fromkeys(wanted):
            self._keep(text, found[text])
        return [found[text] for text in wanted]

    def _keep(self, text: str, item: _Item) -> None:
        if text not in self._items:
            self._bytes += item.nbytes
        self._items[text] = item
        self._items.move_to_end(text)
        while self._bytes > self._limit:
            _, dropped = self._items.popitem(last=False)
            self._bytes -= dropped.nbytes
