"""The baseline of a run: a threshold's score in it, its update, and at the end, what was compared and changed."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.settings import Settings
from pytest_rageval.evalsets.sampling import in_sample
from pytest_rageval.gate.baseline import UPDATE_COMMAND, Baseline
from pytest_rageval.gate.baseline_update import compute_update, score_changes, updated_anchors
from pytest_rageval.gate.comparison import AnchorPin, BaselineEntry, BaselineExample, BaselineScore
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup
from pytest_rageval.lib.git import GitError, commit_of, file_at, git_output
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.gated_tests import RanTests, gate_entry
from pytest_rageval.reports.notes import baseline_update_text
from pytest_rageval.run.inputs import MarkedTest
from pytest_rageval.scores.definition import ScoreDef
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
    fingerprint: Mapping[str, Any],
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


MERGE_BASE: Final = "CI_MERGE_REQUEST_DIFF_BASE_SHA"
"""The environment variable with the merge base itself (GitLab)."""

TARGETS: Final = (
    "GITHUB_BASE_REF",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",  # GitLab
    "SYSTEM_PULLREQUEST_TARGETBRANCH",  # Azure
    "BITBUCKET_PR_DESTINATION_BRANCH",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH",
    "CHANGE_TARGET",  # Jenkins
)
"""Environment variables with the branch that a pull request is to be merged into. The first one that is set is used."""

DEFAULT_BRANCH: Final = "CI_DEFAULT_BRANCH"  # GitLab
USUAL_BRANCHES: Final = ("main", "master")


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
    return _parse(content, path, ref)


def change_entry(path: Path, environment: Mapping[str, str], *, required: bool) -> dict[str, Any]:
    """Return how the baseline differs from that of the merge base; empty if it does not, or HEAD is the main branch.

    If nothing can be compared, it is empty too, or if it is `required`, the reason as the key `unknown`.
    """
    path = path.resolve()
    try:
        found = _merge_base(path.parent, environment)
        if found is None:
            return {}
        ref, commit = found
        content = file_at(commit, path)
        if content == path.read_bytes():
            return {}
        before = Baseline() if content is None else _parse(content, path, ref)
        differences = _differences(before, Baseline.read(path))
    except (GitError, InputError, OSError) as error:
        return {"unknown": str(error).partition("\n")[0].rstrip(".")} if required else {}
    place = {"ref": ref, "commit": commit}
    if content is None:
        return {**place, "is_new": True}
    return {**place, **differences} if any(differences.values()) else {}


def _parse(content: bytes, path: Path, ref: str) -> Baseline:
    path = Path(f"{path} of {ref}")
    try:
        return Baseline.parse(content.decode(), path)
    except UnicodeDecodeError as error:
        raise InputError(f"The baseline {path} cannot be read: {error}.") from None


def _merge_base(folder: Path, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the branch that HEAD is to be merged into and their merge base; None if HEAD is that branch.

    The branch is that of the pull request, by the variables of CI; else the default branch of the remote.
    """
    target = next((value for name in TARGETS if (value := environment.get(name))), "")
    target = target.removeprefix("refs/heads/")
    if target and (commit := environment.get(MERGE_BASE)):
        return f"origin/{target}", commit_of(folder, commit)
    if not target:
        # This is an error if there is no repository or no commit.
        commit_of(folder, "HEAD")
        target = environment.get(DEFAULT_BRANCH) or _default_branch(folder)
        if git_output(folder, "symbolic-ref", "--quiet", "--short", "HEAD") == target:
            return None
    ref = f"origin/{target}"
    try:
        tip = commit_of(folder, f"refs/remotes/{ref}")
    except GitError:
        if git_output(folder, "remote"):
            raise
        # Without a remote, the branch is in this repository alone.
        ref, tip = target, commit_of(folder, f"refs/heads/{target}")
    base = git_output(folder, "merge-base", "HEAD", tip)
    if not base:
        raise GitError(
            f"git finds no merge base of HEAD and {ref}: fetch the whole history (fetch-depth: 0 of actions/checkout)"
        )
    return ref, base


def _default_branch(folder: Path) -> str:
    default = git_output(folder, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
    if default:
        return default.removeprefix("origin/")
    for place in ("refs/remotes/origin", "refs/heads"):
        for name in USUAL_BRANCHES:
            if git_output(folder, "rev-parse", "--verify", "--quiet", f"{place}/{name}"):
                return name
    raise GitError(
        "the default branch is not known, and this checkout has no origin/main: fetch the whole history "
        "(fetch-depth: 0 of actions/checkout)"
    )


def _differences(before: Baseline, after: Baseline) -> dict[str, Any]:
    scores = [
        {
            **change._asdict(),
            **({} if change.n else {"before": None, "after": None}),
            "lower": change.is_lower,
        }
        for change in score_changes(before.tests, after.tests)
    ]
    return {"scores": scores, "others": list(_other_differences(before, after))}


def _other_differences(before: Baseline, after: Baseline) -> Iterator[str]:
    for nodeid in sorted(before.tests.keys() | after.tests.keys()):
        old, new = before.tests.get(nodeid), after.tests.get(nodeid)
        if old is None or new is None:
            yield f"{nodeid}: {'new' if old is None else 'removed'}"
            continue
        yield from (f"{nodeid} {text}" for text in _score_differences(old, new))
        if text := _question_differences(old, new):
            yield f"{nodeid}: {text}"
    for nodeid in sorted(before.anchors.keys() | after.anchors.keys()):
        pins = [
            None if anchor is None else (anchor.get("commit"), anchor["date"])
            for anchor in (before.anchors.get(nodeid), after.anchors.get(nodeid))
        ]
        if pins[0] != pins[1]:
            yield f"{nodeid}: another anchor of max_total_drop"


def _score_differences(old: BaselineEntry, new: BaselineEntry) -> Iterator[str]:
    before, after = old["scores"], new["scores"]
    yield from (f"{name}: removed" for name in sorted(before.keys() - after.keys()))
    yield from (f"{name}: new" for name in sorted(after.keys() - before.keys()))
    for name in sorted(before.keys() & after.keys()):
        if before[name]["fingerprint"] != after[name]["fingerprint"]:
            yield f"{name}: made with other settings"


def _question_differences(old: BaselineEntry, new: BaselineEntry) -> str:
    before, after = old["questions"], new["questions"]
    counts = {
        "removed": len(before.keys() - after.keys()),
        "new": len(after.keys() - before.keys()),
        "edited": sum(before[name] != after[name] for name in before.keys() & after.keys()),
    }
    return ", ".join(f"{counted(count, 'question')} {word}" for word, count in counts.items() if count)


def check_gate(
    settings: Settings, ran: RanTests, environment: Mapping[str, str], known: Baseline | None = None
) -> dict[str, Any]:
    """Return the key `gate` of the report; empty without a baseline. `known` is the baseline, if it was read."""
    baseline, required = known or read_baseline(settings), settings.require_baseline
    if baseline.path is None:
        return {}
    gate = gate_entry(baseline.tests, ran, required=required, allowed=settings.allow_missing)
    if settings.baseline_ref is not None:
        return {**gate, "ref": settings.baseline_ref}
    change = change_entry(settings.baseline, environment, required=required)
    return {**gate, **({"change": change} if change else {})}


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
