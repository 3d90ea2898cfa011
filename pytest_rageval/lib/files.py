"""Files: atomic writes, appended lines, and the refusal of pipes and devices."""

import errno
import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from shutil import copymode
from typing import Final
from uuid import uuid4


def write_atomically(path: Path, content: Iterable[bytes]) -> None:
    """Replace the content of a file atomically, by a temporary file in the same folder.

    A symbolic link is followed. An existing file keeps its permissions. After an OSError its old content is unchanged.
    """
    target = path.resolve()
    if target.exists() and not (target.is_file() or target.is_dir()):
        # A pipe or a terminal has no content that could be lost, and cannot be replaced.
        with target.open("wb") as file:
            file.writelines(content)
        return
    # A short name, since the name of the target may have the maximal length already.
    temporary = target.with_name(f".rageval-{uuid4().hex[:12]}")
    try:
        with temporary.open("xb") as file:
            file.writelines(content)
            file.flush()
            # Some file systems report a full disk only here.
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_json_lines(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    """Replace the content of a file by records, each as a line of JSON in UTF-8 (see `write_atomically`)."""
    lines = (f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    # UTF-8 cannot encode an unpaired surrogate; `backslashreplace` writes JSON's escape for it.
    write_atomically(path, (line.encode(errors="backslashreplace") for line in lines))


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file with a single write; if the write fails, the file is truncated to its old size.

    A missing file is created. If the last line of the file has no line feed, one is written before the new line.
    """
    if path.exists():
        refuse_special(path)
    binary: int = getattr(os, "O_BINARY", 0)  # exists on Windows only
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | binary, 0o666)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        ends_with_newline = True
        if size:
            os.lseek(descriptor, -1, os.SEEK_END)
            ends_with_newline = os.read(descriptor, 1) == b"\n"
        try:
            _write(descriptor, b"".join([b"" if ends_with_newline else b"\n", line, b"\n"]))
        except BaseException:
            # The file is not truncated if another process has appended to it since.
            if os.lseek(descriptor, 0, os.SEEK_CUR) == os.fstat(descriptor).st_size:
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes) -> None:
    if os.write(descriptor, content) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    # Some file systems report a full disk only here.
    os.fsync(descriptor)


SPECIAL_FILE_TYPES: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class SpecialFileError(OSError):
    """A path is a pipe, a socket or a device. The message is written for the user."""


def refuse_special(path: Path) -> None:
    """Raise `SpecialFileError` for a pipe, a socket or a device, since reading it may never end."""
    kind = SPECIAL_FILE_TYPES.get(stat.S_IFMT(path.stat().st_mode))
    if kind is not None:
        raise SpecialFileError(f"it is {kind}, and only a regular file is read")
