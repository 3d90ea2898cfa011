"""`annotate.py REPORT.json`: prints an annotation for GitHub at each test that failed, with its file and line."""

import ast
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LINES = 20
"""Of a failure's text that an annotation shows; the job's log and the report have all."""


def annotations(report: dict[str, Any], folder: Path, workspace: Path) -> Iterator[str]:
    """The commands, one a line.

    Args:
        report: of `pytest --rageval-report FILE.json`.
        folder: in which pytest ran.
        workspace: which paths of annotations are relative to.
    """
    for test in report["tests"]:
        if test["outcome"] not in {"failed", "error"}:
            continue
        place = {}
        file = _file(test["nodeid"].split("::")[0], folder, workspace)
        if file is not None:
            place = {"file": file.relative_to(workspace).as_posix(), "line": str(_line(file, test["nodeid"]))}
        properties = ",".join(
            f"{name}={_escaped(value, ',:')}" for name, value in {**place, "title": test["nodeid"]}.items()
        )
        lines = (test.get("message") or test["outcome"]).splitlines()
        if len(lines) > LINES:
            lines[LINES:] = ["…"]
        yield f"::error {properties}::{_escaped(chr(10).join(lines))}"


def _file(name: str, folder: Path, workspace: Path) -> Path | None:
    """The test's file: its name is relative to pytest's root directory, which is the folder or above."""
    for root in (folder, *folder.parents):
        if not root.is_relative_to(workspace):
            return None
        if (root / name).is_file():
            return root / name
    return None


def _line(file: Path, nodeid: str) -> int:
    """The line of the test's `def`; 1 where it is not found, as for a test that is made at run time."""
    try:
        scope: Any = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return 1
    for part in nodeid.partition("[")[0].split("::")[1:]:
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        scope = next(
            (
                each
                for each in ast.walk(scope)
                if isinstance(each, kinds) and each.name == part and each is not scope
            ),
            None,
        )
        if scope is None:
            return 1
    return getattr(scope, "lineno", 1)


def _escaped(text: str, more: str = "") -> str:
    """As the runner reads a value: the characters that would end it."""
    return "".join(f"%{ord(each):02X}" if each in f"%\r\n{more}" else each for each in text)


if __name__ == "__main__":
    root = Path(os.environ.get("GITHUB_WORKSPACE", ".")).resolve()
    sys.stdout.reconfigure(encoding="utf-8")
    for line in annotations(
        json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path.cwd().resolve(), root
    ):
        sys.stdout.write(f"{line}\n")
