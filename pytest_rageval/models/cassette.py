"""The cassette: a text file for git with one reply per line, sorted by key; compressed if its name ends in .gz.

Each line has its own version, since git merges files line by line (`merge=union`). A line without a version has
version 1, the current version.
"""

import gzip
import json
import reprlib
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final, cast

from pytest_rageval.core.errors import StoreError
from pytest_rageval.lib.files import refuse_special, write_atomically
from pytest_rageval.lib.text import counted, parse_failure
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.summaries import read_summary

VERSION: Final = 1
MIB: Final = 2**20
MAX_LINE_BYTES: Final = 16 * MIB  # decompressed; the largest reply with its prompt is smaller
MAX_FILE_BYTES: Final = 1024 * MIB  # decompressed
MIN_LINE_BYTES: Final = 512  # a shorter line counts with this size, which its entry takes in memory
MAX_UNUSED_KEYS: Final = 3  # so many unused replies are named without -v


class LaterVersionError(ValueError):
    pass


def read_cassette(path: Path) -> dict[str, Entry]:
    """Return the entries of a cassette by key; of two with the same key, as after a merge, the first."""
    entries: dict[str, Entry] = {}
    try:
        for number, line in enumerate(cassette_lines(path), 1):
            if line.strip():
                try:
                    entry = parse_entry(line)
                except LaterVersionError as error:
                    raise StoreError(f"{path} line {number}: {error}.\nUpdate pytest-rageval.") from None
                except ValueError as error:
                    raise StoreError(
                        f"{path} line {number} is not a recorded reply: {error}.\n"
                        "Take the line out (after a merge conflict, both sides may stay), "
                        "or delete the file and record it anew with pytest --rageval-record."
                    ) from None
                entries.setdefault(entry.key, entry)
    except FileNotFoundError:
        raise StoreError(
            f"The cassette {path} does not exist.\n"
            "Record it: pytest --rageval-record. What that needs: pytest --rageval-plan"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise StoreError(
            f"The cassette {path} cannot be read: {error}.\n"
            "Check --rageval-cassette; or record it anew with pytest --rageval-record, and delete it first if it is "
            "there."
        ) from error
    return entries


class Cassette:
    """The replies of a cassette as a run uses them; the file is read at the first use, StoreError if it cannot be used.

    With `recording`, this run writes the file, which may not exist yet. Without a file there are no replies.
    """

    def __init__(self, file: Path | None, *, recording: bool) -> None:
        self._file = file
        self._recording = recording

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        if self._file is None or (self._recording and not self._file.exists()):
            return {}
        # A run that records a cassette requests empty replies again.
        return {
            key: entry
            for key, entry in read_cassette(self._file).items()
            if not (self._recording and entry.reply.silent)
        }

    @cached_property
    def _base_urls(self) -> Mapping[str, Sequence[str]]:
        by_model: dict[str, dict[str, None]] = {}
        for entry in self.entries.values():
            model, base_url = entry.summary.get("model"), entry.summary.get("base_url")
            if model is not None and base_url is not None and _is_url(base_url):
                by_model.setdefault(model, {})[base_url] = None
        return {model: list(base_urls) for model, base_urls in by_model.items()}

    def find_at_other_address(self, request: Request, base_urls: Collection[str] = ()) -> Entry | None:
        """Return the entry for the same request at another base URL, such as that of another machine.

        Everything but the base URL must be the same. None if entries at several base URLs have different replies. The
        base URLs in `base_urls` are ignored: they are different servers of this run.
        """
        if not _is_url(request.base_url):
            return None
        found = (
            self.entries.get(replace(request, base_url=base_url).key)
            for base_url in self._base_urls.get(request.model, ())
            if base_url not in base_urls
        )
        entries = [entry for entry in found if entry is not None]
        replies = {(entry.reply.text, entry.reply.refusal, entry.reply.tool_calls) for entry in entries}
        return entries[0] if len(replies) == 1 else None

    def address(self, model: str, base_url: str, base_urls: Collection[str]) -> str:
        """Return the only base URL of a model's replies; `base_url` if there is none, several, or this one.

        The base URLs in `base_urls` are ignored, as in `find_at_other_address`.
        """
        recorded = self._base_urls.get(model, ()) if _is_url(base_url) else ()
        others = [other for other in recorded if other not in base_urls]
        return others[0] if base_url not in recorded and len(others) == 1 else base_url

    def differs(self, key: str, reply: Reply) -> bool:
        """Whether it has another reply for a key, for example after an edit or a colleague's recording."""
        entry = self.entries.get(key)
        return entry is not None and entry.reply != reply


def _is_url(base_url: str) -> bool:
    """Whether a base URL is an address, and not a name such as that of the embedded model."""
    return "://" in base_url


def write_cassette(path: Path, entries: Iterable[Entry]) -> None:
    """Replace a cassette atomically, or raise StoreError. The same entries result in the same bytes."""
    ordered = sorted(entries, key=lambda entry: entry.key)
    content = "".join(f"{entry_line(entry)}\n" for entry in ordered).encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, [content])
    except OSError as error:
        raise StoreError(f"The cassette {path} cannot be written: {error}.") from error


