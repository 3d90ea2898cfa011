"""Updates the baseline file and the cassette at the end of a run, and describes the changes for the terminal."""

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_rageval.gate.baseline import Baseline
from pytest_rageval.gate.baseline_file import BaselineEntry
from pytest_rageval.gate.baseline_update import compute_update, updated_anchors
from pytest_rageval.gate.comparison import AnchorPin
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.notes import baseline_update_text

if TYPE_CHECKING:
    from pytest_rageval.models.stores.interface import Entry

MAX_UNUSED_KEYS: Final = 3
"""Number of unused replies whose keys are listed without -v."""


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
        [*map(baseline_update_text, update.changes), *kept, *new_failures, *gone, *dropped, *ratchets],
        bool(kept or new_failures or gone or dropped or ratchets)
        or any(change.is_lower for change in update.changes),
    )


def update_cassette(
    path: Path, lines: Mapping[str, str], *, drop_unused: bool, partial: str, every_key: bool = False
) -> list[str]:
    """Write the replies of a run to the cassette; return lines about it.

    `lines` are the used replies as lines of a cassette. Unused ones are removed after a full run only; `partial` says
    why it was none.
    """
    from pytest_rageval.models import cassette  # noqa: PLC0415 - few runs record

    used = {key: cassette.parse_entry(line) for key, line in lines.items()}
    drop = drop_unused and not partial
    before = cassette.read_cassette(path) if path.exists() else {}
    unused = {key: entry for key, entry in before.items() if key not in used}
    cassette.write_cassette(path, [*used.values(), *(() if drop else unused.values())])
    new = len(used.keys() - before.keys())
    other = sum(used[key].reply != entry.reply for key, entry in before.items() if key in used)
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
    shown = keys if every_key else keys[:MAX_UNUSED_KEYS]
    more = f" and {len(keys) - len(shown)} more (-v lists them)" if len(shown) < len(keys) else ""
    short_keys = ", ".join(key[:12] for key in shown)
    remedy = "" if dropped else "; --rageval-drop-unused drops them"
    return f"unused: {by_model}: {short_keys}{more}{remedy}"
