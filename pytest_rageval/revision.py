"""The revision under test: the commit, the branch and the CI job, from git and from the variables of CI."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["head_commit", "run_entry"]

TIMEOUT_S: Final = 10
"""Git is asked at most this long."""

COMMITS: Final = ("GITHUB_SHA", "CI_COMMIT_SHA")
BRANCHES: Final = (
    "GITHUB_HEAD_REF",
    "GITHUB_REF_NAME",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
    "CI_COMMIT_REF_NAME",
)
URLS: Final = ("CI_JOB_URL", "CIRCLE_BUILD_URL", "BUILDKITE_BUILD_URL", "BUILD_URL")
"""Variables of CI, the first that is set counts. A checkout of CI is often detached, so git knows no branch."""


def head_commit(root: Path) -> str | None:
    """The commit of the checkout that a folder is in; None where git knows none."""
    return _git(root, "rev-parse", "--verify", "--quiet", "HEAD") or None


def run_entry(
    root: Path, baseline: Path, environment: Mapping[str, str], *, written: Collection[Path] = ()
) -> dict[str, Any]:
    """The revision that a run tests, and that of its baseline; what is not known is left out.

    Args:
        root: the root directory of the run.
        baseline: the file to compare with, which may be missing.
        environment: variables of the process.
        written: files that runs write: changes of those in the folder do not count.
    """
    own = [path.relative_to(root).as_posix() for path in written if path.is_relative_to(root)]
    paths = (":/", *(f":(exclude,literal){name}" for name in own))
    status = _git(root, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--", *paths)
    lines = (status or "").splitlines()
    head = dict(re.findall(r"(?m)^# branch\.(oid|head) ([^(].*)$", "\n".join(lines)))
    found = {
        "commit": head.get("oid") or _first(environment, COMMITS),
        "branch": head.get("head") or _first(environment, BRANCHES),
        "title": _git(root, "log", "-1", "--format=%s") if "oid" in head else None,
        "dirty": any(not line.startswith("#") for line in lines) if "oid" in head else None,
        "url": _job_url(environment),
        "baseline": _baseline(root, baseline),
    }
    return {name: value for name, value in found.items() if value is not None}


def _baseline(root: Path, path: Path) -> dict[str, str] | None:
    """The baseline's path, and the last commit that changed it."""
    if not path.is_file():
        return None
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    logged = (_git(root, "log", "-1", "--format=%H %cI %P", "--", str(path)) or "").split()
    # A shallow clone shows its oldest commit, which then has no parents, as the one that added all files.
    is_oldest = len(logged) == 2  # noqa: PLR2004 - the commit and its date
    if not logged or (is_oldest and _git(root, "rev-parse", "--is-shallow-repository") != "false"):
        return {"path": name}
    return {"path": name, "commit": logged[0], "date": logged[1]}


def _job_url(environment: Mapping[str, str]) -> str | None:
    parts = [environment.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    url = "{}/{}/actions/runs/{}".format(*parts) if all(parts) else _first(environment, URLS)
    # The page links to it.
    return url if url and url.startswith(("https://", "http://")) else None


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := environment.get(name))), None)


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints; None where there is no git, no repository, or no answer in time."""
    import subprocess  # noqa: PLC0415 - few runs ask git

    # It must not lock the index, which the user's own git may be using.
    command = ("git", "--no-optional-locks", *arguments)
    try:
        found = subprocess.run(  # noqa: S603 - a fixed command
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            check=True,
            timeout=TIMEOUT_S,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
