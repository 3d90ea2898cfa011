"""An update of the baseline: which entries it writes, keeps and drops, and which scores change."""

from collections.abc import Collection, Iterator, Mapping
from math import fsum, inf, nan
from typing import NamedTuple

from pytest_rageval.gate.baseline import AnchorEntry, BaselineEntry, ScoreEntry, pinned
from pytest_rageval.gate.comparison import Pin
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

__all__ = [
    "BaselineUpdate",
    "Moved",
    "anchors_after",
    "completed",
    "held_back",
    "moved_scores",
    "update_of",
]


class Moved(NamedTuple):
    """A score whose baseline changed, over the n questions that are unchanged and scored in both.

    `before` and `after` are means, NaN if there is no such question. `worse` and `better` are numbers of questions;
    `lost` is how many that are the same had a score before and have none now.
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
        """True if the new baseline is lower than the old one."""
        return self.after < self.before or self.lost > 0


class BaselineUpdate(NamedTuple):
    """The changes that an update makes to the baseline file.

    Attributes:
        tests: the new entries, by node id.
        moved: scores with another baseline now, the largest drop first.
        held_back: test and name of each score that keeps its old baseline: it is lower and out of its bounds.
        dropped: test and name of each score that no threshold with `max_drop` bounds any more.
        others: tests of the file that did not run; they are kept unless the run was complete.
    """

    tests: dict[str, BaselineEntry]
    moved: list[Moved]
    held_back: list[tuple[str, str]]
    dropped: list[tuple[str, str]]
    others: list[str]


def update_of(
    before: Mapping[str, BaselineEntry],
    entries: Mapping[str, BaselineEntry],
    *,
    unfinished: Collection[str],
    failed: Mapping[str, Collection[str]],
    complete: bool,
) -> BaselineUpdate:
    """The update of a baseline by the entries of a run.

    Args:
        before: the tests of the file, by node id.
        entries: of the tests that ran.
        unfinished: tests that did not come to their end.
        failed: by test, names of scores that are out of a bound other than `max_drop`.
        complete: whether all tests ran, so that those without an entry are gone.
    """
    after = dict(entries)
    both = sorted(entries.keys() & before.keys())
    held: list[tuple[str, str]] = []
    for nodeid in both:
        if nodeid in unfinished:
            after[nodeid] = completed(after[nodeid], before[nodeid])
        after[nodeid], names = held_back(after[nodeid], before[nodeid], failed.get(nodeid, ()))
        held += [(nodeid, name) for name in names]
    dropped = [
        (nodeid, name)
        for nodeid in both
        for name in sorted(before[nodeid]["scores"].keys() - after[nodeid]["scores"].keys())
    ]
    moved = moved_scores(before, after)
    others = sorted(before.keys() - entries.keys())
    if not complete:
        after |= {nodeid: before[nodeid] for nodeid in others}
    return BaselineUpdate(after, moved, held, dropped, others)


def anchors_after(
    before: Mapping[str, AnchorEntry],
    update: BaselineUpdate,
    *,
    written: Collection[str],
    pin: Pin | None = None,
    complete: bool,
) -> dict[str, AnchorEntry]:
    """The anchors after an update: they stay, but that a full run drops those of tests that are gone.

    With a `pin` all tests that ran, `written`, have a new anchor.
    """
    if pin is not None:
        before = {**before, **{nodeid: pinned(update.tests[nodeid], pin) for nodeid in written}}
    # An update that changes no score leaves the comparison with the anchor as it was.
    counted = set() if pin is None else set(written)
    moved = {each.nodeid for each in update.moved} - counted
    return {
        nodeid: {**anchor, "updates": anchor["updates"] + (nodeid in moved)}
        for nodeid, anchor in before.items()
        if nodeid in update.tests or not complete
    }


def completed(entry: BaselineEntry, before: BaselineEntry) -> BaselineEntry:
    """An entry of an unfinished test, completed by the old scores that it did not compute.

    Of these, examples whose question changed are left out: an entry has one question per example.
    """
    same = _same_questions(entry, before)
    missed: dict[str, ScoreEntry] = {
        name: {**score, "examples": {each: kept for each, kept in score["examples"].items() if each in same}}
        for name, score in before["scores"].items()
    }
    return {**entry, "scores": {**missed, **entry["scores"]}}


def held_back(
    entry: BaselineEntry, before: BaselineEntry, failed: Collection[str]
) -> tuple[BaselineEntry, list[str]]:
    """An entry in which no score in `failed` is lower than before, and the names of the scores held back.

    They keep their old baseline, except for examples whose question changed. `failed` names scores that are out of a
    bound other than `max_drop`.
    """
    lowered = sorted(
        moved.name for moved in _moved_of("", before, entry) if moved.lowered and moved.name in failed
    )
    kept = completed({**entry, "scores": {}}, before)["scores"]
    return {**entry, "scores": {**entry["scores"], **{name: kept[name] for name in lowered}}}, lowered


def moved_scores(before: Mapping[str, BaselineEntry], after: Mapping[str, BaselineEntry]) -> list[Moved]:
    """The scores that changed at a question, or lost it; the largest drop first."""
    both = [(nodeid, before[nodeid], entry) for nodeid, entry in after.items() if nodeid in before]
    found = [moved for nodeid, old, new in both for moved in _moved_of(nodeid, old, new)]
    return sorted(
        found, key=lambda each: (each.after - each.before if each.n else -inf, each.nodeid, each.name)
    )


def _moved_of(nodeid: str, before: BaselineEntry, after: BaselineEntry) -> Iterator[Moved]:
    same = _same_questions(after, before)
    for name in after["scores"].keys() & before["scores"].keys():
        old, new = before["scores"][name]["examples"], after["scores"][name]["examples"]
        values = [(old[each].get("score"), new[each].get("score")) for each in same & old.keys() & new.keys()]
        pairs = [(then, now) for then, now in values if then is not None and now is not None]
        lost = sum(then is not None and now is None for then, now in values)
        drops = [then - now for then, now in pairs]
        worse, better = (sum(sign * drop > SCORE_TOLERANCE for drop in drops) for sign in (1, -1))
        if worse or better or lost:
            columns = list(zip(*pairs, strict=True)) or [(nan,), (nan,)]
            mean_before, mean_after = (fsum(column) / len(column) for column in columns)
            yield Moved(nodeid, name, mean_before, mean_after, len(pairs), worse, better, lost)


def _same_questions(one: BaselineEntry, other: BaselineEntry) -> set[str]:
    """Ids of the examples whose question is the same in both."""
    return {name for name, digest in one["questions"].items() if other["questions"].get(name) == digest}
