"""Merges the baselines of two branches, test by test."""

import argparse
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.baseline import UPDATE_COMMAND, Baseline
from pytest_rageval.cli.console import echo, echo_err
from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.git import git_output
from pytest_rageval.options import BASELINE

DRIVER: Final = "rageval-baseline"
CONFIG: Final = (
    (f"merge.{DRIVER}.name", "test by test"),
    (f"merge.{DRIVER}.driver", "rageval baseline merge %O %A %B"),
)


def merge_command(options: argparse.Namespace) -> int:
    files = (options.base, options.ours, options.theirs)
    if options.install:
        if options.base is not None:
            raise InputError("--install takes no files.")
        return _install(Path.cwd())
    if None in files:
        raise InputError(
            "Three files are needed: BASE OURS THEIRS. Or --install, which makes git call this command."
        )
    base, ours, theirs = map(_read, files)
    tests, conflicts = _merge(base.tests, ours.tests, theirs.tests)
    anchors, in_anchors = _merge(base.anchors, ours.anchors, theirs.anchors)
    conflicts += [f"{nodeid} (anchor)" for nodeid in in_anchors]
    Baseline(tests, anchors=anchors).write(options.ours)
    if conflicts:
        echo_err(
            f"{BASELINE}: both branches changed {', '.join(conflicts)}. Those of this branch are kept.\n"
            f"Run {UPDATE_COMMAND} on the merged code, and git add the file."
        )
    return int(bool(conflicts))


def _merge(
    base: Mapping[str, object], ours: Mapping[str, object], theirs: Mapping[str, object]
) -> tuple[dict[str, Any], list[str]]:
    """Return the entries by node id, and the node ids of those that both branches changed in two ways."""
    merged: dict[str, object] = {}
    conflicts = []
    for nodeid in dict.fromkeys((*ours, *theirs)):
        before, mine, others = (side.get(nodeid) for side in (base, ours, theirs))
        entry = others if mine == before else mine
        if mine not in (before, others) and others != before:
            conflicts.append(nodeid)
            entry = others if mine is None else mine
        if entry is not None:
            merged[nodeid] = entry
    return merged, conflicts


def _read(path: Path) -> Baseline:
    """Return a baseline; an empty one for an empty file, as git has for a file that the ancestor lacks."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The baseline {path} cannot be read: {error}.") from None
    return Baseline.parse(text, path) if text.strip() else Baseline()


def _install(folder: Path) -> int:
    for key, text in CONFIG:
        try:
            command = ["git", "config", key, text]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", "") or str(error)
            raise InputError(
                f"git config failed: {reason.strip()}.\nRun it in the repository of the tests."
            ) from None
    done, commit = f"git merges {BASELINE} with `rageval baseline merge` in this clone", ""
    if git_output(folder, "check-attr", "merge", "--", str(BASELINE)) != f"{BASELINE}: merge: {DRIVER}":
        # At the root it applies to baselines in all folders; in this folder, not to one above.
        attributes = Path(git_output(folder, "rev-parse", "--show-toplevel") or folder, ".gitattributes")
        lines = attributes.read_text(encoding="utf-8") if attributes.exists() else ""
        end = "" if not lines or lines.endswith("\n") else "\n"
        attributes.write_text(f"{lines}{end}{BASELINE} merge={DRIVER}\n", encoding="utf-8")
        commit = f"; commit {os.path.relpath(attributes, folder)}"
    echo(f"{done}{commit}")
    return 0
