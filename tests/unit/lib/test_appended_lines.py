"""Appending a line writes all of it or nothing, and keeps the existing content."""

import errno
import os
from pathlib import Path

import pytest

from pytest_rageval.lib.files import SpecialFileError, append_line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b"one\ntwo\n"),
        # After a killed write, the last line has no newline.
        (b"zero\non", b"zero\non\none\ntwo\n"),
    ],
)
def test_lines_follow_each_other_and_a_cut_one(tmp_path: Path, before: bytes | None, after: bytes) -> None:
    path = tmp_path / "history.jsonl"
    if before is not None:
        path.write_bytes(before)
    append_line(path, b"one")
    append_line(path, b"two")
    assert path.read_bytes() == after


@pytest.mark.parametrize("when", ["write", "part", "fsync"])
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch, when):
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"one\n")
    real = os.write

    def failing(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    if when == "part":
        monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, content[:2]))
    else:
        monkeypatch.setattr(os, when, failing)
    with pytest.raises(OSError, match="No space left"):
        append_line(path, b"two")
    assert path.read_bytes() == b"one\n"


def test_a_line_of_another_process_is_not_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process appended after a partial line, the partial line stays, as a damaged line."""
    path = tmp_path / "history.jsonl"
    real = os.write

    def cut(descriptor: int, content: bytes) -> int:
        written = real(descriptor, content[:2])
        with path.open("ab") as other:
            other.write(b"\nother\n")
        return written

    monkeypatch.setattr(os, "write", cut)
    with pytest.raises(OSError, match="No space left"):
        append_line(path, b"two")
    assert path.read_bytes() == b"tw\nother\n"


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(SpecialFileError, match="named pipe"):
        append_line(path, b"one")
