"""A file is written completely or not at all."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_rageval.lib.files import write_atomically


def _failing() -> Iterator[bytes]:
    yield b"the first half"
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("before", [None, b"the last good one"])
def test_what_fails_half_way_leaves_the_file_of_before(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / "report.html"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, _failing())
    assert (path.read_bytes() if path.exists() else None) == before
    assert len(list(tmp_path.iterdir())) == (before is not None)


def test_the_file_is_never_seen_half_written(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    seen = []

    def parts() -> Iterator[bytes]:
        for part in (b"n", b"e", b"w"):
            seen.append(path.read_bytes())
            yield part

    write_atomically(path, parts())
    assert seen == [b"old"] * 3
    assert path.read_bytes() == b"new"


def test_permissions_are_kept(tmp_path: Path) -> None:
    path, other = tmp_path / "report.html", tmp_path / "other"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_atomically(path, [b"new"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    other.write_bytes(b"")
    write_atomically(tmp_path / "fresh", [b"new"])
    assert (tmp_path / "fresh").stat().st_mode == other.stat().st_mode


def test_the_name_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    """A file name of the maximum length works, since the temporary file has a short name."""
    path = tmp_path / ("x" * 250 + ".html")
    write_atomically(path, [b"new"])
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    """A named pipe is written to, not replaced, so that its reader gets the content."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(path, [b"ne", b"w"])
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)
