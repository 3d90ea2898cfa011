"""An update of the baseline: which entries it writes, keeps and drops, and which scores it changes, as text."""

from collections.abc import Collection, Iterator, Mapping
from math import fsum, inf, nan
from pathlib import Path
from typing import Final, NamedTuple

from pytest_rageval.baseline import Baseline, anchor_entry
from pytest_rageval.baseline.entries import AnchorEntry, AnchorPin, BaselineEntry, BaselineExample, ScoreEntry
from pytest_rageval.baseline.file import spooled_examples
from pytest_rageval.lib.spool import Spool
from pytest_rageval.lib.text import counted
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

MAX_RUNS: Final = 5
"""The score of a question that models take part in is a mean over its last runs, at most about this number."""

MIN_RAISES: Final = 5
"""With this number of updates that all raised a score, it is probably written after good runs only."""


class ScoreChange(NamedTuple):
    """The change of a score in the baseline, over the n questions that are unchanged and scored in both versions.

    The means are NaN if n is 0. `lost` is the number of unchanged questions that had a score before and have none now.
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
        return self.after < self.before or self.lost > 0

    def __str__(self) -> str:
        parts = []
        if self.n:
            parts.append(f"{self.before:.3f} → {self.after:.3f}")
            parts.append(f"{self.worse} of {self.n} worse, {self.better} better")
        if self.lost:
            parts.append(f"{counted(self.lost, 'question')} had a score before and none now")
        return f"{self.nodeid} {self.name}: {', '.join(parts)}"


class BaselineUpdate(NamedTuple):
    """The changes that an update makes to the baseline file.

    Attributes:
        tests: the new entries, by node id.
        changes: the scores whose baseline changes, the largest drop first.
        kept: by node id, why a test that ran keeps its old entry.
        dropped: node id and name of each score that no threshold with `max_drop` bounds any more.
        not_run: node ids of the tests in the file that did not run; their entries are kept unless the run was complete.
        only_raised: node id and name of each score with models that at least five updates raised, and none lowered.
    """

    tests: dict[str, BaselineEntry]
    changes: list[ScoreChange]
    kept: dict[str, str]
    dropped: list[tuple[str, str]]
    not_run: list[str]
    only_raised: list[tuple[str, str]]


def compute_update(
    before: Mapping[str, BaselineEntry],
    entries: Mapping[str, BaselineEntry],
    *,
    unfinished: Collection[str],
    failed: Mapping[str, Collection[str]],
    complete: bool,
) -> BaselineUpdate:
    """Return the update of a baseline by the entries of the tests that ran.

    A score in which models take part varies from run to run. The baseline has for each question its mean over the last
    runs (`_averaged`). `failed` has, by node id, the names of scores that violate a bound other than `max_drop`. In a
    `complete` run all tests ran, so that tests without an entry no longer exist.
    """
    entries = {
        nodeid: _averaged(before[nodeid], entry) if nodeid in before else entry
        for nodeid, entry in entries.items()
    }
    both = sorted(entries.keys() & before.keys())
    reasons = {
        nodeid: _why_kept(
            before[nodeid], entries[nodeid], failed.get(nodeid, ()), unfinished=nodeid in unfinished
        )
        for nodeid in both
    }
    kept = {nodeid: reason for nodeid, reason in reasons.items() if reason}
    after = {**entries, **{nodeid: before[nodeid] for nodeid in kept}}
    dropped = [
        (nodeid, name)
        for nodeid in both
        for name in sorted(before[nodeid]["scores"].keys() - after[nodeid]["scores"].keys())
    ]
    changes = score_changes(before, after)
    not_run = sorted(before.keys() - entries.keys())
    only_raised = sorted(
        (nodeid, name)
        for nodeid, entry in after.items()
        for name, score in entry["scores"].items()
        if nodeid not in kept and score.get("raised", 0) >= MIN_RAISES and not score.get("lowered", 0)
    )
    if not complete:
        after |= {nodeid: before[nodeid] for nodeid in not_run}
    return BaselineUpdate(after, changes, kept, dropped, not_run, only_raised)


def _averaged(before: BaselineEntry, entry: BaselineEntry) -> BaselineEntry:
    """Return an entry of a run with the means over this run and those before it, for scores that models take part in.

    Runs can be averaged if fingerprint and repeats are the same. A question is averaged if it is the same and has the
    same ranking as before: otherwise the retriever changed, and its mean begins anew. With c runs before, the new mean
    is `(c·mean + score) / (c + 1)`, where c is at most 4, so that about the last five runs count. An answer that is
    as before, with the score of the mean, may be a cached one: it is no further run.
    """
    same = _same_questions(entry, before)
    scores: dict[str, ScoreEntry] = {}
    for name, score in entry["scores"].items():
        scores[name] = score
        old = before["scores"].get(name)
        is_averaged = "runs" in next(iter(score["examples"].values()), {})
        if (
            old is None
            or not is_averaged
            or old["fingerprint"] != score["fingerprint"]
            or old.get("repeats") != score.get("repeats")
        ):
            continue
        means = {
            example_id: _mean_example(old["examples"].get(example_id), example)
            if example_id in same
            else example
            for example_id, example in score["examples"].items()
        }
        merged: ScoreEntry = {**score, "examples": spooled_examples(means.items(), Spool())}
        changes = list(_score_changes("", name, old, merged, same))
        if raised := old.get("raised", 0) + any(c.after > c.before + SCORE_TOLERANCE for c in changes):
            merged["raised"] = raised
        if lowered := old.get("lowered", 0) + any(c.after < c.before - SCORE_TOLERANCE for c in changes):
            merged["lowered"] = lowered
        scores[name] = merged
    return {**entry, "scores": scores}


def _mean_example(old: BaselineExample | None, new: BaselineExample) -> BaselineExample:
    score, before = new["score"], None if old is None else old["score"]
    if (
        old is None
        or score is None
        or before is None
        or (old.get("under"), old.get("ranking")) != (new.get("under"), new.get("ranking"))
    ):
        return new
    if (before, old.get("answer")) == (score, new.get("answer")):
        return old
    runs = min(old.get("runs", 1), MAX_RUNS - 1)
    return {**new, "score": (runs * before + score) / (runs + 1), "runs": runs + 1}


def updated_anchors(
    before: Mapping[str, AnchorEntry],
    update: BaselineUpdate,
    *,
    written: Collection[str],
    pin: AnchorPin | None = None,
    complete: bool,
) -> dict[str, AnchorEntry]:
    """Return the anchors after an update, which wrote the tests `written` and perhaps pins new anchors for them.

    Anchors stay as they are, except for their number of updates. A complete run removes the anchors of tests that no
    longer exist.
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
        key=lambda change: (change.after - change.before if change.n else -inf, change.nodeid, change.name),
    )


