"""`change_entry`: how the baseline differs from that of the merge base."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pytest_rageval.baseline import Baseline
from pytest_rageval.baseline.entries import BaselineEntry
from pytest_rageval.baseline.update import score_changes
from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.git import GitError, commit_of, file_at, git_output
from pytest_rageval.lib.text import counted

MERGE_BASE: Final = "CI_MERGE_REQUEST_DIFF_BASE_SHA"  # the variable with the merge base itself (GitLab)
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


def change_entry(path: Path, environment: Mapping[str, str], *, required: bool) -> dict[str, object]:
    """Return how the baseline differs from that of the merge base; if that is `required`, why it is not known."""
    path = path.resolve()
    try:
        found = _merge_base(path.parent, environment)
        if found is None:
            return {}
        ref, commit = found
        content = file_at(commit, path)
        if content == path.read_bytes():
            return {}
        before = Baseline() if content is None else Baseline.parse_at(content, path, ref)
        differences = _differences(before, Baseline.read(path))
    except (GitError, InputError, OSError) as error:
        return {"unknown": str(error).partition("\n")[0].rstrip(".")} if required else {}
    place = {"ref": ref, "commit": commit}
    if content is None:
        return {**place, "is_new": True}
    return {**place, **differences} if any(differences.values()) else {}


def _merge_base(folder: Path, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the branch of the pull request, or the default branch, and the merge base; None if HEAD is it."""
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


def _differences(before: Baseline, after: Baseline) -> dict[str, object]:
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
