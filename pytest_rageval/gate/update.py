"""What an update of the baseline lowers or raises: whoever reviews it should not have to read the diff."""

from collections.abc import Iterator, Mapping
from math import fsum
from typing import Any, NamedTuple

from pytest_rageval.stats.paired import NO_CHANGE

__all__ = ["Moved", "moved_scores"]

Entry = Mapping[str, Any]


class Moved(NamedTuple):
    """A score whose baseline is another now, over the questions that are the same and scored in both.

    Attributes:
        nodeid: of its test.
        name: of the score, as thresholds ask for it.
        before: the mean that was.
        after: the mean that is written.
        n: how many questions these are of.
        worse: how many of them scored more before.
        better: how many scored less.
    """

    nodeid: str
    name: str
    before: float
    after: float
    n: int
    worse: int
    better: int


def moved_scores(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> list[Moved]:
    """Those of which a question scores otherwise, the largest drop first.

    Args:
        before: the tests of the file that is replaced, by node id.
        after: those that are written.
    """
    both = ((nodeid, before[nodeid], entry) for nodeid, entry in after.items() if nodeid in before)
    found = [moved for nodeid, then, now in both for moved in _of_test(nodeid, then, now)]
    return sorted(found, key=lambda moved: (moved.after - moved.before, moved.nodeid, moved.name))


def _of_test(nodeid: str, then: Entry, now: Entry) -> Iterator[Moved]:
    same = {name for name, asked in now["questions"].items() if then["questions"].get(name) == asked}
    for name in now["scores"].keys() & then["scores"].keys():
        old, new = then["scores"][name]["examples"], now["scores"][name]["examples"]
        pairs = [
            (old[each]["score"], new[each]["score"])
            for each in same & old.keys() & new.keys()
            if old[each].get("score") is not None and new[each].get("score") is not None
        ]
        drops = [was - is_now for was, is_now in pairs]
        worse, better = (sum(sign * drop > NO_CHANGE for drop in drops) for sign in (1, -1))
        if worse or better:
            was, is_now = (fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
            yield Moved(nodeid, name, was, is_now, len(pairs), worse, better)
