"""Keys of records that are kept and not read, and nearly have the name of one that is."""

from collections import defaultdict
from typing import Final, NamedTuple

from pytest_rageval.evalsets.records import GOLD_KNOWN, KNOWN
from pytest_rageval.model import EvalSet

__all__ = ["NearMiss", "near_misses"]

# Not `id`: a record without one is an error, and beside it stand many of two and three letters.
MEANT: Final = (
    *(name for name in KNOWN if name != "id"),
    *(f"gold.{part}" for part in GOLD_KNOWN),
    "tags.topic",
)


class NearMiss(NamedTuple):
    """A key that was probably meant to be another.

    Attributes:
        key: as it stands in the records.
        meant: the field of ours, as in a field map.
        ids: of the examples that have the key.
    """

    key: str
    meant: str
    ids: tuple[str, ...]


def near_misses(evalset: EvalSet) -> list[NearMiss]:
    """The keys under `extra` that are nearly ours; other keys are whatever the user wants to keep.

    Nearly: but for case, punctuation, and one letter too few or too many, another one, or two
    swapped. `topic` too, which is a tag in most sets that have it.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for example in evalset:
        for key in example.extra:
            found[key].append(example.id)
    meant = {key: next((name for name in MEANT if _alike(_letters(key), FORMS[name])), None) for key in found}
    return [NearMiss(key, name, tuple(found[key])) for key, name in meant.items() if name is not None]


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


FORMS: Final = {name: _letters(name.removeprefix("tags.")) for name in MEANT}


def _alike(a: str, b: str) -> bool:
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    return max(len(a), len(b)) <= 1 or (len(a) == len(b) == 2 and a == b[::-1])  # noqa: PLR2004 - two swapped
