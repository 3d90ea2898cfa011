"""The text form of an entry, for key-value stores: a checksum, and a line of a cassette with two more fields.

The fields are `run`, the run that requested the reply, and `written`, the time when it was stored. Nothing is pickled.
"""

import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from pytest_rageval.models.cassette import entry_from_record, parse_json
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Damaged, Entry

MAX_TEXT_BYTES: Final = 16 * 2**20  # the limit of a line of a cassette
CHECKSUM_DIGITS: Final = 8
YEAR_10000: Final = 253_402_300_800.0


class StoredEntry(NamedTuple):
    entry: Entry
    run: str = ""


def encode_entry(entry: Entry, run: str) -> bytes:
    request = {"request": dict(entry.summary)} if entry.summary else {}
    written = entry.written or time.time()
    line = entry.reply.dumps(key=entry.key, **request, run=run, written=written).encode()
    return b"%08x " % zlib.crc32(line) + line


def decode_entry(key: str, text: object) -> StoredEntry:
    if not isinstance(text, bytes):
        message = f"it is {type(text).__name__}, expected text"
        raise ValueError(message)  # noqa: TRY004 - the store is at fault, not an argument's type
    if len(text) > MAX_TEXT_BYTES:
        raise ValueError("it is larger than 16 MiB")
    line = text[CHECKSUM_DIGITS + 1 :]
    if text[: CHECKSUM_DIGITS + 1] != b"%08x " % zlib.crc32(line):
        raise ValueError("the checksum is not that of the contents")
    record = parse_json(line)
    entry = entry_from_record(record)
    if entry.key != key:
        raise ValueError("it is the entry of another key")
    run, written = record.get("run"), record.get("written")
    if not isinstance(run, str) or not isinstance(written, int | float) or not 0 <= written < YEAR_10000:
        raise ValueError("'run' or 'written' is missing")
    return StoredEntry(replace(entry, written=float(written)), run)


def decode_or_damaged(key: str, text: object) -> Entry | Damaged:
    try:
        return decode_entry(key, text).entry
    except ValueError as error:
        return Damaged(key, (str(error),))


def usable_replies(
    texts: Mapping[str, object], damaged: set[str], run: str, *, only_run: bool
) -> dict[str, Reply]:
    """Return the replies that count in a run (see `ReplyStore`); keys of damaged ones go to `damaged`."""
    replies = {}
    for key, text in texts.items():
        try:
            stored = decode_entry(key, text)
        except ValueError:
            damaged.add(key)
            continue
        reply = stored.entry.reply
        any_run = not only_run and not (run and reply.silent)
        if any_run or stored.run == run:
            replies[key] = reply
    return replies
