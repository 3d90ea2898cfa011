"""Runs `rageval view` as a process."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def viewing(folder: Path, *arguments: str) -> Iterator[str]:
    """Serve `report.json` in a folder; yield the address of its page. Ctrl-C must end the server."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_rageval", "view", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert ": http://127.0.0.1:" in line, line + process.stderr.read()
        yield line.split(": ")[1].strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0, process.stderr.read()
    finally:
        process.kill()
        process.communicate()
