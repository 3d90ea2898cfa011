"""The baseline of a run: a threshold's score in it, its update, and at the end, what was compared."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_rageval.baseline import UPDATE_COMMAND, Baseline
from pytest_rageval.baseline.entries import AnchorPin, BaselineEntry, BaselineExample, BaselineScore
from pytest_rageval.baseline.update import compute_update, updated_anchors
from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.sampling import in_sample
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, ThresholdInput
from pytest_rageval.lib.git import GitError, commit_of, file_at
from pytest_rageval.lib.text import counted
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.anomalies import all_zero_hint
from pytest_rageval.reports.gated_tests import RanTests, gate_entry
from pytest_rageval.reports.notes import baseline_update_text
from pytest_rageval.run.inputs import MarkedTest
from pytest_rageval.scores.definition import GOLD, ScoreDef
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

EMBEDDING_TOLERANCE: Final = 1e-6
"""Maximal difference of a score from embeddings between two machines, whose floating-point results differ."""


def read_baseline(settings: Settings) -> Baseline:
    """Return the file, or with `--rageval baseline_ref=REF` the file of that commit; raise InputError."""
    if settings.baseline_ref is None:
        return Baseline.read_for_comparison(settings.baseline, required="baseline" in settings.sources)
    return read_baseline_at(settings.baseline, settings.baseline_ref)


def baseline_of(settings: Settings) -> Baseline:
    """Return the same as `read_baseline`; in an update, the old baseline.

    The latter is empty if the file cannot be read: the writer reports this error.
    """
    if not settings.update_baseline:
        return read_baseline(settings)
    try:
        return Baseline.read(settings.baseline)
    except InputError:
        return Baseline()


def look_up_baseline(  # noqa: PLR0913 - what a comparison depends on
    settings: Settings,
    baseline: Baseline,
    test: MarkedTest,
    *,
    threshold: Threshold,
    definition: ScoreDef,
    fingerprint: Mapping[str, object],
    received: Iterable[str],
) -> BaselineLookup:
    scale = definition.scale
    updating = bool(settings.update_baseline)
    if baseline.path is None and not updating:
        _check_root(test, settings.baseline)
    before = None if updating else baseline.score(test.nodeid, threshold.name, scale)
    needs_anchor = updating or threshold.max_total_drop is not None
    is_missing = before is None and not updating
    context = set(received)
    if definition.asks:
        # Generator and judge read the history of a question.
        context.add("history")

    def restrict(score: BaselineScore | None) -> BaselineScore | None:
        return score and replace(score, context=context, examples=_sampled_examples(score, settings.sample))

    missing, is_new = "", False
    if is_missing:
        missing, is_new = baseline.missing_reason(
            test.nodeid, threshold.name, test.collected(), repeated=test.repeated
        )
    return BaselineLookup(
        fingerprint,
        restrict(before),
        updating=updating,
        required=settings.require_baseline,
        missing="" if is_new else missing,
        new=missing if is_new else "",
        tolerance=EMBEDDING_TOLERANCE if "encoder" in fingerprint else SCORE_TOLERANCE,
        anchor=restrict(baseline.anchor_score(test.nodeid, threshold.name, scale)) if needs_anchor else None,
        pinning=settings.pin_baseline,
        max_removed=settings.max_removed,
        deterministic=definition.deterministic,
    )


def why_no_baseline(threshold_input: ThresholdInput, definition: ScoreDef) -> str:
    """Return why a score that is not compared yet cannot be compared with later; empty if it can.

    This is a score of rankings without any gold passage: a baseline of it would let every change pass.
    """
    score, baseline = threshold_input.score, threshold_input.baseline
    if baseline.before is not None or baseline.missing:
        return ""
    if definition.scale is None or GOLD not in definition.needs:
        return ""
    values = [outcome.value for outcome in score.outcomes if outcome.value is not None]
    low = definition.scale[0]
    if not values or max(values) > low + SCORE_TOLERANCE:
        return ""
    hint = all_zero_hint(score)
    return (
        f"every question scores {low:g}, so that nothing could be a drop, and this is no baseline."
        f"{f'{chr(10)}{hint[0].upper()}{hint[1:]}.' if hint else ''}"
    )


def _sampled_examples(score: BaselineScore, share: float) -> Mapping[str, BaselineExample]:
    if share >= 1:
        return score.examples
    examples = score.examples.items()
    return {name: example for name, example in examples if in_sample(name, share)}


def _check_root(test: MarkedTest, expected: Path) -> None:
    """Raise InputError if a folder above the test has a baseline: the root directory is probably wrong."""
    for folder in test.path.parents:
        if folder != expected.parent and (folder / expected.name).is_file():
            raise InputError(
                f"There is no baseline in {expected.parent}, the root directory, and there is one in {folder}.\n"
                "Run pytest with that root directory (--rootdir), or name the baseline with --rageval-baseline; "
                f"or write one here: {UPDATE_COMMAND}"
            )


def read_baseline_at(path: Path, ref: str) -> Baseline:
    """Return the baseline as it is at a commit, such as "origin/main"; InputError if it cannot be read there."""
    try:
        commit = commit_of(path.parent, ref)
        content = file_at(commit, path)
    except GitError as error:
        raise InputError(f"The baseline {path.name} of {ref} cannot be read: {error}.") from None
    if content is None:
        raise InputError(
            f"{ref} ({commit[:7]}) has no {path.name}, which --rageval baseline_ref=REF compares with.\n"
            "Write it there first, with --rageval-update-baseline."
        )
    return parse_baseline(content, path, ref)


def parse_baseline(content: bytes, path: Path, ref: str) -> Baseline:
    path = Path(f"{path} of {ref}")
    try:
        return Baseline.parse(content.decode(), path)
    except UnicodeDecodeError as error:
        raise InputError(f"The baseline {path} cannot be read: {error}.") from None


def check_gate(settings: Settings, ran: RanTests, hook: Any, known: Baseline | None = None) -> dict[str, Any]:
    """Return the key `gate` of the report; empty without a baseline. `known` is the baseline, if it was read."""
    baseline, required = known or read_baseline(settings), settings.require_baseline
    if baseline.path is None:
        return {}
    gate = gate_entry(baseline.tests, ran, required=required, allowed=settings.allow_missing)
    if settings.baseline_ref is not None:
        return {**gate, "ref": settings.baseline_ref}
    for added in hook.pytest_rageval_gate_entry(settings=settings):
        gate |= added
    return gate


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
