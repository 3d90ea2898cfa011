"""Updates the baseline and the cassette at the end of a run, and reports what changed."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_rageval.errors import InputError
from pytest_rageval.gate.baseline import Baseline, BaselineEntry
from pytest_rageval.gate.baseline_update import anchors_after, update_of
from pytest_rageval.gate.comparison import Pin
from pytest_rageval.plural import counted
from pytest_rageval.reports.notes import baseline_update_text

if TYPE_CHECKING:
    from pytest_rageval.llm.stores.interface import Entry

__all__ = ["Written", "not_compared", "update_baseline", "update_cassette"]

KEYS: Final = 3
"""Number of keys of unused replies that are listed, unless all are asked for."""


class Written(NamedTuple):
    """A note on the written file, its changes, and whether these lower what the gate requires."""

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
    pin: Pin | None = None,
) -> Written:
    """Write new entries over the old ones, and after a full run nothing else.

    Args:
        path: of the baseline.
        entries: by node id, of the tests that ran.
        unfinished: tests that did not come to their end.
        failed: by test, names of scores that are out of a bound other than `max_drop`.
        partial: why tests without an entry may still exist; empty after a full run.
        pin: of a new anchor of these tests; None to keep the old one.

    Raises:
        InputError: the existing file is not a baseline, or the file cannot be written.
    """
    old = Baseline.read(path)
    update = update_of(old.tests, entries, unfinished=unfinished, failed=failed, complete=not partial)
    anchors = anchors_after(old.anchors, update, written=entries, pin=pin, complete=not partial)
    Baseline(update.tests, anchors=anchors).write(path)
    held_back = [
        f"{test} {name}: out of its bounds and lower, the old baseline is kept"
        for test, name in update.held_back
    ]
    gone = [] if partial else [f"{test}: removed, as the test is gone" for test in update.others]
    dropped = [
        f"{test} {name}: dropped, no threshold with max_drop bounds it" for test, name in update.dropped
    ]
    dropped += [
        f"{test}: its anchor is removed, as the test is gone" for test in sorted(old.anchors.keys() - anchors)
    ]
    fate = f"kept, since this was not a full run ({partial})" if partial else "dropped, since gone"
    others = f"; {counted(len(update.others), 'other')} {fate}" if update.others else ""
    pinned = "" if pin is None else f", {pin} as the anchor of max_total_drop"
    return Written(
        f"baseline: {path} ({counted(len(entries), 'test')} written{pinned}{others})",
        [*map(baseline_update_text, update.moved), *held_back, *gone, *dropped],
        bool(held_back or gone or dropped) or any(moved.lowered for moved in update.moved),
    )


def not_compared(
    path: Path,
    compared: Mapping[str, Collection[str]],
    *,
    excused: Collection[str] = (),
    required: bool,
    known: Baseline | None = None,
) -> Iterator[str]:
    """Yield, after a full run, the entries of the baseline that nothing in the run was compared with, as text.

    Args:
        path: of the baseline.
        compared: by node id, names of scores.
        excused: node ids of tests, modules and folders whose scores may be missing.
        required: whether a missing comparison fails the run.
        known: the baseline, where the run has read it.
    """
    try:
        tests = (known or Baseline.read(path)).tests
    except InputError as error:
        # There may be no test left that compares with it.
        yield str(error)
        return
    missing = []
    for nodeid in sorted(tests):
        if any(nodeid == each or nodeid.startswith((f"{each}::", f"{each}/")) for each in excused):
            continue
        scores = sorted(tests[nodeid]["scores"].keys() - set(compared.get(nodeid, ())))
        if nodeid not in compared:
            missing.append(f"  {nodeid}")
        elif scores:
            missing.append(f"  {nodeid}: {', '.join(scores)}")
    if missing:
        why = ", which --rageval-require-baseline forbids (the default under CI=true)" if required else ""
        yield f"{path} lists what nothing in this run is compared with{why}:"
        yield from missing
        yield (
            "Was the test or its max_drop removed? If that is intended, pytest --rageval-update-baseline removes it "
            "from the baseline."
        )


def update_cassette(
    path: Path, lines: Mapping[str, str], *, drop_unused: bool, partial: str, every_key: bool = False
) -> list[str]:
    """Write the replies of a run to the cassette, and return notes on it.

    Args:
        path: of the cassette.
        lines: of the replies that were used, by key.
        drop_unused: whether a full run is to drop the other replies.
        partial: why this was not a full run, which drops nothing; empty after a full one.
        every_key: whether the keys of all unused replies are listed.

    Raises:
        StoreError: it cannot be read or written.
    """
    from pytest_rageval.llm import cassette  # noqa: PLC0415 - rare

    used = {key: cassette.read_entry(line) for key, line in lines.items()}
    drop = drop_unused and not partial
    kept = cassette.read_cassette(path) if path.exists() else {}
    unused = {key: entry for key, entry in kept.items() if key not in used}
    cassette.write_cassette(path, [*used.values(), *(() if drop else unused.values())])
    new = len(used.keys() - kept.keys())
    other = sum(used[key].reply != entry.reply for key, entry in kept.items() if key in used)
    replaced = f", {other} in place of other replies" if other else ""
    fate = f"{len(unused)} {'dropped' if drop else 'kept'} unused"
    notes = [f"cassette: {path} ({counted(len(used), 'reply')} used, {new} of them new{replaced}; {fate})"]
    if unused and partial:
        fate = "not dropped" if drop_unused else "kept"
        notes.append(f"unused replies are {fate}: this was not a full run ({partial})")
    elif unused:
        notes.append(_unused_note(unused, dropped=drop, every_key=every_key))
    return notes


def _unused_note(unused: "Mapping[str, Entry]", *, dropped: bool, every_key: bool) -> str:
    models = Counter(entry.summary.get("model") or entry.reply.model for entry in unused.values())
    by_model = ", ".join(f"{count} of {model or 'unknown'}" for model, count in models.most_common())
    keys = sorted(unused)
    shown = keys if every_key else keys[:KEYS]
    more = f" and {len(keys) - len(shown)} more (-v lists them)" if len(shown) < len(keys) else ""
    listed = ", ".join(key[:12] for key in shown)
    remedy = "" if dropped else "; --rageval-drop-unused drops them"
    return f"unused: {by_model}: {listed}{more}{remedy}"
