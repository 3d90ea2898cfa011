"""The revision under test: the commit, the branch and the CI job, from git and from the variables of CI."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.lib.git import git_output

__all__ = ["head_commit", "run_entry"]

COMMITS: Final = ("GITHUB_SHA", "CI_COMMIT_SHA")
BRANCHES: Final = (
    "GITHUB_HEAD_REF",
    "GITHUB_REF_NAME",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
    "CI_COMMIT_REF_NAME",
)
URLS: Final = ("CI_JOB_URL", "CIRCLE_BUILD_URL", "BUILDKITE_BUILD_URL", "BUILD_URL")
"""Environment variables of CI systems. The first one that is set is used. The branch comes from one of these variables
where the checkout is detached, as it often is in CI, since git then reports no branch."""


def head_commit(root: Path) -> str | None:
    """Return the commit that is checked out in a folder's repository; None without git or a repository."""
    return git_output(root, "rev-parse", "--verify", "--quiet", "HEAD") or None


def run_entry(
    root: Path, baseline: Path, environment: Mapping[str, str], *, written: Collection[Path] = ()
) -> dict[str, Any]:
    """Return the revision under test and the revision of the baseline, without the values that are unknown.

    Args:
        root: the root directory of the run.
        baseline: the file to compare with, which may be missing.
        environment: environment variables of the process.
        written: files that runs write. Changes of these files do not make the checkout dirty.
    """
    excluded = [path.relative_to(root).as_posix() for path in written if path.is_relative_to(root)]
    paths = (":/", *(f":(exclude,literal){name}" for name in excluded))
    status = git_output(root, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--", *paths)
    lines = (status or "").splitlines()
    head = dict(re.findall(r"(?m)^# branch\.(oid|head) ([^(].*)$", "\n".join(lines)))
    entry = {
        "commit": head.get("oid") or _first_set(environment, COMMITS),
        "branch": head.get("head") or _first_set(environment, BRANCHES),
        "title": git_output(root, "log", "-1", "--format=%s") if "oid" in head else None,
        "dirty": any(not line.startswith("#") for line in lines) if "oid" in head else None,
        "url": _job_url(environment),
        "baseline": _baseline(root, baseline),
    }
    return {name: value for name, value in entry.items() if value is not None}


def _baseline(root: Path, path: Path) -> dict[str, str] | None:
    """Return the path of the baseline, and hash and date of the last commit that changed it, if they are known."""
    if not path.is_file():
        return None
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    logged = (git_output(root, "log", "-1", "--format=%H %cI %P", "--", str(path)) or "").split()
    # In a shallow clone the oldest commit has no parents, and git reports it as the commit that added every file.
    is_oldest = len(logged) == 2  # noqa: PLR2004 - the commit and its date
    if not logged or (is_oldest and git_output(root, "rev-parse", "--is-shallow-repository") != "false"):
        return {"path": name}
    return {"path": name, "commit": logged[0], "date": logged[1]}


def _job_url(environment: Mapping[str, str]) -> str | None:
    parts = [environment.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    url = "{}/{}/actions/runs/{}".format(*parts) if all(parts) else _first_set(environment, URLS)
    # The URL becomes a link in reports.
    return url if url and url.startswith(("https://", "http://")) else None


def _first_set(environment: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := environment.get(name))), None)
