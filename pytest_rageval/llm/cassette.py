"""Replies in a text file that belongs in git: one a line, sorted by key."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.reply import Reply

__all__ = ["read_cassette", "write_cassette"]


def read_cassette(path: Path) -> dict[str, Reply]:
    """All replies of a cassette by key.

    Raises:
        StoreError: the file cannot be read, or a line of it is no reply: file, line and why.
    """
    replies = {}
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    try:
                        key, reply = _loads(line)
                    except ValueError as error:
                        message = (
                            f"{path} line {number} is no recorded reply: {error}.\n"
                            "Take the line out (after a merge conflict, both sides may stay), "
                            "or record anew with --rageval-record."
                        )
                        raise StoreError(message) from None
                    replies[key] = reply
    except (OSError, UnicodeDecodeError) as error:
        message = (
            f"The cassette {path} cannot be read: {error}.\n"
            "Check --rageval-cassette, or record it with --rageval-record."
        )
        raise StoreError(message) from error
    return replies


def write_cassette(path: Path, replies: Mapping[str, Reply]) -> None:
    """Write the replies as the whole content of the file, all or nothing.

    Raises:
        StoreError: the file cannot be written; the file of before still stands.
    """
    lines = (f"{reply.dumps(key=key)}\n" for key, reply in sorted(replies.items()))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In a folder beside it: on the same file system, and gone whatever happens.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=path.name) as folder:
            whole = Path(folder) / path.name
            whole.write_text("".join(lines), encoding="utf-8")
            whole.replace(path)
    except OSError as error:
        message = f"The cassette {path} cannot be written: {error}."
        raise StoreError(message) from error


def _loads(line: str) -> tuple[str, Reply]:
    record = json.loads(line)
    key = record.pop("key", None) if isinstance(record, dict) else None
    if not isinstance(key, str):
        message = "the key is missing"
        raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
    return key, Reply.loads(json.dumps(record))
