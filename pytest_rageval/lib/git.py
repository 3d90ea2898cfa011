"""Calls of git in the repository of a folder."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 10  # the longest time that a call of git that only reads may take
QUIET: Final = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
"""Environment variables with which git asks for no password, and does not translate its messages."""

COMMIT: Final = re.compile("[0-9a-f]{40,64}")
REF: Final = re.compile(r"[^-\s\x00-\x1f][^\s\x00-\x1f]*")
"""The name of a commit or a branch. It must not begin with a hyphen: git would read it as an option."""


class GitError(Exception):
    """A call of git failed. The message is the reason."""


def run_git(folder: Path, *arguments: str, timeout_s: float | None = TIMEOUT_S) -> bytes:
    """Return the output of a git command; GitError if git is missing, fails, or does not end in time."""
    # Git must not lock the index, since the user may be running git in the same folder.
    command = ("git", "--no-optional-locks", "--no-pager", *arguments)
    try:
        completed = subprocess.run(  # noqa: S603 - the arguments are those of this package, and checked names
            command,
            cwd=folder,
            env={**os.environ, **QUIET},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=timeout_s,
        )
    except FileNotFoundError:
        reason = "git is not installed" if folder.is_dir() else f"there is no folder {folder}"
    except subprocess.TimeoutExpired:
        reason = f"git {arguments[0]} took longer than {timeout_s} s"
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="backslashreplace").splitlines()
        reason = lines[0].removeprefix("fatal: ") if lines else f"git {arguments[0]} found nothing"
    except (OSError, ValueError) as error:
        reason = str(error)
    else:
        return completed.stdout
    raise GitError(reason)


def git_output(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command as text, without spaces around it; None if it fails."""
    try:
        return run_git(folder, *arguments).decode(errors="backslashreplace").strip()
    except GitError:
        return None


def commit_of(folder: Path, ref: str) -> str:
    """Return the commit that a name such as "origin/main" or "HEAD~1" stands for; GitError if there is none."""
    if not REF.fullmatch(ref):
        raise GitError(f"{ref!r} is not the name of a commit or a branch")
    commit = git_output(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if commit is None or not COMMIT.fullmatch(commit):
        # Without a repository, git says so here.
        run_git(folder, "rev-parse", "--git-dir")
        is_shallow = git_output(folder, "rev-parse", "--is-shallow-repository") == "true"
        hint = ", as it is a shallow clone: fetch the whole history (fetch-depth: 0 of actions/checkout)"
        raise GitError(f"this checkout has no {ref}{hint if is_shallow else ''}")
    return commit


def file_at(commit: str, path: Path) -> bytes | None:
    """Return the content of a file at a commit, as `commit_of` returned it; None if the commit has no such file."""
    row = run_git(path.parent, "--literal-pathspecs", "ls-tree", "-z", commit, "--", path.name)
    # The row is "100644 blob HASH\tNAME".
    fields = row.partition(b"\t")[0].decode().split(" ")
    return run_git(path.parent, "cat-file", "blob", fields[2]) if fields[1:2] == ["blob"] else None
