"""What an update of the baseline lowers, raises or loses: whoever reviews it should not have to read the diff."""

from collections.abc import Collection, Iterator, Mapping
from math import fsum, inf, nan
from typing import Any, NamedTuple

from pytest_rageval.gate.baseline import completed
from pytest_rageval.stats.paired import NO_CHANGE

__all__ = ["Moved", "held_back", "moved_scores"]

Entry = Mapping[str, Any]


class Moved(NamedTuple):
    """A score whose baseline is another now, over the questions that are the same and scored in both.

    Attributes:
        nodeid: of its test.
        name: of the score, as thresholds ask for it.
        before: the mean that was; NaN where no question is scored in both.
        after: the mean that is written, likewise.
        n: how many questions these are of.
        worse: how many of them scored more before.
        better: how many scored less.
        lost: how many of the same questions had a score before, and have none now.
    """

    nodeid: str
    name: str
    before: float
    after: float
    n: int
    worse: int
    better: int
    lost: int = 0

    @property
    def lowered(self) -> bool:
        """Whether the new baseline asks for less than that of before."""
        return self.after < self.before or self.lost > 0


def moved_scores(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> list[Moved]:
    """Those of which a question scores otherwise, or no more; the largest drop first.

    Args:
        before: the tests of the file that is replaced, by node id.
        after: those that are written.
    """
    both = ((nodeid, before[nodeid], entry) for nodeid, entry in after.items() if nodeid in before)
    found = [moved for nodeid, then, now in both for moved in _of_test(nodeid, then, now)]
    return sorted(found, key=lambda moved: (_rise(moved), moved.nodeid, moved.name))


def held_back(entry: Entry, before: Entry, failed: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """A test's new entry, in which no score that fails a bound is lower than before, and the names of those kept back.

    They keep what the baseline has of them, but for examples whose question is another now.

    Args:
        entry: that is to be written.
        before: of the same test, in the file that is replaced.
        failed: names of scores that are out of a bound other than `max_drop`.
    """
    lowered = sorted(
        moved.name for moved in _of_test("", before, entry) if moved.lowered and moved.name in failed
    )
    kept = completed({**entry, "scores": {}}, before)["scores"]
    return {**entry, "scores": {**entry["scores"], **{name: kept[name] for name in lowered}}}, lowered


def _of_test(nodeid: str, then: Entry, now: Entry) -> Iterator[Moved]:
    same = {name for name, asked in now["questions"].items() if then["questions"].get(name) == asked}
    for name in now["scores"].keys() & then["scores"].keys():
        old, new = then["scores"][name]["examples"], now["scores"][name]["examples"]
        pairs, lost = [], 0
        for each in same & old.keys() & new.keys():
            was, is_now = old[each].get("score"), new[each].get("score")
            if was is not None and is_now is not None:
                pairs.append((was, is_now))
            lost += was is not None and is_now is None
        drops = [was - is_now for was, is_now in pairs]
        worse, better = (sum(sign * drop > NO_CHANGE for drop in drops) for sign in (1, -1))
        if worse or better or lost:
            was, is_now = (
                (fsum(column) / len(pairs) for column in zip(*pairs, strict=True)) if pairs else (nan, nan)
            )
            yield Moved(nodeid, name, was, is_now, len(pairs), worse, better, lost)


def _rise(moved: Moved) -> float:
    return moved.after - moved.before if moved.n else -inf
