"""Reads the corpus of an eval set, passage by passage: JSON lines, BEIR, or a folder of text files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.data import Document, Span
from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.files import json_records, not_utf8_error
from pytest_rageval.evalsets.format import COMPRESSION_SUFFIXES
from pytest_rageval.evalsets.records import Check, check_records

TEXT_SUFFIXES: Final = (".md", ".markdown", ".mdx", ".rst", ".text", ".txt")
"""Suffixes of the files that are read from a folder."""

BEIR_CORPUS: Final = "corpus.jsonl"


def read_corpus(path: Path) -> Iterator[Document]:
    """Yield the passages of a corpus.

    Args:
        path: path of one of

            - JSON lines (or an array in a `.json` file) of passages with `text` and `id`. `source` and `start` say
              from which file and offset a passage was cut; `end` is optional, by default `start` plus the text's
              length. The source of a passage without `source` is its id. A passage with `source` and without
              `start` has no span.
            - BEIR's `corpus.jsonl`, recognized by its key `_id`, or a folder with this file. The text of a passage is
              its title and text, with a space between them.
            - a folder of text and Markdown files. Each file is one passage; its id and source are its path relative
              to the folder. Offsets count characters as Python's `open` returns them. Hidden files are left out.

    Raises:
        InputError: the path does not exist, the corpus is empty, or a record or a file cannot be used.
    """
    if not path.exists():
        raise InputError(f"The corpus {path} cannot be read: there is no such file or folder.")
    if is_folder_of_files(path):
        yield from _read_folder(path)
        return
    path = find_beir_file(path, BEIR_CORPUS) or path
    check = None
    for check, record in check_records(json_records(path), "text"):
        yield _parse_document(record, check)
    if check is None:
        raise InputError(f'{path.name} contains no passages.\nOne a line: {{"id": "doc-4", "text": "…"}}')


def is_folder_of_files(path: Path) -> bool:
    """Return True if a corpus is a folder of text files, whose paths are the ids of the passages."""
    return path.is_dir() and find_beir_file(path, BEIR_CORPUS) is None


def find_beir_file(folder: Path, name: str) -> Path | None:
    """Return the path of a file in a BEIR folder, compressed or not; None if it is missing."""
    files = (folder / f"{name}{suffix}" for suffix in ("", *COMPRESSION_SUFFIXES))
    return next((file for file in files if file.is_file()), None)


def beir_text(record: Mapping[str, Any], check: Check) -> str:
    """Return title and text of a BEIR passage, joined by a space as BEIR does; empty if it has neither."""
    title, text = record.get("title") or "", record["text"]
    if not isinstance(title, str) or not isinstance(text, str):
        check.fail('"title" or "text" is not a text', "Give strings.")
    return f"{title} {text}".strip()


def _parse_document(record: Mapping[str, Any], check: Check) -> Document:
    if "_id" in record:
        name, content = check.name(record["_id"], "_id"), beir_text(record, check)
        return Document(content, name, span=_whole_span(name, content))
    text = check.text(record["text"], "text")
    identifier = None if record.get("id") is None else check.name(record["id"], "id")
    if record.get("source") is None:
        if identifier is None:
            check.fail('the passage has neither "id" nor "source"', 'Give it an "id".')
        return Document(text, identifier, span=_whole_span(identifier, text))
    source = check.text(record["source"], "source")
    if record.get("start") is None:
        return Document(text, identifier)
    start = check.natural(record["start"], "start")
    end = start + len(text) if record.get("end") is None else check.natural(record["end"], "end")
    if end <= start:
        check.fail(f'"end" is {end}, and "start" {start}', "Offsets are characters; the end is excluded.")
    return Document(text, identifier, span=Span(source, start, end))


def _whole_span(source: str, text: str) -> Span | None:
    """Return the span of a whole text in its source; None for an empty text."""
    return Span(source, 0, len(text)) if text else None


def _read_folder(folder: Path) -> Iterator[Document]:
    """Yield each text file of a folder as one passage; InputError if there is none."""
    source = None
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.suffix.lower() in TEXT_SUFFIXES and not hidden and path.is_file():
            source = relative.as_posix()
            try:
                text = path.read_text(encoding="utf-8-sig")
            except UnicodeDecodeError as error:
                raise not_utf8_error(str(path), error) from None
            except OSError as error:
                raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
            yield Document(text, source, span=_whole_span(source, text))
    if source is None:
        raise InputError(
            f"The folder {folder} contains no corpus: neither {BEIR_CORPUS} nor files that end in "
            f"{', '.join(TEXT_SUFFIXES)}."
        )