def _entry_changes(nodeid: str, before: BaselineEntry, after: BaselineEntry) -> Iterator[ScoreChange]:
    same = _same_questions(after, before)
    for name in after["scores"].keys() & before["scores"].keys():
        yield from _score_changes(nodeid, name, before["scores"][name], after["scores"][name], same)


def _score_changes(
    nodeid: str, name: str, before: ScoreEntry, after: ScoreEntry, same: set[str]
) -> Iterator[ScoreChange]:
    old, new = before["examples"], after["examples"]
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
    return {name for name, digest in one["questions"].items() if other["questions"].get(name) == digest}


class BaselineChanges(NamedTuple):
    """A line about the file and one for each change; whether a change makes the gate weaker, or all are upward."""

    note: str
    changes: list[str]
    lowers: bool


def update_baseline(  # noqa: PLR0913 - what an update depends on
    path: Path,
    entries: Mapping[str, BaselineEntry],
    *,
    unfinished: Collection[str],
    failed: Mapping[str, Collection[str]],
    partial: str,
    pin: AnchorPin | None = None,
) -> BaselineChanges:
    """Replace the entries of the tests that ran. After a full run, remove the entries of tests that no longer exist.

    `failed` has the names of scores that are out of a bound other than `max_drop`; `partial` says why this was not a
    full run, so that tests without an entry may still exist; without a `pin` the old anchors stay.
    """
    old = Baseline.read(path)
    update = compute_update(old.tests, entries, unfinished=unfinished, failed=failed, complete=not partial)
    written = entries.keys() - update.kept.keys()
    anchors = updated_anchors(old.anchors, update, written=written, pin=pin, complete=not partial)
    Baseline(update.tests, anchors=anchors).write(path)
    kept = [f"{test}: its old entry is kept, as {reason}" for test, reason in update.kept.items()]
    new_failures = [
        f"{test} {name}: new in the baseline, and out of its bounds"
        for test, entry in sorted(entries.items())
        for name in sorted(entry["scores"].keys() & failed.get(test, ()))
        if test not in old.tests or name not in old.tests[test]["scores"]
    ]
    gone = [] if partial else [f"{test}: removed, as the test is gone" for test in update.not_run]
    dropped = [
        f"{test} {name}: dropped, no threshold with max_drop bounds it" for test, name in update.dropped
    ]
    dropped += [
        f"{test}: its anchor is removed, as the test is gone" for test in sorted(old.anchors.keys() - anchors)
    ]
    ratchets = [
        f"{test} {name}: every update so far raised it. A baseline that is written after good runs only makes "
        "unchanged pull requests fail: write it at every merge"
        for test, name in update.only_raised
    ]
    fate = f"kept, since this was not a full run ({partial})" if partial else "dropped, since gone"
    others = f"; {counted(len(update.not_run), 'other')} {fate}" if update.not_run else ""
    pinned = "" if pin is None else f", {pin} as the anchor of max_total_drop"
    return BaselineChanges(
        f"baseline: {path} ({counted(len(written), 'test')} written{pinned}{others})",
        [*map(str, update.changes), *kept, *new_failures, *gone, *dropped, *ratchets],
        bool(kept or new_failures or gone or dropped or ratchets)
        or any(change.is_lower for change in update.changes),
    )
