"""The corpus of an eval set, passage by passage: JSON lines, BEIR, or a folder of text files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.datatypes import Document, Span
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_records, not_utf8
from pytest_rageval.evalsets.format import COMPRESSED
from pytest_rageval.evalsets.records import Check, checked

__all__ = ["beir_file", "beir_text", "is_of_files", "read_corpus"]

SUFFIXES: Final = (".md", ".markdown", ".mdx", ".rst", ".text", ".txt")
"""Of files that are read from a folder."""

BEIR_CORPUS: Final = "corpus.jsonl"


def read_corpus(path: Path) -> Iterator[Document]:
    """Yield the passages of a corpus.

    Args:
        path: of one of

            - JSON lines (or an array in a `.json` file) of passages with `text` and `id`, and where they were
              cut from a file with `source` and `start` (`end`, or the text's length). A passage without a
              source is a source of its own, called by its id; one with a source and no start has no span.
            - BEIR's `corpus.jsonl`, recognized by its `_id`, or a folder with it: the text is title and text
              with a space between.
            - a folder of text and Markdown files, each a passage: the source, and the id, is its path from
              there. Offsets count characters as Python's `open` gives them. Hidden files are left out.

    Raises:
        InputError: there is nothing to read, or a record or a file cannot be used.
    """
    if not path.exists():
        raise InputError(f"The corpus {path} cannot be read: there is no such file or folder.")
    if is_of_files(path):
        yield from _files(path)
        return
    path = beir_file(path, BEIR_CORPUS) or path
    check = None
    for check, record in checked(json_records(path), "text"):
        yield _document(record, check)
    if check is None:
        raise InputError(f'{path.name} contains no passages.\nOne a line: {{"id": "doc-4", "text": "…"}}')


def is_of_files(path: Path) -> bool:
    """Whether a corpus is a folder of files: its ids are their paths."""
    return path.is_dir() and beir_file(path, BEIR_CORPUS) is None


def beir_file(folder: Path, name: str) -> Path | None:
    """Return a file of a BEIR folder, compressed or not; None if it is missing."""
    files = (folder / f"{name}{suffix}" for suffix in ("", *COMPRESSED))
    return next((file for file in files if file.is_file()), None)


def beir_text(record: Mapping[str, Any], check: Check) -> str:
    """Return title and text of a BEIR passage as BEIR joins them; some have neither."""
    title, text = record.get("title") or "", record["text"]
    if not isinstance(title, str) or not isinstance(text, str):
        check.fail('"title" or "text" is not a text', "Give strings.")
    return f"{title} {text}".strip()


def _document(record: Mapping[str, Any], check: Check) -> Document:
    if "_id" in record:
        name, content = check.name(record["_id"], "_id"), beir_text(record, check)
        return Document(content, name, span=_whole(name, content))
    text = check.text(record["text"], "text")
    identifier = None if record.get("id") is None else check.name(record["id"], "id")
    if record.get("source") is None:
        if identifier is None:
            check.fail('the passage has neither "id" nor "source"', 'Give it an "id".')
        return Document(text, identifier, span=_whole(identifier, text))
    source = check.text(record["source"], "source")
    if record.get("start") is None:
        return Document(text, identifier)
    start = check.natural(record["start"], "start")
    end = start + len(text) if record.get("end") is None else check.natural(record["end"], "end")
    if end <= start:
        check.fail(f'"end" is {end}, and "start" {start}', "Offsets are characters; the end is excluded.")
    return Document(text, identifier, span=Span(source, start, end))


def _whole(source: str, text: str) -> Span | None:
    return Span(source, 0, len(text)) if text else None


def _files(folder: Path) -> Iterator[Document]:
    source = None
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
            source = relative.as_posix()
            try:
                text = path.read_text(encoding="utf-8-sig")
            except UnicodeDecodeError as error:
                raise not_utf8(str(path), error) from None
            except OSError as error:
                raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
            yield Document(text, source, span=_whole(source, text))
    if source is None:
        raise InputError(
            f"The folder {folder} contains no corpus: neither {BEIR_CORPUS} nor files that end in "
            f"{', '.join(SUFFIXES)}."
        )
