"""The table on a terminal, whose width and colours pipes hide."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pty = pytest.importorskip("pty")

RED, GREEN = "\x1b[31m", "\x1b[32m"
RESET = "\x1b[0m"
TEST = (
    "@pytest.mark.rageval_threshold('recall@2', min=0.9)\n"
    "@pytest.mark.rageval_threshold('recall@2', min=0.1, where={'topic': 'even'})\n"
    "def test_gate(): pass\n"
)


def _on_a_terminal(folder: Path, columns: int, *arguments: str) -> str:
    """Run pytest on a pseudo-terminal of this width; return what it prints."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"}
    for name in ("CI", "NO_COLOR", "PY_COLORS", "PYTEST_ADDOPTS"):
        environ.pop(name, None)
    command = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(
        command, cwd=folder, stdout=theirs, stderr=theirs, stdin=theirs, env=environ
    ) as process:
        os.close(theirs)
        chunks = []
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Linux reports the end of a terminal as an error
                break
            if not chunk:
                break
            chunks.append(chunk)
        os.close(ours)
    assert process.returncode == pytest.ExitCode.TESTS_FAILED
    return b"".join(chunks).decode()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
def test_the_table_fits_and_its_verdicts_are_coloured(project, columns):
    project.lose(3)
    project.test(TEST)
    text = _on_a_terminal(project.path, columns, *project.arguments)
    table = text[re.search(r"=+ rageval =+", text).end() :].partition("legend: ")[0]
    for verdict, value, colour in (("fail", "0.750", RED), ("pass", "1.000", GREEN)):
        assert f"{colour} {verdict}{RESET}" in table
        assert f"{colour} {value}{RESET}" in table
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    ours = [
        line for line in plain if line.startswith(("  ", "recall@2", "Likely cause")) and "::" not in line
    ]
    assert ours
    # The address of the legend is not broken.
    assert [line for line in ours if len(line) > columns and "://" not in line] == []