def entry_line(entry: Entry) -> str:
    request = {"request": dict(entry.summary)} if entry.summary else {}
    return entry.reply.dumps(key=entry.key, **request)


def parse_entry(line: str) -> Entry:
    return entry_from_record(parse_json(line))


def parse_json(line: str | bytes) -> Any:
    try:
        return json.loads(line)
    except RecursionError as error:
        raise ValueError(parse_failure(error)) from None


def entry_from_record(record: Any) -> Entry:
    """Return the entry in a parsed line, or raise as `parse_entry`; unknown fields are ignored."""
    version, key = (
        (record.pop("version", 1), record.pop("key", None)) if isinstance(record, dict) else (1, None)
    )
    if type(version) is not int or version < 1:
        raise ValueError(f"'version' is {reprlib.repr(version)}, expected a whole number")
    if version > VERSION:
        raise LaterVersionError(
            f"it is of version {version}, written by a later pytest-rageval; this one reads version {VERSION}"
        )
    if not isinstance(key, str):
        raise ValueError("the key is missing")  # noqa: TRY004 - the text is at fault, not an argument's type
    if not key.isascii():
        raise ValueError(f"the key is {reprlib.repr(key)}, expected hexadecimal digits")
    request = record.pop("request", {})
    summary = read_summary(request)
    if request and not summary:
        raise ValueError(f"'request' is {reprlib.repr(request)}, expected an object that describes a request")
    return Entry(key, Reply.from_record(record), summary)


def cassette_lines(path: Path, errors: str = "strict") -> Iterator[str]:
    """Yield the lines of a cassette; `errors` is the handler for bytes that are not UTF-8.

    OSError, EOFError and zlib.error of the file are not mapped, in contrast to limits of size and wrong encodings.
    """
    refuse_special(path)
    with path.open("rb") as file:
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
        number = total = 0
        while raw := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            total += max(len(raw), MIN_LINE_BYTES)
            sizes = (f" line {number}", len(raw), MAX_LINE_BYTES), ("", total, MAX_FILE_BYTES)
            for what, size, limit in sizes:
                if size > limit:
                    decompressed = " when decompressed" if path.suffix == ".gz" else ""
                    raise StoreError(
                        f"{path}{what} is larger than {limit // MIB} MiB{decompressed}, and was not read on: no "
                        "recording is.\nTake the file from git again, or record it anew with pytest --rageval-record."
                    )
            try:
                # An editor may have added a byte order mark.
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8", errors)
            except UnicodeDecodeError as error:
                raise StoreError(
                    f"The cassette {path} cannot be read: line {number} is not UTF-8 ({error}).\n"
                    "Save it in UTF-8, or take it from git again."
                ) from None


def update_cassette(
    path: Path, lines: Mapping[str, str], *, drop_unused: bool, partial: str, every_key: bool = False
) -> list[str]:
    """Write the replies of a run, as lines by key, to the cassette; return lines about it.

    Unused ones are removed after a full run only; `partial` says why it was none.
    """
    used = {key: parse_entry(line) for key, line in lines.items()}
    drop = drop_unused and not partial
    before = read_cassette(path) if path.exists() else {}
    unused = {key: entry for key, entry in before.items() if key not in used}
    write_cassette(path, [*used.values(), *(() if drop else unused.values())])
    new = len(used.keys() - before.keys())
    other = sum(used[key].reply != entry.reply for key, entry in before.items() if key in used)
    replaced = f", {other} in place of other replies" if other else ""
    fate = f"{len(unused)} {'dropped' if drop else 'kept'} unused"
    notes = [f"cassette: {path} ({counted(len(used), 'reply')} used, {new} of them new{replaced}; {fate})"]
    if unused and partial:
        fate = "not dropped" if drop_unused else "kept"
        notes.append(f"unused replies are {fate}: this was not a full run ({partial})")
    elif unused:
        notes.append(_unused_note(unused, dropped=drop, every_key=every_key))
    return notes


def _unused_note(unused: Mapping[str, Entry], *, dropped: bool, every_key: bool) -> str:
    models = Counter(entry.summary.get("model") or entry.reply.model for entry in unused.values())
    by_model = ", ".join(f"{count} of {model or 'unknown'}" for model, count in models.most_common())
    keys = sorted(unused)
    shown = keys if every_key else keys[:MAX_UNUSED_KEYS]
    more = f" and {len(keys) - len(shown)} more (-v lists them)" if len(shown) < len(keys) else ""
    short_keys = ", ".join(key[:12] for key in shown)
    remedy = "" if dropped else "; --rageval-drop-unused drops them"
    return f"unused: {by_model}: {short_keys}{more}{remedy}"
