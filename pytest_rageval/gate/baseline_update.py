"""An update of the baseline: which entries it writes, keeps and drops, and which scores it changes."""

from collections.abc import Collection, Iterator, Mapping
from math import fsum, inf, nan
from typing import NamedTuple

from pytest_rageval.gate.baseline import AnchorEntry, BaselineEntry, anchor_entry
from pytest_rageval.gate.comparison import AnchorPin
from pytest_rageval.stats.intervals import SCORE_TOLERANCE


class ScoreChange(NamedTuple):
    """The change of a score in the baseline, over the n questions that are unchanged and scored in both versions.

    Attributes:
        nodeid: the node id of the test.
        name: the name of the score.
        before: the old mean; NaN if n is 0.
        after: the new mean; NaN if n is 0.
        n: number of these questions.
        worse: number of questions that got worse.
        better: number of questions that got better.
        lost: number of unchanged questions that had a score before and have none now.
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
    def is_lower(self) -> bool:
        """True if the new baseline is lower than the old one, or has fewer scores."""
        return self.after < self.before or self.lost > 0


class BaselineUpdate(NamedTuple):
    """The changes that an update makes to the baseline file.

    Attributes:
        tests: the new entries, by node id.
        changes: the scores whose baseline changes, the largest drop first.
        kept: by node id, why a test that ran keeps its old entry.
        dropped: node id and name of each score that is removed, since no threshold with `max_drop` bounds it any more.
        not_run: node ids of the tests in the file that did not run; their entries are kept unless the run was complete.
    """

    tests: dict[str, BaselineEntry]
    changes: list[ScoreChange]
    kept: dict[str, str]
    dropped: list[tuple[str, str]]
    not_run: list[str]


def compute_update(
    before: Mapping[str, BaselineEntry],
    entries: Mapping[str, BaselineEntry],
    *,
    unfinished: Collection[str],
    failed: Mapping[str, Collection[str]],
    complete: bool,
) -> BaselineUpdate:
    """Return the update of a baseline by the entries of a run.

    Args:
        before: the entries in the file, by node id.
        entries: the entries of the tests that ran, by node id.
        unfinished: node ids of the tests that did not run to their end.
        failed: by node id, the names of scores that violate a bound other than `max_drop`.
        complete: whether all tests ran, so that tests without an entry no longer exist.
    """
    after = dict(entries)
    both = sorted(entries.keys() & before.keys())
    kept: dict[str, str] = {}
    for nodeid in both:
        reason = _why_kept(
            before[nodeid], entries[nodeid], failed.get(nodeid, ()), unfinished=nodeid in unfinished
        )
        if reason:
            kept[nodeid] = reason
            after[nodeid] = before[nodeid]
    dropped = [
        (nodeid, name)
        for nodeid in both
        for name in sorted(before[nodeid]["scores"].keys() - after[nodeid]["scores"].keys())
    ]
    changes = score_changes(before, after)
    not_run = sorted(before.keys() - entries.keys())
    if not complete:
        after |= {nodeid: before[nodeid] for nodeid in not_run}
    return BaselineUpdate(after, changes, kept, dropped, not_run)


def updated_anchors(
    before: Mapping[str, AnchorEntry],
    update: BaselineUpdate,
    *,
    written: Collection[str],
    pin: AnchorPin | None = None,
    complete: bool,
) -> dict[str, AnchorEntry]:
    """Return the anchors after an update of the baseline.

    Anchors stay as they are, except for their number of updates. A complete run removes the anchors of tests that no
    longer exist.

    Args:
        before: the anchors in the file, by node id.
        update: the update of the baseline.
        written: node ids of the tests that were written.
        pin: the pin of new anchors for these tests; None to keep the old anchors.
        complete: whether all tests ran.
    """
    if pin is not None:
        before = {**before, **{nodeid: anchor_entry(update.tests[nodeid], pin) for nodeid in written}}
    # Only an update that changes a score repeats the comparison with the anchor, and new anchors start at 0.
    new_anchors = set() if pin is None else set(written)
    changed = {change.nodeid for change in update.changes} - new_anchors
    return {
        nodeid: {**anchor, "updates": anchor["updates"] + (nodeid in changed)}
        for nodeid, anchor in before.items()
        if nodeid in update.tests or not complete
    }


def _why_kept(
    before: BaselineEntry, entry: BaselineEntry, failed: Collection[str], *, unfinished: bool
) -> str:
    """Return why a test keeps its old entry; empty if the new entry replaces it.

    A test is replaced as a whole or not at all: an entry with scores of two commits is the state of neither.
    """
    missing = sorted(before["scores"].keys() - entry["scores"].keys()) if unfinished else []
    if missing:
        return f"this run has no {', '.join(missing)}"
    lower = sorted(
        change.name
        for change in _entry_changes("", before, entry)
        if change.is_lower and change.name in failed
    )
    return f"{', '.join(lower)} would be lower, and out of bounds" if lower else ""


def score_changes(
    before: Mapping[str, BaselineEntry], after: Mapping[str, BaselineEntry]
) -> list[ScoreChange]:
    """Return the scores of which at least one question changed or lost its score, the largest drop first."""
    both = [(nodeid, before[nodeid], entry) for nodeid, entry in after.items() if nodeid in before]
    changes = [change for nodeid, old, new in both for change in _entry_changes(nodeid, old, new)]
    return sorted(
        changes,
        key=lambda change: (
            change.after - change.before if change.n else -inf,
            change.nodeid,
            change.name,
        ),
    )


def _entry_changes(nodeid: str, before: BaselineEntry, after: BaselineEntry) -> Iterator[ScoreChange]:
    same = _same_questions(after, before)
    for name in after["scores"].keys() & before["scores"].keys():
        old, new = before["scores"][name]["examples"], after["scores"][name]["examples"]
        common = same & old.keys() & new.keys()
        values = [(old[example_id].get("score"), new[example_id].get("score")) for example_id in common]
        pairs = [(then, now) for then, now in values if then is not None and now is not None]
        lost = sum(then is not None and now is None for then, now in values)
        drops = [then - now for then, now in pairs]
        worse, better = (sum(sign * drop > SCORE_TOLERANCE for drop in drops) for sign in (1, -1))
        if worse or better or lost:
            columns = list(zip(*pairs, strict=True)) or [(nan,), (nan,)]
            mean_before, mean_after = (fsum(column) / len(column) for column in columns)
            yield ScoreChange(nodeid, name, mean_before, mean_after, len(pairs), worse, better, lost)


def _same_questions(one: BaselineEntry, other: BaselineEntry) -> set[str]:
    """Return the ids of the examples whose question is the same in both entries."""
    return {name for name, digest in one["questions"].items() if other["questions"].get(name) == digest}
